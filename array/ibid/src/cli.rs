//! The command line.

mod account;
mod api_client;
mod delivery;
mod link;
mod lists;
mod mediator;
mod pod;
mod policy;
mod vgroup;

pub(crate) use account::{AccountCommand, RoleArgument};
pub(crate) use api_client::ApiClientCommand;
pub(crate) use delivery::{
    DeliveryCommand, DestinationArgs, DestinationArgument, EncryptionArgument, MailServerArgs, SeverityArgument,
};
pub(crate) use link::LinkCommand;
pub(crate) use lists::{ListArgs, MonitorArgs, Names};
pub(crate) use mediator::MediatorCommand;
pub(crate) use pod::{ConfirmArgs, ContentsArgs, PodCommand, StretchedCommand};
pub(crate) use policy::{MemberArgs, PolicyCommand, RuleArgs};
pub(crate) use vgroup::VolumeGroupCommand;

use crate::top::{Order, Screen};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Software iSCSI block array with VAAI offloads, inline deduplication and snapshots.
#[derive(Debug, Parser)]
#[command(
    name = "ibid",
    version,
    about = "Software iSCSI block array with VAAI offloads, inline deduplication and snapshots",
    arg_required_else_help = true,
    after_help = "Examples:
  ibid serve --data /srv/array                              run an array (created at first start)
  ibid volume create vm1 --size 1TiB --data /srv/array      create a volume
  ibid host create esx1 --iqn iqn.1998-01.com.vmware:esx1   create a host
  ibid host connect esx1 vm1                                connect the volume to it

Commands find the array by --data DIR on the same machine, or by IBID_URL and IBID_TOKEN."
)]
pub(crate) struct Cli {
    /// Directory of the array, on this machine
    #[arg(long, global = true, env = "IBID_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of the commands that call the REST API of a running array.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection to the array")]
pub(crate) struct ClientOptions {
    /// Address of the array's API: HOST:PORT or https://HOST:PORT
    #[arg(long, global = true, env = "IBID_URL", value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Trust certificates issued by the authorities in this PEM file
    #[arg(long, global = true, env = "IBID_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust only the certificate with this SHA-256 fingerprint
    #[arg(long, global = true, env = "IBID_FINGERPRINT", value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
    /// Skip TLS certificate verification (vulnerable to interception)
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
}

/// A group of commands that call the REST API.
#[derive(Debug, Args)]
pub(crate) struct Admin<C: Subcommand> {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientOptions,
    #[command(subcommand)]
    pub(crate) command: C,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an array in the foreground
    Serve(ServeArgs),
    /// Create, change, list and remove volumes
    #[command(visible_alias = "vol")]
    Volume(Admin<VolumeCommand>),
    /// Create, list and remove snapshots of volumes
    #[command(visible_alias = "snapshot")]
    Snap(Admin<SnapCommand>),
    /// Take snapshots by rules and let them expire
    Policy(Admin<PolicyCommand>),
    /// Group volumes under a common name, GROUP/VOLUME
    #[command(visible_alias = "volume-group")]
    Vgroup(Admin<VolumeGroupCommand>),
    /// Keep volumes in pods, under the names POD::VOLUME
    Pod(Admin<PodCommand>),
    /// Create, change, list and remove hosts; connect volumes to them
    Host(Admin<HostCommand>),
    /// Show the array and its space, change it, connect it to others
    Array(Admin<ArrayCommand>),
    /// Verify all stored data against its checksums
    Scrub(Admin<ScrubCommand>),
    /// Create, change, list and remove administrators; show the audit trail
    Admin(Admin<AccountCommand>),
    /// Register programs that log in with signed tokens (OAuth 2.0)
    ApiClient(Admin<ApiClientCommand>),
    /// List alerts, such as low space or damaged data
    Alert(Admin<AlertCommand>),
    /// Deliver alerts by mail, syslog, SNMP traps and web hooks
    Delivery(Admin<DeliveryCommand>),
    /// Watch IOPS, bandwidth, latency and VAAI commands live
    Top(TopArgs),
    /// Show the admin's API token, or replace it
    Token(TokenArgs),
    /// Check the on-disk structures of a stopped array
    Fsck(crate::fsck::FsckArgs),
    /// Change the passphrase of an encrypted array that is stopped
    Rekey(crate::keys::RekeyArgs),
    /// Run the mediator of pods, on a third machine; list its registers
    #[command(subcommand)]
    Mediator(MediatorCommand),
    /// Examine the machine, the drive and the addresses of an array
    Doctor(DoctorArgs),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = "Example: ibid completion bash > /etc/bash_completion.d/ibid")]
    Completion {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands to a directory
    #[command(after_help = "Example: ibid manual /usr/local/share/man/man1")]
    Manual {
        /// Directory; created if it does not exist
        directory: PathBuf,
    },
}

/// Examine the machine, the drive and the addresses of an array
///
/// Each finding says what to do. Writes a file of 1 MiB to the directory and removes it. Takes up
/// to 3 s; the array may run.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 no problems; 1 at least one error; 3 warnings only.

Examples:
  ibid doctor --data /srv/array
  ibid doctor --config /etc/ibid/ibid.toml --json")]
pub(crate) struct DoctorArgs {
    /// Read the settings of the array from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// iSCSI portal address; repeatable [default: 127.0.0.1:3260]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) iscsi: Vec<SocketAddr>,
    /// REST API address [default: 127.0.0.1:8443]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) api: Option<SocketAddr>,
    /// Block device (or file) of the array, instead of a file in DIR
    #[arg(long, value_name = "PATH")]
    pub(crate) device: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run an array in the foreground
///
/// The first start creates the array. SIGTERM or Ctrl-C stops it cleanly. Acknowledged writes
/// survive a crash as well. Logs go to standard error. IBID_LOG sets their level: error, warn,
/// info, debug or trace, also for single parts, such as IBID_LOG=info,rest=debug.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  ibid serve --data /srv/array --capacity 200GiB
  ibid serve --data /srv/array --device /dev/nvme1n1 --iscsi 192.0.2.10:3260 --iscsi 198.51.100.10:3260
  ibid serve --data /srv/array --key-file /etc/ibid/passphrase
  ibid serve --config /etc/ibid/ibid.toml
  ibid serve --ephemeral --ready-fd 3 3> ready.json

The configuration file has the same keys: data, name, number, capacity, device,
key-file, iscsi = [\"ADDR:PORT\"], api, link, memory, index-memory, read-cache, io, write-cache, overcommit,
exit-after-failure, log-file, log-format. Command-line options override it.
While the array runs, DIR/endpoints.json lists the addresses that it listens on.

DIR remembers the device of its array, so later starts need no --device. A device or file serves one
array on one machine.

Exit status: 0 stopped by a signal; 1 not started, or stopped at once by a second signal; 2 wrong
command line; 3 stopped after a drive error; 4 stopped without waiting for a drive that does not
answer; 7 another machine has opened the array. A supervisor should restart the array after 3 and 4:
no acknowledged data is lost.")]
pub(crate) struct ServeArgs {
    /// Name of a new array [default: ibid]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Number of a new array, 1 to 255 [default: 1]
    ///
    /// Part of the relative identifiers of the target ports. Arrays that hosts see as one device
    /// need different numbers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) number: Option<u8>,
    /// Size of a new array's drive [default: 64GiB, or the whole device]
    ///
    /// At most the free space of the file system, unless --overcommit is given. If less than 64
    /// GiB is free, the default is 90 % of the free space.
    ///
    /// Hosts can fill 94 % of 64 GiB, and 87 % of 4 GiB; the rest is for the log, for metadata, and
    /// for freeing space. `ibid array show` has the figure of an array.
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<String>,
    /// Allow a capacity beyond the free space of the file system
    ///
    /// For a file system that will be extended, or that is itself thin. If it becomes full, hosts
    /// get "no space" until it has space again.
    #[arg(long)]
    pub(crate) overcommit: bool,
    /// Store on this block device (or file) instead of a file in DIR
    ///
    /// Needed for the first start only. The device must be blank at both ends. Choose a stable
    /// path, such as one in /dev/disk/by-id.
    #[arg(long, value_name = "PATH")]
    pub(crate) device: Option<PathBuf>,
    /// Encrypt a new array; the passphrase is in this file
    ///
    /// 8 to 1024 bytes, without the line end. Later starts need it, too: the array cannot be read
    /// without it. `ibid rekey` changes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// iSCSI portal address; repeatable [default: 127.0.0.1:3260]
    ///
    /// Port 0 chooses a free port.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) iscsi: Vec<SocketAddr>,
    /// REST API address [default: 127.0.0.1:8443]
    ///
    /// Port 0 chooses a free port.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) api: Option<SocketAddr>,
    /// Address on which other arrays connect; without it, none can
    ///
    /// `ibid array connection-key` makes the key that they need. Port 0 chooses a free port; the
    /// usual port is 8117.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) link: Option<SocketAddr>,
    /// Memory for data structures, 64M or more [default: 1/4 of RAM]
    ///
    /// The dirty blocks, block map, slot table, deduplication index and caches share this memory.
    /// Writes slow down when it is used up.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Part of --memory for the deduplication index, at most half
    ///
    /// The default is 1/16 of the RAM. With --memory, it is 1/4 of the memory that the slot table
    /// leaves free.
    #[arg(long, value_name = "SIZE")]
    pub(crate) index_memory: Option<String>,
    /// Memory for cached data, besides --memory [default: 1/4 of RAM]
    ///
    /// Keeps stored data that hosts read, in reads of up to 256 KiB. The default is 0 if --memory
    /// leaves less than half of the RAM. With 0, data is cached by the system alone (page cache).
    #[arg(long, value_name = "SIZE")]
    pub(crate) read_cache: Option<String>,
    /// How the drive is read [default: auto]
    ///
    /// All reads use threads if there is no read cache, or if the system lacks what `auto` needs:
    /// O_DIRECT, and Linux 6.5 for cachestat(2).
    #[arg(long, value_enum)]
    pub(crate) io: Option<DriveReads>,
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Acknowledge writes before they are durable (reported as WCE=1)
    #[arg(long)]
    pub(crate) write_cache: bool,
    /// Seconds until the program ends after a drive error [default: 30]
    ///
    /// Until then hosts are served reads only (NOT READY otherwise). A supervisor should restart
    /// the program: the next start recovers everything.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub(crate) exit_after_failure: Option<u32>,
    /// Write the log to this file instead of standard error
    ///
    /// SIGHUP opens the file again, after a rotation has renamed it.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Form of the log's lines
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// Start without acknowledged operations of a damaged log
    #[arg(long)]
    pub(crate) accept_log_loss: bool,
    /// Serve a damaged array for reading only
    ///
    /// Lost ranges return MEDIUM ERROR and are listed; writes fail with WRITE PROTECTED. Nothing on
    /// the file or device changes but the owner block. Changes of settings end with the program.
    #[arg(long)]
    pub(crate) salvage: bool,
    /// State that the array was put back to an image of an earlier time
    ///
    /// Its pods on two arrays then serve nothing before they have received all content from the
    /// other array. For the first start after the image was put back; later starts know it.
    #[arg(long, conflicts_with = "salvage")]
    pub(crate) restored: bool,
    /// Replace a lost API token of the admin
    #[arg(long)]
    pub(crate) new_token: bool,
    /// Serve a new array from a temporary directory; remove it at the end
    ///
    /// For tests: all ports are free ones by default. TMPDIR sets the parent of the directory.
    /// After SIGKILL the directory remains.
    #[arg(long, conflicts_with_all = ["device", "config", "salvage", "accept_log_loss", "restored", "new_token"])]
    pub(crate) ephemeral: bool,
    /// Write one line of JSON to this descriptor when the array serves
    ///
    /// The line has the content of DIR/endpoints.json, the directory and the path of the admin's
    /// token. The descriptor is closed after it.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) ready_fd: Option<i32>,
}

/// How the drive is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DriveReads {
    /// Past the page cache, asynchronous, if the result is then cached
    #[default]
    Auto,
    /// On threads, through the page cache
    Threads,
}

/// Form of the lines of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Time, level, message and fields.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

const MONITOR_EXAMPLE: &str = "Examples:
  ibid volume monitor vm1                       the last two seconds
  ibid volume monitor vm1 --repeat 0            every two seconds, until Ctrl-C
  ibid array monitor --historical 24h           the last day";

/// Watch IOPS, bandwidth, latency and VAAI commands live
///
/// Keys: 1 to 6 or Tab choose a screen, s the order, ? lists the others, q quits. If the input or
/// the output is not a terminal, one reading is printed. NO_COLOR turns colours off.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ibid top                                  the active volumes
  ibid top --screen connections --sort bytes
  ibid top --once --screen hosts | head     one reading as text")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) client: ClientOptions,
    #[command(flatten)]
    pub(crate) options: TopOptions,
}

#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    /// First screen
    #[arg(long, value_enum, default_value_t)]
    pub(crate) screen: Screen,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: Order,
    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..=86_400))]
    pub(crate) interval: u64,
    /// Print one reading as text
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Create an empty volume
    #[command(after_help = "Example: ibid volume create vm1 --size 1.5TiB")]
    Create {
        /// 1 to 63 letters, digits, - and _; GROUP/NAME or POD::NAME
        name: String,
        /// 1M to 4P; a multiple of 512 bytes, rounded up to 4 KiB
        #[arg(long)]
        size: String,
    },
    /// Show IOPS, bandwidth and latency of volumes
    #[command(after_help = MONITOR_EXAMPLE)]
    Monitor {
        /// Show only these volumes
        names: Vec<String>,
        #[command(flatten)]
        args: MonitorArgs,
    },
    /// List volumes
    #[command(after_help = "Example: ibid volume list --filter \"name='vm-*' and provisioned > 1099511627776\"")]
    List {
        /// List only these volumes
        names: Vec<String>,
        /// List only destroyed volumes
        #[arg(long, conflicts_with = "all")]
        destroyed: bool,
        /// List destroyed volumes as well
        #[arg(long)]
        all: bool,
        /// Show the space that each volume uses
        #[arg(long)]
        space: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show one volume in full
    Show {
        /// Volume name
        name: String,
    },
    /// Change the size of a volume
    Resize {
        /// Volume name
        name: String,
        /// New size
        #[arg(long)]
        size: String,
        /// Allow a smaller size; a destroyed snapshot keeps the old data
        #[arg(long)]
        truncate: bool,
    },
    /// Create a volume from another volume or from a snapshot
    ///
    /// A copy takes the same time at any size: source and copy share their data until one of them
    /// is written. With --overwrite, the previous content of the volume becomes a destroyed
    /// snapshot, which can be recovered until its eradication.
    #[command(after_help = "Examples:
  ibid volume copy vm1 vm2                             clone a volume
  ibid volume copy vm1.before-upgrade vm1 --overwrite  restore a volume from a snapshot
  ibid snap recover vm1.undo-7                         recover the content that the restore replaced")]
    Copy {
        /// Source volume, or source snapshot as VOLUME.SUFFIX
        source: String,
        /// Name of the copy
        name: String,
        /// Replace the content of an existing volume
        #[arg(long)]
        overwrite: bool,
    },
    /// Set the QoS limits and the space alert of a volume
    #[command(after_help = "Example: ibid volume set vm1 --bandwidth 200M --iops 5000 --threshold 80")]
    Set {
        /// Volume name
        name: String,
        /// Bytes per second, 1M to 512G; none for no limit
        #[arg(long, value_name = "SIZE")]
        bandwidth: Option<String>,
        /// Reads and writes per second, 100 to 100000000; none for no limit
        #[arg(long, value_name = "COUNT")]
        iops: Option<String>,
        /// Warn hosts at this percentage written, 1 to 100; none for never
        #[arg(long, value_name = "PERCENT")]
        threshold: Option<String>,
    },
    /// Move a volume into a pod, or out of it; hosts notice nothing
    #[command(after_help = "Examples:
  ibid volume move vm1 dc1          it becomes dc1::vm1
  ibid volume move dc1::vm1 --out   it becomes vm1")]
    Move {
        /// Volume name
        name: String,
        /// Pod
        #[arg(required_unless_present = "out")]
        pod: Option<String>,
        /// Move the volume out of its pod
        #[arg(long, conflicts_with = "pod")]
        out: bool,
    },
    /// Rename a volume
    Rename {
        /// Volume name
        name: String,
        /// New name
        new_name: String,
    },
    /// Destroy volumes and their snapshots; recoverable for 24 hours
    ///
    /// `ibid array set --eradication-delay` changes how long destroyed volumes can be recovered.
    Destroy(Names),
    /// Recover destroyed volumes and the snapshots destroyed with them
    Recover(Names),
    /// Remove destroyed volumes and their snapshots permanently, now
    Eradicate(Names),
}

#[derive(Debug, Args, Default)]
pub(crate) struct ChapArgs {
    /// CHAP user name of the host; '' turns CHAP off
    #[arg(long, value_name = "NAME")]
    pub(crate) chap_user: Option<String>,
    /// File with the CHAP secret of the host, 12 to 255 characters
    ///
    /// `-` reads the secret from standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) chap_secret_file: Option<PathBuf>,
    /// CHAP user name of the array (mutual CHAP); '' turns it off
    #[arg(long, value_name = "NAME")]
    pub(crate) target_user: Option<String>,
    /// File with the CHAP secret of the array
    #[arg(long, value_name = "FILE")]
    pub(crate) target_secret_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// Create a host
    #[command(after_help = "Examples:
  ibid host create esx1 --iqn iqn.1998-01.com.vmware:esx1 --personality esxi
  ibid host create anyone --iqn '*'                       accept every initiator that no other host has
  ibid host create db1 --iqn iqn.2026-11.org.example:db1 --chap-user db1 --chap-secret-file secret.txt")]
    Create {
        /// 1 to 63 letters, digits, - and _
        name: String,
        /// Initiator name; repeatable
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
        /// List only these hosts
        names: Vec<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show IOPS, bandwidth and latency of hosts
    #[command(after_help = MONITOR_EXAMPLE)]
    Monitor {
        /// Show only these hosts
        names: Vec<String>,
        #[command(flatten)]
        args: MonitorArgs,
    },
    /// Show over which portals hosts are logged in, and how fast they are
    Paths {
        /// Show only these hosts
        names: Vec<String>,
    },
    /// Show one host and its volumes
    Show {
        /// Host name
        name: String,
    },
    /// Change the initiators, CHAP or personality of a host
    Set {
        /// Host name
        name: String,
        /// Replace all initiators; repeatable
        #[arg(long, value_name = "IQN", conflicts_with_all = ["add_iqn", "remove_iqn"])]
        iqn: Vec<String>,
        /// Add an initiator; repeatable
        #[arg(long, value_name = "IQN")]
        add_iqn: Vec<String>,
        /// Remove an initiator; repeatable
        #[arg(long, value_name = "IQN")]
        remove_iqn: Vec<String>,
        /// Personality; '' for none
        #[arg(long)]
        personality: Option<String>,
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// Set the arrays whose paths a host should use
    ///
    /// For volumes of pods on two arrays. The ports of these arrays are active/optimized for the
    /// host, those of the other array of a pod active/non-optimized: hosts use them if no optimized
    /// path is left. Set it at both arrays.
    #[command(after_help = "Examples:
  ibid host prefer esx1 alpha         use the paths to alpha while there are any
  ibid host prefer esx1 --none        use the paths to all arrays alike")]
    Prefer {
        /// Host name
        name: String,
        /// This array and connected arrays
        #[arg(value_name = "ARRAY", required_unless_present = "none")]
        arrays: Vec<String>,
        /// Prefer no array
        #[arg(long, conflicts_with = "arrays")]
        none: bool,
    },
    /// Rename a host
    Rename {
        /// Host name
        name: String,
        /// New name
        new_name: String,
    },
    /// Delete hosts that have no connected volumes
    Delete(Names),
    /// Connect a volume, or read-only a snapshot, to a host
    #[command(after_help = "Examples:
  ibid host connect esx1 vm1 --lun 7
  ibid host connect backup vm1.nightly    read-only")]
    Connect {
        /// Host name
        host: String,
        /// Volume, or snapshot as VOLUME.SUFFIX
        volume: String,
        /// LUN, 0 to 4095 [default: the lowest free LUN from 1]
        #[arg(long)]
        lun: Option<u64>,
    },
    /// Disconnect a volume or snapshot from a host
    Disconnect {
        /// Host name
        host: String,
        /// Volume, or snapshot as VOLUME.SUFFIX
        volume: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapCommand {
    /// Create a snapshot of each volume, all at the same instant
    #[command(after_help = "Examples:
  ibid snap create vm1 --suffix before-upgrade   creates vm1.before-upgrade
  ibid snap create db log                        creates db.8 and log.8 at one instant")]
    Create {
        /// Volume names
        #[arg(required = true)]
        volumes: Vec<String>,
        /// 1 to 63 letters, digits, - and _ [default: a number]
        ///
        /// The name of a snapshot is VOLUME.SUFFIX.
        #[arg(long)]
        suffix: Option<String>,
    },
    /// List snapshots
    #[command(after_help = "Example: ibid snap list --volume vm1 --filter \"created > 1795305599000\"")]
    List {
        /// List only these snapshots
        names: Vec<String>,
        /// List only snapshots of this volume; repeatable
        #[arg(long, value_name = "VOLUME", conflicts_with = "names")]
        volume: Vec<String>,
        /// List only destroyed snapshots
        #[arg(long, conflicts_with = "all")]
        destroyed: bool,
        /// List destroyed snapshots as well
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Change the suffix of a snapshot
    Rename {
        /// Snapshot name, VOLUME.SUFFIX
        name: String,
        /// New suffix
        suffix: String,
    },
    /// Destroy snapshots; recoverable for 24 hours
    ///
    /// `ibid array set --eradication-delay` changes how long destroyed snapshots can be recovered.
    Destroy(Names),
    /// Recover destroyed snapshots
    Recover(Names),
    /// Remove destroyed snapshots permanently, now
    Eradicate(Names),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArrayCommand {
    /// Show the array: identity, portals, settings, space
    Show,
    /// Show the space that the array uses, by kind of data
    Space {
        /// Recount now instead of showing the last count
        #[arg(long)]
        refresh: bool,
    },
    /// Change the settings of the array
    #[command(after_help = "Example: ibid array set --eradication-delay 7d --threshold 85")]
    Set {
        /// New name
        #[arg(long)]
        name: Option<String>,
        /// Time to recover destroyed objects: 1s to 30d (s, min, h, d)
        #[arg(long, value_name = "TIME")]
        eradication_delay: Option<String>,
        /// Warn hosts at this percentage used, 1 to 100; none for never
        #[arg(long, value_name = "PERCENT")]
        threshold: Option<String>,
        /// Time between two scrubs, 1h to 366d; none for never
        #[arg(long, value_name = "TIME")]
        scrub_interval: Option<String>,
        /// Bytes that a scrub verifies per second, 1M or more
        #[arg(long, value_name = "SIZE")]
        scrub_pace: Option<String>,
    },
    /// Show IOPS, bandwidth and latency of the array
    #[command(after_help = MONITOR_EXAMPLE)]
    Monitor(MonitorArgs),
    /// Grow the array while it serves
    ///
    /// A file is extended. A device must have the new size already.
    #[command(after_help = "Example: ibid array grow --capacity 2T")]
    Grow {
        /// New size of the drive
        #[arg(long, value_name = "SIZE")]
        capacity: String,
    },
    #[command(flatten)]
    Link(LinkCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScrubCommand {
    /// Start a scrub
    Start {
        /// Bytes to verify per second, 1M or more [default: the setting]
        #[arg(long, value_name = "SIZE")]
        pace: Option<String>,
    },
    /// Show the progress of the scrub and the known damage
    Status,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// List alerts
    List {
        /// List closed alerts as well, since the array started
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        list: ListArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// Create a new token; the old token and its sessions end
    #[arg(long)]
    pub(crate) new: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientOptions,
}
