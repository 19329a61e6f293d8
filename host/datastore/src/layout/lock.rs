//! The lock header of every sector of shared metadata, and the trait of such sectors.

use super::{Image, VERSION, image_of, is_sealed, seal};
use crate::VolumeUuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"IBLK";
const FREE: u8 = 0;
const EXCLUSIVE: u8 = 1;
/// Flag of a lock that ends with the transaction that took it.
const TRANSIENT: u16 = 1;

/// A lock owner: one mount of a datastore by a host, until unmount, crash or expulsion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner {
    /// Heartbeat slot.
    pub slot: u16,
    /// Generation of the slot during this mount.
    pub incarnation: u64,
    /// UUID that the host chose for this mount.
    pub uuid: [u8; 16],
}

/// Kind of a locked sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    DescriptorCluster = 1,
    PageCluster = 2,
    BlockCluster = 3,
    Descriptor = 4,
}

#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct LockHeader {
    magic: [u8; 4],
    kind: u8,
    mode: u8,
    slot: U16,
    /// Grows with every change of the sector. Two images of a sector are never equal, so a compare
    /// is meaningful.
    generation: U64,
    incarnation: U64,
    owner: [u8; 16],
    index: U32,
    version: U16,
    flags: U16,
    volume: [u8; 16],
}

const _: () = assert!(size_of::<LockHeader>() == 64);

impl LockHeader {
    /// Creates a free lock of generation 1.
    pub(crate) fn new(kind: Kind, index: u32, volume: VolumeUuid) -> Self {
        Self {
            magic: MAGIC,
            kind: kind as u8,
            mode: FREE,
            slot: U16::ZERO,
            generation: U64::new(1),
            incarnation: U64::ZERO,
            owner: [0; 16],
            index: index.into(),
            version: VERSION.into(),
            flags: U16::ZERO,
            volume: volume.0,
        }
    }

    /// Returns the owner.
    pub(crate) fn owner(&self) -> Option<LockOwner> {
        let owner = || LockOwner { slot: self.slot.get(), incarnation: self.incarnation.get(), uuid: self.owner };
        (self.mode == EXCLUSIVE).then(owner)
    }

    /// Sets or clears the owner and increments the generation.
    pub(crate) fn set_owner(&mut self, owner: Option<LockOwner>) {
        self.mode = if owner.is_some() { EXCLUSIVE } else { FREE };
        let owner = owner.unwrap_or(LockOwner { slot: 0, incarnation: 0, uuid: [0; 16] });
        self.slot = owner.slot.into();
        self.incarnation = owner.incarnation.into();
        self.owner = owner.uuid;
        self.flags = U16::ZERO;
        self.generation = (self.generation.get() + 1).into();
    }

    /// Returns whether the lock ends with the transaction of its owner. A file that stays open has
    /// another kind of lock.
    pub(crate) fn is_transient(&self) -> bool {
        self.owner().is_some() && self.flags.get() & TRANSIENT != 0
    }

    /// Returns the generation: the number of changes of the sector.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    fn is(&self, kind: Kind, index: u32, volume: VolumeUuid) -> bool {
        self.magic == MAGIC
            && self.kind == kind as u8
            && self.mode <= EXCLUSIVE
            && self.index.get() == index
            && self.version.get() == VERSION
            && self.volume == volume.0
    }
}

/// Returns the lock of a sector of any kind; `None` if it is not valid metadata of this volume.
pub(crate) fn lock_of(image: &Image, volume: VolumeUuid) -> Option<LockHeader> {
    let (header, _) = LockHeader::read_from_prefix(image).ok()?;
    let sound = header.magic == MAGIC && header.mode <= EXCLUSIVE && header.volume == volume.0 && is_sealed(image);
    sound.then_some(header)
}

/// Returns the same sector with another owner.
pub(crate) fn with_owner(image: &Image, owner: Option<LockOwner>) -> Image {
    let mut new = *image;
    if let Ok((header, _)) = LockHeader::mut_from_prefix(&mut new) {
        header.set_owner(owner);
    }
    seal(&mut new);
    new
}

/// Returns the same sector locked by `owner` for one transaction.
pub(crate) fn with_transaction(image: &Image, owner: LockOwner) -> Image {
    let mut new = *image;
    if let Ok((header, _)) = LockHeader::mut_from_prefix(&mut new) {
        header.set_owner(Some(owner));
        header.flags = TRANSIENT.into();
    }
    seal(&mut new);
    new
}

/// A sector with a lock.
pub(crate) trait Guarded: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Clone {
    /// Returns the lock.
    fn lock(&self) -> &LockHeader;
    /// Returns the lock.
    #[cfg(test)]
    fn lock_mut(&mut self) -> &mut LockHeader;

    /// Encodes the sector with its checksum.
    fn encode(&self) -> Image {
        let mut image = image_of(self.as_bytes());
        seal(&mut image);
        image
    }

    /// Decodes a sector if it is item `index` of its kind on that volume and its checksum is
    /// correct.
    fn decode(image: &Image, kind: Kind, index: u32, volume: VolumeUuid) -> Option<Self> {
        let sector = Self::read_from_bytes(image).ok()?;
        (is_sealed(image) && sector.lock().is(kind, index, volume)).then_some(sector)
    }
}
