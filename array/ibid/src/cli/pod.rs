//! Arguments of `ibid pod`.

use super::lists::{ListArgs, MonitorArgs, Names};
use clap::{ArgGroup, Args, Subcommand};

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
        /// List only pods on two arrays, with their state
        #[arg(long)]
        replication: bool,
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
    /// Set limits of pods: quota, rate of resync
    #[command(
        after_help = "Example: ibid pod set dc1 --resync-limit 100M     the other array comes into step with 100 MiB/s",
        group(ArgGroup::new("limits").args(["quota", "resync_limit"]).required(true).multiple(true))
    )]
    Set {
        /// Pods, one or more
        #[arg(required = true)]
        names: Vec<String>,
        /// Maximum total size of the volumes, 1M to 4P; none for no limit
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
        /// Allow a quota that the volumes exceed already
        #[arg(long, requires = "quota")]
        ignore_usage: bool,
        /// Data a second to bring the other array into step; or none
        ///
        /// 1M to 1T. Holds for the first copy after a stretch as well, at
        /// once, and on both arrays. Holes and zeros need no data. Writes
        /// of hosts are not limited.
        #[arg(long, value_name = "RATE")]
        resync_limit: Option<String>,
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
    #[command(flatten)]
    Stretched(StretchedCommand),
}

/// Commands about pods on two arrays.
#[derive(Debug, Subcommand)]
pub(crate) enum StretchedCommand {
    /// Bring a pod to a second array, which then serves it as well
    ///
    /// The array has to be connected (`ibid array connect`). The command waits until both arrays
    /// are in step; Ctrl-C ends only the wait. Hosts use the pod all the time. A mediator has to
    /// allow both arrays (`ibid mediator allow`); URLs of an etcd cluster may take its place.
    #[command(after_help = "Example: ibid pod stretch dc1 beta --mediator 192.0.2.9")]
    Stretch {
        /// Pod
        pod: String,
        /// Connected array
        array: String,
        /// Mediator, which decides if the arrays lose each other
        #[arg(long, value_name = "HOST[:PORT]|URLS")]
        mediator: Option<String>,
        /// Return at once
        #[arg(long)]
        detach: bool,
    },
    /// Remove a pod from the other array
    ///
    /// The other array discards its content of the pod. The command waits until it has left;
    /// Ctrl-C ends only the wait.
    Unstretch {
        /// Pod
        pod: String,
        /// The other array
        array: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
        /// Return at once
        #[arg(long)]
        detach: bool,
    },
    /// Set the array that should continue if the arrays lose each other
    Prefer {
        /// Pod
        pod: String,
        /// One of its two arrays
        array: String,
    },
    /// Set the mediator of a pod
    ///
    /// The mediator has to allow both arrays (`ibid mediator allow`). An etcd cluster may take its
    /// place.
    #[command(after_help = "Examples: ibid pod mediator dc1 192.0.2.9:8118
          ibid pod mediator dc1 https://e1:2379,https://e2:2379,https://e3:2379")]
    Mediator {
        /// Pod
        pod: String,
        /// HOST or HOST:PORT, URLs of an etcd cluster, or none
        address: String,
    },
    /// Watch rates, latency and room of pods on two arrays, live
    ///
    /// Without a terminal, or with --once, prints one reading. q or Ctrl-C ends it.
    Top {
        /// Show only these pods
        pods: Vec<String>,
        /// Print one reading
        #[arg(long)]
        once: bool,
        /// Seconds between two readings
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
        interval: u64,
    },
    /// Explain the state of a pod, its cause and its end
    Why {
        /// Pod
        pod: String,
    },
    /// Compare the content of a pod on both arrays while hosts use it
    ///
    /// Runs at the array that orders changes. The command waits for the result; Ctrl-C ends only
    /// the wait. Nothing is repaired. Holes and zeros are equal.
    #[command(after_help = "Exit status: 0 no difference; 1 an error; 3 the arrays differ.

Examples:
  ibid pod verify dc1               compare, and wait for the result
  ibid pod verify dc1 --status      show the last result, or the progress
  ibid pod verify dc1 --stop        stop the comparison")]
    Verify {
        /// Pod
        pod: String,
        /// Return at once
        #[arg(long)]
        detach: bool,
        /// Show the last comparison; begin none
        #[arg(long, conflicts_with_all = ["detach", "stop"])]
        status: bool,
        /// Stop the comparison
        #[arg(long, conflicts_with = "detach")]
        stop: bool,
    },
    /// Compare settings and states that must match at both arrays
    ///
    /// Versions, array numbers, space, clocks, distance, the mediator from both, and for a pod on
    /// two arrays its state, preference and hosts. Each line is OK or says what to do.
    #[command(after_help = "Exit status: 0 no problems; 1 at least one error; 3 warnings only.

Examples:
  ibid pod check dc1                                    a pod on two arrays
  ibid pod check dc1 beta --mediator 192.0.2.9          before it is stretched")]
    Check {
        /// Pod
        pod: String,
        /// Array that the pod may come to, if it is on one
        array: Option<String>,
        /// Mediator that the pod may get
        #[arg(long, value_name = "HOST[:PORT]|URLS")]
        mediator: Option<String>,
    },
    /// Hand all pods over to the other arrays before this one stops
    ///
    /// A pod that cannot be handed over does not stop the others. The command waits until the
    /// others are in step again; then the array can be stopped without a pause of hosts.
    #[command(after_help = "Exit status: 0 no pod needs this array; 1 an error; 3 some pods stay.")]
    Evacuate {
        /// Show what would be done; hand nothing over
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Remove a pod from this array that the other one has removed
    ///
    /// For an array that was away while its pod was removed or replaced at the other one. The pod's
    /// volumes and snapshots on this array are lost. The command first states the facts, and asks.
    Forget {
        /// Pod
        pod: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Serve a pod here although the protocol does not allow it
    ///
    /// For the case that the other array is lost for good. The command first says what may be
    /// lost, and asks.
    #[command(after_help = "Example: ibid pod promote dc1 --force")]
    Promote {
        /// Pod
        pod: String,
        /// Accept that changes may be lost
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Hand a pod over to the other array
    Resign {
        /// Pod
        pod: String,
    },
    /// Discard the content of this array of a pod that has diverged
    Discard {
        /// Pod
        pod: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// The confirmation of a change that cannot be undone.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
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
