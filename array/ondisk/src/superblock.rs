//! The superblock, which selects the current checkpoint.
//!
//! It has four copies, written one after the other. Two equal copies form a quorum.

use crate::geometry::{ArrayGeometry, GeometryError};
use thiserror::Error;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of one copy in bytes.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Number of copies. Copy `n` starts at byte `n * 16384`.
pub const SUPERBLOCK_COPIES: usize = 4;
/// Number of copies that must agree.
pub const SUPERBLOCK_QUORUM: usize = 2;
/// Maximum number of runs that a manifest may occupy.
pub const MAX_MANIFEST_RUNS: usize = 192;

const MAGIC: [u8; 8] = *b"IBIDSUP\0";
/// Version of an array without streams and patches, of one with streams, and of one that lists its
/// features. A program that does not know all of them refuses the array.
const VERSION: u16 = 3;
const VERSION_WITH_STREAMS: u16 = 4;
const VERSION_WITH_FEATURES: u16 = 5;
/// Bits of the features.
const HAS_STREAMS: u32 = 1;
const HAS_PATCHES: u32 = 2;
const HAS_INTERIOR_PATCHES: u32 = 4;
const COPY_STRIDE: u64 = 16384;
const SECTOR: usize = 512;

/// A run of bytes within one segment that holds a part of the manifest. Another segment holds a
/// second copy at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ManifestRun {
    segment: U32,
    mirror: U32,
    sector: U32,
    bytes: U32,
    crc: U32,
}

impl ManifestRun {
    /// Creates a run of `bytes` bytes that starts at `sector` of `segment` and of `mirror`. `crc`
    /// is the CRC32C of those bytes.
    pub fn new(segment: u32, mirror: u32, sector: u32, bytes: u32, crc: u32) -> Self {
        let (segment, mirror, sector) = (segment.into(), mirror.into(), sector.into());
        Self { segment, mirror, sector, bytes: bytes.into(), crc: crc.into() }
    }

    /// Returns the segment number.
    pub fn segment(&self) -> u32 {
        self.segment.get()
    }

    /// Returns the number of the segment with the second copy.
    pub fn mirror(&self) -> u32 {
        self.mirror.get()
    }

    /// Returns the first sector.
    pub fn sector(&self) -> u32 {
        self.sector.get()
    }

    /// Returns the length in bytes. The rest of the last sector is undefined.
    pub fn bytes(&self) -> u32 {
        self.bytes.get()
    }

    /// Returns the CRC32C of the bytes.
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }
}

/// Position in the log at which replay starts after this checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Offset in the ring at which the next group starts, unless it wrapped to 0.
    pub head: u64,
    /// Sequence number of that group.
    pub sequence: u64,
    /// LSN of its first record. The checkpoint includes all earlier records.
    pub lsn: u64,
    /// Epoch of the log.
    pub epoch: u64,
    /// Header checksum of the preceding group.
    pub previous: u32,
}

/// Decoded content of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Array id.
    pub array: [u8; 16],
    /// Checkpoint number. The highest one held by a quorum is current.
    pub sequence: u64,
    /// Division of the drive.
    pub geometry: ArrayGeometry,
    /// Position at which log replay starts.
    pub log: LogPosition,
    /// The manifest lists streams, and the log may hold records of them.
    pub has_streams: bool,
    /// The manifest lists patches.
    pub has_patches: bool,
    /// Pages above the leaves may be among those that have patches. Only if `has_patches`.
    pub has_interior_patches: bool,
    /// Parts of the manifest, in order.
    pub manifest: Vec<ManifestRun>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SuperblockBytes {
    magic: [u8; 8],
    version: U16,
    copy: U16,
    runs: U32,
    array: [u8; 16],
    sequence: U64,
    capacity: U64,
    log_bytes: U64,
    segment_bytes: U64,
    log_head: U64,
    log_sequence: U64,
    log_lsn: U64,
    log_epoch: U64,
    log_previous: U32,
    /// 0 before version 5.
    features: U32,
    reserved: [u8; 136],
    manifest: [ManifestRun; MAX_MANIFEST_RUNS],
    crc: U32,
    padding: [u8; 12],
}

const _: () = assert!(size_of::<SuperblockBytes>() == SUPERBLOCK_BYTES);
const CRC_AT: usize = std::mem::offset_of!(SuperblockBytes, crc);

/// Reasons why no superblock can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SuperblockError {
    /// No two copies agree.
    #[error("no two copies of the superblock agree: not an array, or damaged")]
    NoQuorum,
    /// The format version is not supported.
    #[error("format version {0} is not supported; expected {VERSION} to {VERSION_WITH_FEATURES}")]
    Version(u16),
    /// The array has something that this program does not know.
    #[error("the array states features {0:#x} of its format that this program does not know; use a newer one")]
    Features(u32),
    /// The geometry is not valid for this format.
    #[error("invalid superblock: {0}")]
    Geometry(#[from] GeometryError),
}

impl SuperblockError {
    /// True if the array is of a format that this program does not know. Nothing says that it is
    /// damaged.
    pub fn is_unknown_format(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Features(_))
    }
}

/// Returns the byte offset of a copy.
pub fn superblock_offset(copy: usize) -> u64 {
    assert!(copy < SUPERBLOCK_COPIES);
    copy as u64 * COPY_STRIDE
}

impl Superblock {
    /// Encodes one copy.
    pub fn encode(&self, copy: usize) -> Vec<u8> {
        assert!(self.manifest.len() <= MAX_MANIFEST_RUNS);
        let mut manifest = [ManifestRun::new(0, 0, 0, 0, 0); MAX_MANIFEST_RUNS];
        manifest[..self.manifest.len()].copy_from_slice(&self.manifest);
        let interior = if self.has_interior_patches { HAS_INTERIOR_PATCHES } else { 0 };
        let (version, features) = match (self.has_patches, self.has_streams) {
            (false, false) => (VERSION, 0),
            (false, true) => (VERSION_WITH_STREAMS, 0),
            (true, false) => (VERSION_WITH_FEATURES, HAS_PATCHES | interior),
            (true, true) => (VERSION_WITH_FEATURES, HAS_PATCHES | interior | HAS_STREAMS),
        };
        let mut bytes = SuperblockBytes {
            magic: MAGIC,
            version: version.into(),
            copy: u16::try_from(copy).unwrap_or(u16::MAX).into(),
            runs: u32::try_from(self.manifest.len()).unwrap_or(u32::MAX).into(),
            array: self.array,
            sequence: self.sequence.into(),
            capacity: self.geometry.capacity.into(),
            log_bytes: self.geometry.log_bytes.into(),
            segment_bytes: self.geometry.segment_bytes.into(),
            log_head: self.log.head.into(),
            log_sequence: self.log.sequence.into(),
            log_lsn: self.log.lsn.into(),
            log_epoch: self.log.epoch.into(),
            log_previous: self.log.previous.into(),
            features: features.into(),
            reserved: [0; 136],
            manifest,
            crc: U32::ZERO,
            padding: [0; 12],
        };
        bytes.crc = crc_fast::crc32_iscsi(&bytes.as_bytes()[..CRC_AT]).into();
        bytes.as_bytes().to_vec()
    }

    /// Decodes one copy. Returns `Ok(None)` if the copy is torn or was never written.
    fn decode(bytes: &[u8], copy: usize) -> Result<Option<Self>, SuperblockError> {
        let Ok(stored) = SuperblockBytes::read_from_bytes(bytes) else { return Ok(None) };
        let is_valid = stored.magic == MAGIC
            && stored.crc.get() == crc_fast::crc32_iscsi(&bytes[..CRC_AT])
            && stored.copy.get() as usize == copy
            && stored.runs.get() as usize <= MAX_MANIFEST_RUNS;
        if !is_valid {
            return Ok(None);
        }
        let features = match stored.version.get() {
            VERSION => 0,
            VERSION_WITH_STREAMS => HAS_STREAMS,
            VERSION_WITH_FEATURES => stored.features.get(),
            other => return Err(SuperblockError::Version(other)),
        };
        let is_known = features & !(HAS_STREAMS | HAS_PATCHES | HAS_INTERIOR_PATCHES) == 0;
        let is_needed = stored.version.get() != VERSION_WITH_FEATURES || features & HAS_PATCHES != 0;
        if !is_known || !is_needed {
            return Err(SuperblockError::Features(features));
        }
        let geometry = ArrayGeometry {
            capacity: stored.capacity.get(),
            log_bytes: stored.log_bytes.get(),
            segment_bytes: stored.segment_bytes.get(),
        };
        let log = LogPosition {
            head: stored.log_head.get(),
            sequence: stored.log_sequence.get(),
            lsn: stored.log_lsn.get(),
            epoch: stored.log_epoch.get(),
            previous: stored.log_previous.get(),
        };
        Ok(Some(Self {
            array: stored.array,
            sequence: stored.sequence.get(),
            geometry: geometry.check()?,
            log,
            has_streams: features & HAS_STREAMS != 0,
            has_patches: features & HAS_PATCHES != 0,
            has_interior_patches: features & HAS_INTERIOR_PATCHES != 0,
            manifest: stored.manifest[..stored.runs.get() as usize].to_vec(),
        }))
    }

    /// Returns the copies that do not hold this superblock.
    ///
    /// They are rewritten before a newer superblock is written. Otherwise two crashes in a row
    /// could leave no two equal copies.
    pub fn stale_copies(&self, copies: &[Vec<u8>; SUPERBLOCK_COPIES]) -> Vec<usize> {
        (0..SUPERBLOCK_COPIES).filter(|copy| copies[*copy] != self.encode(*copy)).collect()
    }

    /// Returns the geometry of an array whose creation ended before the second copy was written.
    ///
    /// The first copy is that of the first checkpoint, complete or torn; the second is blank or
    /// torn; the others are blank. The log must be blank as well: an array that was ever opened
    /// has written to it.
    pub fn interrupted_creation(copies: &[Vec<u8>; SUPERBLOCK_COPIES]) -> Option<ArrayGeometry> {
        let stored = SuperblockBytes::read_from_bytes(&copies[0]).ok()?;
        let log = [&stored.log_sequence, &stored.log_lsn].map(|number| number.get());
        let is_first = stored.magic == MAGIC
            && stored.version.get() == VERSION
            && (stored.copy.get(), stored.sequence.get(), stored.log_head.get()) == (0, 1, 0)
            && log == [1, 1];
        let geometry = ArrayGeometry {
            capacity: stored.capacity.get(),
            log_bytes: stored.log_bytes.get(),
            segment_bytes: stored.segment_bytes.get(),
        };
        let geometry = geometry.check().ok().filter(|_| is_first && Self::choose(copies).is_err())?;
        let expected = Self::decode(&copies[0], 0).ok().flatten().map(|superblock| superblock.encode(1));
        let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        // A drive writes a sector as a whole.
        let is_torn = copies[1].chunks(SECTOR).enumerate().all(|(sector, bytes)| {
            let whole = expected.as_ref().and_then(|expected| expected.chunks(SECTOR).nth(sector));
            is_blank(bytes) || whole == Some(bytes)
        });
        (is_torn && copies[2..].iter().all(|copy| is_blank(copy))).then_some(geometry)
    }

    /// Selects the newest superblock that two of the copies hold.
    ///
    /// # Errors
    ///
    /// Fails if no quorum exists, or if the version or the geometry is not supported.
    pub fn choose(copies: &[Vec<u8>; SUPERBLOCK_COPIES]) -> Result<Self, SuperblockError> {
        let mut valid = Vec::new();
        for (copy, bytes) in copies.iter().enumerate() {
            valid.extend(Self::decode(bytes, copy)?);
        }
        valid.sort_by_key(|superblock| std::cmp::Reverse(superblock.sequence));
        let is_quorum = |pair: &&[Self]| pair.iter().all(|superblock| *superblock == pair[0]);
        valid.windows(SUPERBLOCK_QUORUM).find(is_quorum).map(|pair| pair[0].clone()).ok_or(SuperblockError::NoQuorum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock(sequence: u64) -> Superblock {
        Superblock {
            array: *b"sixteen bytes id",
            sequence,
            geometry: ArrayGeometry::for_capacity(1 << 30).unwrap(),
            log: LogPosition { head: 4096, sequence: 5, lsn: 6, epoch: 8, previous: 9 },
            has_streams: false,
            has_patches: false,
            has_interior_patches: false,
            manifest: vec![ManifestRun::new(1, 9, 2, 3, 4), ManifestRun::new(5, 10, 6, 7, 8)],
        }
    }

    fn copies(sequences: [u64; 4]) -> [Vec<u8>; 4] {
        std::array::from_fn(|copy| superblock(sequences[copy]).encode(copy))
    }

    #[test]
    fn golden_bytes() {
        let bytes = superblock(0x0A).encode(2);
        assert_eq!(&bytes[..8], b"IBIDSUP\0");
        assert_eq!(bytes[8..16], [3, 0, 2, 0, 2, 0, 0, 0]);
        assert_eq!(&bytes[16..32], b"sixteen bytes id");
        assert_eq!(bytes[32..48], [10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0]);
        assert_eq!(bytes[96..100], [9, 0, 0, 0]);
        assert_eq!(bytes[240..252], [1, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(CRC_AT, 4080);
    }

    #[test]
    fn version_states_whether_there_are_streams() {
        let with_streams = Superblock { has_streams: true, ..superblock(9) };
        let mut copies = std::array::from_fn(|copy| with_streams.encode(copy));
        assert_eq!(copies[1][8..10], [4, 0]);
        assert_eq!(Superblock::choose(&copies), Ok(with_streams));
        set(&mut copies, 8, 6);
        let refused = Superblock::choose(&copies).unwrap_err();
        assert_eq!(refused.to_string(), "format version 6 is not supported; expected 3 to 5");
    }

    /// Changes a byte of all copies.
    fn set(copies: &mut [Vec<u8>; 4], at: usize, value: u8) {
        for copy in copies {
            copy[at] = value;
            let crc = crc_fast::crc32_iscsi(&copy[..CRC_AT]);
            copy[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }

    #[test]
    fn features_are_stated_from_version_5_on() {
        // A program that does not know bit 2 refuses 6 and 7, as this one refuses bit 3.
        for (has_streams, has_interior_patches, features) in
            [(false, false, 2), (true, false, 3), (false, true, 6), (true, true, 7)]
        {
            let superblock = Superblock { has_streams, has_patches: true, has_interior_patches, ..superblock(9) };
            let copies = std::array::from_fn(|copy| superblock.encode(copy));
            assert_eq!((copies[1][8], copies[1][100]), (5, features));
            assert_eq!(Superblock::choose(&copies), Ok(superblock));
        }
        let superblock = Superblock { has_patches: true, ..superblock(9) };
        let mut copies = std::array::from_fn(|copy| superblock.encode(copy));
        for features in [10, 14, 5, 4, 1, 0] {
            set(&mut copies, 100, features);
            assert_eq!(Superblock::choose(&copies), Err(SuperblockError::Features(features.into())));
        }
    }

    #[test]
    fn newest_quorum_is_selected() {
        assert_eq!(Superblock::choose(&copies([9, 9, 9, 9])), Ok(superblock(9)));
        assert_eq!(Superblock::choose(&copies([9, 8, 8, 8])).unwrap().sequence, 8, "one copy is not enough");
        assert_eq!(Superblock::choose(&copies([9, 9, 8, 8])).unwrap().sequence, 9);
        let mut torn = copies([9, 8, 8, 8]);
        torn[1][300] ^= 1;
        assert_eq!(Superblock::choose(&torn).unwrap().sequence, 8);
        assert_eq!(superblock(8).stale_copies(&torn), [0, 1]);
        torn[2].fill(0);
        assert_eq!(Superblock::choose(&torn), Err(SuperblockError::NoQuorum));
    }
}
