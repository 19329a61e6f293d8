//! iSCSI target: portals, sessions, LUN maps, and the translation of SCSI commands to engine
//! operations. Only this crate depends on both the wire protocols and the engine.
//!
//! Path of a command:
//!
//! 1. [`connection`] reads a batch of PDUs from the socket and passes it to its [`session`], whose
//!    iSCSI state machine delivers complete commands.
//! 2. [`command`] finds the logical unit, checks the command, and returns its first
//!    [`command::program::Step`].
//! 3. The engine posts its completion to the [`nexus::inbox`] of the connection.
//! 4. The answers of a batch are sent with one vectored write.
//!
//! Layers: `session` uses `command`, `command` uses `unit`, and `unit` uses `nexus`. A session owns
//! its commands exclusively. Sessions share the state of a logical unit in [`unit`], and notify
//! each other through their inboxes.
#![forbid(unsafe_code)]

mod command;
mod config;
mod connection;
mod data_pool;
mod displaced;
mod login;
mod login_limit;
mod nexus;
mod pod_ports;
mod portal;
mod portals;
mod session;
mod shared;
mod slots;
mod threshold_watch;
mod unit;
mod wire_memory;

pub use config::TargetConfig;
pub use pod_ports::{
    FunctionEnd, PodPortStates, PodPorts, PortState, PortWatcher, ReservationNexus, SharedFunction,
    SharedReservationChange,
};
pub use portal::{BoundPortal, IscsiTarget};
pub use unit::reservation::place::image_of_place;
