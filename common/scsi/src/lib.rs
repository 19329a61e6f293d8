//! Typed SCSI: CDBs, sense data, parameter lists and parameter data.
//!
//! Pure: converts bytes to values and back, without I/O or a clock. The only state machine is
//! [`persistent_reservation`]. Both ends use this crate: the target parses commands and builds
//! data, the initiator builds commands and parses data. A parser that refuses its input returns the
//! [`Sense`] to send, with a pointer to the field in error.
//!
//! ```
//! use scsi::{Cdb, Command, DataPhase, Sense};
//!
//! let mut read = [0x28, 0, 0, 0, 0, 7, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
//! let command = Cdb::parse(&read)?;
//! let Command::Read(transfer) = command else { panic!("not a READ") };
//! assert_eq!((transfer.lba.0, transfer.blocks), (7, 8));
//! assert_eq!(command.data_phase(), DataPhase::In(4096));
//! assert_eq!(command.to_cdb().0, read);
//!
//! read[1] = 0x20; // RDPROTECT, which is not supported
//! assert_eq!(Cdb::parse(&read), Err(Sense::invalid_cdb_field(1, Some(5))));
//! # Ok::<(), Sense>(())
//! ```
//!
//! | subject | module |
//! | --- | --- |
//! | commands, and direction and length of their data | [`cdb`], [`supported_opcodes_data`] |
//! | status and sense data | [`sense`], [`Status`] |
//! | properties of a logical unit | [`inquiry`], [`capacity`], [`lun`], [`mode`], [`port_groups`] |
//! | thin provisioning and its thresholds | [`provisioning`], [`log`] |
//! | lists of block ranges | [`unmap`], [`copy`], [`lba_status`] |
//! | access control | [`persistent_reservation`] |
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

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
