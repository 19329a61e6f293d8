//! RECEIVE COPY RESULTS data: limits of the copy manager and results of copies.

use super::list::{MAX_CSCDS, MAX_DESCRIPTORS_BYTES, MAX_SEGMENTS, TYPE_BLOCK_TO_BLOCK, TYPE_IDENTIFICATION};
use crate::be::{get_u16, get_u32, put, to_u8, to_u16, to_u32};
use crate::capacity::LBA_BYTES_U32;
use crate::sense::{Sense, SenseFormat};
use crate::status::Status;
use types::LBA_BYTES;

/// MAXIMUM SEGMENT LENGTH: the largest 16-bit count of blocks.
pub const MAX_SEGMENT_BYTES: u32 = u16::MAX as u32 * LBA_BYTES_U32;
/// MAXIMUM CONCURRENT COPIES and TOTAL CONCURRENT COPIES: the size of a session's command window.
pub const MAX_CONCURRENT_COPIES: u8 = 255;
const OPERATING_BYTES: usize = 44;

/// RECEIVE COPY OPERATING PARAMETERS data (SPC-4 6.20): the fields that a host needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatingParameters {
    /// SNLID: lists without an identifier are accepted.
    pub no_list_id: bool,
    /// MAXIMUM CSCD DESCRIPTOR COUNT.
    pub max_cscds: u16,
    /// MAXIMUM SEGMENT DESCRIPTOR COUNT.
    pub max_segments: u16,
    /// MAXIMUM DESCRIPTOR LIST LENGTH.
    pub max_descriptors_bytes: u32,
    /// MAXIMUM SEGMENT LENGTH in bytes; zero means no limit.
    pub max_segment_bytes: u32,
    /// MAXIMUM CONCURRENT COPIES.
    pub max_copies: u8,
    /// DATA SEGMENT GRANULARITY as log2 of bytes.
    pub granularity_exponent: u8,
    /// IMPLEMENTED DESCRIPTOR LIST: the type codes.
    pub descriptor_types: Vec<u8>,
}

impl OperatingParameters {
    /// The limits of this array.
    pub fn ours() -> Self {
        Self {
            no_list_id: true,
            max_cscds: to_u16(MAX_CSCDS),
            max_segments: to_u16(MAX_SEGMENTS),
            max_descriptors_bytes: to_u32(MAX_DESCRIPTORS_BYTES),
            max_segment_bytes: MAX_SEGMENT_BYTES,
            max_copies: MAX_CONCURRENT_COPIES,
            granularity_exponent: to_u8(LBA_BYTES.ilog2() as usize),
            descriptor_types: vec![TYPE_BLOCK_TO_BLOCK, TYPE_IDENTIFICATION],
        }
    }

    /// Encodes the parameter data, before truncation to the allocation length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![0; OPERATING_BYTES];
        out[4] = u8::from(self.no_list_id);
        put(&mut out, 8, self.max_cscds.to_be_bytes());
        put(&mut out, 10, self.max_segments.to_be_bytes());
        put(&mut out, 12, self.max_descriptors_bytes.to_be_bytes());
        put(&mut out, 16, self.max_segment_bytes.to_be_bytes());
        // TOTAL CONCURRENT COPIES and MAXIMUM CONCURRENT COPIES.
        put(&mut out, 34, u16::from(self.max_copies).to_be_bytes());
        out[36] = self.max_copies;
        out[37] = self.granularity_exponent;
        out[43] = to_u8(self.descriptor_types.len());
        out.extend(&self.descriptor_types);
        let available = to_u32(out.len() - 4);
        put(&mut out, 0, available.to_be_bytes());
        out
    }

    /// Decodes the parameter data; `None` if cut before the descriptor list.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_at_checked(OPERATING_BYTES)?;
        Some(Self {
            no_list_id: fixed[4] & 0x01 != 0,
            max_cscds: get_u16(fixed, 8),
            max_segments: get_u16(fixed, 10),
            max_descriptors_bytes: get_u32(fixed, 12),
            max_segment_bytes: get_u32(fixed, 16),
            max_copies: fixed[36],
            granularity_exponent: fixed[37],
            descriptor_types: rest[..rest.len().min(usize::from(fixed[43]))].to_vec(),
        })
    }
}

/// COPY MANAGER STATUS (SPC-4 table 164).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CopyState {
    /// 00h: in progress.
    InProgress = 0x00,
    /// 01h: completed without errors.
    Done = 0x01,
    /// 02h: completed with errors.
    Failed = 0x02,
}

/// RECEIVE COPY STATUS(LID1) data (SPC-4 6.26): 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyStatus {
    /// State of the copy.
    pub state: CopyState,
    /// SEGMENTS PROCESSED.
    pub segments: u16,
    /// TRANSFER COUNT, in KiB.
    pub kibibytes: u32,
}

impl CopyStatus {
    /// TRANSFER COUNT UNITS: KiB.
    const UNITS_KIBIBYTES: u8 = 0x01;

    /// Encodes the parameter data, before truncation to the allocation length.
    pub fn to_bytes(&self) -> [u8; 12] {
        let mut out = [0; 12];
        put(&mut out, 0, 8u32.to_be_bytes());
        out[4] = self.state as u8;
        put(&mut out, 5, self.segments.to_be_bytes());
        out[7] = Self::UNITS_KIBIBYTES;
        put(&mut out, 8, self.kibibytes.to_be_bytes());
        out
    }

    /// Decodes the parameter data; `None` if cut, in other units, or with an unknown state.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..12)?;
        let state = match bytes[4] & 0x7f {
            0x00 => CopyState::InProgress,
            0x01 => CopyState::Done,
            0x02 => CopyState::Failed,
            _ => return None,
        };
        let kibibytes = get_u32(bytes, 8);
        (bytes[7] == Self::UNITS_KIBIBYTES).then_some(Self { state, segments: get_u16(bytes, 5), kibibytes })
    }
}

/// RECEIVE COPY FAILURE DETAILS(LID1) data (SPC-4 6.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedSegment {
    /// EXTENDED COPY COMMAND STATUS.
    pub status: Status,
    /// The sense data of the copy.
    pub sense: Sense,
}

impl FailedSegment {
    const HEADER_BYTES: usize = 60;

    /// Encodes the parameter data, before truncation to the allocation length.
    pub fn to_bytes(&self, format: SenseFormat) -> Vec<u8> {
        let sense = self.sense.to_bytes(format);
        let mut out = vec![0; Self::HEADER_BYTES];
        out[56] = self.status.code();
        put(&mut out, 58, to_u16(sense.len()).to_be_bytes());
        out.extend(sense);
        let available = to_u32(out.len() - 4);
        put(&mut out, 0, available.to_be_bytes());
        out
    }
}
