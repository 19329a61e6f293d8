//! The blocks of a disk in memory, in pages. Zero pages use no memory.

use crate::disk::ProvisioningExtent;
use crate::error::DeviceError;
use bytes::Bytes;
use scsi::lba_status::ProvisioningStatus;
use std::collections::BTreeMap;

/// Bytes in a page, the block size of arrays.
const PAGE_BYTES: usize = 4096;
/// Most extents of one GET LBA STATUS response.
const MAX_EXTENTS: usize = 255;

/// Blocks by address. Unwritten blocks read as zeros.
pub(super) struct Medium {
    blocks: u64,
    block_bytes: usize,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Medium {
    pub(super) fn new(blocks: u64, block_bytes: u32) -> Self {
        Self { blocks, block_bytes: block_bytes as usize, pages: BTreeMap::new() }
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }

    fn check(&self, lba: u64, blocks: u64) -> Result<(), DeviceError> {
        match lba.checked_add(blocks) {
            Some(end) if end <= self.blocks => Ok(()),
            _ => Err(DeviceError::OutOfRange { lba: lba.max(self.blocks) }),
        }
    }

    fn per_page(&self) -> u64 {
        (PAGE_BYTES / self.block_bytes) as u64
    }

    pub(super) fn read(&self, lba: u64, blocks: u64) -> Result<Bytes, DeviceError> {
        self.check(lba, blocks)?;
        let mut data = vec![0; blocks as usize * self.block_bytes];
        let from = lba as usize * self.block_bytes;
        let end = lba + blocks;
        for (number, page) in self.pages.range(lba / self.per_page()..end.div_ceil(self.per_page())) {
            let at = *number as usize * PAGE_BYTES;
            let (begin, stop) = (at.max(from), (at + PAGE_BYTES).min(from + data.len()));
            data[begin - from..stop - from].copy_from_slice(&page[begin - at..stop - at]);
        }
        Ok(data.into())
    }

    pub(super) fn write(&mut self, lba: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check(lba, (data.len() / self.block_bytes) as u64)?;
        let (mut at, mut rest) = (lba as usize * self.block_bytes, data);
        while !rest.is_empty() {
            let (number, offset) = ((at / PAGE_BYTES) as u64, at % PAGE_BYTES);
            let (now, later) = rest.split_at((PAGE_BYTES - offset).min(rest.len()));
            let page = self.pages.entry(number).or_insert_with(|| vec![0; PAGE_BYTES].into());
            page[offset..offset + now.len()].copy_from_slice(now);
            if page.iter().all(|byte| *byte == 0) {
                self.pages.remove(&number);
            }
            (at, rest) = (at + now.len(), later);
        }
        Ok(())
    }

    /// Writes one block to each block of a run.
    pub(super) fn fill(&mut self, lba: u64, blocks: u64, block: &[u8]) -> Result<(), DeviceError> {
        if block.iter().all(|byte| *byte == 0) {
            return self.clear(lba, blocks);
        }
        self.check(lba, blocks)?;
        (lba..lba + blocks).try_for_each(|lba| self.write(lba, block))
    }

    /// Zeroes a run.
    pub(super) fn clear(&mut self, lba: u64, blocks: u64) -> Result<(), DeviceError> {
        self.check(lba, blocks)?;
        let (per_page, end) = (self.per_page(), lba + blocks);
        let (first, last) = (lba.div_ceil(per_page), end / per_page);
        if first > last {
            return self.write(lba, &vec![0; blocks as usize * self.block_bytes]);
        }
        let whole: Vec<u64> = self.pages.range(first..last).map(|(number, _)| *number).collect();
        for number in whole {
            self.pages.remove(&number);
        }
        let zeros = vec![0; PAGE_BYTES];
        let bytes = |blocks: u64| blocks as usize * self.block_bytes;
        let (head, tail) = (bytes(first * per_page - lba), bytes(end - last * per_page));
        self.write(lba, &zeros[..head])?;
        self.write(last * per_page, &zeros[..tail])
    }

    pub(super) fn status(&self, lba: u64) -> Result<Vec<ProvisioningExtent>, DeviceError> {
        self.check(lba, 1)?;
        let per_page = self.per_page();
        let mut extents: Vec<ProvisioningExtent> = Vec::new();
        let mut push = |begin: u64, end: u64, provisioning| {
            let (begin, end) = (begin.max(lba), end.min(self.blocks));
            match extents.last_mut() {
                _ if begin >= end => {}
                Some(last) if last.provisioning == provisioning => last.blocks += end - begin,
                _ => extents.push(ProvisioningExtent { lba: begin, blocks: end - begin, provisioning }),
            }
        };
        let mut next = lba / per_page;
        for number in self.pages.range(next..).map(|(number, _)| *number).take(MAX_EXTENTS) {
            push(next * per_page, number * per_page, ProvisioningStatus::Deallocated);
            push(number * per_page, (number + 1) * per_page, ProvisioningStatus::Mapped);
            next = number + 1;
        }
        if self.pages.range(next..).next().is_none() {
            push(next * per_page, self.blocks, ProvisioningStatus::Deallocated);
        }
        extents.truncate(MAX_EXTENTS);
        Ok(extents)
    }
}
