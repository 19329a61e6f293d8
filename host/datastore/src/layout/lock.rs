//! The lock that begins every sector of shared metadata, and what the sectors that carry one have in common.

use super::{Image, VERSION, image_of, is_sealed, seal};
use crate::VolumeUuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"IBLK";
const FREE: u8 = 0;
const EXCLUSIVE: u8 = 1;

/// One life of one host on one datastore: from mount to unmount, crash or expulsion. Locks belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockOwner {
    /// Its heartbeat slot.
    pub slot: u16,
    /// The generation of the slot during this life.
    pub incarnation: u64,
    /// The UUID that the host chose for this life.
    pub uuid: [u8; 16],
}

/// What a sector with a lock is.
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
    /// Grows with every change of the sector: no two images of a sector are the same, so a compare means something.
    generation: U64,
    incarnation: U64,
    owner: [u8; 16],
    index: U32,
    version: U16,
    reserved: U16,
    volume: [u8; 16],
}

const _: () = assert!(size_of::<LockHeader>() == 64);

impl LockHeader {
    /// A free lock of generation 1.
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
            reserved: U16::ZERO,
            volume: volume.0,
        }
    }

    /// Who holds it.
    pub(crate) fn owner(&self) -> Option<LockOwner> {
        let owner = || LockOwner { slot: self.slot.get(), incarnation: self.incarnation.get(), uuid: self.owner };
        (self.mode == EXCLUSIVE).then(owner)
    }

    /// Hands it to `owner`, or frees it; the generation grows.
    pub(crate) fn set_owner(&mut self, owner: Option<LockOwner>) {
        self.mode = if owner.is_some() { EXCLUSIVE } else { FREE };
        let owner = owner.unwrap_or(LockOwner { slot: 0, incarnation: 0, uuid: [0; 16] });
        self.slot = owner.slot.into();
        self.incarnation = owner.incarnation.into();
        self.owner = owner.uuid;
        self.generation = (self.generation.get() + 1).into();
    }

    /// How often the sector has changed.
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

/// The lock of a sector whose kind does not matter; `None` when it is no sector of this volume's metadata.
pub(crate) fn lock_of(image: &Image, volume: VolumeUuid) -> Option<LockHeader> {
    let (header, _) = LockHeader::read_from_prefix(image).ok()?;
    let sound = header.magic == MAGIC && header.mode <= EXCLUSIVE && header.volume == volume.0 && is_sealed(image);
    sound.then_some(header)
}

/// The same sector with another owner.
pub(crate) fn with_owner(image: &Image, owner: Option<LockOwner>) -> Image {
    let mut new = *image;
    if let Ok((header, _)) = LockHeader::mut_from_prefix(&mut new) {
        header.set_owner(owner);
    }
    seal(&mut new);
    new
}

/// A sector that carries a lock.
pub(crate) trait Guarded: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Clone {
    /// Its lock.
    fn lock(&self) -> &LockHeader;
    /// Its lock.
    #[cfg(test)]
    fn lock_mut(&mut self) -> &mut LockHeader;

    /// The sector, with its checksum.
    fn encode(&self) -> Image {
        let mut image = image_of(self.as_bytes());
        seal(&mut image);
        image
    }

    /// What a sector holds, if it is the `index`th of its kind on that volume and its checksum holds.
    fn decode(image: &Image, kind: Kind, index: u32, volume: VolumeUuid) -> Option<Self> {
        let sector = Self::read_from_bytes(image).ok()?;
        (is_sealed(image) && sector.lock().is(kind, index, volume)).then_some(sector)
    }
}
