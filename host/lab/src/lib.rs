//! The lab: the experiments of the five documents that Ibid was built from, repeated against any iSCSI target with both
//! settings in one run, and a report that lays what was seen beside what was published.
//!
//! An experiment takes [`results::Sample`]s and draws [`results::Plot`]s from them; [`published`] holds what the
//! documents say, with the place; [`report`] writes JSON, CSV and one HTML file that needs no network.
#![forbid(unsafe_code)]

pub mod array;
mod bench;
pub mod display;
mod error;
pub mod experiments;
pub mod load;
pub mod machine;
pub mod pattern;
pub mod plot;
pub mod published;
pub mod report;
pub mod results;
pub mod run;
pub mod site;
pub mod stats;
mod store;
mod trial;

pub use bench::{LabBench, LabScale};
pub use error::LabError;
pub use run::{LabPlan, run};
