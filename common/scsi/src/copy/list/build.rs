//! Builds EXTENDED COPY parameter lists, for the initiator.

use super::{
    CSCD_BYTES, CopyList, Cscd, DESIGNATOR_AT, DESIGNATOR_MAX_BYTES, LIST_HEADER_BYTES, ListIdUsage, SEGMENT_BYTES,
    SEGMENT_LENGTH, Segment, TYPE_BLOCK_TO_BLOCK, TYPE_IDENTIFICATION,
};
use crate::be::{put, put_u24, to_u8, to_u16, to_u32};
use crate::capacity::LBA_BYTES_U32;
use crate::inquiry::{Designator, DesignatorKind, Naa};
use types::Lba;

impl CopyList {
    /// Creates a list of segments between two volumes identified by NAA, without a list identifier.
    /// Hosts that do not query results send this form.
    pub fn between(source: Naa, destination: Naa, segments: Vec<Segment>) -> Self {
        let cscds = [source, destination].map(|naa| Cscd { designator: Designator::naa(naa) }).to_vec();
        Self { id: 0, usage: ListIdUsage::NoIdentifier, sequential: false, cscds, segments }
    }
}

/// Splits a copy of `blocks` blocks from CSCD 0 to CSCD 1 into segments of the maximum 16-bit
/// length.
pub fn segments_of(source_lba: Lba, destination_lba: Lba, blocks: u64) -> Vec<Segment> {
    const STEP: u64 = u16::MAX as u64;
    let mut segments = Vec::new();
    let mut done = 0;
    while done < blocks {
        let step = STEP.min(blocks - done);
        segments.push(Segment {
            source: 0,
            destination: 1,
            blocks: u16::try_from(step).unwrap_or(u16::MAX),
            source_lba: Lba(source_lba.0 + done),
            destination_lba: Lba(destination_lba.0 + done),
        });
        done += step;
    }
    segments
}

/// Encodes a list. Designators longer than a CSCD descriptor allows are truncated.
pub fn build_copy_list(list: &CopyList) -> Vec<u8> {
    let cscd_bytes = list.cscds.len() * CSCD_BYTES;
    let segment_bytes = list.segments.len() * SEGMENT_BYTES;
    let mut out = vec![0; LIST_HEADER_BYTES + cscd_bytes + segment_bytes];
    out[0] = list.id;
    out[1] = (u8::from(list.sequential) << 5) | ((list.usage as u8) << 3);
    put(&mut out, 2, to_u16(cscd_bytes).to_be_bytes());
    put(&mut out, 8, to_u32(segment_bytes).to_be_bytes());
    let (cscds, segments) = out[LIST_HEADER_BYTES..].split_at_mut(cscd_bytes);
    for (descriptor, cscd) in cscds.chunks_mut(CSCD_BYTES).zip(&list.cscds) {
        write_cscd(descriptor, &cscd.designator);
    }
    for (descriptor, segment) in segments.chunks_mut(SEGMENT_BYTES).zip(&list.segments) {
        write_segment(descriptor, segment);
    }
    out
}

fn write_cscd(out: &mut [u8], designator: &Designator) {
    let bytes = &designator.bytes[..designator.bytes.len().min(DESIGNATOR_MAX_BYTES)];
    out[0] = TYPE_IDENTIFICATION;
    out[4] = match designator.kind {
        DesignatorKind::T10Vendor => 2,
        DesignatorKind::ScsiName => 3,
        _ => 1,
    };
    out[5] = designator.kind as u8;
    out[7] = to_u8(bytes.len());
    out[DESIGNATOR_AT..DESIGNATOR_AT + bytes.len()].copy_from_slice(bytes);
    put_u24(out, 29, LBA_BYTES_U32);
}

fn write_segment(out: &mut [u8], segment: &Segment) {
    out[0] = TYPE_BLOCK_TO_BLOCK;
    put(out, 2, SEGMENT_LENGTH.to_be_bytes());
    put(out, 4, segment.source.to_be_bytes());
    put(out, 6, segment.destination.to_be_bytes());
    put(out, 10, segment.blocks.to_be_bytes());
    put(out, 12, segment.source_lba.0.to_be_bytes());
    put(out, 20, segment.destination_lba.0.to_be_bytes());
}
