//! Carries the streams of an engine to another array over a link, and back.
//!
//! The engine orders changes and reports them ([`engine::StreamService`]), the link moves frames
//! ([`link::PodReceiver`]). A [`Carrier`] joins both: it sends the records that the engine has
//! ordered and the positions that its log holds, and submits the records that arrive. It decides
//! nothing: its caller determines the array that a stream is carried to, the period, and the
//! position to begin with. A [`CarrierOwner`] receives the news that need a decision.
//!
//! ```text
//!  engine ─▶ ordered ─▶ window ─▶ outbox ─▶ frames ═══ link ═══▶ frames ─▶ assembler ─▶ engine
//!    ▲                    │ forgotten                                                  follows
//!    └── heard ◀── durable ◀───────────── frames ◀══ link ═══ frames ◀── outbox ◀── durable
//! ```
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

mod carrier;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod outbox;
mod receiving;
mod streams;
mod window;
mod wire;

pub use carrier::{Carrier, CarrierOwner, Replica};
pub use streams::{AttachError, CarrierStatus, Run};
pub use window::{MAX_UNHEARD_BYTES, MAX_UNHEARD_RECORDS};
pub use wire::MAX_POD_MESSAGE_BYTES;
