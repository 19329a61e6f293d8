//! Changes of hosts at the array that follows, which the other array orders: rules 6 and 7 of
//! `docs/pods-protocol.md`.
//!
//! ```text
//!  host ─▶ Forwarder ── forward, cancel ──▶ Orderer ─▶ lock, compare, position n
//!               ▲ ▲                            │ │
//!               │ └── record n names it ◀──────┘ │        committed: GOOD
//!               └──── outcome: an error ◀────────┘
//! ```
//!
//! A forward has a number. The record that carries it out names that number, so the follower
//! answers its host as soon as both logs hold the record: after one round trip. Only errors need a
//! message. The number is carried out once, over all sessions.

mod clock;
mod direct;
pub(crate) mod ended;
pub(crate) mod forwarder;
pub(crate) mod orderer;
