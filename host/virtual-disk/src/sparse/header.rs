//! The header of a hosted sparse file, and the layout of a new one (VMware Virtual Disk Format 1.1,
//! "Hosted Sparse Extents"). Units are sectors of 512 bytes; all numbers are little-endian.

use crate::descriptor::SECTOR_BYTES;
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Sectors of a grain of new files: 64 KiB.
const GRAIN_SECTORS: u64 = 128;
/// Entries of a grain table, which is 4 sectors long.
pub(crate) const TABLE_ENTRIES: u64 = 512;
const TABLE_SECTORS: u64 = TABLE_ENTRIES * ENTRY_BYTES / SECTOR_BYTES;
/// Bytes of an entry of a grain directory or table.
pub(crate) const ENTRY_BYTES: u64 = 4;
/// The largest number of grains in a file, which limits the memory for its tables to 64 MiB.
const MAX_GRAINS: u64 = 1 << 24;
/// Sectors for the descriptor in a file that contains one.
const DESCRIPTOR_SECTORS: u64 = 20;

const MAGIC: [u8; 4] = *b"KDMV";
/// Flag of valid line ends in the header.
const VALID_LINE_ENDS: u32 = 1;
/// Flag of a second grain directory with its own tables.
const REDUNDANT: u32 = 2;
/// Flag of compressed grains.
const COMPRESSED: u32 = 1 << 16;
/// Line ends that a transfer as text would change: `\n`, space, `\r\n`.
const LINE_ENDS: [u8; 4] = *b"\n \r\n";

/// Why a file is not a usable hosted sparse file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SparseError {
    /// The magic number is missing.
    #[error("'{0}' is not a hosted sparse file")]
    NotSparse(String),
    /// The version of the format.
    #[error(
        "version {0} of the hosted sparse format is not supported; convert the disk with `qemu-img convert -O vmdk`"
    )]
    Version(u32),
    /// The grains are compressed (`streamOptimized`).
    #[error("compressed disks are not supported; convert the disk with `qemu-img convert -O vmdk`")]
    Compressed,
    /// A field of the header is not valid.
    #[error("header field {0} of the hosted sparse file is not valid")]
    Field(&'static str),
    /// An entry of a directory or table is not valid.
    #[error("the grain tables refer to sector {0}, which no grain can have")]
    Entry(u32),
    /// Two entries of the tables are equal.
    #[error("the grain tables refer to sector {0} more than once")]
    Shared(u32),
    /// The table for new grains does not exist.
    #[error("the hosted sparse file lacks a grain table; copy the disk with `vmkfstools -i` to write it")]
    NoTable,
    /// The disk is larger than the format allows.
    #[error("a disk in a hosted sparse format has at most 1 TB")]
    TooLarge,
}

#[derive(Clone, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    version: U32,
    flags: U32,
    capacity: U64,
    grain_size: U64,
    descriptor_offset: U64,
    descriptor_size: U64,
    num_gtes_per_gt: U32,
    rgd_offset: U64,
    gd_offset: U64,
    over_head: U64,
    unclean_shutdown: u8,
    line_ends: [u8; 4],
    compress_algorithm: U16,
    pad: [u8; 433],
}

const _: () = assert!(size_of::<RawHeader>() as u64 == SECTOR_BYTES);

/// The header of a hosted sparse file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SparseHeader {
    /// Size of the part of the disk in this file.
    pub(crate) capacity: u64,
    /// Size of a grain.
    pub(crate) grain: u64,
    /// Offset and size of the descriptor; size 0 without one.
    pub(crate) descriptor: (u64, u64),
    /// Offset of the grain directory.
    pub(crate) directory: u64,
    /// Offset of the second grain directory.
    pub(crate) redundant: Option<u64>,
    /// Offset of the first grain.
    pub(crate) overhead: u64,
}

impl SparseHeader {
    /// Lays out a new file: header, descriptor, both directories with their tables, grains.
    ///
    /// # Errors
    /// [`SparseError::TooLarge`] above 1 TiB.
    pub(crate) fn new(capacity: u64, with_descriptor: bool) -> Result<Self, SparseError> {
        if capacity.div_ceil(GRAIN_SECTORS) > MAX_GRAINS {
            return Err(SparseError::TooLarge);
        }
        let descriptor = if with_descriptor { (1, DESCRIPTOR_SECTORS) } else { (0, 0) };
        let mut header =
            Self { capacity, grain: GRAIN_SECTORS, descriptor, directory: 0, redundant: None, overhead: 0 };
        let set = header.directory_sectors() + header.tables() * TABLE_SECTORS;
        let redundant = 1 + descriptor.1;
        header.redundant = Some(redundant);
        header.directory = redundant + set;
        header.overhead = (redundant + 2 * set).next_multiple_of(GRAIN_SECTORS);
        Ok(header)
    }

    /// Returns whether a file starts like a hosted sparse file.
    pub(crate) fn is_start_of(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Parses the first sector of a file, whose name is for the error.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Self, SparseError> {
        let (raw, _) = RawHeader::read_from_prefix(bytes).map_err(|_| SparseError::NotSparse(name.to_owned()))?;
        if raw.magic != MAGIC {
            return Err(SparseError::NotSparse(name.to_owned()));
        }
        let flags = raw.flags.get();
        if flags & COMPRESSED != 0 || raw.compress_algorithm.get() != 0 {
            return Err(SparseError::Compressed);
        }
        if !matches!(raw.version.get(), 1 | 2) {
            return Err(SparseError::Version(raw.version.get()));
        }
        let header = Self {
            capacity: raw.capacity.get(),
            grain: raw.grain_size.get(),
            descriptor: (raw.descriptor_offset.get(), raw.descriptor_size.get()),
            directory: raw.gd_offset.get(),
            redundant: (flags & REDUNDANT != 0).then_some(raw.rgd_offset.get()),
            overhead: raw.over_head.get(),
        };
        let offset = |sector: u64| sector < u64::from(u32::MAX);
        let checks = [
            (flags & VALID_LINE_ENDS == 0 || raw.line_ends == LINE_ENDS, "of line ends"),
            // A grain is in one block of a datastore.
            (header.grain.is_power_of_two() && (8..=2048).contains(&header.grain), "grainSize"),
            (u64::from(raw.num_gtes_per_gt.get()) == TABLE_ENTRIES, "numGTEsPerGT"),
            (offset(header.descriptor.0) && header.descriptor.1 <= 1 << 16, "descriptorOffset"),
            (header.directory > 0 && offset(header.directory), "gdOffset"),
            (header.redundant.is_none_or(|at| at > 0 && offset(at)), "rgdOffset"),
            (offset(header.overhead), "overHead"),
        ];
        if let Some((_, field)) = checks.into_iter().find(|(valid, _)| !valid) {
            return Err(SparseError::Field(field));
        }
        if header.capacity.div_ceil(header.grain) > MAX_GRAINS {
            return Err(SparseError::TooLarge);
        }
        Ok(header)
    }

    /// Returns the first sector of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let redundant = if self.redundant.is_some() { REDUNDANT } else { 0 };
        let raw = RawHeader {
            magic: MAGIC,
            version: U32::new(1),
            flags: U32::new(VALID_LINE_ENDS | redundant),
            capacity: U64::new(self.capacity),
            grain_size: U64::new(self.grain),
            descriptor_offset: U64::new(self.descriptor.0),
            descriptor_size: U64::new(self.descriptor.1),
            num_gtes_per_gt: U32::new(TABLE_ENTRIES as u32),
            rgd_offset: U64::new(self.redundant.unwrap_or(0)),
            gd_offset: U64::new(self.directory),
            over_head: U64::new(self.overhead),
            unclean_shutdown: 0,
            line_ends: LINE_ENDS,
            compress_algorithm: U16::new(0),
            pad: [0; 433],
        };
        raw.as_bytes().to_vec()
    }

    /// Returns the number of grains.
    pub(crate) fn grains(&self) -> u64 {
        self.capacity.div_ceil(self.grain)
    }

    /// Returns the number of grain tables.
    pub(crate) fn tables(&self) -> u64 {
        self.grains().div_ceil(TABLE_ENTRIES)
    }

    fn directory_sectors(&self) -> u64 {
        (self.tables() * ENTRY_BYTES).div_ceil(SECTOR_BYTES)
    }

    /// Returns the entries of a new directory at this sector: its tables follow it.
    pub(crate) fn new_directory(&self, at: u64) -> Vec<u8> {
        let first = at + self.directory_sectors();
        let sectors = (0..self.tables()).map(|table| (first + table * TABLE_SECTORS) as u32);
        sectors.flat_map(u32::to_le_bytes).collect()
    }
}

/// Returns the little-endian numbers of a directory or table.
pub(crate) fn entries(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap_or_default())).collect()
}
