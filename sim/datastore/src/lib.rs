//! Simulates many hosts that share one datastore, and checks that its locks hold.
//!
//! One seed determines the whole run: hosts, one LUN, time and every fault. Hosts crash with
//! commands in flight, lose their path, pause for longer than their lease, and have clocks that run
//! fast or slow. Commands are lost, take long, or complete without an answer. An oracle checks that
//! no file has two owners and that no acknowledged write is lost. At the end it checks that every
//! lock can be acquired and that fsck finds no problem.
#![forbid(unsafe_code)]

mod campaign;
mod disk;
mod oracle;
mod simulation;
mod torture;
mod workload;

pub use campaign::{CampaignOutcome, DatastoreCampaign};
pub use torture::{Connect, Torture, TortureOutcome};

/// The result of a step of the simulation.
type Result<T> = std::result::Result<T, datastore::DatastoreError>;

#[cfg(test)]
mod tests;
