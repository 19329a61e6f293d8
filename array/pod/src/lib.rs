//! The control plane of a *pod*: volumes that two arrays serve at the same time.
//!
//! [`Machine`] is the state machine of one pod on one array, after `docs/pods-protocol.md`. Events
//! go in, actions come out; it has no I/O, no clock and no randomness. Data does not pass through
//! it: it decides on the periods of the pod's stream and the part of the array in them, on the
//! array that serves, and on the service of hosts.
//!
//! [`Forwarder`] and [`Orderer`] are the two ends of the changes that the array that follows
//! forwards to the one that orders: values as well.
#![forbid(unsafe_code)]

mod event;
mod forward;
mod lease;
mod machine;
mod message;
mod planted;
mod register;
mod rule;
mod state;
mod times;
mod why;

pub use event::{
    Action, Alert, BeginPeriod, Changes, Event, Facts, Hosts, Ports, Reads, Request, StreamDelta, StreamGate,
    StreamRole,
};
pub use forward::ended::{Ended, Failure, Refusal};
pub use forward::forwarder::{Forwarder, MAX_WAITING_BYTES, NewRequest, Outgoing};
pub use forward::orderer::{Arrival, MAX_RUNNING_BYTES, Next, Orderer};
pub use machine::{Machine, Process};
pub use message::{Beat, Hello, MAX_MESSAGE_BYTES, Message, MessageError, NOTE_BYTES, Note};
#[cfg(feature = "planted")]
pub use planted::Bug;
pub use register::{Answer, Owner, Question, Register};
pub use state::encoding::{STORED_BYTES, StoredError};
pub use state::{Epoch, Role, Rule, Side, Stored, TieRule, epoch_of};
pub use times::Times;
pub use why::{WaitsFor, Why};
