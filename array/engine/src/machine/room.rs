//! Room: whether a record may be sequenced now, later, or never. What was admitted here never fails afterwards.

use super::core::Core;
use super::io::{Io, Purpose};
use super::pool::{Kind, Phase};
use blockmap::SLOT_PAGE_BYTES;
use types::{BLOCK_BYTES, LBA_BYTES};
use wal::{FillValue, LogOp};

/// Bytes of a record beside its payload, rounded up.
const RECORD_OVERHEAD_BYTES: u64 = 64;
/// Sectors of a data block.
const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / ondisk::SECTOR_BYTES;

/// When a record may be sequenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Now,
    /// Something is under way that makes room.
    Later,
    /// The pool is full.
    Never,
}

/// What a replay of the log would have to find room for, and the room that it would have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplayRoom {
    /// Blocks that were admitted between the newest checkpoint that counts and the instant of the one under way.
    before: u64,
    /// Blocks that were admitted since.
    since: u64,
    /// Free segments at the newest checkpoint that counts.
    free: u64,
    /// Free segments at the instant of the one under way.
    next_free: u64,
}

impl ReplayRoom {
    /// The newest checkpoint has so many free segments.
    pub(crate) fn new(free: u64) -> Self {
        Self { free, ..Self::default() }
    }

    /// A record was admitted, or replayed.
    pub(crate) fn admit(&mut self, record: &[LogOp]) {
        self.since += record.iter().map(blocks_needed).sum::<u64>();
    }

    /// The instant of a checkpoint, at which so many segments are free.
    pub(crate) fn instant(&mut self, free: u64) {
        self.before += std::mem::take(&mut self.since);
        self.next_free = free;
    }

    /// The checkpoint counts.
    pub(crate) fn checkpointed(&mut self) {
        (self.before, self.free) = (0, self.next_free);
    }

    /// True when a replay finds room for that many blocks more, and for the metadata that it changes: `checkpoint` segments. Until the
    /// checkpoint under way counts, those are the metadata of two intervals, before one checkpoint stores them. One segment more is lost
    /// with the end of the one that was open.
    fn has_room(&self, blocks: u64, checkpoint: u64, is_being_stored: bool, blocks_per_segment: u64) -> bool {
        let promised = self.before + self.since;
        let checkpoints = 1 + u64::from(is_being_stored);
        let segments = self.free.saturating_sub(checkpoints * checkpoint + 1);
        promised == 0 || promised + blocks <= segments * blocks_per_segment
    }
}

/// What those who wait for room are short of. It makes the background work that helps them due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pressure {
    pub(crate) log: bool,
    pub(crate) memory: bool,
    pub(crate) metadata: bool,
    pub(crate) space: bool,
}

impl Core {
    /// Bytes of changed metadata at which a checkpoint is due. Twice as much stops changes until it is done.
    pub(crate) fn metadata_budget(&self) -> u64 {
        let segments = u64::from(self.geometry.segments());
        let most = self.options.metadata_limit.min(segments * self.geometry.segment_bytes / 32);
        (self.geometry.capacity / 256).max(self.geometry.segment_bytes / 2).min(most)
    }

    /// The bytes of metadata that a checkpoint would store now. Every changed page of the map gets a new place, hence its slot counts as
    /// changed, too.
    pub(crate) fn dirty_metadata(&self) -> u64 {
        let pages = self.map.pages.dirty_bytes();
        let slot_pages = self.map.slots.dirty_pages() as u64;
        let directory = slot_pages.min(self.directory_pages.len() as u64 + 1);
        pages + (slot_pages + directory) * SLOT_PAGE_BYTES as u64
    }

    /// Free segments that data never takes: room for metadata and for the cleaner, so that giving space back always works.
    pub(crate) fn reserve(&self) -> u64 {
        (3 * self.checkpoint_segments() + 1).min(u64::from(self.geometry.segments()) / 3)
    }

    /// Segments that one checkpoint may take: changed metadata up to where changes stop, the manifest, what the cleaner adds
    /// at last, and the waste at the ends of segments.
    pub(crate) fn checkpoint_segments(&self) -> u64 {
        // All of it is stored twice.
        (2 * (2 * self.metadata_budget() + self.manifest_bytes())).div_ceil(self.geometry.segment_bytes) + 2
    }

    /// The length of the manifest, rounded up; the drop queue, some KiB for each level of a tree that is dropped, not counted.
    fn manifest_bytes(&self) -> u64 {
        self.values_bytes + (self.volumes.len() + self.directory_pages.len() + self.pool.segments().len()) as u64 * 32
    }

    /// Segments to have ready: the reserve, and what the dirty blocks may take.
    pub(crate) fn ready_target(&self) -> u64 {
        let ahead = 2 * self.options.dirty_limit.div_ceil(self.geometry.segment_bytes) + 2;
        self.reserve() + if self.pressure.space { 2 * ahead } else { ahead }
    }

    pub(crate) fn allocate_ahead(&mut self) {
        while let Some(segment) = self.pool.allocate(self.ready_target()) {
            let (offset, bytes) = (self.geometry.segment_start(segment), self.geometry.segment_bytes);
            self.start_io(Io::Allocate { offset, bytes }, Purpose::Allocate { segment });
        }
    }

    /// Whether a record may be sequenced.
    pub(crate) fn room_for(&mut self, record: &[LogOp]) -> Room {
        if self.checkpoint.is_barrier() {
            return Room::Later;
        }
        if self.dirty_metadata() > 2 * self.metadata_budget() {
            self.pressure.metadata = true;
            return Room::Later;
        }
        let payload: u64 = record.iter().map(payload_bytes).sum();
        let bytes = payload + RECORD_OVERHEAD_BYTES * (record.len() as u64 + 1);
        if !self.log.ring.fits(self.log.builder.ring_bytes_with(bytes)) {
            self.pressure.log = true;
            return Room::Later;
        }
        let blocks: u64 = record.iter().map(blocks_touched).sum();
        let is_over = self.dirty.bytes() + blocks * BLOCK_BYTES > self.options.dirty_limit;
        if blocks > 0 && is_over && self.dirty.bytes() > 0 {
            self.pressure.memory = true;
            return Room::Later;
        }
        self.space_for(record)
    }

    fn space_for(&mut self, record: &[LogOp]) -> Room {
        // The pages that a hole costs have their room in what it leaves: a segment more than a checkpoint takes.
        let is_promised = |op: &LogOp| {
            let is_hole = matches!(op, LogOp::Fill { fill: FillValue::Hole, .. });
            is_hole || matches!(op, LogOp::Delete { .. } | LogOp::Resize { .. } | LogOp::Remove { .. })
        };
        let takes_pages = !record.iter().all(is_promised);
        let data: u64 = record.iter().map(blocks_needed).sum();
        let needed = data + u64::from(takes_pages);
        // Where a volume goes, there is room in the end for what the catalogue has to say of it.
        let is_giving_back = record.iter().any(|op| matches!(op, LogOp::Delete { .. }));
        let spare = record.iter().map(|op| self.spare_for(op)).max().unwrap_or_default();
        // Room in the open segment is none for the pages of the map, which even a write of zeros may cost.
        let has_pages = self.pool.ready() >= spare.min(2 * self.checkpoint_segments());
        if is_giving_back || spare == 0 || (has_pages && needed <= self.available_blocks(spare)) {
            // What stores no data asks nothing of a replay: giving space back waits for no checkpoint.
            if data == 0 || self.is_replayable(data) {
                return Room::Now;
            }
            self.pressure.log = true;
            return Room::Later;
        }
        let may_come = self.pool.may_grow()
            || self.dirty.unplaced() > 0
            || self.pool.coming() > 0
            || self.is_dropping()
            || self.pool.dead() > 0
            || self.cleaner.is_busy()
            || self.may_have_victim(true);
        if may_come {
            self.pressure.space = true;
            return Room::Later;
        }
        Room::Never
    }

    /// True when the log could be replayed with that many blocks more. What was found equal may not be found again then, for the index
    /// is empty, and what was compressed together may be compressed alone: so every block counts as it is. When it is false, a
    /// checkpoint makes it true.
    fn is_replayable(&self, blocks: u64) -> bool {
        let is_being_stored = self.checkpoint.is_being_stored();
        self.replay_room.has_room(blocks, self.checkpoint_segments(), is_being_stored, self.blocks_per_segment())
    }

    /// Segments of the reserve that the cleaner leaves when it takes up another segment: those of one checkpoint, and a quarter of the
    /// others, which is for whoever gives space back. What it empties comes back with the next checkpoint.
    pub(crate) fn kept_from_cleaner(&self) -> u64 {
        let checkpoint = self.checkpoint_segments();
        let others = self.reserve().saturating_sub(checkpoint);
        checkpoint + (others / 4).max(2)
    }

    /// Segments that are promised to blocks of hosts.
    pub(crate) fn promised_segments(&self) -> u64 {
        (self.dirty.unplaced() - self.dirty.unplaced_moved()).div_ceil(self.blocks_per_segment())
    }

    /// 4 KiB blocks that a segment takes as they are, at least. A sixteenth is for summaries: small chunks have more of them than large
    /// ones.
    fn blocks_per_segment(&self) -> u64 {
        let sectors = u64::from(self.geometry.segment_sectors()) * 15 / 16;
        (sectors.saturating_sub(SECTORS_PER_BLOCK) / SECTORS_PER_BLOCK).max(1)
    }

    /// Segments that an operation must leave. Data leaves the reserve; what changes the map, and at most two blocks, leaves two checkpoints;
    /// what gives space back leaves one, for without it nothing is given back. 0: it takes none.
    fn spare_for(&self, op: &LogOp) -> u64 {
        let checkpoint = self.checkpoint_segments();
        match op {
            LogOp::Write { .. } | LogOp::Same { .. } => self.reserve(),
            LogOp::Fill { fill: FillValue::Hole, .. } => self.reserve().min(checkpoint + 1),
            LogOp::Fill { .. }
            | LogOp::Copy { .. }
            | LogOp::CopyVolume { .. }
            | LogOp::Put { .. }
            | LogOp::Create { .. } => self.reserve().min(2 * checkpoint),
            LogOp::Delete { .. } | LogOp::Resize { .. } | LogOp::Remove { .. } => 0,
        }
    }

    /// 4 KiB blocks that may still be written: what is open and ready, less `spare` segments and less what is promised to dirty blocks.
    fn available_blocks(&self, spare: u64) -> u64 {
        let open = self.data_writer.as_ref().map_or(0, |writer| u64::from(writer.free_sectors()));
        let segments = self.pool.ready().saturating_sub(spare);
        let blocks = open * 15 / 16 / SECTORS_PER_BLOCK + segments * self.blocks_per_segment();
        blocks.saturating_sub(self.dirty.unplaced())
    }

    /// True when free segments are so few that the cleaner should make some.
    pub(crate) fn is_short_of_space(&self) -> bool {
        let margin = (u64::from(self.geometry.segments()) / 16).max(2);
        self.pressure.space || self.pool.free() + self.pool.coming() < self.reserve() + margin
    }

    /// Live sectors beyond which cleaning a segment does not pay. Where a host waits for room, data is moved for hardly any gain, so that
    /// a pool can be filled to the end; metadata, of which every checkpoint makes more, only when it pays well.
    pub(crate) fn most_live(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Data if self.pressure.space => self.most_gaining(),
            Kind::Data => self.filled_sectors(kind) / 16 * 15,
            Kind::Metadata => self.filled_sectors(kind) / 4 * 3,
        }
    }

    /// Live sectors beyond which moving a segment of data gains nothing.
    pub(crate) fn most_gaining(&self) -> u32 {
        let filled = self.filled_sectors(Kind::Data);
        filled - filled / 64
    }

    /// Sectors of a segment of that kind that can be alive: what summaries and ends take, at most, is left out.
    pub(crate) fn filled_sectors(&self, kind: Kind) -> u32 {
        let sectors = match kind {
            Kind::Data => self.geometry.segment_sectors(),
            Kind::Metadata => self.geometry.metadata_sectors(),
        };
        sectors - (sectors / 32).max(sectors.min(16))
    }

    /// Checks that the pool's counters are the sums over its segments. For the auditor.
    pub(crate) fn free_segments_are_empty(&self) -> bool {
        self.pool.segments().iter().all(|segment| segment.phase != Phase::Free || segment.live == 0)
    }
}

fn payload_bytes(op: &LogOp) -> u64 {
    match op {
        LogOp::Write { data, .. } => data.len() as u64,
        LogOp::Same { pattern, .. } => pattern.len() as u64,
        LogOp::Put { key, value } => (key.len() + value.len()) as u64,
        LogOp::Remove { key } => key.len() as u64,
        _ => 0,
    }
}

/// 4 KiB blocks that an operation may hold in memory.
fn blocks_touched(op: &LogOp) -> u64 {
    match op {
        LogOp::Write { data, .. } => (data.len() as u64).div_ceil(BLOCK_BYTES) + 1,
        LogOp::Same { .. } => 3,
        LogOp::Fill { range, .. } => {
            let is_aligned = (range.start().0 | range.end().0).is_multiple_of(BLOCK_BYTES / LBA_BYTES);
            if is_aligned { 0 } else { 2 }
        }
        _ => 0,
    }
}

/// 4 KiB blocks of data for which an operation needs space.
fn blocks_needed(op: &LogOp) -> u64 {
    match op {
        LogOp::Write { data, .. } => {
            let is_plain = |chunk: &&[u8]| chunk[..chunk.len() - 4] != chunk[4..];
            data.chunks(BLOCK_BYTES as usize).filter(is_plain).count() as u64 + 1
        }
        LogOp::Same { .. } => 3,
        LogOp::Fill { .. } => blocks_touched(op),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::{Lba, VolumeId};

    /// A record of so many blocks of data, less the one that is always counted more.
    fn write(blocks: usize) -> [LogOp; 1] {
        let data: Vec<u8> = (0..(blocks - 1) * BLOCK_BYTES as usize).map(|byte| (byte % 251) as u8).collect();
        [LogOp::Write { volume: VolumeId(1), lba: Lba(0), data: Bytes::from(data) }]
    }

    #[test]
    fn a_replay_of_two_intervals_keeps_the_metadata_of_both() {
        let mut room = ReplayRoom::new(20);
        assert!(room.has_room(1 << 30, 4, false, 10), "the first record after a checkpoint is never refused");
        room.admit(&write(100));
        assert!(room.has_room(50, 4, false, 10) && !room.has_room(51, 4, false, 10), "20 - 4 - 1 segments of 10");
        room.instant(8);
        assert!(room.has_room(10, 4, true, 10) && !room.has_room(11, 4, true, 10), "20 - 8 - 1");
        room.admit(&write(10));
        assert!(
            room.has_room(0, 4, true, 10) && !room.has_room(1, 4, true, 10),
            "what came before the instant still counts"
        );
        room.checkpointed();
        assert!(
            room.has_room(20, 4, false, 10) && !room.has_room(21, 4, false, 10),
            "8 - 4 - 1, and 10 since the instant"
        );
    }
}
