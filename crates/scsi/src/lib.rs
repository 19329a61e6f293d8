//! The SCSI language of the array as typed values: CDBs, sense data, parameter lists and parameter data.
//!
//! Pure: bytes in, values out, and back. No I/O, no clock, no state but [`persistent_reservation`]'s machine. Both ends
//! use it: the target parses commands and builds data, our initiator builds commands and parses data. A parser that
//! refuses its input returns the [`Sense`] to be sent, with a pointer to the field in error.
#![forbid(unsafe_code)]

mod be;
pub mod capacity;
pub mod cdb;
pub mod copy;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod inquiry;
pub mod lba_status;
pub mod lun;
pub mod mode;
pub mod persistent_reservation;
pub mod port_groups;
pub mod sense;
mod status;
mod supported_opcodes;
mod task_management;
pub mod unmap;

pub use capacity::Capacity;
pub use cdb::{Cdb, Command, DataPhase};
pub use lun::Lun;
pub use sense::{Asc, Sense, SenseFormat, SenseKey, asc};
pub use status::Status;
pub use supported_opcodes::supported_opcodes_data;
pub use task_management::task_management_data;
