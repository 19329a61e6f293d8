//! A file descriptor: kind, map root and readers of a file or directory.

use super::lock::{Guarded, Kind, LockHeader};
use crate::VolumeUuid;
pub(crate) use crate::volume::READERS;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Pointers in a descriptor.
pub(crate) const ROOTS: usize = 16;
/// Descriptor of the root directory.
pub(crate) const ROOT_DIRECTORY: u32 = 0;
/// Maximum height of the tree of pages: 16 × 1008³ leaves exceed the maximum number of blocks.
pub(crate) const MAX_HEIGHT: u8 = 3;

/// Kind of a descriptor in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
}

impl FileKind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::File => 1,
            Self::Directory => 2,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::File),
            2 => Some(Self::Directory),
            _ => None,
        }
    }
}

/// A mount that reads a file: its slot and the generation of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) slot: u16,
    pub(crate) incarnation: u64,
}

const INCARNATION_BITS: u32 = 48;

/// On-disk sector of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Descriptor {
    lock: LockHeader,
    kind: u8,
    pub(crate) height: u8,
    reserved: [u8; 2],
    pub(crate) parent: U32,
    /// Identity of the file among all files that have used this descriptor.
    pub(crate) file_id: U64,
    /// Length in bytes; 0 for a directory.
    pub(crate) size: U64,
    /// Blocks of a file, or pages of entries of a directory.
    pub(crate) leaves: U64,
    /// Milliseconds since 1970.
    pub(crate) modified: U64,
    /// Pages of pointers.
    pub(crate) pages: U32,
    unused: [u8; 12],
    pub(crate) roots: [U32; ROOTS],
    readers: [U64; READERS],
    rest: [u8; 68],
    crc: U32,
}

const _: () = assert!(size_of::<Descriptor>() == super::SECTOR_BYTES);

impl Guarded for Descriptor {
    fn lock(&self) -> &LockHeader {
        &self.lock
    }

    #[cfg(test)]
    fn lock_mut(&mut self) -> &mut LockHeader {
        &mut self.lock
    }
}

impl Descriptor {
    /// Creates free descriptor `index`.
    pub(crate) fn free(index: u32, volume: VolumeUuid) -> Self {
        Self {
            lock: LockHeader::new(Kind::Descriptor, index, volume),
            kind: 0,
            height: 0,
            reserved: [0; 2],
            parent: U32::ZERO,
            file_id: U64::ZERO,
            size: U64::ZERO,
            leaves: U64::ZERO,
            modified: U64::ZERO,
            pages: U32::ZERO,
            unused: [0; 12],
            roots: [U32::ZERO; ROOTS],
            readers: [U64::ZERO; READERS],
            rest: [0; 68],
            crc: U32::ZERO,
        }
    }

    /// Returns the kind; `None` if the descriptor is free.
    pub(crate) fn kind(&self) -> Option<FileKind> {
        FileKind::of_number(self.kind)
    }

    /// Makes it an empty file or directory. Its identity is the generation of the lock, which no
    /// later file can have.
    pub(crate) fn begin(&mut self, kind: FileKind, parent: u32, now: u64) {
        let id = self.lock.generation();
        self.end();
        self.kind = kind.number();
        self.parent = parent.into();
        self.file_id = id.into();
        self.modified = now.into();
    }

    /// Makes the descriptor free.
    pub(crate) fn end(&mut self) {
        self.kind = 0;
        self.height = 0;
        self.parent = U32::ZERO;
        self.file_id = U64::ZERO;
        self.size = U64::ZERO;
        self.leaves = U64::ZERO;
        self.modified = U64::ZERO;
        self.pages = U32::ZERO;
        self.roots = [U32::ZERO; ROOTS];
        self.readers = [U64::ZERO; READERS];
    }

    /// Returns the readers.
    pub(crate) fn readers(&self) -> impl Iterator<Item = Reader> + '_ {
        let parse = |packed: &U64| {
            let packed = packed.get();
            let reader = Reader {
                slot: (packed >> INCARNATION_BITS) as u16,
                incarnation: packed & ((1 << INCARNATION_BITS) - 1),
            };
            (packed != 0).then_some(reader)
        };
        self.readers.iter().filter_map(parse)
    }

    /// Adds a reader unless it is present. Returns false if the list is full.
    pub(crate) fn add_reader(&mut self, reader: Reader) -> bool {
        if self.readers().any(|other| other == reader) {
            return true;
        }
        let Some(place) = self.readers.iter_mut().find(|packed| packed.get() == 0) else { return false };
        *place = (u64::from(reader.slot) << INCARNATION_BITS | reader.incarnation).into();
        true
    }

    /// Keeps the readers for which `keep` returns true.
    pub(crate) fn retain_readers(&mut self, keep: impl Fn(Reader) -> bool) {
        let kept: Vec<Reader> = self.readers().filter(|reader| keep(*reader)).collect();
        self.readers = [U64::ZERO; READERS];
        for reader in kept {
            self.add_reader(reader);
        }
    }
}
