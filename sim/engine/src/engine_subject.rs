//! Runs the engine's core as the subject of the simulator.

use crate::injected_bug::InjectedBug;
use crate::subject::{DriveIo, OpenError, SimAction, SimScale, SimSubject};
use bytes::Bytes;
use engine::{
    Core, Op, OpError, Options, PinnedCheckpoint, PinnedSegment, ReadPlan, RecoverError, Reply, SegmentContents, Tag,
    WithCore, read_or_zero,
};
use fsck::{Finding, Severity, Structure};
use ondisk::{ArrayGeometry, SUPERBLOCK_BYTES, Superblock, superblock_offset};
use platform::{Disk, DiskError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use testing::Rng;
use types::{LBA_BYTES, VolumeId};

/// Limit of dirty bytes that is never reached, for a write cache that never fills.
const NEVER_FULL: u64 = 128 << 20;

/// Maximum growth per step in segments, and the spare space on the drive for several steps.
const GROWTH_SEGMENTS: u64 = 6;
const SPARE_SEGMENTS: u64 = 12;
/// Operations without a reply above which an injected bug acts.
const BUSY: usize = 32;
const ARRAY: [u8; 16] = *b"simulated array.";

/// Geometry, options and space of the array.
#[derive(Clone, Copy, Debug)]
pub struct EngineSetup {
    geometry: ArrayGeometry,
    options: Options,
    /// Space of the file system in bytes; `None` if it covers the whole geometry.
    space: Option<u64>,
    /// The pool is so small that hosts may fill it.
    is_small: bool,
    bug: Option<InjectedBug>,
}

impl EngineSetup {
    /// Returns the setup of the exhaustive search: small, for fast recovery, but never full.
    pub fn plain() -> Self {
        let geometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 1 << 20, segment_bytes: 256 << 10 };
        Self { geometry, options: Options::for_geometry(&geometry), space: None, is_small: false, bug: None }
    }

    /// Draws the setup of one array of a pair: never full.
    pub fn of_pair(rng: &mut Rng) -> Self {
        let log_bytes = rng.pick(&[256 << 10, 512 << 10, 1 << 20]);
        let geometry = ArrayGeometry { capacity: 48 << 20, log_bytes, segment_bytes: 256 << 10 };
        let mut options = Options::for_geometry(&geometry);
        options.page_budget = rng.pick(&[0, 16 << 10, options.page_budget]);
        // The counts of the two arrays are full at different records.
        options.max_references = rng.pick(&[None, Some(2), Some(3), Some(8)]);
        // Streams do not use it.
        options.write_cache = rng.percent(25);
        Self { geometry, options, space: None, is_small: false, bug: None }
    }

    /// Draws the setup of one array of a pair whose pool can be filled. In some, the log is large,
    /// so that a peer may use much of the pool at once.
    pub fn of_small_pair(rng: &mut Rng) -> Self {
        let setup = Self::of_pair(rng);
        let log_bytes = rng.pick(&[256 << 10, 1 << 20, 4 << 20]);
        let (segment_bytes, segments) = (64 << 10, rng.between(72, 128));
        let capacity = (64 << 10) + log_bytes + segments * segment_bytes;
        let geometry = ArrayGeometry { capacity, log_bytes, segment_bytes };
        let limits = Options::for_geometry(&geometry);
        let options = Options { dirty_limit: limits.dirty_limit, index_bytes: limits.index_bytes, ..setup.options };
        Self { geometry, options, is_small: true, ..setup }
    }

    /// Injects a bug: room that is lent to peers is not kept for them.
    pub fn forget_promises(&mut self) {
        self.options.keeps_promises = false;
    }

    /// True if hosts may fill the pool.
    pub fn is_small(&self) -> bool {
        self.is_small
    }
}

/// The core.
pub struct EngineSubject {
    core: Core,
    drive_bytes: u64,
    bug: Option<InjectedBug>,
    /// Operations without a reply.
    open: BTreeSet<Tag>,
    /// Operations that an injected bug has answered early.
    early: BTreeMap<Tag, bool>,
}

/// A scrub of one segment, as the engine's shell does it.
pub enum Scrub {
    /// Pinned, to be read at any time.
    Pinned(u32, PinnedSegment),
    /// Read with bad checksums. Is read again after this checkpoint, while nothing writes to it.
    Suspect {
        /// Number of the segment.
        segment: u32,
        /// Number of the checkpoint.
        checkpoint: u64,
        /// The pin of a data segment that is being written.
        pinned: Option<PinnedSegment>,
    },
    /// Nothing wrote to it when the core returned the mark.
    Quiet(u32, u64, PinnedSegment, u64),
}

/// The core for the functions of a scrub.
struct ScrubbedCore<'a>(RefCell<&'a mut Core>);

impl WithCore for ScrubbedCore<'_> {
    fn with_core<T>(&self, run: impl FnOnce(&mut Core) -> T) -> T {
        run(&mut self.0.borrow_mut())
    }
}

/// A kept checkpoint. The second field is `None` if an injected bug forgets to pin it.
pub struct Pinned(ondisk::Superblock, Option<PinnedCheckpoint>);

impl SimSubject for EngineSubject {
    type Setup = EngineSetup;
    type Plan = ReadPlan;
    type Work = engine::Work;
    type Done = engine::WorkDone;
    type Pinned = Pinned;
    type Scrub = Scrub;

    fn draw(rng: &mut Rng) -> EngineSetup {
        let log_bytes = rng.pick(&[256 << 10, 512 << 10, 1 << 20]);
        let is_small = rng.percent(50);
        let segment_bytes = if is_small {
            rng.pick(&[64 << 10, 64 << 10, 128 << 10])
        } else {
            rng.pick(&[64 << 10, 256 << 10, 1 << 20])
        };
        let segments = if is_small { rng.between(24, 64) } else { (192 << 20) / segment_bytes };
        // Pools that can be filled and have patches of pages above the leaves.
        let more = if is_small && Rng::part(rng.clone().next_u64(), 7).percent(20) { 104 } else { 0 };
        let segments = segments + more;
        let geometry =
            ArrayGeometry { capacity: (64 << 10) + log_bytes + segments * segment_bytes, log_bytes, segment_bytes };
        let mut options = Options::for_geometry(&geometry);
        if rng.percent(50) {
            options.page_budget = rng.pick(&[0, 16 << 10, 256 << 10]);
        }
        options.write_cache = rng.percent(25);
        // A crash loses more of a cache that never fills. Drawn from a stream of its own, so that
        // the seeds of fixed bugs keep their histories.
        if options.write_cache && Rng::part(rng.clone().next_u64(), 2).percent(50) {
            options.dirty_limit = NEVER_FULL;
        }
        options.last_generation = rng.pick(&[None, None, Some(1), Some(3)]);
        options.max_named_pages =
            Rng::part(rng.clone().next_u64(), 3).pick(&[None, Some(0), Some(0), Some(1), Some(2)]);
        options.max_references =
            Rng::part(rng.clone().next_u64(), 6).pick(&[None, None, None, None, Some(2), Some(3), Some(8)]);
        options.max_patch_bytes = Rng::part(rng.clone().next_u64(), 4).pick(&[
            None,
            None,
            Some(0),
            Some(1),
            Some(8 << 10),
            Some(segment_bytes / 2),
        ]);
        options.recompress_after = Rng::part(rng.clone().next_u64(), 5).pick(&[None, None, Some(0), Some(1)]);
        options.read_cache = Rng::part(rng.clone().next_u64(), 8).pick(&[0, 0, 0, 1 << 20]);
        let space = (is_small && rng.percent(30)).then(|| geometry.capacity - rng.below(segments / 2) * segment_bytes);
        EngineSetup { geometry, options, space, is_small, bug: None }
    }

    fn scale(setup: &EngineSetup) -> SimScale {
        SimScale {
            disk_bytes: drive_bytes(setup),
            max_write_blocks: setup.geometry.log_bytes / 4 / LBA_BYTES,
            space: setup.space,
            may_fill: setup.is_small,
            write_cache: setup.options.write_cache,
            segment_bytes: setup.geometry.segment_bytes,
        }
    }

    fn create(disk: &dyn Disk, setup: &EngineSetup) -> Result<(), String> {
        Core::create(disk, &setup.geometry, ARRAY).map_err(|error| error.to_string())
    }

    fn recover(disk: &dyn Disk, setup: &EngineSetup) -> Result<Self, OpenError> {
        let drive_bytes = drive_bytes(setup);
        let (open, early) = (BTreeSet::new(), BTreeMap::new());
        match Core::recover(disk, Some(setup.options)) {
            Ok((core, _)) => Ok(Self { core, drive_bytes, bug: setup.bug, open, early }),
            Err(error @ RecoverError::LogLoss(_)) => Err(OpenError::LogLoss(error.to_string())),
            Err(
                error @ (RecoverError::Damaged(_)
                | RecoverError::LostPatches
                | RecoverError::Superblock(_)
                | RecoverError::Disk(_)),
            ) => Err(OpenError::Damaged(error.to_string())),
            Err(error) => Err(OpenError::Other(error.to_string())),
        }
    }

    fn accept_loss(setup: &mut EngineSetup) {
        setup.options.accept_log_loss = true;
    }

    fn reuse_ids(setup: &mut EngineSetup) {
        setup.options.last_generation = Some(1);
        // Destage begins with a few blocks.
        setup.options.dirty_limit = 64 << 10;
    }

    fn inject(setup: &mut EngineSetup, bug: InjectedBug) {
        setup.bug = Some(bug);
        setup.options.accept_log_loss = bug == InjectedBug::AcceptLogLoss;
        if bug == InjectedBug::RepeatTickets {
            setup.options.last_ticket = Some(0);
        }
    }

    fn submit(&mut self, op: Op, tag: Tag) {
        self.open.insert(tag);
        let is_early = match (&op, self.bug) {
            (Op::Flush, Some(InjectedBug::AnswerFlushEarly)) => true,
            (Op::Write { volume, lba, data, fua: true }, Some(InjectedBug::AnswerFlushEarly)) => {
                let end = lba.0 + data.len() as u64 / LBA_BYTES;
                self.core.has_write_cache() && self.core.volumes().get(volume).is_some_and(|blocks| end <= *blocks)
            }
            (Op::Write { .. }, Some(InjectedBug::AnswerWhenBusy)) => self.open.len() > BUSY,
            _ => false,
        };
        if is_early {
            self.early.insert(tag, false);
        }
        self.core.submit(op, tag);
    }

    fn poll(&mut self, actions: &mut Vec<SimAction<Self>>) {
        let mut wanted = Vec::new();
        self.core.poll(&mut wanted);
        for (tag, is_answered) in &mut self.early {
            if !std::mem::replace(is_answered, true) {
                actions.push(SimAction::Complete { tag: *tag, result: Ok(Reply::Done) });
            }
        }
        wanted.retain(|action| match action {
            engine::Action::Complete { tag, .. } => {
                self.open.remove(tag);
                self.early.remove(tag).is_none()
            }
            engine::Action::Read(plan) => {
                self.open.remove(&plan.tag());
                true
            }
            _ => true,
        });
        actions.extend(wanted.into_iter().map(|action| match action {
            engine::Action::Complete { tag, result } => SimAction::Complete { tag, result },
            engine::Action::Read(plan) => SimAction::Read { tag: plan.tag(), plan },
            engine::Action::Fetch { id, plan } => SimAction::Fetch { id, plan },
            engine::Action::Work { id, work } => SimAction::Work { id, work },
            engine::Action::Io { id, io } => SimAction::Io { id, io: access(io) },
        }));
    }

    fn execute(plan: &ReadPlan, disk: &dyn Disk) -> Result<Reply, OpError> {
        plan.execute(disk)
    }

    fn fetched(&mut self, id: u64, result: Result<Reply, OpError>) {
        self.core.fetched(id, result);
    }

    fn perform(work: &engine::Work, disk: &dyn Disk) -> engine::WorkDone {
        work.perform(disk)
    }

    fn worked(&mut self, id: u64, done: engine::WorkDone) {
        self.core.worked(id, done);
    }

    fn io_done(&mut self, id: u64, result: Result<Bytes, DiskError>) {
        self.core.io_done(id, result);
    }

    fn flush_log(&mut self) {
        self.core.kick();
    }

    fn tick(&mut self) {
        self.core.tick();
    }

    fn slow_tick(&mut self) {
        self.core.slow_tick();
    }

    fn grow(&mut self, selector: u64) {
        let geometry = self.core.geometry();
        let capacity = geometry.capacity + selector % (GROWTH_SEGMENTS * geometry.segment_bytes);
        // The array never grows beyond its drive.
        if capacity <= self.drive_bytes {
            // Fails if an earlier, larger growth still waits for its checkpoint.
            let _ = self.core.grow(capacity);
        }
    }

    fn checkpoint(&mut self) {
        self.core.request_checkpoint();
        self.core.tick();
    }

    fn values(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.core.scan(b"").map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    fn audit(&self, disk: &dyn Disk) -> Result<(), String> {
        self.core.audit(disk).map(|_| ()).map_err(|error| error.to_string())
    }

    fn fsck(disk: &dyn Disk) -> Result<(), String> {
        let report = fsck::check(disk, fsck::FsckOptions { repair: false, check_data: true, threads: 1 });
        // A superblock copy torn by a crash looks like a damaged one. The engine writes neither
        // the owner block nor the key block, so the drive holds garbage there.
        let is_expected = |finding: &&Finding| {
            let is_unjudged =
                matches!(finding.structure, Structure::Superblock | Structure::Owner | Structure::KeyBlock);
            is_unjudged || finding.severity == Severity::Note
        };
        let told: Vec<&Finding> = report.findings.iter().filter(|finding| !is_expected(finding)).collect();
        let has_array = report.checkpoint.is_some();
        if told.is_empty() && has_array {
            return Ok(());
        }
        Err(told.iter().take(5).map(|finding| format!("\n  {:?} {finding}", finding.severity)).collect())
    }

    fn is_settled(&self) -> bool {
        self.core.is_settled()
    }

    fn has_recompressed(&self) -> bool {
        self.core.space().recompression.before > 0
    }

    fn check_accounting(&self, disk: &dyn Disk, selector: u64) -> Result<(), String> {
        let findings = fsck::FsckFindings::default();
        let checkpoint = fsck::Checkpoint::open(disk, self.core.newest_superblock().clone(), &findings);
        let checkpoint = checkpoint.map_err(|error| error.to_string())?;
        let sum = counted_bytes(&checkpoint, selector)?;
        let space = self.core.space();
        let is_exact = sum == checkpoint.data_bytes()
            && sum == space.data
            && space.repeated <= space.data
            && space.data + space.system == space.used;
        if is_exact { Ok(()) } else { Err(format!("{sum} bytes counted, {space:?}")) }
    }

    fn pin(&mut self) -> Pinned {
        let is_pinned = self.bug != Some(InjectedBug::UnpinnedCensus);
        Pinned(self.core.newest_superblock().clone(), is_pinned.then(|| self.core.pin_checkpoint()))
    }

    fn count_pinned(Pinned(superblock, pin): &Pinned, disk: &dyn Disk, selector: u64) -> Result<bool, String> {
        if pin.as_ref().is_some_and(PinnedCheckpoint::is_revoked) {
            return Ok(false);
        }
        let findings = fsck::FsckFindings::default();
        let checkpoint = fsck::Checkpoint::open(disk, superblock.clone(), &findings);
        let checkpoint = checkpoint.map_err(|error| error.to_string())?;
        let sum = counted_bytes(&checkpoint, selector)?;
        if sum != checkpoint.data_bytes() {
            return Err(format!("{sum} bytes counted, {} in the segments", checkpoint.data_bytes()));
        }
        fsck::audit(&checkpoint, &findings, &|| true);
        match findings.take().0.first() {
            Some(finding) => Err(finding.to_string()),
            None => Ok(true),
        }
    }

    fn scrub(&mut self, scrub: Option<Scrub>, disk: &dyn Disk, selector: u64) -> Result<Option<Scrub>, String> {
        if let Some(Scrub::Suspect { checkpoint, .. }) = &scrub
            && self.core.checkpoints() < *checkpoint
        {
            return Ok(scrub);
        }
        match scrub {
            None => {
                let segment = u32::try_from(selector % u64::from(self.core.geometry().segments())).unwrap_or(0);
                Ok(self.core.pin_segment(segment).map(|pinned| Scrub::Pinned(segment, pinned)))
            }
            Some(Scrub::Pinned(_, pinned)) if self.bug == Some(InjectedBug::ImpatientScrub) => {
                self.end_scrub(read_segment(&pinned, disk).as_ref(), &pinned, disk)
            }
            Some(Scrub::Pinned(segment, pinned)) => {
                let is_intact = read_segment(&pinned, disk).is_none_or(|contents| contents.is_intact());
                let checkpoint = if is_intact { 0 } else { self.core.request_checkpoint() };
                Ok((!is_intact).then_some(Scrub::Suspect { segment, checkpoint, pinned: None }))
            }
            Some(Scrub::Suspect { segment, checkpoint, pinned }) => {
                let Some(pinned) = pinned.or_else(|| self.core.pin_segment(segment)) else { return Ok(None) };
                Ok(Some(match self.core.quiet_mark(&pinned) {
                    Some(mark) => Scrub::Quiet(segment, checkpoint, pinned, mark),
                    None => Scrub::Suspect {
                        segment,
                        checkpoint,
                        pinned: Some(pinned).filter(|pinned| !pinned.is_metadata()),
                    },
                }))
            }
            Some(Scrub::Quiet(segment, checkpoint, pinned, mark)) => {
                let contents = read_segment(&pinned, disk);
                if self.core.was_quiet(&pinned, mark) {
                    return self.end_scrub(contents.as_ref(), &pinned, disk);
                }
                Ok(Some(Scrub::Suspect { segment, checkpoint, pinned: None }))
            }
        }
    }

    fn describe(&self) -> String {
        format!("{:?} {:?} wants a tick: {}", self.core.usage(), self.core.space(), self.core.wants_tick())
    }

    fn log_extent(setup: &EngineSetup) -> (u64, u64) {
        let start = setup.geometry.log_start();
        (start, start + setup.geometry.log_bytes)
    }

    fn has_quorum(disk: &dyn Disk, damaged: (u64, u64)) -> bool {
        let copies = std::array::from_fn(|copy| {
            let (start, mut bytes) = (superblock_offset(copy), vec![0; SUPERBLOCK_BYTES]);
            let is_damaged = damaged.0 < start + SUPERBLOCK_BYTES as u64 && start < damaged.1;
            let is_read = !is_damaged && disk.read_at(start, &mut bytes).is_ok();
            if is_read { bytes } else { vec![0; SUPERBLOCK_BYTES] }
        });
        Superblock::choose(&copies).is_ok()
    }
}

impl EngineSubject {
    /// Returns the core, for requests that only a pair of arrays makes.
    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Repairs what a scrub has found. The rest is damage.
    fn end_scrub(
        &mut self,
        contents: Option<&SegmentContents>,
        pinned: &PinnedSegment,
        disk: &dyn Disk,
    ) -> Result<Option<Scrub>, String> {
        let Some(contents) = contents else { return Ok(None) };
        let damage = contents.repair(pinned, &ScrubbedCore(RefCell::new(&mut self.core)), disk);
        if damage.descriptions.is_empty() { Ok(None) } else { Err(damage.descriptions.join("; ")) }
    }
}

/// Reads all copies of a segment.
fn read_segment(pinned: &PinnedSegment, disk: &dyn Disk) -> Option<SegmentContents> {
    SegmentContents::read(pinned, |offset, bytes| {
        let mut buffer = vec![0; bytes];
        read_or_zero(disk, offset, &mut buffer);
        Some(buffer)
    })
}

/// Returns the bytes of all families in a checkpoint. `selector` chooses the owners of the volumes.
fn counted_bytes(checkpoint: &fsck::Checkpoint<'_>, selector: u64) -> Result<u64, String> {
    let owner =
        |volume: VolumeId| (VolumeId(volume.0 % (selector % 7 + 1)), (selector >> 8 >> (volume.0 % 32)) & 1 == 1);
    let shares = fsck::account_space(checkpoint, &owner, &|| true).map_err(|error| error.to_string())?;
    let families = shares.families.values().map(|share| share.volume + share.snapshots + share.shared);
    Ok(families.sum::<u64>() + shares.released)
}

/// Returns the size of the drive. An array with limited file-system space does not grow.
fn drive_bytes(setup: &EngineSetup) -> u64 {
    let spare = if setup.space.is_none() { SPARE_SEGMENTS } else { 0 };
    setup.geometry.capacity + spare * setup.geometry.segment_bytes
}

fn access(io: engine::Io) -> DriveIo {
    match io {
        engine::Io::Read { offset, bytes, .. } => DriveIo::Read { offset, bytes },
        engine::Io::Write { offset, data, durability } => DriveIo::Write { offset, data, durability },
        engine::Io::Flush => DriveIo::Flush,
        engine::Io::Allocate { offset, bytes } => DriveIo::Allocate { offset, bytes },
        engine::Io::Discard { offset, bytes } => DriveIo::Discard { offset, bytes },
    }
}

#[cfg(test)]
mod tests;
