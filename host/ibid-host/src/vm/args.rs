//! The command line of `vm`.

use clap::{Args, Subcommand};
use virtual_disk::{DiskSpec, Format};

/// What to do with machines.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum VmVerb {
    /// List the machines of all datastores
    List,
    /// Make a machine with its disks
    Create(CreateArgs),
    /// Copy a machine that is powered off
    Clone(CopyArgs),
    /// Make a machine from a template
    Deploy(CopyArgs),
    /// Move a machine to another datastore (Storage vMotion)
    Migrate(MigrateArgs),
    /// Power a machine on, or ask whether it is
    #[command(subcommand)]
    Power(Power),
    /// Remove a machine and its disks
    Destroy {
        /// The machine
        name: String,
    },
}

/// Options of `vm create`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// Its name
    pub(crate) name: String,
    /// The datastore, by label or UUID
    #[arg(long, short)]
    pub(crate) datastore: String,
    /// A disk: SIZE or SIZE:FORMAT (zeroedthick, eagerzeroedthick, thin); may be given several times
    #[arg(long, value_name = "SIZE[:FORMAT]", value_parser = disk)]
    pub(crate) disk: Vec<DiskSpec>,
    /// Memory in MB, which is the size of the swap file of a machine that runs
    #[arg(long, value_name = "MB", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(4..=6_291_456))]
    pub(crate) memory: u32,
    /// Make it a template
    #[arg(long)]
    pub(crate) template: bool,
}

/// Options of `vm clone` and `vm deploy`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CopyArgs {
    /// The machine or template to copy
    pub(crate) source: String,
    /// The name of the copy
    pub(crate) name: String,
    /// The datastore of the copy; the same one without
    #[arg(long, short)]
    pub(crate) datastore: Option<String>,
    /// The format of its disks; those of the source without
    #[arg(long, short)]
    pub(crate) format: Option<Format>,
}

/// Options of `vm migrate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct MigrateArgs {
    /// The machine
    pub(crate) name: String,
    /// Where to
    #[arg(long, short)]
    pub(crate) datastore: String,
    /// The format of its disks there; those that they have without
    #[arg(long, short)]
    pub(crate) format: Option<Format>,
    /// Power it on for the time of the migration
    #[arg(long)]
    pub(crate) running: bool,
}

/// `vm power`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Power {
    /// Power on; the machine runs until Ctrl-C, or for as long as told, and is powered off then
    On {
        /// The machine
        name: String,
        /// Seconds to run
        #[arg(long)]
        secs: Option<u64>,
    },
    /// Whether a host has it powered on
    State {
        /// The machine
        name: String,
    },
}

fn disk(text: &str) -> Result<DiskSpec, String> {
    let (size, format) = text.split_once(':').unwrap_or((text, "zeroedthick"));
    let bytes = types::parse_capacity(size).map_err(|error| error.to_string())?;
    let format = format.parse().map_err(|error: virtual_disk::FormatError| error.to_string())?;
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
    fn a_disk_is_a_size_and_perhaps_a_format() {
        assert_eq!(disk("40G"), Ok(DiskSpec { bytes: 40 << 30, format: Format::ZeroedThick }));
        assert_eq!(disk("1T:thin"), Ok(DiskSpec { bytes: 1 << 40, format: Format::Thin }));
        for wrong in ["40G:sparse", "thin", "1K", "100T", "1048577"] {
            assert!(disk(wrong).is_err(), "{wrong}");
        }
    }
}
