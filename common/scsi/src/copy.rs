//! Third-party copy: EXTENDED COPY(LID1) and RECEIVE COPY RESULTS (SPC-4 5.16, 6.4, 6.17 to 6.26,
//! 7.8.17; SPC-3 6.3).
//!
//! This module does not know volumes. The target resolves each [`Cscd`] among the logical units
//! that the session may access, and nowhere else.

mod list;
mod results;

pub use list::{
    CopyList, Cscd, LIST_HEADER_BYTES, ListIdUsage, MAX_CSCDS, MAX_DESCRIPTORS_BYTES, MAX_LIST_BYTES, MAX_SEGMENTS,
    Segment, build_copy_list, parse_copy_list, segments_of,
};
pub use results::{
    CopyState, CopyStatus, FailedSegment, MAX_CONCURRENT_COPIES, MAX_SEGMENT_BYTES, OperatingParameters,
};

use crate::sense::{Asc, Sense, SenseKey, Specific, asc};

/// Returns COPY ABORTED in segment `segment` for a cause outside its descriptor (SPC-4 5.16.7.4).
fn aborted(cause: Asc, segment: u16) -> Sense {
    Sense::new(SenseKey::CopyAborted, cause).with_command_specific(u64::from(segment))
}

/// Returns COPY ABORTED in segment `segment`, pointing at `byte` of its descriptor.
fn aborted_at(cause: Asc, segment: u16, byte: u16) -> Sense {
    let specific = Some(Specific::Segment { in_descriptor: true, byte, bit: None });
    Sense { specific, ..aborted(cause, segment) }
}

/// Returns the sense for a source or destination of `segment` that the session may not access, or
/// that cannot be reached.
pub fn not_reachable(segment: u16, is_source: bool) -> Sense {
    aborted_at(asc::COPY_TARGET_DEVICE_NOT_REACHABLE, segment, if is_source { 4 } else { 6 })
}

/// Returns the sense for a `segment` that exceeds the end of its source or destination. Hosts and
/// conformance tests expect this code; the pointer is to the LBA.
pub fn segment_out_of_range(segment: u16, is_source: bool) -> Sense {
    aborted_at(asc::NO_ADDITIONAL_SENSE_INFORMATION, segment, if is_source { 12 } else { 20 })
}

/// Returns the sense for a source or destination of `segment` that is reserved, write protected, or
/// failed.
pub fn device_failure(segment: u16) -> Sense {
    aborted(asc::THIRD_PARTY_DEVICE_FAILURE, segment)
}

#[cfg(test)]
mod tests;
