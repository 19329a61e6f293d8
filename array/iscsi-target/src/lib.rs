//! The iSCSI target: portals, sessions, LUN maps, and SCSI commands turned into operations of the engine. The one crate
//! that knows both the wire and the engine.
//!
//! A command's way: [`connection`] reads a batch of PDUs from the socket and gives it to its [`session`], whose iSCSI
//! state machine hands up whole commands; [`command`] finds the logical unit, tests what forbids the command and makes
//! its first [`command::program::Step`]; the engine answers into the connection's [`nexus::inbox`]; the answers of a batch leave by one
//! gathering write.
//!
//! Who owns what: a session owns its commands and nobody else touches them; what sessions share of a logical unit is in
//! [`unit`], and they tell each other of it by letters.
#![forbid(unsafe_code)]

mod command;
mod config;
mod connection;
mod login;
mod nexus;
mod portal;
mod session;
mod shared;
mod unit;

pub use config::Config;
pub use portal::Target;
pub use unit::counters::{Class, ClassCount, Counters};
