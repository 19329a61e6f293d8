//! The text of a `.vmdk`: the properties of the disk and the file with its content. Written as ESXi
//! writes it; parses descriptors of other VMware products.

use std::fmt;
use thiserror::Error;

/// The unit of sizes in descriptors.
pub const SECTOR_BYTES: u64 = 512;
/// The largest descriptor that is parsed, in bytes.
pub const MAX_DESCRIPTOR_BYTES: usize = 64 << 10;

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
    /// Any other type of VMware's desktop products: `monolithicSparse`, `twoGbMaxExtentSparse`, ….
    Hosted,
}

impl CreateType {
    fn of(text: &str) -> Self {
        match text {
            "vmfs" => Self::Vmfs,
            "vmfsRawDeviceMap" | "vmfsPassthroughRawDeviceMap" => Self::RawDeviceMap,
            "vmfsSparse" | "seSparse" => Self::Snapshot,
            "monolithicFlat" => Self::HostedFlat,
            _ => Self::Hosted,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Vmfs => "vmfs",
            Self::RawDeviceMap => "vmfsRawDeviceMap",
            Self::Snapshot => "vmfsSparse",
            Self::HostedFlat => "monolithicFlat",
            Self::Hosted => "monolithicSparse",
        }
    }

    /// Returns the type of the extent in the descriptor.
    fn extent_words(self) -> &'static str {
        match self {
            Self::RawDeviceMap => "VMFSRDM",
            Self::HostedFlat | Self::Hosted => "FLAT",
            Self::Vmfs => "VMFS",
            Self::Snapshot => "VMFSSPARSE",
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

/// The content of a `.vmdk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Content identifier, which changes with the content.
    pub cid: u32,
    /// The kind of disk.
    pub create_type: CreateType,
    /// Size in sectors of 512 bytes.
    pub sectors: u64,
    /// The file with the content, in the descriptor's directory.
    pub extent: String,
    /// Whether the disk is thin. The blocks of a thick disk show whether it is zeroed.
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
            sectors: bytes.div_ceil(SECTOR_BYTES),
            extent: format!("{name}-flat.vmdk"),
            thin,
            uuid: tagged(uuid),
            parent: None,
        }
    }

    /// Creates the descriptor of a disk of changes, which are in the file `NAME-delta.vmdk`.
    pub fn delta(name: &str, bytes: u64, uuid: [u8; 16], parent: &str) -> Self {
        Self {
            create_type: CreateType::Snapshot,
            extent: format!("{name}-delta.vmdk"),
            parent: Some(parent.to_owned()),
            ..Self::new(name, bytes, true, uuid)
        }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors * SECTOR_BYTES
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
        let mut extents = text.lines().filter_map(extent_line);
        let (sectors, extent) = extents.next().ok_or(DescriptorError::Field("extent"))?;
        if extents.next().is_some() {
            return Err(DescriptorError::Extents);
        }
        let cid = value("CID").and_then(|v| u32::from_str_radix(&v, 16).ok()).ok_or(DescriptorError::Field("CID"))?;
        let create_type = value("createType").ok_or(DescriptorError::Field("createType"))?;
        Ok(Self {
            cid,
            create_type: CreateType::of(&create_type),
            sectors,
            extent,
            thin: value("ddb.thinProvisioned").as_deref() == Some("1"),
            uuid: value("ddb.uuid").and_then(|v| uuid_bytes(&v)).unwrap_or_default(),
            parent: value("parentFileNameHint").filter(|hint| !hint.is_empty()),
        })
    }
}

/// Parses `RW 20971520 VMFS "disk-flat.vmdk"`: sectors and file. Refuses a size over 2^63 bytes.
fn extent_line(line: &str) -> Option<(u64, String)> {
    let mut words = line.trim().splitn(4, ' ');
    matches!(words.next(), Some("RW" | "RDONLY" | "NOACCESS")).then_some(())?;
    let sectors = words.next()?.parse().ok().filter(|sectors| *sectors <= (1 << 63) / SECTOR_BYTES)?;
    words.next()?;
    let name = words.next()?.split('"').nth(1)?;
    let inside = !name.is_empty() && !name.contains('/');
    inside.then(|| (sectors, name.to_owned()))
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
        let geometry = DiskGeometry::of(self.sectors);
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
        writeln!(f, "RW {} {} \"{}\"\n", self.sectors, self.create_type.extent_words(), self.extent)?;
        writeln!(f, "# The Disk Data Base \n#DDB\n\nddb.adapterType = \"lsilogic\"")?;
        writeln!(f, "ddb.geometry.cylinders = \"{}\"", geometry.cylinders)?;
        writeln!(f, "ddb.geometry.heads = \"{}\"", geometry.heads)?;
        writeln!(f, "ddb.geometry.sectors = \"{}\"", geometry.sectors)?;
        writeln!(f, "ddb.longContentID = \"{content}{cid:08x}\"")?;
        if self.thin {
            writeln!(f, "ddb.thinProvisioned = \"1\"")?;
        }
        writeln!(f, "ddb.uuid = \"{}\"", uuid_words(&self.uuid))?;
        writeln!(f, "ddb.virtualHWVersion = \"13\"")
    }
}

#[cfg(test)]
mod tests;
