//! The SCSI language of the array as typed values: CDBs, sense data, parameter lists and parameter data.
//!
//! Pure: bytes in, values out, and back. No I/O, no clock, no state but [`persistent_reservation`]'s machine. Both ends
//! use it: the target parses commands and builds data, our initiator builds commands and parses data. A parser that
//! refuses its input returns the [`Sense`] to be sent, with a pointer to the field in error.
//!
//! ```
//! use scsi::{Cdb, Command, DataPhase, Sense};
//!
//! let mut read = [0x28, 0, 0, 0, 0, 7, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
//! let command = Cdb::parse(&read)?;
//! assert!(matches!(command, Command::Read(transfer) if transfer.lba.0 == 7 && transfer.blocks == 8));
//! assert_eq!(command.data_phase(), DataPhase::In(4096));
//! assert_eq!(command.to_cdb().0, read);
//!
//! read[1] = 0x20; // RDPROTECT, which we do not have
//! assert_eq!(Cdb::parse(&read), Err(Sense::invalid_cdb_field(1, Some(5))));
//! # Ok::<(), Sense>(())
//! ```
//!
//! | question | module |
//! | --- | --- |
//! | what does a CDB ask for, how many bytes move, which commands are there | [`cdb`], [`supported_opcodes_data`] |
//! | why was it refused | [`sense`], [`Status`] |
//! | what is this logical unit | [`inquiry`], [`capacity`], [`lun`], [`mode`], [`port_groups`] |
//! | how full is it | [`provisioning`], [`log`] |
//! | which blocks | [`unmap`], [`copy`], [`lba_status`] |
//! | who may | [`persistent_reservation`] |
#![forbid(unsafe_code)]

mod be;
pub mod capacity;
pub mod cdb;
pub mod copy;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod inquiry;
pub mod lba_status;
pub mod log;
pub mod lun;
pub mod mode;
pub mod persistent_reservation;
pub mod port_groups;
pub mod provisioning;
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
