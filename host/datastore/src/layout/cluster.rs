//! A cluster: a bitmap of some descriptors, pages or blocks, with the lock that protects it.

use super::geometry::{Geometry, Resource};
use super::lock::{Guarded, Kind, LockHeader};
use super::{Image, geometry::MAX_PER_CLUSTER};
use crate::VolumeUuid;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const BITMAP_BYTES: usize = MAX_PER_CLUSTER as usize / 8;

/// On-disk sector of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Cluster {
    lock: LockHeader,
    total: U32,
    free: U32,
    reserved: [u8; 56],
    /// Bit `n % 8` of byte `n / 8` is set if item `n` is allocated.
    bitmap: [u8; BITMAP_BYTES],
    unused: [u8; 124],
    crc: U32,
}

const _: () = assert!(size_of::<Cluster>() == super::SECTOR_BYTES);

impl Guarded for Cluster {
    fn lock(&self) -> &LockHeader {
        &self.lock
    }

    #[cfg(test)]
    fn lock_mut(&mut self) -> &mut LockHeader {
        &mut self.lock
    }
}

/// Returns the sector kind of a resource's clusters.
pub(crate) fn kind_of(resource: Resource) -> Kind {
    match resource {
        Resource::Descriptors => Kind::DescriptorCluster,
        Resource::Pages => Kind::PageCluster,
        Resource::Blocks => Kind::BlockCluster,
    }
}

impl Cluster {
    /// Creates cluster `index` of a resource, with all items free.
    pub(crate) fn new(resource: Resource, index: u32, geometry: &Geometry, volume: VolumeUuid) -> Self {
        let total = geometry.in_cluster(resource, index);
        Self {
            lock: LockHeader::new(kind_of(resource), index, volume),
            total: total.into(),
            free: total.into(),
            reserved: [0; 56],
            bitmap: [0; BITMAP_BYTES],
            unused: [0; 124],
            crc: U32::ZERO,
        }
    }

    /// Decodes cluster `index` of a resource, if the sector holds it.
    pub(crate) fn load(
        image: &Image,
        resource: Resource,
        index: u32,
        geometry: &Geometry,
        volume: VolumeUuid,
    ) -> Option<Self> {
        let cluster = Self::decode(image, kind_of(resource), index, volume)?;
        (cluster.total.get() == geometry.in_cluster(resource, index) && cluster.free.get() <= cluster.total.get())
            .then_some(cluster)
    }

    /// Returns the number of items.
    pub(crate) fn total(&self) -> u32 {
        self.total.get()
    }

    /// Returns the recorded number of free items.
    pub(crate) fn free(&self) -> u32 {
        self.free.get()
    }

    /// Counts the free items.
    pub(crate) fn count_free(&self) -> u32 {
        (0..self.total()).filter(|bit| !self.is_taken(*bit)).count() as u32
    }

    /// Returns whether an item is allocated.
    pub(crate) fn is_taken(&self, bit: u32) -> bool {
        self.bitmap.get(bit as usize / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
    }

    /// Allocates an item. Returns false if it is allocated already or outside the cluster.
    pub(crate) fn take(&mut self, bit: u32) -> bool {
        if bit >= self.total() || self.is_taken(bit) {
            return false;
        }
        self.bitmap[bit as usize / 8] |= 1 << (bit % 8);
        self.free = self.free().saturating_sub(1).into();
        true
    }

    /// Frees an item. Returns false if it is free already or outside the cluster.
    pub(crate) fn free_item(&mut self, bit: u32) -> bool {
        if bit >= self.total() || !self.is_taken(bit) {
            return false;
        }
        self.bitmap[bit as usize / 8] &= !(1 << (bit % 8));
        self.free = (self.free() + 1).into();
        true
    }

    /// Sets which items are allocated.
    pub(crate) fn set_taken(&mut self, taken: &[bool]) {
        self.bitmap = [0; BITMAP_BYTES];
        self.free = self.total;
        for (bit, _) in (0..self.total()).zip(taken).filter(|(_, taken)| **taken) {
            self.take(bit);
        }
    }

    /// Returns the first run of free items from `from` on, at most `most` long: its start and its
    /// length.
    pub(crate) fn free_run(&self, from: u32, most: u32) -> Option<(u32, u32)> {
        let first = (from..self.total()).find(|bit| !self.is_taken(*bit))?;
        let length = (first..self.total()).take(most as usize).take_while(|bit| !self.is_taken(*bit)).count();
        (length > 0).then_some((first, length as u32))
    }
}
