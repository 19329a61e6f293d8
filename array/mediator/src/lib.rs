//! The mediator of pods: a register for each pod, on a third site, which decides between two arrays
//! that have lost each other.
//!
//! A register holds an epoch and an owner. It changes only by compare-and-swap, durably before the
//! answer, and only for the two arrays that have registered it together. The mediator sees no data
//! and no host. An etcd cluster can hold the registers in its place.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation)]

mod client;
mod etcd;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod message;
mod register;
mod server;
#[cfg(feature = "simulation")]
mod simulated;
mod store;
#[cfg(test)]
mod tests;

pub use client::{Answer, CallError, MediatorClient, MediatorInfo, RegisterClient};
pub use etcd::{EtcdClient, EtcdInfo};
pub use message::{Owner, PodKey, Register};
pub use register::{Entry, Holder, MAX_REGISTERS, MAX_REGISTERS_PER_ARRAY};
pub use server::{Mediator, StartError};
#[cfg(feature = "simulation")]
pub use simulated::SimulatedRegisters;
pub use store::{IDENTITY, Store, StoreError};

/// Usual port of a mediator.
pub const DEFAULT_PORT: u16 = 8118;
/// The application protocol of its connections.
pub(crate) const PROTOCOL: &[u8] = b"ibid-mediator";
