//! Writes the pages of the new checkpoint into free segments, each of them twice.

use super::error::SalvageError;
use crate::checkpoint::Checkpoint;
use crate::drive::Drive;
use crate::manifest::SegmentKind;
use blockmap::SlotPlace;
use bytes::Bytes;
use ondisk::{MAX_MANIFEST_RUNS, ManifestRun, ManifestSegment, SECTOR_BYTES, SegmentFill, SegmentWriter, SummaryItem};
use platform::Durability;
use std::collections::BTreeMap;
use types::BLOCK_BYTES;

pub(super) struct Store<'d> {
    drive: Drive<'d>,
    array: [u8; 16],
    /// Segments that the old checkpoint does not use, the next one last.
    free: Vec<u32>,
    next_usage: u64,
    writer: Option<SegmentWriter>,
    /// Segments that were written, as the manifest lists them.
    written: BTreeMap<u32, ManifestSegment>,
}

impl<'d> Store<'d> {
    pub(super) fn new(checkpoint: &Checkpoint<'d>) -> Self {
        let segments = checkpoint.manifest.segments.iter().enumerate().rev();
        let free = segments.filter(|(_, segment)| segment.kind == SegmentKind::Free);
        Self {
            drive: checkpoint.drive.clone(),
            array: checkpoint.superblock.array,
            free: free.map(|(number, _)| number as u32).collect(),
            // The segment that holds only runs of the manifest has the next number already.
            next_usage: checkpoint.manifest.next_usage + 1,
            writer: None,
            written: BTreeMap::new(),
        }
    }

    fn open(&mut self, is_metadata: bool) -> Result<SegmentWriter, SalvageError> {
        let segment = self.free.pop().ok_or(SalvageError::NoSpace)?;
        if is_metadata {
            self.drive.mirrors.insert(segment, self.free.pop().ok_or(SalvageError::NoSpace)?);
        }
        let fill = SegmentFill { segment, usage: self.next_usage, sectors: 0, summary: None };
        self.next_usage += 1;
        Ok(SegmentWriter::new(self.array, self.drive.geometry, fill))
    }

    /// Stores a page of metadata, and returns its place and its checksum.
    pub(super) fn page(&mut self, item: SummaryItem, bytes: Vec<u8>) -> Result<(SlotPlace, u32), SalvageError> {
        let (bytes, crc) = (Bytes::from(bytes), crc32c::crc32c);
        let crc = crc(&bytes);
        loop {
            let mut writer = match self.writer.take() {
                Some(writer) => writer,
                None => self.open(true)?,
            };
            let appended = writer.append(item, &bytes, crc);
            let is_cut = appended.is_none() || writer.is_full();
            if is_cut {
                self.cut(&mut writer)?;
            }
            let segment = writer.segment();
            if let Some((sector, sectors)) = appended {
                self.writer = Some(writer);
                return Ok((SlotPlace::single(segment, sector, sectors), crc));
            }
        }
    }

    /// Stores a block of data with this checksum, in a segment of its own.
    pub(super) fn block(&mut self, item: SummaryItem, bytes: Vec<u8>, crc: u32) -> Result<SlotPlace, SalvageError> {
        let mut writer = self.open(false)?;
        let (sector, sectors) =
            writer.append_group(&[(item, 0)], &Bytes::from(bytes), crc).ok_or(SalvageError::NoSpace)?;
        self.cut(&mut writer)?;
        Ok(SlotPlace::single(writer.segment(), sector, sectors))
    }

    fn cut(&mut self, writer: &mut SegmentWriter) -> Result<(), SalvageError> {
        let Some(chunk) = writer.cut() else { return Ok(()) };
        let parts: Vec<&[u8]> = chunk.data.iter().map(|part| &part[..]).collect();
        let SegmentFill { segment, usage, sectors, summary } = writer.fill();
        self.write(segment, chunk.offset, &parts)?;
        let mirror = self.drive.mirrors.get(&segment).copied();
        self.written.insert(segment, ManifestSegment { mirror, live: 0, sectors, summary, usage });
        Ok(())
    }

    /// Writes to a segment and, if it is for metadata, to its mirror.
    fn write(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> Result<(), SalvageError> {
        for offset in std::iter::once(offset).chain(self.drive.mirror_offset(segment, offset)) {
            self.drive.disk.write_at(offset, parts, Durability::Volatile)?;
        }
        Ok(())
    }

    /// Writes the open chunk. Returns the segments that were written, and the next use number.
    pub(super) fn finish(&mut self) -> Result<(&BTreeMap<u32, ManifestSegment>, u64), SalvageError> {
        if let Some(mut writer) = self.writer.take() {
            self.cut(&mut writer)?;
            self.writer = Some(writer);
        }
        Ok((&self.written, self.next_usage))
    }

    /// Stores the manifest, in one run for each segment that it spans.
    pub(super) fn manifest(&mut self, mut rest: &[u8]) -> Result<Vec<ManifestRun>, SalvageError> {
        let mut runs = Vec::new();
        while !rest.is_empty() {
            let mut writer = match self.writer.take() {
                Some(writer) => writer,
                None => self.open(true)?,
            };
            let free = writer.free_sectors() as usize * SECTOR_BYTES as usize;
            let (part, after) = rest.split_at(rest.len().min(free));
            if !part.is_empty() {
                let sector = writer.append_unlisted(part.len()).ok_or(SalvageError::NoSpace)?;
                let segment = writer.segment();
                let padding = vec![0; part.len().next_multiple_of(BLOCK_BYTES as usize) - part.len()];
                self.write(segment, self.drive.geometry.sector_start(segment, sector), &[part, &padding])?;
                let mirror = self.drive.mirrors.get(&segment).copied().ok_or(SalvageError::NoSpace)?;
                runs.push(ManifestRun::new(segment, mirror, sector, part.len() as u32, crc32c::crc32c(part)));
            }
            rest = after;
        }
        if runs.len() <= MAX_MANIFEST_RUNS { Ok(runs) } else { Err(SalvageError::NoSpace) }
    }
}
