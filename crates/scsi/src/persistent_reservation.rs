//! Persistent reservations (SPC-4 5.13, 6.15, 6.16).

mod types;

pub use types::{InAction, OutAction, ReservationType};
