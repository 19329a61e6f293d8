//! A heartbeat slot: the host that uses it, and a counter that shows that the host is alive.

use super::lock::LockOwner;
use super::{Image, VERSION, image_of, is_sealed, seal};
use crate::VolumeUuid;
use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 8] = *b"IBIDHB\0\0";
/// Maximum length of a host name in a slot, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 63;

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Not in use.
    Free,
    /// In use by a host that is alive as long as the counter grows.
    Alive,
    /// The host is dead. This other host applies its journal.
    Breaking(LockOwner),
}

/// Content of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) index: u16,
    pub(crate) state: SlotState,
    /// UUID of the current or last user.
    pub(crate) uuid: [u8; 16],
    pub(crate) name: String,
    /// Grows with every claim, break and unmount. A lock of an older generation is stale.
    pub(crate) generation: u64,
    /// Grows with every heartbeat.
    pub(crate) counter: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SlotBytes {
    magic: [u8; 8],
    version: U16,
    index: U16,
    state: u8,
    name_bytes: u8,
    reserved: U16,
    generation: U64,
    counter: U64,
    uuid: [u8; 16],
    volume: [u8; 16],
    breaker: [u8; 16],
    breaker_incarnation: U64,
    breaker_slot: U16,
    unused: [u8; 6],
    name: [u8; 64],
    rest: [u8; 348],
    crc: [u8; 4],
}

const _: () = assert!(size_of::<SlotBytes>() == super::SECTOR_BYTES);

impl Slot {
    /// Creates a slot that was never used.
    pub(crate) fn new(index: u16) -> Self {
        Self { index, state: SlotState::Free, uuid: [0; 16], name: String::new(), generation: 1, counter: 0 }
    }

    /// Returns the lock owner of the slot's user, alive or being broken.
    pub(crate) fn owner(&self) -> LockOwner {
        LockOwner { slot: self.index, incarnation: self.generation, uuid: self.uuid }
    }

    /// Encodes the sector.
    pub(crate) fn encode(&self, volume: VolumeUuid) -> Image {
        let mut bytes = SlotBytes::new_zeroed();
        let name = &self.name.as_bytes()[..self.name.len().min(MAX_NAME_BYTES)];
        bytes.magic = MAGIC;
        bytes.version = VERSION.into();
        bytes.index = self.index.into();
        bytes.state = match self.state {
            SlotState::Free => 0,
            SlotState::Alive => 1,
            SlotState::Breaking(_) => 2,
        };
        bytes.name_bytes = name.len() as u8;
        bytes.generation = self.generation.into();
        bytes.counter = self.counter.into();
        bytes.uuid = self.uuid;
        bytes.volume = volume.0;
        if let SlotState::Breaking(breaker) = self.state {
            bytes.breaker = breaker.uuid;
            bytes.breaker_incarnation = breaker.incarnation.into();
            bytes.breaker_slot = breaker.slot.into();
        }
        bytes.name[..name.len()].copy_from_slice(name);
        let mut image = image_of(bytes.as_bytes());
        seal(&mut image);
        image
    }

    /// Decodes slot `index`; `None` if the sector is damaged or belongs to another volume.
    pub(crate) fn decode(image: &Image, index: u16, volume: VolumeUuid) -> Option<Self> {
        let bytes = SlotBytes::ref_from_bytes(image).ok()?;
        let sound = bytes.magic == MAGIC
            && bytes.version.get() == VERSION
            && bytes.index.get() == index
            && bytes.volume == volume.0
            && is_sealed(image);
        if !sound {
            return None;
        }
        let breaker = LockOwner {
            slot: bytes.breaker_slot.get(),
            incarnation: bytes.breaker_incarnation.get(),
            uuid: bytes.breaker,
        };
        let state = match bytes.state {
            0 => SlotState::Free,
            1 => SlotState::Alive,
            2 => SlotState::Breaking(breaker),
            _ => return None,
        };
        let name = bytes.name.get(..usize::from(bytes.name_bytes))?;
        Some(Self {
            index,
            state,
            uuid: bytes.uuid,
            name: String::from_utf8_lossy(name).into_owned(),
            generation: bytes.generation.get(),
            counter: bytes.counter.get(),
        })
    }
}
