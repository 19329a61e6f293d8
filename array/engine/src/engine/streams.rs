//! Read-ahead for sequential reads of a volume, wherever their blocks are on the drive. The
//! operating system sees only blocks that are adjacent on the drive; deduplicated, overwritten and
//! relocated blocks are not.

use std::collections::VecDeque;
use types::{BlockRange, LBA_BYTES, Lba, VolumeId};

/// Reads whose end is remembered, to detect a read that continues there.
const NEWCOMERS: usize = 32;
/// Most streams that are followed at a time.
const STREAMS: usize = 16;
/// Most blocks of read-ahead of one stream.
const MOST_AHEAD: u64 = (1 << 20) / LBA_BYTES;
/// Most blocks between a read and the position of its stream. Reads that are in flight together or
/// take several paths arrive in any order.
const SLACK: u64 = (256 << 10) / LBA_BYTES;

/// The end of a read.
#[derive(Clone, Copy)]
struct End {
    volume: VolumeId,
    block: u64,
    /// Blocks that were read.
    blocks: u64,
}

/// A sequence of reads.
struct Stream {
    volume: VolumeId,
    /// The block after the last one read.
    next: u64,
    /// Blocks read so far.
    read: u64,
    /// End of the read-ahead issued so far.
    asked: u64,
}

/// The streams of all volumes.
#[derive(Default)]
pub(super) struct Streams {
    /// Oldest first.
    newcomers: VecDeque<End>,
    /// Least recently read first.
    streams: Vec<Stream>,
}

impl Streams {
    /// Notes a read. Returns the range to read ahead: at most as long as the stream so far, hence
    /// nothing for random reads. The range may pass the end of the volume. Returns nothing while
    /// `is_busy`; the next call covers the skipped range.
    pub(super) fn note(
        &mut self,
        volume: VolumeId,
        lba: Lba,
        blocks: u64,
        is_busy: impl FnOnce() -> bool,
    ) -> Option<BlockRange> {
        let (start, end) = (lba.0, lba.0.checked_add(blocks)?);
        let goes_on = |stream: &Stream| stream.volume == volume && start.abs_diff(stream.next) <= SLACK;
        if let Some(at) = self.streams.iter().rposition(goes_on) {
            self.streams[at..].rotate_left(1);
            let stream = self.streams.last_mut()?;
            stream.read = stream.read.saturating_add(blocks);
            stream.next = stream.next.max(end);
            return stream.ask(is_busy);
        }
        if let Some(at) = self.newcomers.iter().position(|last| last.volume == volume && last.block == start) {
            let last = self.newcomers.remove(at)?;
            if self.streams.len() == STREAMS {
                self.streams.remove(0);
            }
            let stream = Stream { volume, next: end, read: last.blocks.saturating_add(blocks), asked: end };
            self.streams.push(stream);
            return self.streams.last_mut()?.ask(is_busy);
        }
        if self.newcomers.len() == NEWCOMERS {
            self.newcomers.pop_front();
        }
        self.newcomers.push_back(End { volume, block: end, blocks });
        None
    }
}

impl Stream {
    /// Returns ranges of at least half the read-ahead, so that there are few of them.
    fn ask(&mut self, is_busy: impl FnOnce() -> bool) -> Option<BlockRange> {
        let ahead = self.read.min(MOST_AHEAD);
        let (from, to) = (self.asked.max(self.next), self.next.checked_add(ahead)?);
        if to < from + ahead / 2 || is_busy() {
            return None;
        }
        self.asked = to;
        BlockRange::new(Lba(from), to - from).ok().filter(|range| !range.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB32: u64 = 64;

    /// Notes reads of 32 KiB by number. Returns the read-ahead in the same unit.
    fn asked(streams: &mut Streams, reads: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let note = |read: u64| streams.note(VolumeId(1), Lba(read * KIB32), KIB32, || false);
        let range = |range: BlockRange| (range.start().0 / KIB32, range.end().0 / KIB32);
        reads.into_iter().filter_map(note).map(range).collect()
    }

    #[test]
    fn read_ahead_doubles_up_to_one_mebibyte() {
        let found = asked(&mut Streams::default(), 0..100);
        assert_eq!(found[..4], [(2, 4), (4, 6), (6, 8), (8, 12)]);
        // Without gaps, and each range before it is read.
        assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert!(found.iter().all(|(from, to)| to - from <= 32));
        assert!(found.last().unwrap().1 >= 100 + 16);
    }

    #[test]
    fn read_ahead_resumes_after_busy_readers() {
        let mut streams = Streams::default();
        let mut note = |read: u64, is_busy| streams.note(VolumeId(1), Lba(read * KIB32), KIB32, || is_busy);
        assert!((0..8).all(|read| note(read, true).is_none()));
        assert_eq!(note(8, false), Some(BlockRange::new(Lba(9 * KIB32), 9 * KIB32).unwrap()));
    }

    #[test]
    fn random_reads_cause_no_read_ahead() {
        let scattered = (0..1000).map(|read: u64| read * 7919 % 1009 * 100);
        assert_eq!(asked(&mut Streams::default(), scattered), []);
    }

    #[test]
    fn reordered_reads_are_one_stream() {
        let swapped = (0..100).map(|read| read ^ 1);
        let found = asked(&mut Streams::default(), [0, 1].into_iter().chain(swapped));
        assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].0), "nothing twice: {found:?}");
        assert!(found.last().unwrap().1 >= 100 + 16);
    }

    #[test]
    fn streams_are_detected_among_random_reads() {
        let mut streams = Streams::default();
        for read in 0..50 {
            for stream in 0..8 {
                let found = asked(&mut streams, [(stream + 1) * 1_000_000 + read]);
                assert!(read < 5 || found.len() <= 1);
            }
            for noise in 0..20 {
                asked(&mut streams, [500_000_000 + (read * 20 + noise) * 7919 % 1009 * 100]);
            }
        }
        assert_eq!(streams.streams.len(), 8);
        assert!(streams.streams.iter().all(|stream| stream.asked > stream.next));
    }

    #[test]
    fn reads_at_the_last_lba_cause_no_read_ahead() {
        let mut streams = Streams::default();
        assert_eq!(streams.note(VolumeId(1), Lba(u64::MAX), 8, || false), None);
        assert_eq!(streams.note(VolumeId(1), Lba(u64::MAX - 16), 8, || false), None);
        assert_eq!(streams.note(VolumeId(1), Lba(u64::MAX - 8), 8, || false), None);
    }
}
