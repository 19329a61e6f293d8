//! An iSCSI initiator in user space: the other end of the array, and an independent witness of what it does. It shares
//! the wire crates with the target and nothing else.
//!
//! A [`Session`] carries commands; a [`LogicalUnit`] knows a disk's size, limits and name, and makes the commands for
//! it. [`Url`] says where the disk is.
#![forbid(unsafe_code)]

mod config;
mod error;
mod inquiry;
mod request;
mod session;
mod unit;
mod url;

pub use config::InitiatorConfig;
pub use error::{ConnectError, RunError, SessionError};
pub use inquiry::Inquiry;
pub use iscsi::target_connection::TargetRecord;
pub use request::{CommandRefusal, Completion, Payload, Request};
pub use session::Session;
pub use unit::{CopyRun, LogicalUnit, UnitLimits};
pub use url::{Credentials, Portal, Url, UrlError};
