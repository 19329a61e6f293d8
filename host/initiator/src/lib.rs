//! An iSCSI initiator in user space.
//!
//! It shares no code with the array except the wire formats, so it tests the array independently.
//!
//! A [`Session`] transports commands. A [`LogicalUnit`] holds the size, limits and designator of a
//! disk and builds commands for it. A [`Url`] is the address of a disk.
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
