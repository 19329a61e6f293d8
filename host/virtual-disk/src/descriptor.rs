//! The text of a `.vmdk`: the properties of the disk and the file with its content. Written as ESXi
//! writes it; parses descriptors of other VMware products.

use std::fmt;
use thiserror::Error;

/// The unit of sizes in descriptors.
pub const SECTOR_BYTES: u64 = 512;
/// The largest descriptor that is parsed, in bytes.
pub const MAX_DESCRIPTOR_BYTES: usize = 128 << 10;
/// Maximum number of files of a disk, so that their numbers have three digits.
const MAX_EXTENTS: usize = 999;
/// Maximum size of an extent in sectors, 8 PiB.
const MAX_EXTENT_SECTORS: u64 = 1 << 44;
/// Sectors of the disk in each file of a `2gbsparse` disk but the last, as VMware chooses it.
const SPLIT_SECTORS: u64 = 4_192_256;

/// The kind of disk, from the descriptor's `createType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateType {
    /// `vmfs`: a flat file on a datastore.
    Vmfs,
    /// `vmfsRawDeviceMap`, `vmfsPassthroughRawDeviceMap`: a whole LUN.
    RawDeviceMap,
    /// `vmfsSparse`, `seSparse`: the changes since a snapshot.
    Snapshot,
    /// `monolithicFlat`: the hosted format whose blocks are at the file's offsets.
    HostedFlat,
    /// `monolithicSparse`: a hosted sparse file that contains the descriptor.
    MonolithicSparse,
    /// `twoGbMaxExtentSparse`: a hosted sparse file for each 2 GB.
    SplitSparse,
    /// Any other type of VMware's desktop products: `streamOptimized`, `twoGbMaxExtentFlat`, ….
    Hosted,
}

impl CreateType {
    fn of(text: &str) -> Self {
        match text {
            "vmfs" => Self::Vmfs,
            "vmfsRawDeviceMap" | "vmfsPassthroughRawDeviceMap" => Self::RawDeviceMap,
            "vmfsSparse" | "seSparse" => Self::Snapshot,
            "monolithicFlat" => Self::HostedFlat,
            "monolithicSparse" => Self::MonolithicSparse,
            "twoGbMaxExtentSparse" => Self::SplitSparse,
            _ => Self::Hosted,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Vmfs => "vmfs",
            Self::RawDeviceMap => "vmfsRawDeviceMap",
            Self::Snapshot => "vmfsSparse",
            Self::HostedFlat => "monolithicFlat",
            Self::MonolithicSparse => "monolithicSparse",
            Self::SplitSparse => "twoGbMaxExtentSparse",
            Self::Hosted => "custom",
        }
    }

    /// Returns whether the content is in hosted sparse files.
    pub fn is_hosted_sparse(self) -> bool {
        matches!(self, Self::MonolithicSparse | Self::SplitSparse)
    }

    /// Returns whether the type is one of VMware's desktop products, which ESXi only copies.
    pub fn is_hosted(self) -> bool {
        self.is_hosted_sparse() || matches!(self, Self::HostedFlat | Self::Hosted)
    }

    /// Returns the type of the extent in the descriptor.
    fn extent_words(self) -> &'static str {
        match self {
            Self::RawDeviceMap => "VMFSRDM",
            Self::HostedFlat | Self::Hosted => "FLAT",
            Self::Vmfs => "VMFS",
            Self::Snapshot => "VMFSSPARSE",
            Self::MonolithicSparse | Self::SplitSparse => "SPARSE",
        }
    }
}

/// The cylinders, heads and sectors reported to a BIOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskGeometry {
    /// Cylinders.
    pub cylinders: u64,
    /// Heads.
    pub heads: u64,
    /// Sectors per track.
    pub sectors: u64,
}

impl DiskGeometry {
    /// Returns the geometry that ESXi chooses for a disk of `sectors` sectors on an LSI Logic
    /// adapter, by its size in GiB.
    pub fn of(sectors: u64) -> Self {
        let (heads, track) = match sectors * SECTOR_BYTES {
            ..0x4000_0000 => (64, 32),
            0x4000_0000..0x8000_0000 => (128, 32),
            _ => (255, 63),
        };
        Self { cylinders: sectors / (heads * track), heads, sectors: track }
    }
}

/// A file with a part of the content of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorExtent {
    /// Size of the part in sectors of 512 bytes.
    pub sectors: u64,
    /// Name of the file, in the descriptor's directory.
    pub file: String,
}

/// The content of a `.vmdk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Content identifier, which changes with the content.
    pub cid: u32,
    /// The kind of disk.
    pub create_type: CreateType,
    /// The files with the content, in order; only a `SplitSparse` disk has more than one.
    pub extents: Vec<DescriptorExtent>,
    /// Whether the disk is thin. The blocks of a thick disk show whether it is zeroed. A disk in a
    /// hosted sparse format is always thin.
    pub thin: bool,
    /// The disk's identity.
    pub uuid: [u8; 16],
    /// Path of the descriptor of the disk with the content that this one lacks: in the same
    /// directory, or from the root of the datastore with a leading `/`.
    pub parent: Option<String>,
}

/// Why a text is not a valid descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DescriptorError {
    /// The first line is missing, or the text is too long.
    #[error("not a disk descriptor")]
    NotADescriptor,
    /// A required line is missing or invalid.
    #[error("descriptor field {0} is missing or invalid")]
    Field(&'static str),
    /// It has more than one extent.
    #[error("the disk has more than one extent")]
    Extents,
}

impl Descriptor {
    /// Creates the descriptor of a new disk whose content is in the file `NAME-flat.vmdk`.
    pub fn new(name: &str, bytes: u64, thin: bool, uuid: [u8; 16]) -> Self {
        Self {
            cid: 0xffff_fffe,
            create_type: CreateType::Vmfs,
            extents: extents_of(CreateType::Vmfs, name, bytes.div_ceil(SECTOR_BYTES)),
            thin,
            uuid: tagged(uuid),
            parent: None,
        }
    }

    /// Creates the descriptor of a new disk of a kind, with the files that the kind has.
    pub fn of_kind(kind: CreateType, name: &str, bytes: u64, uuid: [u8; 16]) -> Self {
        Self {
            create_type: kind,
            extents: extents_of(kind, name, bytes.div_ceil(SECTOR_BYTES)),
            ..Self::new(name, bytes, kind.is_hosted_sparse(), uuid)
        }
    }

    /// Creates the descriptor of a disk of changes, which are in the file `NAME-delta.vmdk`.
    pub fn delta(name: &str, bytes: u64, uuid: [u8; 16], parent: &str) -> Self {
        Self { thin: true, parent: Some(parent.to_owned()), ..Self::of_kind(CreateType::Snapshot, name, bytes, uuid) }
    }

    /// Returns the size in sectors.
    pub fn sectors(&self) -> u64 {
        self.extents.iter().map(|extent| extent.sectors).sum()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors() * SECTOR_BYTES
    }

    /// Returns the name of the file with the beginning of the content.
    pub(crate) fn first_file(&self) -> &str {
        self.extents.first().map_or("", |extent| &extent.file)
    }

    /// Sets the size of a disk in one file.
    pub(crate) fn set_bytes(&mut self, bytes: u64) {
        if let [extent] = self.extents.as_mut_slice() {
            extent.sectors = bytes / SECTOR_BYTES;
        }
    }

    /// Renames the disk: its files get the names that a new disk has.
    pub(crate) fn rename(&mut self, name: &str) {
        for (index, extent) in self.extents.iter_mut().enumerate() {
            extent.file = file_name(self.create_type, name, index);
        }
    }

    /// Parses a descriptor.
    pub fn parse(text: &str) -> Result<Self, DescriptorError> {
        if text.len() > MAX_DESCRIPTOR_BYTES || !text.trim_start().starts_with("# Disk DescriptorFile") {
            return Err(DescriptorError::NotADescriptor);
        }
        let value = |key: &str| {
            let assigned = text.lines().filter_map(|line| line.split_once('='));
            assigned.into_iter().find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().trim_matches('"').to_owned())
        };
        let is_extent =
            |line: &&str| ["RW ", "RDONLY ", "NOACCESS "].iter().any(|word| line.trim_start().starts_with(word));
        let extents: Option<Vec<_>> = text.lines().filter(is_extent).map(extent_line).collect();
        let extents = extents.filter(|extents| !extents.is_empty()).ok_or(DescriptorError::Field("extent"))?;
        let cid = value("CID").and_then(|v| u32::from_str_radix(&v, 16).ok()).ok_or(DescriptorError::Field("CID"))?;
        let create_type = CreateType::of(&value("createType").ok_or(DescriptorError::Field("createType"))?);
        let most = if create_type == CreateType::SplitSparse { MAX_EXTENTS } else { 1 };
        if extents.len() > most {
            return Err(DescriptorError::Extents);
        }
        Ok(Self {
            cid,
            create_type,
            extents,
            thin: create_type.is_hosted_sparse() || value("ddb.thinProvisioned").as_deref() == Some("1"),
            uuid: value("ddb.uuid").and_then(|v| uuid_bytes(&v)).unwrap_or_default(),
            parent: value("parentFileNameHint").filter(|hint| !hint.is_empty()),
        })
    }
}

/// Parses `RW 20971520 VMFS "disk-flat.vmdk"`: sectors and file. Refuses a size over 8 PiB.
fn extent_line(line: &str) -> Option<DescriptorExtent> {
    let mut words = line.trim().splitn(4, ' ').skip(1);
    let sectors = words.next()?.parse().ok().filter(|sectors| *sectors <= MAX_EXTENT_SECTORS)?;
    words.next()?;
    let name = words.next()?.split('"').nth(1)?;
    let inside = !name.is_empty() && !name.contains('/');
    inside.then(|| DescriptorExtent { sectors, file: name.to_owned() })
}

/// Returns the name of a file of the disk `name`.
fn file_name(kind: CreateType, name: &str, index: usize) -> String {
    match kind {
        CreateType::Vmfs | CreateType::HostedFlat | CreateType::Hosted => format!("{name}-flat.vmdk"),
        CreateType::RawDeviceMap => format!("{name}-rdm.vmdk"),
        CreateType::Snapshot => format!("{name}-delta.vmdk"),
        CreateType::MonolithicSparse => format!("{name}.vmdk"),
        CreateType::SplitSparse => format!("{name}-s{:03}.vmdk", index + 1),
    }
}

/// Returns the files of a new disk.
fn extents_of(kind: CreateType, name: &str, sectors: u64) -> Vec<DescriptorExtent> {
    let most = if kind == CreateType::SplitSparse { SPLIT_SECTORS } else { u64::MAX };
    let count = sectors.div_ceil(most).max(1);
    let part = |index: u64| DescriptorExtent {
        sectors: (sectors - index * most).min(most),
        file: file_name(kind, name, usize::try_from(index).unwrap_or(0)),
    };
    (0..count).map(part).collect()
}

/// Replaces the first bytes by the OUI that VMware's own UUIDs start with.
fn tagged(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[..3].copy_from_slice(&[0x60, 0x00, 0xc2]);
    uuid[3] = 0x90 | (uuid[3] & 0x0f);
    uuid
}

fn uuid_words(uuid: &[u8; 16]) -> String {
    let half = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
    format!("{}-{}", half(&uuid[..8]), half(&uuid[8..]))
}

fn uuid_bytes(words: &str) -> Option<[u8; 16]> {
    let bytes: Vec<u8> =
        words.split([' ', '-']).map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<_, _>>().ok()?;
    bytes.try_into().ok()
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geometry = DiskGeometry::of(self.sectors());
        // The last word of the long content identifier is the CID; the rest belongs to the disk.
        let content: String = self.uuid[4..].iter().map(|b| format!("{b:02x}")).collect();
        let cid = self.cid;
        writeln!(f, "# Disk DescriptorFile\nversion=1\nencoding=\"UTF-8\"\nCID={cid:08x}")?;
        // All disks of a chain have the CID of new ones.
        writeln!(f, "parentCID={:08x}", if self.parent.is_some() { cid } else { u32::MAX })?;
        writeln!(f, "isNativeSnapshot=\"no\"\ncreateType=\"{}\"", self.create_type.words())?;
        if let Some(parent) = &self.parent {
            writeln!(f, "parentFileNameHint=\"{parent}\"")?;
        }
        writeln!(f)?;
        writeln!(f, "# Extent description")?;
        for DescriptorExtent { sectors, file } in &self.extents {
            writeln!(f, "RW {sectors} {} \"{file}\"", self.create_type.extent_words())?;
        }
        writeln!(f, "\n# The Disk Data Base \n#DDB\n\nddb.adapterType = \"lsilogic\"")?;
        writeln!(f, "ddb.geometry.cylinders = \"{}\"", geometry.cylinders)?;
        writeln!(f, "ddb.geometry.heads = \"{}\"", geometry.heads)?;
        writeln!(f, "ddb.geometry.sectors = \"{}\"", geometry.sectors)?;
        writeln!(f, "ddb.longContentID = \"{content}{cid:08x}\"")?;
        if self.thin && !self.create_type.is_hosted_sparse() {
            writeln!(f, "ddb.thinProvisioned = \"1\"")?;
        }
        writeln!(f, "ddb.uuid = \"{}\"", uuid_words(&self.uuid))?;
        writeln!(f, "ddb.virtualHWVersion = \"13\"")
    }
}

#[cfg(test)]
mod tests;
