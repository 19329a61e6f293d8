//! The link between two arrays: connecting them by a one-time key, sessions over TLS 1.3 with
//! pinned certificates, heartbeats with a measured round-trip time, and a simulated distance.
//!
//! The array that was given the other's key makes the connections, and makes them again when they
//! are lost. A session has a control connection and a data connection, so that heartbeats never
//! wait for data.
//!
//! Frames about pods are passed to a [`PodReceiver`], together with their session.

mod address;
mod channel;
mod control;
mod data;
mod dialer;
mod distance;
mod error;
mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hello;
mod identity;
mod key;
mod links;
mod listener;
mod message;
mod peer;
mod pipe;
mod pods;
mod remote;
mod rtt;
mod running;
mod session;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod timer;

pub use address::DEFAULT_PORT;
pub use control::GIVE_UP_AFTER;
pub use data::Transfer;
pub use distance::{Cut, Distance, DistanceError};
pub use error::LinkError;
pub use frame::{Decoder, Encoder, Frame, FrameError, HEADER_BYTES, Kind, MAX_BODY_BYTES, RECORD_HEADER_BYTES};
pub use hello::{Hello, HelloError, PROTOCOLS, ProtocolRange, Purpose};
pub use identity::IDENTITY_FILES;
pub use key::{ConnectionKey, KEY_LIFETIME, MistypedKey};
pub use links::{KeyText, LinkConnection, LinkTest, Links, OpenError};
pub use peer::LinkStatus;
pub use pinned_tls::IdentityError;
#[cfg(feature = "simulation")]
pub use pods::SimulatedSession;
pub use pods::{PodReceiver, PodSession, SessionEnded};
pub use rtt::Rtt;
pub use shared::{LocalArray, LocalArrayFn, MAX_CONNECTIONS};
