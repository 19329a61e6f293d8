//! Simulates the engine on a drive that crashes, deterministically from one seed, in one thread.
//!
//! A run draws a small geometry and a mix of operations, creates an array on a [`disk::SimDisk`]
//! and drives the engine's core. Operations overlap, drive accesses end in any order, planned reads
//! execute late, background work starts at any time, and the drive fails or fills up. Crashes also
//! hit recovery.
//!
//! Every reply is checked: changes in the order of their replies, reads against every state that
//! they may reflect. After each crash all blocks of all volumes are read and compared with the
//! oracle ([`history::History`]). Answered operations must be present; others must be present
//! entirely or not at all. The core's own audit must agree. The run then continues with the
//! recovered array.
//!
//! `docs/simulator.md` lists the faults that are simulated, and those that are not.
//!
//! The seed alone determines a run, so a seed identifies a violation:
//!
//! ```text
//! ibid-sim crash --runs 10000 --seed 1          random runs; exit code 1 on a violation
//! ibid-sim crash --runs 100000 --progress FILE  the same, resumable
//! ibid-sim exhaustive                           all short sequences, crashed at every access
//! ibid-sim replay --seed S                      full trace of one seed
//! ibid-sim crash --inject skip-log-flush        a bug that the simulator must find
//! ```

pub mod campaign;
pub mod cli;
pub mod content;
pub mod data;
pub mod disk;
pub mod engine_subject;
pub mod exhaustive;
pub mod faults;
pub mod history;
pub mod injected_bug;
pub mod inspect;
pub mod machine;
pub mod ops;
pub mod pair;
pub mod progress;
pub mod run;
pub mod state;
pub mod subject;
pub mod totals;

#[cfg(test)]
mod faulty_model;
