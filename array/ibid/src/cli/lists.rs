//! Arguments that several commands share: lists, names, times of measurements.

use clap::Args;
use client::Listing;

/// Options of lists.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "List")]
pub(crate) struct ListArgs {
    /// List only objects that match this condition
    #[arg(long, value_name = "CONDITION")]
    pub(crate) filter: Option<String>,
    /// Sort by this field of --json; FIELD- for descending order
    #[arg(long, value_name = "FIELD")]
    pub(crate) sort: Option<String>,
    /// List at most this number of objects
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Print CSV with all fields of --json instead of text
    #[arg(long)]
    pub(crate) csv: bool,
}

impl ListArgs {
    /// Returns the selection of objects with these options.
    pub(crate) fn listing<'a>(&'a self, names: &'a [String], destroyed: Option<bool>) -> Listing<'a> {
        let (filter, sort) = (self.filter.as_deref(), self.sort.as_deref());
        Listing { names, filter, destroyed, sort, limit: self.limit }
    }
}

/// One or more names.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// Names, one or more
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
}

/// When performance is shown.
#[derive(Debug, Args)]
pub(crate) struct MonitorArgs {
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..=86_400))]
    pub(crate) interval: u64,
    /// Number of readings; 0 until interrupted
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) repeat: u64,
    /// Show the past instead: up to 366d (s, min, h, d)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["interval", "repeat"])]
    pub(crate) historical: Option<String>,
}
