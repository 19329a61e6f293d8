//! Actions: the work that the state machine requests from its caller.

use super::plan::ReadPlan;
use super::work::{Work, WorkId};
use crate::service::{OpError, Reply, Tag};
use bytes::Bytes;
use platform::{Disk, DiskError, Durability};

/// Identifies an I/O in flight.
pub type IoId = u64;
/// Identifies a request that has no reply yet.
pub type TaskId = u64;

/// Work for the caller of the state machine.
#[derive(Clone, Debug)]
pub enum Action {
    /// Deliver this reply to the submitter.
    Complete {
        /// The tag that the request was submitted with.
        tag: Tag,
        /// The reply.
        result: Result<Reply, OpError>,
    },
    /// Execute the plan and deliver its result to the submitter, under the tag of the plan.
    Read(ReadPlan),
    /// Execute the plan and pass its result to `Core::fetched`.
    Fetch {
        /// The request that needs the bytes.
        id: TaskId,
        /// The read to execute.
        plan: ReadPlan,
    },
    /// Execute this on any thread and pass its result to `Core::worked`.
    Work {
        /// Identifies the work.
        id: WorkId,
        /// The work to execute.
        work: Work,
    },
    /// Execute this I/O and pass its result to `Core::io_done`.
    Io {
        /// Identifies the I/O.
        id: IoId,
        /// The I/O to execute.
        io: Io,
    },
}

/// How soon a read is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A host may wait for it.
    Host,
    /// For background work. Never delays reads for hosts.
    Background,
}

/// An I/O. I/Os in flight at the same time may be executed in any order. A flush covers the
/// writes that had *completed* before it was issued.
#[derive(Clone, Debug)]
pub enum Io {
    /// Read a range.
    Read {
        /// First byte on the drive.
        offset: u64,
        /// Length in bytes.
        bytes: usize,
        /// How soon it is needed.
        urgency: Urgency,
    },
    /// Write the parts one after the other, without gaps.
    Write {
        /// First byte on the drive.
        offset: u64,
        /// The parts to write.
        data: Vec<Bytes>,
        /// Whether the data must be on stable storage when the write completes.
        durability: Durability,
    },
    /// Make all completed writes durable.
    Flush,
    /// Reserve space in the file system, so that the range can be written.
    Allocate {
        /// First byte on the drive.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
    /// Release the space of a range whose content is not needed. It is not urgent, and its errors
    /// do no harm.
    Discard {
        /// First byte on the drive.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
}

/// Executes one I/O. Blocks until it completes.
pub(crate) fn perform(disk: &dyn Disk, io: &Io) -> Result<Bytes, DiskError> {
    match io {
        Io::Read { offset, bytes, .. } => {
            let mut buffer = vec![0; *bytes];
            disk.read_at(*offset, &mut buffer).map(|()| Bytes::from(buffer))
        }
        Io::Write { offset, data, durability } => {
            let parts: Vec<&[u8]> = data.iter().map(|part| &part[..]).collect();
            disk.write_at(*offset, &parts, *durability).map(|()| Bytes::new())
        }
        Io::Flush => disk.flush().map(|()| Bytes::new()),
        Io::Allocate { offset, bytes } => disk.allocate(*offset, *bytes).map(|()| Bytes::new()),
        Io::Discard { offset, bytes } => disk.discard(*offset, *bytes).map(|()| Bytes::new()),
    }
}
