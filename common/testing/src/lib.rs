//! Test kit: a disk in memory and seeded random numbers, for tests, simulators, benchmarks and the
//! tools of the host.
//!
//! The streams of both generators are frozen: a seed recorded with one version selects the same
//! run and the same data with every other version.
#![forbid(unsafe_code)]

mod disk;
mod rng;
mod splitmix;

pub use disk::MemoryDisk;
pub use rng::Rng;
pub use splitmix::{SplitMix64, mix, noise};
