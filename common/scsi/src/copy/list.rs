//! The parameter list of EXTENDED COPY(LID1): logical units and the block ranges to copy.

mod build;

pub use build::{build_copy_list, segments_of};

use crate::be::{bit_number, get_u16, get_u24, get_u32, get_u64, to_u16};
use crate::inquiry::{Designator, DesignatorKind};
use crate::sense::{Sense, asc};
use types::{LBA_BYTES, Lba};

/// Bytes before the CSCD descriptors.
pub const LIST_HEADER_BYTES: usize = 16;
/// MAXIMUM CSCD DESCRIPTOR COUNT.
pub const MAX_CSCDS: usize = 64;
/// MAXIMUM SEGMENT DESCRIPTOR COUNT.
pub const MAX_SEGMENTS: usize = 64;
/// MAXIMUM DESCRIPTOR LIST LENGTH: the maximum number of both.
pub const MAX_DESCRIPTORS_BYTES: usize = MAX_CSCDS * CSCD_BYTES + MAX_SEGMENTS * SEGMENT_BYTES;
/// The longest valid parameter list.
pub const MAX_LIST_BYTES: usize = LIST_HEADER_BYTES + MAX_DESCRIPTORS_BYTES;
pub(super) const CSCD_BYTES: usize = 32;
pub(super) const SEGMENT_BYTES: usize = 28;
/// Identification Descriptor CSCD descriptor (SPC-4 6.4.5.3).
pub(super) const TYPE_IDENTIFICATION: u8 = 0xe4;
/// Block device to block device (SPC-4 6.4.6.4).
pub(super) const TYPE_BLOCK_TO_BLOCK: u8 = 0x02;
/// DESCRIPTOR LENGTH of a block to block segment: the bytes after the first four.
pub(super) const SEGMENT_LENGTH: u16 = 0x18;
/// Offset of the designator in its CSCD descriptor, and its maximum length.
pub(super) const DESIGNATOR_AT: usize = 8;
pub(super) const DESIGNATOR_MAX_BYTES: usize = 20;
const STR: u8 = 0x20;
const NRCR: u8 = 0x10;
const DC: u8 = 0x02;

/// LIST ID USAGE (SPC-4 table 104), in the LID1 form where NRCR is its high bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ListIdUsage {
    /// 00b: the list identifier identifies the copy, and its data is held.
    HoldData = 0b00,
    /// 10b: the list identifier identifies the copy, and no data is held.
    DiscardData = 0b10,
    /// 11b: no list identifier, and no data is held.
    NoIdentifier = 0b11,
}

/// A copy source or destination: a logical unit by one of its designators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cscd {
    /// The designator, as in VPD page 83h.
    pub designator: Designator,
}

/// One segment: blocks copied from one logical unit to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index of the source in [`CopyList::cscds`]. Not checked here: an index past the end aborts
    /// the copy at its segment, after all earlier segments are done (SPC-4 6.4.6.1).
    pub source: u16,
    /// Index of the destination in [`CopyList::cscds`].
    pub destination: u16,
    /// Number of blocks; zero copies nothing.
    pub blocks: u16,
    /// First block to read.
    pub source_lba: Lba,
    /// First block to write.
    pub destination_lba: Lba,
}

/// An EXTENDED COPY parameter list that is well formed in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyList {
    /// LIST IDENTIFIER.
    pub id: u8,
    /// Meaning of the list identifier.
    pub usage: ListIdUsage,
    /// STR: process the segments one after the other, in their order.
    pub sequential: bool,
    /// The logical units.
    pub cscds: Vec<Cscd>,
    /// The segments.
    pub segments: Vec<Segment>,
}

impl CopyList {
    /// Returns source and destination of a segment. An index without a descriptor returns the sense
    /// data that ends the copy.
    pub fn ends_of(&self, place: usize, segment: &Segment) -> Result<(&Cscd, &Cscd), Sense> {
        let number = to_u16(place);
        let source = self.cscds.get(usize::from(segment.source)).ok_or(super::not_reachable(number, true))?;
        let destination = self.cscds.get(usize::from(segment.destination));
        Ok((source, destination.ok_or(super::not_reachable(number, false))?))
    }
}

/// Parses a parameter list. The caller handles an empty list, which copies nothing and is valid
/// (SPC-4 6.4.2).
pub fn parse_copy_list(list: &[u8]) -> Result<CopyList, Sense> {
    let Some((header, rest)) = list.split_at_checked(LIST_HEADER_BYTES) else {
        return Err(Sense::parameter_list_length());
    };
    let usage = parse_header_flags(header)?;
    let cscd_bytes = usize::from(get_u16(header, 2));
    let segment_bytes = get_u32(header, 8) as usize;
    let inline_bytes = get_u32(header, 12);
    // Check MAXIMUM DESCRIPTOR LIST LENGTH first, before any count is used.
    if segment_bytes > MAX_DESCRIPTORS_BYTES || cscd_bytes + segment_bytes > MAX_DESCRIPTORS_BYTES {
        return Err(Sense::parameter_list_length());
    }
    if inline_bytes != 0 {
        // MAXIMUM INLINE DATA LENGTH is zero: no supported segment type uses inline data.
        return Err(Sense::illegal(asc::INLINE_DATA_LENGTH_EXCEEDED).at_parameter(12, None));
    }
    let Some((cscds, rest)) = rest.split_at_checked(cscd_bytes) else {
        return Err(Sense::parameter_list_length());
    };
    let Some((segments, _)) = rest.split_at_checked(segment_bytes) else {
        return Err(Sense::parameter_list_length());
    };
    Ok(CopyList {
        id: header[0],
        usage,
        sequential: header[1] & STR != 0,
        cscds: parse_cscds(cscds)?,
        segments: parse_segments(segments, LIST_HEADER_BYTES + cscd_bytes)?,
    })
}

/// Parses LIST ID USAGE and checks that an unused identifier is zero. PRIORITY is accepted and
/// ignored: copies are fast.
fn parse_header_flags(header: &[u8]) -> Result<ListIdUsage, Sense> {
    if header[1] & 0xc0 != 0 {
        let bit = if header[1] & 0x80 != 0 { 7 } else { 6 };
        return Err(Sense::invalid_parameter(1, Some(bit)));
    }
    match (header[1] >> 3) & 0x03 {
        0b00 => Ok(ListIdUsage::HoldData),
        0b10 => Ok(ListIdUsage::DiscardData),
        0b11 if header[0] != 0 => Err(Sense::invalid_parameter(0, None)),
        0b11 => Ok(ListIdUsage::NoIdentifier),
        _ => Err(Sense::invalid_parameter(1, Some(bit_number(NRCR.ilog2())))),
    }
}

fn parse_cscds(bytes: &[u8]) -> Result<Vec<Cscd>, Sense> {
    let (descriptors, partial) = bytes.as_chunks::<CSCD_BYTES>();
    if !partial.is_empty() {
        return Err(Sense::parameter_list_length());
    }
    if descriptors.len() > MAX_CSCDS {
        return Err(Sense::illegal(asc::TOO_MANY_TARGET_DESCRIPTORS).at_parameter(2, None));
    }
    let at = |place: usize| LIST_HEADER_BYTES + place * CSCD_BYTES;
    descriptors.iter().enumerate().map(|(place, descriptor)| parse_cscd(descriptor, at(place))).collect()
}

/// Parses a CSCD descriptor that starts at byte `at` of the list. LU ID TYPE, NUL and RELATIVE
/// INITIATOR PORT IDENTIFIER are ignored (SPC-4 6.4.5.1).
fn parse_cscd(descriptor: &[u8; CSCD_BYTES], at: usize) -> Result<Cscd, Sense> {
    let field = |offset: usize| to_u16(at + offset);
    if descriptor[0] != TYPE_IDENTIFICATION {
        let sense = Sense::illegal(asc::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE);
        return Err(sense.at_parameter(field(0), None));
    }
    // PERIPHERAL DEVICE TYPE: direct access block devices only.
    if descriptor[1] & 0x1f != 0 {
        return Err(Sense::invalid_parameter(field(1), Some(4)));
    }
    // ASSOCIATION: the designator is that of the logical unit.
    if descriptor[5] & 0x30 != 0 {
        return Err(Sense::invalid_parameter(field(5), Some(5)));
    }
    let kind = DesignatorKind::from_code(descriptor[5]).ok_or(Sense::invalid_parameter(field(5), Some(3)))?;
    let length = usize::from(descriptor[7]);
    if length == 0 || length > DESIGNATOR_MAX_BYTES {
        return Err(Sense::invalid_parameter(field(7), None));
    }
    // DISK BLOCK LENGTH; PAD has no effect between devices of equal block length.
    if u64::from(get_u24(descriptor, 29)) != LBA_BYTES {
        return Err(Sense::invalid_parameter(field(29), None));
    }
    let bytes = descriptor[DESIGNATOR_AT..DESIGNATOR_AT + length].to_vec();
    Ok(Cscd { designator: Designator { kind, names_port: false, bytes } })
}

/// Parses the segment descriptors, which start at byte `at` of the list.
fn parse_segments(mut rest: &[u8], mut at: usize) -> Result<Vec<Segment>, Sense> {
    let mut segments = Vec::new();
    while !rest.is_empty() {
        if segments.len() == MAX_SEGMENTS {
            return Err(Sense::illegal(asc::TOO_MANY_SEGMENT_DESCRIPTORS).at_parameter(8, None));
        }
        // Check the type before the length: the length of an unknown type is unknown.
        if rest[0] != TYPE_BLOCK_TO_BLOCK {
            let sense = Sense::illegal(asc::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE);
            return Err(sense.at_parameter(to_u16(at), None));
        }
        let Some((descriptor, next)) = rest.split_first_chunk::<SEGMENT_BYTES>() else {
            return Err(Sense::parameter_list_length());
        };
        segments.push(parse_segment(descriptor, at)?);
        rest = next;
        at += SEGMENT_BYTES;
    }
    Ok(segments)
}

fn parse_segment(descriptor: &[u8; SEGMENT_BYTES], at: usize) -> Result<Segment, Sense> {
    // DC selects whether the count is in source or destination blocks, which are equal here. CAT
    // concerns padding.
    let reserved = descriptor[1] & !(DC | 0x01);
    if reserved != 0 {
        return Err(Sense::invalid_parameter(to_u16(at + 1), Some(bit_number(reserved.ilog2()))));
    }
    if get_u16(descriptor, 2) != SEGMENT_LENGTH {
        return Err(Sense::invalid_parameter(to_u16(at + 2), None));
    }
    Ok(Segment {
        source: get_u16(descriptor, 4),
        destination: get_u16(descriptor, 6),
        blocks: get_u16(descriptor, 10),
        source_lba: Lba(get_u64(descriptor, 12)),
        destination_lba: Lba(get_u64(descriptor, 20)),
    })
}
