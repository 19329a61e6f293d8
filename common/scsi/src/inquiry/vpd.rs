//! Vital product data pages (SPC-4 7.8, SBC-4 6.6). Page 00h and the pages come from one list.

use super::designator::{Designator, Naa, TargetPort};
use super::third_party_copy;
use crate::be::{get_u16, get_u32, get_u64, put, to_u16};
use crate::provisioning::THRESHOLD_EXPONENT;
use types::LBAS_PER_BLOCK;

/// Page 00h: the supported pages.
pub const SUPPORTED_PAGES: u8 = 0x00;
/// Page 80h: the serial number.
pub const UNIT_SERIAL_NUMBER: u8 = 0x80;
/// Page 83h: device identification.
pub const DEVICE_IDENTIFICATION: u8 = 0x83;
/// Page 86h: capabilities of the device server.
pub const EXTENDED_INQUIRY: u8 = 0x86;
/// Page 8Fh: capabilities of the copy manager.
pub const THIRD_PARTY_COPY: u8 = 0x8f;
/// Page B0h: limits of commands.
pub const BLOCK_LIMITS: u8 = 0xb0;
/// Page B1h: properties of the medium.
pub const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xb1;
/// Page B2h: thin provisioning.
pub const LOGICAL_BLOCK_PROVISIONING: u8 = 0xb2;

/// MAXIMUM COMPARE AND WRITE LENGTH in blocks: the maximum of the CDB field.
pub const MAX_COMPARE_AND_WRITE_BLOCKS: u8 = 255;
/// MAXIMUM TRANSFER LENGTH, in blocks: 32 MiB.
pub const MAX_TRANSFER_BLOCKS: u32 = 65536;
/// MAXIMUM ATOMIC TRANSFER LENGTH, in blocks: 1 MiB.
pub const MAX_ATOMIC_BLOCKS: u32 = 2048;
/// OPTIMAL TRANSFER LENGTH, in blocks: 1 MiB.
pub const OPTIMAL_TRANSFER_BLOCKS: u32 = 2048;
/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT: as many as fit in a parameter list of 65535 bytes.
pub const MAX_UNMAP_DESCRIPTORS: u32 = 4095;
/// OPTIMAL UNMAP GRANULARITY, in blocks: 4 KiB, the unit of freed space. Linux discards no
/// free run that is smaller. ESXi reclaims space by itself only up to 1 MiB.
pub const UNMAP_GRANULARITY_BLOCKS: u32 = 8;
/// OPTIMAL UNMAP GRANULARITY for ESXi, in blocks: 1 MiB, the block size of VMFS 6. A leaf of the
/// map is as large.
pub const ESXI_UNMAP_GRANULARITY_BLOCKS: u32 = 2048;
/// No limit, in 32-bit fields of page B0h.
const NO_LIMIT: u32 = u32::MAX;
const UGAVALID: u32 = 0x8000_0000;
const HEADER_BYTES: usize = 4;

/// The properties of a logical unit that the pages report.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// The serial number: 24 hexadecimal digits.
    pub serial: &'a str,
    /// The worldwide name.
    pub naa: Naa,
    /// The target port that received the INQUIRY.
    pub port: &'a TargetPort,
    /// Writes may be acknowledged from a volatile cache.
    pub volatile_cache: bool,
    /// OPTIMAL UNMAP GRANULARITY, in blocks.
    pub unmap_granularity: u32,
}

type Body = fn(&Device<'_>) -> Vec<u8>;

/// The pages in ascending order of their codes (SPC-4 7.8.15), each with a function that returns
/// its content without the header.
const PAGES: &[(u8, Body)] = &[
    (SUPPORTED_PAGES, supported_pages),
    (UNIT_SERIAL_NUMBER, |device| device.serial.as_bytes().to_vec()),
    (DEVICE_IDENTIFICATION, device_identification),
    (EXTENDED_INQUIRY, extended_inquiry),
    (THIRD_PARTY_COPY, |_| third_party_copy::body()),
    (BLOCK_LIMITS, block_limits),
    (BLOCK_DEVICE_CHARACTERISTICS, block_device_characteristics),
    (LOGICAL_BLOCK_PROVISIONING, logical_block_provisioning),
];

/// Returns page `code` with its header, or `None` if it is not supported.
pub fn page(code: u8, device: &Device<'_>) -> Option<Vec<u8>> {
    let (_, body) = PAGES.iter().find(|(page, _)| *page == code)?;
    let body = body(device);
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend([0, code]);
    out.extend(to_u16(body.len()).to_be_bytes());
    out.extend(body);
    Some(out)
}

/// Returns a page's content after the header, for the initiator. Returns `None` for another page or
/// a cut header, and the available part of content cut by the allocation length.
pub fn body_of(code: u8, bytes: &[u8]) -> Option<&[u8]> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    (header[1] == code).then(|| &body[..body.len().min(usize::from(get_u16(header, 2)))])
}

fn supported_pages(_: &Device<'_>) -> Vec<u8> {
    PAGES.iter().map(|(code, _)| *code).collect()
}

fn device_identification(device: &Device<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for designator in Designator::all(device.serial, device.naa, device.port) {
        designator.append_to(&mut out);
    }
    out
}

/// Page 86h (SPC-4 7.8.7): 60 bytes.
fn extended_inquiry(device: &Device<'_>) -> Vec<u8> {
    const HEADSUP_ORDSUP_SIMPSUP: u8 = 0x07;
    const V_SUP: u8 = 0x01;
    let mut body = vec![0; 60];
    body[1] = HEADSUP_ORDSUP_SIMPSUP;
    body[2] = if device.volatile_cache { V_SUP } else { 0 };
    body
}

/// Page B0h (SBC-4 6.6.4).
fn block_limits(device: &Device<'_>) -> Vec<u8> {
    BlockLimits { unmap_granularity: device.unmap_granularity, ..BlockLimits::OURS }.to_body().to_vec()
}

/// Page B1h (SBC-4 6.6.2): 60 bytes. MEDIUM ROTATION RATE 0001h means a non-rotating medium.
fn block_device_characteristics(_: &Device<'_>) -> Vec<u8> {
    let mut body = vec![0; 60];
    body[1] = 0x01;
    body
}

/// Page B2h (SBC-4 6.6.7): thin; supports UNMAP and both WRITE SAMEs; unmapped blocks read as
/// zeros; thresholds count in MiB.
fn logical_block_provisioning(_: &Device<'_>) -> Vec<u8> {
    const LBPU_LBPWS_LBPWS10: u8 = 0xe0;
    const LBPRZ: u8 = 0x04;
    const THIN: u8 = 0x02;
    vec![THRESHOLD_EXPONENT, LBPU_LBPWS_LBPWS10 | LBPRZ, THIN, 0]
}

/// Page B0h (SBC-4 6.6.4). A limit of zero means not reported, except where noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// MAXIMUM COMPARE AND WRITE LENGTH; zero if the command is not supported.
    pub compare_and_write: u8,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY.
    pub transfer_granularity: u16,
    /// MAXIMUM TRANSFER LENGTH.
    pub max_transfer: u32,
    /// OPTIMAL TRANSFER LENGTH.
    pub optimal_transfer: u32,
    /// MAXIMUM PREFETCH LENGTH.
    pub max_prefetch: u32,
    /// MAXIMUM UNMAP LBA COUNT; FFFFFFFFh means no limit.
    pub max_unmap_blocks: u32,
    /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT; FFFFFFFFh means no limit.
    pub max_unmap_descriptors: u32,
    /// OPTIMAL UNMAP GRANULARITY.
    pub unmap_granularity: u32,
    /// UNMAP GRANULARITY ALIGNMENT; `None` clears UGAVALID.
    pub unmap_alignment: Option<u32>,
    /// MAXIMUM WRITE SAME LENGTH.
    pub max_write_same: u64,
    /// MAXIMUM ATOMIC TRANSFER LENGTH; zero if WRITE ATOMIC is not supported.
    pub max_atomic: u32,
    /// WSNZ: WRITE SAME of zero blocks is refused.
    pub write_same_nonzero: bool,
}

impl BlockLimits {
    /// The limits of this array, for hosts without a personality.
    #[expect(clippy::cast_possible_truncation, reason = "8")]
    pub const OURS: Self = Self {
        compare_and_write: MAX_COMPARE_AND_WRITE_BLOCKS,
        transfer_granularity: LBAS_PER_BLOCK as u16,
        max_transfer: MAX_TRANSFER_BLOCKS,
        optimal_transfer: OPTIMAL_TRANSFER_BLOCKS,
        max_prefetch: 0,
        max_unmap_blocks: NO_LIMIT,
        max_unmap_descriptors: MAX_UNMAP_DESCRIPTORS,
        unmap_granularity: UNMAP_GRANULARITY_BLOCKS,
        unmap_alignment: Some(0),
        max_write_same: 0,
        max_atomic: MAX_ATOMIC_BLOCKS,
        write_same_nonzero: false,
    };

    /// Encodes the 60 bytes after the page header.
    pub fn to_body(&self) -> [u8; 60] {
        let mut body = [0; 60];
        body[0] = u8::from(self.write_same_nonzero);
        body[1] = self.compare_and_write;
        put(&mut body, 2, self.transfer_granularity.to_be_bytes());
        put(&mut body, 4, self.max_transfer.to_be_bytes());
        put(&mut body, 8, self.optimal_transfer.to_be_bytes());
        put(&mut body, 12, self.max_prefetch.to_be_bytes());
        put(&mut body, 16, self.max_unmap_blocks.to_be_bytes());
        put(&mut body, 20, self.max_unmap_descriptors.to_be_bytes());
        put(&mut body, 24, self.unmap_granularity.to_be_bytes());
        let alignment = self.unmap_alignment.map_or(0, |alignment| UGAVALID | (alignment & !UGAVALID));
        put(&mut body, 28, alignment.to_be_bytes());
        put(&mut body, 32, self.max_write_same.to_be_bytes());
        // ATOMIC ALIGNMENT and GRANULARITY of zero: any address and length. No atomic boundaries.
        put(&mut body, 40, self.max_atomic.to_be_bytes());
        body
    }

    /// Decodes the bytes after the page header. Missing bytes of older standards read as zeros.
    pub fn from_body(bytes: &[u8]) -> Self {
        let mut body = [0; 60];
        let length = bytes.len().min(60);
        body[..length].copy_from_slice(&bytes[..length]);
        let alignment = get_u32(&body, 28);
        Self {
            compare_and_write: body[1],
            transfer_granularity: get_u16(&body, 2),
            max_transfer: get_u32(&body, 4),
            optimal_transfer: get_u32(&body, 8),
            max_prefetch: get_u32(&body, 12),
            max_unmap_blocks: get_u32(&body, 16),
            max_unmap_descriptors: get_u32(&body, 20),
            unmap_granularity: get_u32(&body, 24),
            unmap_alignment: (alignment & UGAVALID != 0).then_some(alignment & !UGAVALID),
            max_write_same: get_u64(&body, 32),
            max_atomic: get_u32(&body, 40),
            write_same_nonzero: body[0] & 0x01 != 0,
        }
    }
}

#[cfg(test)]
mod tests;
