//! Arguments of `ibid pod`.

use super::lists::{ListArgs, MonitorArgs, Names};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum PodCommand {
    /// Create empty pods
    #[command(after_help = "Example: ibid pod create dc1 && ibid volume create dc1::vm1 --size 1TiB")]
    Create {
        /// Names, one or more
        #[arg(required = true)]
        names: Vec<String>,
        /// Maximum total size of the volumes, 1M to 4P
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
    },
    /// List pods
    List {
        /// List only these pods
        names: Vec<String>,
        /// List only destroyed pods
        #[arg(long, conflicts_with = "all")]
        destroyed: bool,
        /// List destroyed pods as well
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show IOPS, bandwidth and latency of pods
    #[command(after_help = "Example: ibid pod monitor dc1 --historical 24h")]
    Monitor {
        /// Show only these pods
        names: Vec<String>,
        #[command(flatten)]
        args: MonitorArgs,
    },
    /// Set the quota of pods
    #[command(after_help = "Example: ibid pod set dc1 --quota 10T")]
    Set {
        /// Pods, one or more
        #[arg(required = true)]
        names: Vec<String>,
        /// Maximum total size of the volumes, 1M to 4P; none for no limit
        #[arg(long, value_name = "SIZE")]
        quota: String,
        /// Allow a quota that the volumes exceed already
        #[arg(long)]
        ignore_usage: bool,
    },
    /// Rename a pod and with it its volumes
    Rename {
        /// Pod
        name: String,
        /// New name
        new_name: String,
    },
    /// Create a pod with copies of the volumes of another one
    ///
    /// All copies are of the same instant. They share their data with the originals until one of
    /// them is written. Snapshots and destroyed volumes are not copied.
    #[command(after_help = "Example: ibid pod clone dc1 test     test::vm1 is a copy of dc1::vm1")]
    Clone {
        /// Pod to copy
        source: String,
        /// Name of the new pod
        name: String,
        /// Maximum total size of the volumes of the new pod, 1M to 4P
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
    },
    /// Destroy pods; recoverable for 24 hours
    Destroy(ContentsArgs),
    /// Recover pods and the volumes destroyed with them
    Recover(Names),
    /// Remove destroyed pods permanently, now
    Eradicate(ContentsArgs),
}

/// Pods to remove, empty or not.
#[derive(Debug, Args)]
pub(crate) struct ContentsArgs {
    /// Names, one or more
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// Include the volumes of the pods and their snapshots
    #[arg(long)]
    pub(crate) contents: bool,
}
