//! The lab repeats the published VAAI experiments against any iSCSI target, and writes a report.
//! Each experiment measures a setting off and on in one run. The report shows the measurements next
//! to the published figures (docs/sources.md).
//!
//! Experiments record [`results::Sample`]s and draw [`plot::Plot`]s from them. [`published`] holds
//! the published figures and quotes. [`report`] writes JSON, CSV and one HTML file that needs no
//! network.
#![forbid(unsafe_code)]

pub mod array;
mod bench;
pub mod display;
mod error;
pub mod experiments;
pub mod import;
pub mod load;
pub mod machine;
pub mod pair;
pub mod pattern;
pub mod plot;
mod predict;
pub mod published;
mod raw_load;
pub mod report;
pub mod results;
pub mod run;
pub mod stats;
mod store;
pub mod target;
pub mod timeline;
mod trace;
mod trial;
pub mod worker;

/// The revision of the source that this program was built from; `make` sets it.
pub const REVISION: &str = match option_env!("IBID_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

pub use bench::{LabBench, LabScale};
pub use error::LabError;
pub use run::{LabPlan, run};
