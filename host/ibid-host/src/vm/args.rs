//! Command-line options of `vm`.

use super::export::ExportArgs;
use super::guest::GuestArgs;
use clap::{Args, Subcommand};
use virtual_disk::{DiskFormat, DiskSpec};

/// Verbs of `vm`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum VmVerb {
    /// List the virtual machines of all datastores
    List,
    /// Create a virtual machine with its disks
    Create(CreateArgs),
    /// Copy a powered-off virtual machine
    Clone(CopyArgs),
    /// Create a virtual machine from a template
    Deploy(CopyArgs),
    /// Move a virtual machine to another datastore (Storage vMotion)
    Migrate(MigrateArgs),
    /// Power on a virtual machine or show its power state
    #[command(subcommand)]
    Power(Power),
    /// Take, list, revert to or remove snapshots
    #[command(subcommand)]
    Snapshot(SnapshotVerb),
    /// Power on a virtual machine and serve its disks by NBD
    Export(ExportArgs),
    /// Perform the I/O of a guest
    Guest(GuestArgs),
    /// Delete a virtual machine and its disks
    Destroy {
        /// Name of the virtual machine
        name: String,
    },
}

/// Options of `vm create`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// Name of the virtual machine
    pub(crate) name: String,
    /// Datastore, by label or UUID
    #[arg(long, short)]
    pub(crate) datastore: String,
    /// Disk as SIZE or SIZE:FORMAT; may be repeated
    #[arg(long, value_name = "SIZE[:FORMAT]", value_parser = disk)]
    pub(crate) disk: Vec<DiskSpec>,
    /// Memory in MB, also the size of the swap file
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(4..=6_291_456))]
    pub(crate) memory: u32,
    /// Write this much data to each disk
    #[arg(long, value_name = "SIZE", value_parser = crate::cli::size)]
    pub(crate) data: Option<u64>,
    /// Seed of the data
    #[arg(long, default_value_t = 1, requires = "data")]
    pub(crate) seed: u64,
    /// Make it a template
    #[arg(long)]
    pub(crate) template: bool,
}

/// Options of `vm clone` and `vm deploy`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CopyArgs {
    /// Virtual machine or template to copy
    pub(crate) source: String,
    /// Name of the copy
    pub(crate) name: String,
    /// Datastore of the copy [default: that of the source]
    #[arg(long, short)]
    pub(crate) datastore: Option<String>,
    /// Format of the disks [default: that of the source]
    #[arg(long, short)]
    pub(crate) format: Option<DiskFormat>,
    /// Copy no data: the disks are changes to those of the newest snapshot, or of a template
    #[arg(long, conflicts_with_all = ["datastore", "format"])]
    pub(crate) linked: bool,
}

/// `vm snapshot`, of a powered-off machine.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum SnapshotVerb {
    /// Freeze the disks; later changes go to new disks
    Create {
        /// Name of the virtual machine
        name: String,
        /// Name of the snapshot
        #[arg(long, value_name = "TEXT", default_value = "snapshot")]
        label: String,
    },
    /// List the snapshots, the oldest first
    List {
        /// Name of the virtual machine
        name: String,
    },
    /// Discard all changes since the newest snapshot
    Revert {
        /// Name of the virtual machine
        name: String,
    },
    /// Remove all snapshots and keep the changes
    Remove {
        /// Name of the virtual machine
        name: String,
    },
}

/// Options of `vm migrate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MigrateArgs {
    /// Name of the virtual machine
    pub(crate) name: String,
    /// Destination datastore, by label or UUID
    #[arg(long, short)]
    pub(crate) datastore: String,
    /// Format of the disks [default: unchanged]
    #[arg(long, short)]
    pub(crate) format: Option<DiskFormat>,
    /// Power it on for the duration of the migration
    #[arg(long)]
    pub(crate) running: bool,
}

/// `vm power`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Power {
    /// Power on until Ctrl-C or for --secs, then power off
    On {
        /// Name of the virtual machine
        name: String,
        /// Seconds to run
        #[arg(long)]
        secs: Option<u64>,
    },
    /// Show whether a host has powered it on
    State {
        /// Name of the virtual machine
        name: String,
    },
}

fn disk(text: &str) -> Result<DiskSpec, String> {
    let (size, format) = text.split_once(':').unwrap_or((text, "zeroedthick"));
    let bytes = types::parse_capacity(size).map_err(|error| error.to_string())?;
    let format = format.parse().map_err(|error: virtual_disk::DiskFormatError| error.to_string())?;
    if (1 << 20..=62 << 40).contains(&bytes) && bytes.is_multiple_of(512) {
        Ok(DiskSpec { bytes, format })
    } else {
        Err("size is not between 1 MB and 62 TB in whole sectors".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_spec_has_a_size_and_optional_format() {
        assert_eq!(disk("40G"), Ok(DiskSpec { bytes: 40 << 30, format: DiskFormat::ZeroedThick }));
        assert_eq!(disk("1T:thin"), Ok(DiskSpec { bytes: 1 << 40, format: DiskFormat::Thin }));
        for wrong in ["40G:sparse", "thin", "1K", "100T", "1048577"] {
            assert!(disk(wrong).is_err(), "{wrong}");
        }
    }
}
