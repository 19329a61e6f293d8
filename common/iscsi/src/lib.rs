//! iSCSI (RFC 7143) for both ends: bytes in, actions out.
//!
//! Nothing here opens a socket, reads a clock or starts a thread. A shell moves bytes between a socket and a buffer, and
//! does what the state machines ask for; so every dialogue can be a test, and every test a dialogue.
//!
//! ```text
//!    socket                             this crate                                    above
//!                 ┌─────────────────────────────────────────────────────────────┐
//!  ── bytes ────▶ │ pdu::Decoder ─▶ TargetLogin ─────▶ target_connection::TargetConnection │ ─▶ target_connection::Event
//!                 │   header and      names, CHAP,       command window, write  │      Command, TaskManagement,
//!                 │   data digests,   key=value          data, task management, │      SendTargets, Logout …
//!                 │   hard limits     negotiation        texts, logout          │
//!  ◀── writev ─── │ Output ◀──────────────────────────── Data-In, residuals ◀── │ ◀─ complete(CommandCompletion)
//!                 └─────────────────────────────────────────────────────────────┘
//!                   initiator::{InitiatorLogin, InitiatorConnection}: the same, seen from the other end
//! ```
//!
//! The parts:
//!
//! * [`pdu`]: one file per PDU, the layout of the wire and the meaning of its fields; the [`pdu::Decoder`], which takes
//!   every whole PDU of a buffer without copying data segments.
//! * [`Output`]: what is to be sent, as one chain for one gathering write.
//! * [`TargetLogin`] and [`initiator::InitiatorLogin`]: the login phase. Who may come in, what the secrets are and
//!   where randomness comes from is the business of a [`LoginAuthority`].
//! * [`target_connection::TargetConnection`] and [`initiator::InitiatorConnection`]: the full feature phase.
//!
//! What is left out, and how a peer learns of it: one connection per session (MaxConnections is settled at 1), error
//! recovery level 0 (SNACK is rejected, a wrong header digest closes the connection), data in order (DataPDUInOrder and
//! DataSequenceInOrder are settled at Yes), CHAP as the only proof of identity.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

mod chap;
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
pub use digest::Digests;
pub use login::{
    Authentication, ChapAccount, Established, LoginAuthority, LoginConfig, LoginProgress, LoginRefusal, LoginStatus,
    SessionKind, SessionRequest, TargetLogin,
};
pub use output::Output;
pub use parameters::Parameters;
pub use payload::PayloadChain;
