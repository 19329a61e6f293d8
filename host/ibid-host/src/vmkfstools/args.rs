//! Command-line options of `vmkfstools`.

use clap::{ArgGroup, Args, ValueEnum};
use datastore::Mode;
use virtual_disk::{CreateType, DiskFormat};

/// File system version to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileSystem {
    /// VMFS 5
    Vmfs5,
    /// VMFS 6
    Vmfs6,
}

impl From<FileSystem> for Mode {
    fn from(fs: FileSystem) -> Self {
        match fs {
            FileSystem::Vmfs5 => Self::V5,
            FileSystem::Vmfs6 => Self::V6,
        }
    }
}

/// The format of a new disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewFormat {
    /// A format of datastores.
    Vmfs(DiskFormat),
    /// `monoflat`, of VMware's desktop products.
    HostedFlat,
    /// `monosparse`, of VMware's desktop products.
    MonolithicSparse,
    /// `2gbsparse`, of VMware's desktop products.
    SplitSparse,
}

impl NewFormat {
    /// Returns the allocation of the disk; a hosted flat disk is zeroedthick.
    pub(crate) fn format(self) -> DiskFormat {
        match self {
            Self::Vmfs(format) => format,
            Self::HostedFlat => DiskFormat::ZeroedThick,
            Self::MonolithicSparse | Self::SplitSparse => DiskFormat::Thin,
        }
    }

    /// Returns the kind of the disk.
    pub(crate) fn kind(self) -> CreateType {
        match self {
            Self::Vmfs(_) => CreateType::Vmfs,
            Self::HostedFlat => CreateType::HostedFlat,
            Self::MonolithicSparse => CreateType::MonolithicSparse,
            Self::SplitSparse => CreateType::SplitSparse,
        }
    }
}

impl std::str::FromStr for NewFormat {
    type Err = virtual_disk::DiskFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "monoflat" => Ok(Self::HostedFlat),
            "monosparse" => Ok(Self::MonolithicSparse),
            "2gbsparse" => Ok(Self::SplitSparse),
            _ => text.parse().map(Self::Vmfs),
        }
    }
}

/// Options of `vmkfstools`, named as on ESXi.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("action").required(true).args([
    "createfs", "span", "create", "clone", "import", "reclaim", "write_zeros", "inflate", "eager_zero", "punch_zero", "delete", "rename",
    "chain", "grow", "lock_info", "query", "map_device",
])))]
pub(crate) struct VmkfstoolsArgs {
    /// Create a datastore on a device (naa.…:1)
    #[arg(short = 'C', long = "createfs", value_enum, ignore_case = true)]
    pub(crate) createfs: Option<FileSystem>,
    /// Label of the new datastore
    #[arg(short = 'S', long = "setfsname", value_name = "LABEL", requires = "createfs")]
    pub(crate) label: Option<String>,
    /// Size of its file blocks: 1m, 2m, 4m or 8m; vmfs5 only, as after an upgrade from VMFS 3
    #[arg(short = 'b', long = "blocksize", value_name = "SIZE", value_parser = block_size, requires = "createfs")]
    pub(crate) block_size: Option<u32>,
    /// First sector of the partition of the new datastore
    #[arg(long, value_name = "LBA", default_value_t = datastore::DEFAULT_PARTITION_LBA, requires = "createfs")]
    pub(crate) partition_lba: u64,
    /// Extend the datastore whose first device is PATH by this device (naa.…:1)
    #[arg(short = 'Z', long = "spanfs", value_name = "DEVICE")]
    pub(crate) span: Option<String>,
    /// Create a virtual disk of this size (B, S, K, M, G, T; default K)
    #[arg(short = 'c', long = "createvirtualdisk", value_name = "SIZE", value_parser = size)]
    pub(crate) create: Option<u64>,
    /// zeroedthick, eagerzeroedthick, thin; with -i also 2gbsparse, monosparse, monoflat
    #[arg(short = 'd', long = "diskformat", value_name = "FORMAT")]
    pub(crate) format: Option<NewFormat>,
    /// Create a raw device mapping of this device, in virtual compatibility mode
    #[arg(short = 'r', long = "createrdm", value_name = "DEVICE")]
    pub(crate) map_device: Option<String>,
    /// Copy this virtual disk
    #[arg(short = 'i', long = "clonevirtualdisk", value_name = "SOURCE")]
    pub(crate) clone: Option<String>,
    /// Create a virtual disk with the content of this local file (raw, or a sparse VMDK)
    #[arg(long, value_name = "FILE")]
    pub(crate) import: Option<std::path::PathBuf>,
    /// Reclaim this percentage of free space with a balloon file (VMFS 5)
    #[arg(short = 'y', long = "reclaimBlocks", value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) reclaim: Option<u32>,
    /// Overwrite a virtual disk with zeros
    #[arg(short = 'w', long = "writezeros")]
    pub(crate) write_zeros: bool,
    /// Convert a thin disk to eagerzeroedthick
    #[arg(short = 'j', long = "inflatedisk")]
    pub(crate) inflate: bool,
    /// Zero the blocks of a thick disk that are not zeroed yet
    #[arg(short = 'k', long = "eagerzero")]
    pub(crate) eager_zero: bool,
    /// Free the blocks of a thin disk that hold only zeros
    #[arg(short = 'K', long = "punchzero")]
    pub(crate) punch_zero: bool,
    /// Delete a virtual disk
    #[arg(short = 'U', long = "deletevirtualdisk")]
    pub(crate) delete: bool,
    /// Rename this virtual disk
    #[arg(short = 'E', long = "renamevirtualdisk", value_name = "SOURCE")]
    pub(crate) rename: Option<String>,
    /// Check that a descriptor and its data file match
    #[arg(short = 'e', long = "chainConsistent")]
    pub(crate) chain: bool,
    /// Extend a virtual disk to this size
    #[arg(short = 'X', long = "extendvirtualdisk", value_name = "SIZE", value_parser = size)]
    pub(crate) grow: Option<u64>,
    /// Show the lock of a file
    #[arg(short = 'D', long = "lockinfo")]
    pub(crate) lock_info: bool,
    /// Show the attributes of a datastore
    #[arg(short = 'P', long = "queryfs")]
    pub(crate) query: bool,
    /// File (/vmfs/volumes/DATASTORE/…), datastore or device
    pub(crate) path: String,
}

/// Parses the size of a file block; returns MiB.
fn block_size(text: &str) -> Result<u32, String> {
    match size(text).map(|bytes| bytes >> 20) {
        Ok(mib @ (1 | 2 | 4 | 8)) => Ok(mib as u32),
        _ => Err("the block size must be 1m, 2m, 4m or 8m".to_owned()),
    }
}

/// Parses a disk size: a number and `B`, `S` (sectors), `K`, `M`, `G` or `T`; kilobytes without a
/// unit.
fn size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "b" => 1,
        "s" => 512,
        "" | "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(format!("'{text}' is not a size: use a number and b, s, k, m, g or t")),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    // 62 TB is ESXi's limit.
    let limit = 62 << 40;
    match bytes {
        Some(bytes) if (1 << 20..=limit).contains(&bytes) && bytes.is_multiple_of(512) => Ok(bytes),
        _ => Err("size is not between 1 MB and 62 TB in whole sectors".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: VmkfstoolsArgs,
    }

    fn parse(line: &str) -> Result<VmkfstoolsArgs, clap::error::ErrorKind> {
        let words = std::iter::once("vmkfstools").chain(line.split(' '));
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.kind())
    }

    #[test]
    fn published_command_lines_are_parsed() {
        let create = parse("-c 100G -d eagerzeroedthick /vmfs/volumes/ds1/a.vmdk").unwrap();
        assert_eq!(
            (create.create, create.format),
            (Some(100 << 30), Some(NewFormat::Vmfs(DiskFormat::EagerZeroedThick)))
        );
        let clone = parse("-i /vmfs/volumes/ds1/a.vmdk -d thin /vmfs/volumes/ds2/b.vmdk").unwrap();
        assert_eq!(clone.clone.as_deref(), Some("/vmfs/volumes/ds1/a.vmdk"));
        let hosted =
            ["monoflat", "monosparse", "2gbsparse"].map(|name| parse(&format!("-i a -d {name} b")).unwrap().format);
        let kinds = [NewFormat::HostedFlat, NewFormat::MonolithicSparse, NewFormat::SplitSparse];
        assert_eq!(hosted, kinds.map(Some));
        assert_eq!(parse("-y 99 /vmfs/volumes/ds1").unwrap().reclaim, Some(99));
        assert_eq!(parse("-C vmfs5 -S ds1 naa.1:1").unwrap().createfs, Some(FileSystem::Vmfs5));
        assert!(parse("--punchzero a.vmdk").unwrap().punch_zero);
    }

    #[test]
    fn sizes_have_units_and_limits() {
        let bytes = |size: &str| parse(&format!("-c {size} a.vmdk")).map(|args| args.create.unwrap());
        assert_eq!([bytes("2048"), bytes("2048k"), bytes("2m"), bytes("4096s")], [Ok(2 << 20); 4]);
        for wrong in ["512", "63T", "1048577b", "x", "1.5G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn exactly_one_action_is_required() {
        use clap::error::ErrorKind;
        assert_eq!(parse("-w -j a.vmdk").unwrap_err(), ErrorKind::ArgumentConflict);
        assert_eq!(parse("a.vmdk").unwrap_err(), ErrorKind::MissingRequiredArgument);
        assert_eq!([parse("-y 0 a"), parse("-y 100 a")].map(|line| line.unwrap_err()), [ErrorKind::ValueValidation; 2]);
    }
}
