//! The deterministic world: an array on a drive that crashes, in one thread, from one seed.
//!
//! A run draws a tiny geometry and a mix of operations, makes an array on a [`disk::SimDisk`], and drives the engine's
//! core through all that can happen to it: operations that overlap, accesses to the drive that end in any order, planned
//! reads that are executed late, background work at the wrong moment, a drive that fails or fills up, and crashes, also in
//! the middle of recovery. Every answer is judged: changes in the order in which they were answered, reads against every
//! state that they may have seen. After each crash all blocks of all volumes are read and held against the oracle
//! ([`history::History`]): what was answered must be there, what was not must be there wholly or not at all, and
//! the core's own audit must agree. Then the run goes on with the recovered array.
//!
//! What is not simulated: threads (the shell around the core has tests of its own), the write cache (an array that answers
//! before the flush promises less), and drives that lie, but for the planted bugs.
//!
//! Nothing but the seed decides what happens, so a violation is named by its seed:
//!
//! ```text
//! ibid-sim crash --runs 10000 --seed 1      random runs; exit code 1 and the shrunk trace when a promise is broken
//! ibid-sim crash --runs 100000 --progress FILE    the same, noting what is done: it can be interrupted
//! ibid-sim exhaustive                       all short sequences of operations, crashed at every access to the drive
//! ibid-sim replay --seed S                  the full trace of one seed
//! ibid-sim crash --plant skip-log-flush     a bug in the drive that the simulator must find
//! ```

pub mod campaign;
pub mod cli;
pub mod content;
pub mod data;
pub mod disk;
pub mod engine_subject;
pub mod exhaustive;
pub mod history;
pub mod inspect;
pub mod machine;
pub mod ops;
pub mod progress;
pub mod run;
pub mod state;
pub mod subject;

#[cfg(test)]
mod faulty_model;
