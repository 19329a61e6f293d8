//! Changes of a whole disk that is not in use: `vmkfstools -w`, `-j`, `-k`, `-K`, `-X`.

use super::{Progress, VirtualDisk};
use crate::content::Content;
use crate::error::{Result, VirtualDiskError};
use crate::format::DiskFormat;
use crate::transfer::pieces;
use std::sync::Arc;

/// Bytes checked for zeros at a time.
const LOOK_BYTES: u64 = 1 << 20;

impl VirtualDisk {
    /// Overwrites the disk with zeros. Unallocated blocks already read as zeros.
    pub async fn write_zeros(&self, progress: Progress<'_>) -> Result<()> {
        self.refuse_delta()?;
        self.content().zero_all(progress).await
    }

    /// Converts the disk to eager-zeroed: allocates all missing blocks and zeroes the rest.
    pub async fn inflate(&self, progress: Progress<'_>) -> Result<()> {
        self.refuse_delta()?;
        self.refuse_sparse()?;
        let content = self.content();
        content.allocate(content.all()).await?;
        content.zero_rest(content.all(), progress).await?;
        self.set_thin(false).await
    }

    /// Zeroes the blocks of a thick disk that are not zeroed yet.
    pub async fn eager_zero(&self, progress: Progress<'_>) -> Result<()> {
        self.refuse_delta()?;
        self.refuse_sparse()?;
        if self.place().descriptor.thin {
            return Err(VirtualDiskError::Thin);
        }
        let content = self.content();
        content.zero_rest(content.all(), progress).await
    }

    /// Frees the blocks of a thin disk that contain only zeros; returns their number.
    pub async fn punch_zeros(&self, progress: Progress<'_>) -> Result<u64> {
        self.refuse_delta()?;
        if !self.place().descriptor.thin {
            return Err(VirtualDiskError::NotThin);
        }
        let content = self.content();
        let mut given = 0;
        for (at, bytes) in pieces(content.bytes(), content.file().block_bytes()) {
            if is_zero(&content, at, bytes).await? {
                given += content
                    .free_blocks(content.blocks(at..at + bytes), content.mover().settings().block_delete)
                    .await?;
            }
            progress(bytes);
        }
        Ok(given)
    }

    /// Grows the disk to `bytes` bytes. New blocks are allocated according to the disk's format;
    /// `eager` also zeroes them. Returns a new handle and closes the old one.
    pub async fn grow(self, bytes: u64, eager: bool, progress: Progress<'_>) -> Result<Self> {
        self.refuse_delta()?;
        self.refuse_sparse()?;
        let (before, settings) = (self.content(), self.inner.settings);
        if bytes <= before.bytes() || !bytes.is_multiple_of(512) {
            return Err(VirtualDiskError::NotLarger);
        }
        before.retire().await;
        if self.place().descriptor.thin {
            before.free_unused().await?;
        }
        let file = Arc::clone(before.file());
        file.grow(bytes).await?;
        let content = Content::open(file, bytes, settings).await?;
        let fresh = content.blocks(before.bytes()..bytes);
        let mut place = self.place().clone();
        if !place.descriptor.thin {
            content.allocate(fresh.clone()).await?;
        }
        if eager || self.format() == DiskFormat::EagerZeroedThick {
            content.allocate(fresh.clone()).await?;
            content.zero_rest(fresh, progress).await?;
        }
        place.descriptor.set_bytes(bytes);
        place.store.write_text(&place.path, &place.descriptor.to_string()).await?;
        Ok(Self::new(place, content, settings))
    }

    /// Returns the paths of the files with the content.
    pub fn files(&self) -> Vec<String> {
        self.place().files()
    }

    /// Fails on a disk of changes: its blocks are not all its own.
    fn refuse_delta(&self) -> Result<()> {
        if self.is_delta() { Err(VirtualDiskError::Delta) } else { Ok(()) }
    }

    /// Fails on a disk in a hosted sparse format, which has one allocation and a fixed size.
    fn refuse_sparse(&self) -> Result<()> {
        if self.place().descriptor.create_type.is_hosted_sparse() { Err(VirtualDiskError::Hosted) } else { Ok(()) }
    }

    async fn set_thin(&self, thin: bool) -> Result<()> {
        let mut place = self.place().clone();
        place.descriptor.thin = thin;
        place.store.write_text(&place.path, &place.descriptor.to_string()).await?;
        *self.place() = place;
        Ok(())
    }
}

/// Returns whether these bytes of a disk are allocated and all zero.
async fn is_zero(content: &Content, at: u64, bytes: u64) -> Result<bool> {
    if content.placed(content.blocks(at..at + bytes), |_| true).is_empty() {
        return Ok(false);
    }
    for (offset, count) in pieces(bytes, LOOK_BYTES) {
        if content.read(at + offset, count).await?.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
