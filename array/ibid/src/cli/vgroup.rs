//! Arguments of `ibid vgroup`.

use super::lists::{ListArgs, MonitorArgs, Names};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeGroupCommand {
    /// Create empty volume groups
    #[command(after_help = "Example: ibid vgroup create prod && ibid volume create prod/vm1 --size 1TiB")]
    Create(Names),
    /// List volume groups
    List {
        /// List only these volume groups
        names: Vec<String>,
        /// List only destroyed volume groups
        #[arg(long, conflicts_with = "all")]
        destroyed: bool,
        /// List destroyed volume groups as well
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show IOPS, bandwidth and latency of volume groups
    #[command(after_help = "Example: ibid vgroup monitor prod --historical 24h")]
    Monitor {
        /// Show only these volume groups
        names: Vec<String>,
        #[command(flatten)]
        args: MonitorArgs,
    },
    /// Move volumes into a volume group; hosts notice nothing
    #[command(after_help = "Example: ibid vgroup add prod vm1 vm2     they become prod/vm1 and prod/vm2")]
    Add {
        /// Volume group
        group: String,
        /// Volumes, one or more
        #[arg(required = true)]
        volumes: Vec<String>,
    },
    /// Move volumes out of their volume group
    #[command(after_help = "Example: ibid vgroup remove prod/vm1     it becomes vm1")]
    Remove {
        /// Volumes as GROUP/VOLUME, one or more
        #[arg(required = true)]
        volumes: Vec<String>,
    },
    /// Set the QoS limits that the volumes of a volume group share
    ///
    /// The limits of each volume apply as well.
    #[command(after_help = "Example: ibid vgroup set prod --bandwidth 200M --iops 5000")]
    Set {
        /// Volume groups, one or more
        #[arg(required = true)]
        names: Vec<String>,
        /// Bytes per second, 1M to 512G; none for no limit
        #[arg(long, value_name = "SIZE")]
        bandwidth: Option<String>,
        /// Reads and writes per second, 100 to 100000000; none for no limit
        #[arg(long, value_name = "COUNT")]
        iops: Option<String>,
    },
    /// Rename a volume group and with it its volumes
    Rename {
        /// Volume group
        name: String,
        /// New name
        new_name: String,
    },
    /// Destroy volume groups with their volumes; recoverable for 24 hours
    Destroy(Names),
    /// Recover volume groups and the volumes destroyed with them
    Recover(Names),
    /// Remove destroyed volume groups and their volumes permanently, now
    Eradicate(Names),
}
