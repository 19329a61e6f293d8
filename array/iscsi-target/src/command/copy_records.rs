//! Results of EXTENDED COPY commands, kept for RECEIVE COPY RESULTS (SPC-4 5.17).

use parking_lot::Mutex;
use scsi::Sense;
use scsi::copy::CopyState;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Progress or result of one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyRecord {
    pub(crate) state: CopyState,
    /// The sense data of a failed copy.
    pub(crate) failure: Option<Sense>,
    /// Number of segments copied completely.
    pub(crate) segments: u16,
    /// Bytes copied.
    pub(crate) bytes: u64,
}

/// The copies of an I_T nexus by list identifier: at most 256, the latest copy of each identifier.
pub(crate) type CopyRecords = Arc<Mutex<BTreeMap<u8, CopyRecord>>>;
