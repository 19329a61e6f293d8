//! The command line.

use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Block storage whose copies are citations: an iSCSI array in software.
#[derive(Debug, Parser)]
#[command(
    name = "ibid",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  ibid serve --data /srv/array                              run an array (created at first start)
  ibid volume create vm1 --size 1TiB --data /srv/array      make a volume
  ibid host create esx1 --iqn iqn.1998-01.com.vmware:esx1   make a host
  ibid host connect esx1 vm1                                show it the volume

Administration finds the array by --data DIR on the same machine, or by IBID_URL and IBID_TOKEN."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) access: Access,
    /// Write JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the array is, and how to be let in.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which array")]
pub(crate) struct Access {
    /// The array's directory, on this machine
    #[arg(long, global = true, env = "IBID_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The array's API: HOST:PORT or https://HOST:PORT
    #[arg(long, global = true, env = "IBID_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Trust certificates that those in this PEM file vouch for
    #[arg(long, global = true, env = "IBID_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust exactly the certificate with this SHA-256 fingerprint
    #[arg(long, global = true, env = "IBID_FINGERPRINT", value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
    /// Trust any certificate: whoever stands between can read and change everything
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an array in the foreground
    Serve(ServeArgs),
    /// Make, change, list and remove volumes
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Take, list and remove snapshots of volumes
    #[command(subcommand)]
    Snap(SnapCommand),
    /// Make, change, list and remove hosts; connect volumes to them
    #[command(subcommand)]
    Host(HostCommand),
    /// Show the array and its space, change its settings, make it larger
    #[command(subcommand)]
    Array(ArrayCommand),
    /// Check everything that is stored against its checksums
    #[command(subcommand)]
    Scrub(ScrubCommand),
    /// What an administrator should know of: space that runs out, damage
    #[command(subcommand)]
    Alert(AlertCommand),
    /// Show the admin's API token, or make a new one
    Token(TokenArgs),
    /// Check an array that is not running, structure by structure
    Fsck(crate::fsck::FsckArgs),
}

/// Run an array in the foreground.
///
/// The array is created at first start. SIGTERM or Ctrl-C stops it cleanly; after any other end, too, everything that
/// was acknowledged is there again at the next start. Logs go to standard error (IBID_LOG=debug for more).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ibid serve --data /srv/array --capacity 200GiB
  ibid serve --data /srv/array --device /dev/nvme1n1 --iscsi 192.0.2.10:3260 --iscsi 198.51.100.10:3260
  ibid serve --config /etc/ibid.toml

The configuration file has the same keys: data, name, capacity, device, iscsi = [\"ADDR:PORT\"], api, memory, index-memory,
write-cache.
What is given here counts more. The addresses that were bound are in DIR/endpoints.json while the array runs.")]
pub(crate) struct ServeArgs {
    /// Name of the array, when it is created [default: ibid]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// How much the array may store, when it is created: K, M, G, T, P [default: 64GiB, or all of the device]
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<String>,
    /// Store on this block device (or file) instead of a file in DIR
    #[arg(long, value_name = "PATH")]
    pub(crate) device: Option<PathBuf>,
    /// Listen for iSCSI there; may be given several times; port 0 takes a free one [default: 127.0.0.1:3260]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) iscsi: Vec<SocketAddr>,
    /// Listen for the REST API there [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) api: Option<SocketAddr>,
    /// Memory for blocks on their way, map and slot table, index and cache, 64M or more; beyond it the array slows down [default: a
    /// quarter of what there is]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// How much of it is for the index by which equal blocks are found, at most half [default: a sixteenth of what there is; with
    /// --memory, a quarter of what the slot table leaves of that]
    #[arg(long, value_name = "SIZE")]
    pub(crate) index_memory: Option<String>,
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Acknowledge writes before they are on stable storage, and say so to hosts (WCE=1)
    #[arg(long)]
    pub(crate) write_cache: bool,
    /// Give the admin a new API token, when the old one is lost
    #[arg(long)]
    pub(crate) new_token: bool,
}

/// Things by their names, at least one.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// Their names
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make an empty volume
    #[command(after_help = "Example: ibid volume create vm1 --size 1.5TiB")]
    Create {
        /// 1 to 63 letters, digits, - and _
        name: String,
        /// 1M to 4P; a multiple of 512 bytes, rounded up to 4 KiB
        #[arg(long)]
        size: String,
    },
    /// List volumes
    #[command(after_help = "Example: ibid volume list --filter \"name='vm-*' and provisioned > 1099511627776\"")]
    List {
        /// Only these
        names: Vec<String>,
        /// Only destroyed ones, which wait for their eradication
        #[arg(long, conflicts_with = "all")]
        destroyed: bool,
        /// Destroyed ones too
        #[arg(long)]
        all: bool,
        /// Only those that meet a condition
        #[arg(long, value_name = "CONDITION")]
        filter: Option<String>,
        /// What they occupy, instead of what they are
        #[arg(long)]
        space: bool,
    },
    /// Show all of one volume
    Show {
        /// Its name
        name: String,
    },
    /// Change a volume's size
    Resize {
        /// Its name
        name: String,
        /// The new size
        #[arg(long)]
        size: String,
        /// Make it smaller; what lies behind the new end is kept as a destroyed snapshot
        #[arg(long)]
        truncate: bool,
    },
    /// Make a volume of what a volume or snapshot holds at this instant
    ///
    /// Costs the same for any size: the two share what they hold until one of them is written. With --overwrite, what the
    /// volume held is kept as a destroyed snapshot for as long as destroyed things can be recovered.
    #[command(after_help = "Examples:
  ibid volume copy vm1 vm2                             a clone
  ibid volume copy vm1.before-upgrade vm1 --overwrite  a restore
  ibid snap recover vm1.undo-7                         and back: what the restore destroyed")]
    Copy {
        /// The volume, or the snapshot as VOLUME.SUFFIX
        source: String,
        /// The volume to make
        name: String,
        /// Put it in the place of a volume that is there
        #[arg(long)]
        overwrite: bool,
    },
    /// Limit what hosts do with a volume, or set when they are told that it fills
    #[command(after_help = "Example: ibid volume set vm1 --bandwidth 200M --iops 5000 --threshold 80")]
    Set {
        /// Its name
        name: String,
        /// The most bytes per second, 1M to 512G; none for no limit
        #[arg(long, value_name = "SIZE")]
        bandwidth: Option<String>,
        /// The most reads and writes per second, 100 to 100000000; none for no limit
        #[arg(long, value_name = "COUNT")]
        iops: Option<String>,
        /// Tell hosts when this percentage of it is written, 1 to 100; none for never
        #[arg(long, value_name = "PERCENT")]
        threshold: Option<String>,
    },
    /// Give a volume another name
    Rename {
        /// Its name
        name: String,
        /// Its new name
        new_name: String,
    },
    /// Destroy volumes with their snapshots; they can be recovered for a day
    Destroy(Names),
    /// Bring destroyed volumes back, and the snapshots that were destroyed with them
    Recover(Names),
    /// Remove destroyed volumes, their snapshots and their data for good, now
    Eradicate(Names),
}

#[derive(Debug, Args, Default)]
pub(crate) struct ChapArgs {
    /// User name by which the host proves itself; '' turns CHAP off
    #[arg(long, value_name = "NAME")]
    pub(crate) chap_user: Option<String>,
    /// File with the host's secret, 12 to 255 characters; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) chap_secret_file: Option<PathBuf>,
    /// User name by which the array proves itself (mutual CHAP); '' turns it off
    #[arg(long, value_name = "NAME")]
    pub(crate) target_user: Option<String>,
    /// File with the array's secret
    #[arg(long, value_name = "FILE")]
    pub(crate) target_secret_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Make a host
    #[command(after_help = "Examples:
  ibid host create esx1 --iqn iqn.1998-01.com.vmware:esx1 --personality esxi
  ibid host create anyone --iqn '*'                       admits any initiator that no other host has
  ibid host create db1 --iqn iqn.2026-11.org.example:db1 --chap-user db1 --chap-secret-file secret.txt")]
    Create {
        /// 1 to 63 letters, digits, - and _
        name: String,
        /// The name of an initiator; may be given several times
        #[arg(long, value_name = "IQN")]
        iqn: Vec<String>,
        /// aix, esxi, hitachi-vsp, hpux, oracle-vm-server, solaris or vms
        #[arg(long)]
        personality: Option<String>,
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// List hosts
    List {
        /// Only these
        names: Vec<String>,
        /// Only those that meet a condition
        #[arg(long, value_name = "CONDITION")]
        filter: Option<String>,
    },
    /// Show all of one host, and the volumes that it sees
    Show {
        /// Its name
        name: String,
    },
    /// Change a host's initiators, CHAP or personality
    Set {
        /// Its name
        name: String,
        /// All its initiators from now on; may be given several times
        #[arg(long, value_name = "IQN", conflicts_with_all = ["add_iqn", "remove_iqn"])]
        iqn: Vec<String>,
        /// One initiator more
        #[arg(long, value_name = "IQN")]
        add_iqn: Vec<String>,
        /// One initiator less
        #[arg(long, value_name = "IQN")]
        remove_iqn: Vec<String>,
        /// The kind of host; '' for none
        #[arg(long)]
        personality: Option<String>,
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// Give a host another name
    Rename {
        /// Its name
        name: String,
        /// Its new name
        new_name: String,
    },
    /// Remove hosts that see no volumes
    Delete(Names),
    /// Show a volume, or for reading a snapshot, to a host
    #[command(after_help = "Examples:
  ibid host connect esx1 vm1 --lun 7
  ibid host connect backup vm1.nightly    for reading only")]
    Connect {
        /// The host
        host: String,
        /// The volume, or the snapshot as VOLUME.SUFFIX
        volume: String,
        /// The number by which the host sees it, 0 to 4095 [default: the lowest free one from 1 on]
        #[arg(long)]
        lun: Option<u64>,
    },
    /// Take a volume from a host
    Disconnect {
        /// The host
        host: String,
        /// The volume
        volume: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapCommand {
    /// Take a snapshot of each volume, all at the same instant
    #[command(after_help = "Examples:
  ibid snap create vm1 --suffix before-upgrade   takes vm1.before-upgrade
  ibid snap create db log                        takes db.8 and log.8, of one instant")]
    Create {
        /// The volumes
        #[arg(required = true)]
        volumes: Vec<String>,
        /// What follows the volume's name and a point: 1 to 63 letters, digits, - and _ [default: a number]
        #[arg(long)]
        suffix: Option<String>,
    },
    /// List snapshots
    #[command(after_help = "Example: ibid snap list --volume vm1 --filter \"created > 1795305599000\"")]
    List {
        /// Only these
        names: Vec<String>,
        /// Only those of this volume; may be given several times
        #[arg(long, value_name = "VOLUME", conflicts_with = "names")]
        volume: Vec<String>,
        /// Only destroyed ones, which wait for their eradication
        #[arg(long, conflicts_with = "all")]
        destroyed: bool,
        /// Destroyed ones too
        #[arg(long)]
        all: bool,
        /// Only those that meet a condition
        #[arg(long, value_name = "CONDITION")]
        filter: Option<String>,
    },
    /// Give a snapshot another suffix
    Rename {
        /// Its name, VOLUME.SUFFIX
        name: String,
        /// Its new suffix
        suffix: String,
    },
    /// Destroy snapshots; they can be recovered for a day
    Destroy(Names),
    /// Bring destroyed snapshots back
    Recover(Names),
    /// Remove destroyed snapshots for good, now
    Eradicate(Names),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArrayCommand {
    /// Show the array: identity, portals, settings, space
    Show,
    /// Show what the array holds, and what of it belongs to whom
    Space {
        /// Count everything now, instead of showing the last count
        #[arg(long)]
        refresh: bool,
    },
    /// Change the array's settings
    #[command(after_help = "Example: ibid array set --eradication-delay 7d --threshold 85")]
    Set {
        /// Another name
        #[arg(long)]
        name: Option<String>,
        /// How long destroyed things can be recovered: 1s to 30d (s, min, h, d)
        #[arg(long, value_name = "TIME")]
        eradication_delay: Option<String>,
        /// Tell hosts when this percentage of the capacity is in use, 1 to 100; none for never
        #[arg(long, value_name = "PERCENT")]
        threshold: Option<String>,
    },
    /// Make the array larger, while it serves
    ///
    /// The array's file is extended; a device has to have become that large before.
    #[command(after_help = "Example: ibid array grow --capacity 2T")]
    Grow {
        /// How much it may store from now on, all in all
        #[arg(long, value_name = "SIZE")]
        capacity: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScrubCommand {
    /// Begin to check everything
    Start {
        /// The most bytes to check in a second [default: 100M]
        #[arg(long, value_name = "SIZE")]
        pace: Option<String>,
    },
    /// Show how far it has come, and what damage is known
    Status,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// List alerts
    List {
        /// Those that are over, too, since the array was started
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Make a new token in the place of the old one, which ends with its sessions
    #[arg(long)]
    pub(crate) new: bool,
}
