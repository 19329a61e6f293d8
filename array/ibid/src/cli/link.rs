//! Arguments of the `ibid array` commands about connections to other arrays.

use clap::{Subcommand, ValueEnum};

/// Directions that the distance simulator cuts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CutArgument {
    /// None
    None,
    /// Nothing arrives at this array
    In,
    /// Nothing leaves this array
    Out,
    /// Neither
    Both,
}

impl CutArgument {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::In => "in",
            Self::Out => "out",
            Self::Both => "both",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Make a key with which another array connects to this one
    ///
    /// This array must serve with --link. The key is valid for 30 minutes and for one attempt, good
    /// or bad. A new key voids the former one.
    ConnectionKey,
    /// Connect to another array with its connection key
    ///
    /// Each array then knows the certificate of the other. This array makes the link, and makes it
    /// again when it is lost.
    #[command(after_help = "Example:
  on the other array:  ibid array connection-key
  on this one:         ibid array connect --address 192.0.2.20 --key KEY")]
    Connect {
        /// Name that the other array must have
        name: Option<String>,
        /// Its --link address: HOST or HOST:PORT; the default port is 8117
        #[arg(long, value_name = "ADDRESS")]
        address: String,
        /// Its connection key; - reads it from standard input
        #[arg(long, value_name = "KEY")]
        key: String,
    },
    /// List the connections to other arrays
    Connections {
        /// Names of the other arrays; all if absent
        names: Vec<String>,
    },
    /// Remove the connection to another array
    ///
    /// The other array removes it, too, if the link is up. Otherwise run the command there as well.
    Disconnect {
        /// Name of the other array
        name: String,
    },
    /// Measure the link to another array: round trips and rate
    LinkTest {
        /// Name of the other array
        name: String,
        /// Time for each direction, 1 to 10 seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10))]
        seconds: u64,
    },
    /// Simulate a distance to another array
    ///
    /// For tests. The setting survives restarts, and `ibid array connections` shows it. One of the
    /// two arrays simulates both directions.
    #[command(after_help = "Examples:
  ibid array distance beta --rtt 4ms --jitter 500us --rate 100MiB
  ibid array distance beta --cut both
  ibid array distance beta --off")]
    Distance {
        /// Name of the other array
        name: String,
        /// Time added to each round trip (us, ms)
        #[arg(long, value_name = "TIME")]
        rtt: Option<String>,
        /// Random time added to each round trip, at most (us, ms)
        #[arg(long, value_name = "TIME")]
        jitter: Option<String>,
        /// Limit of each direction per second, 1M or more; none for no limit
        #[arg(long, value_name = "SIZE")]
        rate: Option<String>,
        /// Cut the link as a broken network does
        #[arg(long, value_enum)]
        cut: Option<CutArgument>,
        /// End the simulation
        #[arg(long, conflicts_with_all = ["rtt", "jitter", "rate", "cut"])]
        off: bool,
    },
}
