//! The summaries of a segment, read outside the core.

use ondisk::{SECTOR_BYTES, SummaryEntry, SummaryId, decode_summary, summary_bytes};
use platform::Disk;

/// The summaries of a segment, from the last one to the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummaryChain {
    pub(crate) id: SummaryId,
    /// First byte of the segment on the drive, and its length.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    /// Sector of the last summary.
    pub(crate) last: u32,
}

impl SummaryChain {
    /// Returns the entries that can be read: the index is a hint.
    pub(crate) fn read(&self, disk: &dyn Disk) -> Vec<SummaryEntry> {
        let mut all = Vec::new();
        let mut next = Some(self.last);
        while let Some(sector) = next {
            let from = u64::from(sector) * SECTOR_BYTES;
            let Some((entries, previous)) = self.read_one(disk, from) else { break };
            all.extend(entries);
            next = previous.filter(|previous| *previous < sector);
        }
        all
    }

    fn read_one(&self, disk: &dyn Disk, from: u64) -> Option<(Vec<SummaryEntry>, Option<u32>)> {
        let read = |bytes: usize| {
            let available = self.bytes.checked_sub(from)?;
            let mut buffer = vec![0; bytes.min(available as usize)];
            disk.read_at(self.start + from, &mut buffer).ok()?;
            Some(buffer)
        };
        // Most summaries are this short, so one read is enough.
        let short = read(8 * SECTOR_BYTES as usize)?;
        let count = u32::from_le_bytes(short.get(12..16)?.try_into().ok()?) as usize;
        let bytes = summary_bytes(count.min(1 << 16));
        if bytes <= short.len() {
            return decode_summary(self.id, &short);
        }
        decode_summary(self.id, &read(bytes)?)
    }
}
