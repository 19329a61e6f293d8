//! Persistent reservations (SPC-4 5.13, 6.15, 6.16), and RESERVE and RELEASE (SPC-2 7.16, 7.21).
//!
//! The state machine is pure: it changes a value and returns the unit attentions to establish, the
//! commands to abort, and whether the state must be made durable. The target owns one
//! [`Reservations`] per volume.

mod list;
mod nexus;
mod state;
mod types;

pub use list::{MoveParameters, OutParameters};
pub use nexus::NexusId;
pub use state::{
    Conflict, ImageError, MAX_REGISTRATIONS, Registration, ReservationOutcome, ReservationRefusal, Reservations,
    parse_keys, parse_reservation,
};
pub use types::{InAction, OutAction, ReservationType};

#[cfg(test)]
mod tests;
