//! The iSCSI target: portals, sessions, LUN maps, and SCSI commands turned into operations of the engine. The one crate
//! that knows both the wire and the engine.
//!
//! A command's way: [`connection`] reads a batch of PDUs from the socket and gives it to its [`session`], whose iSCSI
//! state machine hands up whole commands; [`dispatch`] finds the logical unit, tests what forbids the command and makes
//! its first [`program::Step`]; the engine answers into the connection's [`inbox`]; the answers of a batch leave by one
//! gathering write.
//!
//! Who owns what: a session owns its commands and nobody else touches them; what sessions share of a logical unit is in
//! [`unit`], and they tell each other of it by letters.
#![forbid(unsafe_code)]

mod attention;
mod block;
mod config;
mod connection;
mod copy;
mod counters;
mod dispatch;
mod inbox;
mod limits;
mod login;
mod nexus;
mod outcome;
mod portal;
mod program;
mod qos;
mod registry;
mod reservation;
mod session;
mod shared;
mod space;
mod task_management;
mod tasks;
mod unit;
mod view;

pub use config::Config;
pub use counters::{Class, ClassCount, Counters};
pub use portal::Target;
