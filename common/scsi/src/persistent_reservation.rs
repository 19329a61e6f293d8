//! Persistent reservations (SPC-4 5.13, 6.15, 6.16), and RESERVE and RELEASE (SPC-2 7.16, 7.21).
//!
//! The state machine is pure: it changes a value and says which unit attentions to establish, which commands to abort
//! and whether the state must be made durable. The target owns one [`Reservations`] per volume.

mod image;
mod list;
mod nexus;
mod preempt;
mod report;
mod rights;
mod state;
mod types;

pub use image::ImageError;
pub use list::{MoveParameters, OutParameters};
pub use nexus::NexusId;
pub use report::{parse_keys, parse_reservation};
pub use rights::Conflict;
pub use state::{MAX_REGISTRATIONS, Outcome, Refusal, Registration, Reservations};
pub use types::{InAction, OutAction, ReservationType};

#[cfg(test)]
mod tests;
