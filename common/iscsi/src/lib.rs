//! The iSCSI protocol (RFC 7143) for targets and initiators, as state machines without I/O.
//!
//! The crate opens no socket, reads no clock and starts no thread. The caller moves bytes between a
//! socket and a buffer and handles the returned events, so tests can script every exchange.
//!
//! ```text
//!   socket                          this crate                            caller
//!              ┌───────────────────────────────────────────────────┐
//!  ── bytes ─▶ │ pdu::Decoder ──▶ TargetLogin ──▶ TargetConnection │ ─▶ Event: Command,
//!              │  length limits    names, CHAP,    command window, │    TaskManagement,
//!              │  digests          negotiation     write data,     │    SendTargets, Logout …
//!              │                                   task management │
//!  ◀─ writev ─ │ Output ◀──────────────────────── Data-In, status  │ ◀─ complete()
//!              └───────────────────────────────────────────────────┘
//!   The initiator has the same structure: InitiatorLogin, InitiatorConnection.
//! ```
//!
//! Modules:
//!
//! * [`pdu`]: one file per PDU with its wire layout and the meaning of its fields. [`pdu::Decoder`]
//!   extracts complete PDUs from a buffer without copying data segments.
//! * [`Output`]: the bytes to send, as one chain for one vectored write.
//! * [`TargetLogin`] and [`initiator_connection::InitiatorLogin`]: the login phase. A
//!   [`LoginAuthority`] supplies access decisions, secrets and random bytes.
//! * [`target_connection::TargetConnection`] and [`initiator_connection::InitiatorConnection`]: the
//!   full feature phase.
//!
//! Not implemented, and what a peer observes:
//!
//! * several connections per session: MaxConnections is negotiated to 1;
//!
//! * error recovery above level 0: SNACK is rejected, a wrong header digest closes the connection;
//!
//! * data out of order: DataPDUInOrder and DataSequenceInOrder are negotiated to Yes;
//!
//! * authentication methods other than CHAP.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

mod chap;
mod data_digests;
mod digest;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gather;
pub mod initiator_connection;
mod length;
mod login;
#[cfg(test)]
mod loopback;
mod output;
mod parameters;
mod payload;
pub mod pdu;
mod serial;
pub mod target_connection;
#[cfg(test)]
mod testing;
mod text;

pub use chap::ChapSecret;
pub use data_digests::{DataDigests, DataDivision};
pub use digest::Digests;
pub use login::{
    Authentication, ChapAccount, Established, LoginAuthority, LoginConfig, LoginProgress, LoginRefusal, LoginStatus,
    SessionKind, SessionRequest, TargetLogin,
};
pub use output::Output;
pub use parameters::Parameters;
pub use payload::PayloadChain;
