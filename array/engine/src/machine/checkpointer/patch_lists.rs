//! The patch lists that a checkpoint names.

use bytes::Bytes;
use ondisk::{MAX_PATCH_LISTS, PatchList, PatchPart};
use std::collections::VecDeque;
use types::BLOCK_BYTES;

/// Part of the metadata budget that a checkpoint may always use to release lists: 1/8.
pub(super) const ROOM_PART: u64 = 8;
/// Part of the metadata budget that parts may take which one checkpoint stores elsewhere: 1/4.
pub(super) const MOVED_PART: u64 = 4;

/// The patch lists that the newest checkpoint names.
#[derive(Default)]
pub(crate) struct PatchLists {
    /// Oldest first.
    pub(super) lists: VecDeque<PatchList>,
    /// Bytes of all their parts.
    pub(super) bytes: u64,
    /// Lists up to this one are to be released, because both copies of a part are damaged.
    pub(super) retire_through: u64,
    /// Parts that the next checkpoint stores elsewhere, with their bytes.
    moved: Vec<(PatchPart, Bytes)>,
}

impl PatchLists {
    /// The lists that a manifest names.
    pub(super) fn new(lists: Vec<PatchList>) -> Self {
        let bytes = lists.iter().flat_map(|list| &list.parts).map(|part| u64::from(part.bytes)).sum();
        Self { lists: lists.into(), bytes, ..Self::default() }
    }

    /// Returns the lists, oldest first.
    pub(crate) fn lists(&self) -> Vec<PatchList> {
        self.lists.iter().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns the bytes that the lists take in the manifest, with the one of the next checkpoint.
    pub(super) fn manifest_bytes(&self) -> u64 {
        let parts: usize = self.lists.iter().map(|list| list.parts.len()).sum();
        (16 + 12 * (self.lists.len() + 1) + 16 * (parts + 2)) as u64
    }

    /// Returns every part.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PatchPart> {
        self.lists.iter().flat_map(|list| &list.parts)
    }

    /// Makes the next checkpoint store a part elsewhere. `stored` are its bytes as read from one
    /// copy. If they do not match its checksum, or if the parts to store would take more than
    /// `limit` bytes, the next checkpoints release its list, because memory has all patches.
    pub(super) fn store_again(&mut self, part: &PatchPart, stored: Option<&[u8]>, limit: u64) {
        if self.moved.iter().any(|(moved, _)| moved == part) {
            return;
        }
        let fits = self.moved_bytes() + padded(part) <= limit;
        match stored.filter(|bytes| fits && crc_fast::crc32_iscsi(bytes) == part.crc) {
            Some(bytes) => self.moved.push((*part, Bytes::copy_from_slice(bytes))),
            None => {
                let list = self.find(part).map(|(list, _)| self.lists[list].sequence);
                self.retire_through = self.retire_through.max(list.unwrap_or_default());
            }
        }
    }

    /// Returns the bytes that the parts take which the next checkpoint stores elsewhere.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.moved.iter().map(|(part, _)| padded(part)).sum()
    }

    pub(super) fn take_moved(&mut self) -> Vec<(PatchPart, Bytes)> {
        std::mem::take(&mut self.moved)
    }

    /// True if a damaged list must be released, and the next checkpoint can do so.
    pub(super) fn is_release_due(&self) -> bool {
        self.lists.len() < MAX_PATCH_LISTS
            && self.lists.front().is_some_and(|oldest| oldest.sequence <= self.retire_through)
    }

    /// Returns the positions of a part: of its list, and in its list.
    pub(super) fn find(&self, part: &PatchPart) -> Option<(usize, usize)> {
        let in_list = |(index, list): (usize, &PatchList)| {
            list.parts.iter().position(|listed| listed == part).map(|position| (index, position))
        };
        self.lists.iter().enumerate().find_map(in_list)
    }
}

/// Returns the bytes that a part takes in a segment: each begins at a multiple of 4096.
fn padded(part: &PatchPart) -> u64 {
    u64::from(part.bytes).next_multiple_of(BLOCK_BYTES)
}
