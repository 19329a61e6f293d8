//! What is stored, looked at while it serves: the census, the auditor and the scrubber.
//!
//! All three read the drive on a thread of their own. Census and auditor read a whole checkpoint, which a pin keeps as it
//! is; the scrubber reads one segment after the other, so that a slow pace holds no space back. What looks bad may have been
//! read while it was being written: it is looked at again behind the next checkpoint, and only then believed.

use super::Shared;
use super::lost::{Lost, unreadable};
use crate::machine::{Core, PinnedCheckpoint, PinnedSegment, read_page_at};
use crate::service::{Census, Damage, FamilySpace, Health, OpError, Owner};
use fsck::{Checkpoint, FsckFindings};
use ondisk::{
    SECTOR_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SummaryEntry, SummaryId, SummaryItem, decode_summary,
    superblock_offset,
};
use parking_lot::{Condvar, Mutex};
use platform::clock;
use rustc_hash::FxHashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use types::VolumeId;

/// How long is slept before the core is asked again whether its checkpoint is done.
const PATIENCE: Duration = Duration::from_millis(5);
/// How often a moment is looked for in which no checkpoint is under way, and how long is waited in between.
const QUIET_TRIES: u32 = 20;
const QUIET_PAUSE: Duration = Duration::from_millis(200);
/// The most damage that is kept.
const MOST_DAMAGE: usize = 1000;
/// Bytes that are read at a time, between which the pace is kept.
const PIECE: usize = 1 << 20;
const SECTOR: usize = SECTOR_BYTES as usize;

/// What the scrubber is told, and what it has found.
#[derive(Default)]
pub(super) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    health: Health,
    /// What reads have met.
    lost: Lost,
    /// Bytes a second of a scrub that is to begin.
    wanted: Option<u64>,
}

impl Watch {
    /// Asks for a scrub; one that is under way goes on.
    pub(super) fn want(&self, bytes_per_second: u64) {
        let mut state = self.state.lock();
        if !state.health.is_scrubbing {
            state.health.is_scrubbing = true;
            state.health.scrubbed = 0;
            state.wanted = Some(bytes_per_second.max(1));
            self.changed.notify_all();
        }
    }

    pub(super) fn health(&self) -> Health {
        let state = self.state.lock();
        let mut health = state.health.clone();
        health.damage.extend(state.lost.told());
        health
    }

    /// Takes note of an error that answers a request on `volume`.
    pub(super) fn note(&self, volume: VolumeId, error: &OpError) {
        self.state.lock().lost.note(volume, error);
    }

    /// Wakes the scrubber, so that it sees the end.
    pub(super) fn wake(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }

    fn pause(&self, time: Duration) {
        self.changed.wait_for(&mut self.state.lock(), time);
    }
}

/// What a segment holds, as far as its summaries could be read, in all copies.
struct Contents {
    copies: Vec<Vec<u8>>,
    entries: Vec<SummaryEntry>,
    /// A summary could not be read: at this sector.
    broken: Option<u32>,
}

/// Something that does not pass its checksum.
struct Suspect {
    entry: SummaryEntry,
    /// A copy that does.
    good: Option<Vec<u8>>,
}

impl Shared {
    /// True when what is looked at in the background has to end.
    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire) || self.has_no_time.load(Ordering::Acquire)
    }

    /// Takes a checkpoint of what is now. `None` when the engine ends or has stopped.
    fn checkpoint(&self) -> Option<PinnedCheckpoint> {
        self.checkpoint_while(&|| !self.is_ending())
    }

    /// The same, and `None` when there is no more time for it. Then it is still taken, and nobody waits.
    fn checkpoint_while(&self, has_time: &dyn Fn() -> bool) -> Option<PinnedCheckpoint> {
        let wanted = self.locked(Core::request_checkpoint);
        loop {
            let frozen = self.locked(|core| (core.checkpoints() >= wanted).then(|| core.pin_checkpoint()));
            if frozen.is_some() {
                return frozen;
            }
            if !has_time() || self.locked(|core| core.stopped().is_some()) {
                return None;
            }
            self.background.notify_all();
            self.watch.pause(PATIENCE);
        }
    }

    /// Makes the pool larger, and waits until that is on the drive.
    pub(super) fn grow(&self, capacity: u64) -> Result<(), OpError> {
        if self.disk.size() < capacity {
            return Err(OpError::Malformed("the drive is shorter than the array is to be"));
        }
        let is_done = |core: &mut Core| {
            let geometry = core.newest_superblock().geometry;
            geometry.capacity + geometry.segment_bytes > capacity
        };
        self.locked(|core| core.grow(capacity))?;
        while !self.locked(is_done) {
            if self.checkpoint().is_none() {
                let reason = self.locked(|core| core.stopped().cloned());
                return Err(OpError::Stopped(reason.unwrap_or_else(|| "it is ending".into())));
            }
        }
        Ok(())
    }

    /// Counts what belongs to whom at the instant of a checkpoint that is taken for it.
    pub(super) fn census(&self, owner: &dyn Fn(VolumeId) -> Owner, patience: Option<Duration>) -> Option<Census> {
        let end = patience.map(|patience| clock::now() + patience);
        let has_time = || !self.is_ending() && end.is_none_or(|end| clock::now() < end);
        let frozen = self.checkpoint_while(&has_time)?;
        let family = |volume: VolumeId| {
            let Owner { family, is_snapshot } = owner(volume);
            (family, is_snapshot)
        };
        let counted = Checkpoint::open(&*self.disk, frozen.superblock.clone(), &FsckFindings::default())
            .and_then(|checkpoint| fsck::account_space(&checkpoint, &family, &has_time));
        match counted {
            Ok(shares) => {
                let space = |share: fsck::FamilyBytes| FamilySpace {
                    written: share.written,
                    unique: share.volume,
                    snapshots: share.snapshots,
                    shared: share.shared,
                };
                let families = shares.families.into_iter().map(|(family, share)| (family, space(share))).collect();
                Some(Census { families, released: shares.released })
            }
            Err(_) if !has_time() => None,
            Err(error) => {
                tracing::warn!(%error, "what belongs to whom could not be counted");
                None
            }
        }
    }

    /// The thread of the scrubber.
    pub(super) fn scrub_in_background(&self) {
        loop {
            let (pace, known) = {
                let mut state = self.watch.state.lock();
                while state.wanted.is_none() && !self.is_ending() {
                    self.watch.changed.wait(&mut state);
                }
                (state.wanted.take(), state.lost.clone())
            };
            let Some(pace) = pace.filter(|_| !self.is_ending()) else { return };
            let damage = self.scrub_all(pace);
            let mut state = self.watch.state.lock();
            state.health.is_scrubbing = false;
            if let Some(damage) = damage {
                state.health.scrubs += 1;
                state.health.damage = damage;
                state.lost.forget(&known);
            }
        }
    }

    /// Checks everything once; gives the damage that was found and could not be mended. `None` when the engine ends meanwhile.
    fn scrub_all(&self, pace: u64) -> Option<Vec<Damage>> {
        let mut damage = self.audit()?;
        let mut suspects = Vec::new();
        let segments = self.locked(|core| core.geometry().segments());
        for segment in 0..segments {
            if self.is_ending() {
                return None;
            }
            let Some(scrubbed) = self.locked(|core| core.pin_segment(segment)) else { continue };
            let contents = self.read_segment(&scrubbed, pace)?;
            if contents.broken.is_some() || !suspects_in(&contents).is_empty() {
                suspects.push(segment);
            }
        }
        let has_bad_superblock = !self.superblocks_agree();
        if suspects.is_empty() && !has_bad_superblock {
            return Some(damage);
        }
        // Behind a checkpoint nothing of what was suspected is still being written. It also writes all superblock copies again.
        self.checkpoint()?;
        let mut lost = FxHashSet::default();
        for segment in suspects {
            if let Some((scrubbed, contents)) = self.read_quietly(segment, pace) {
                self.judge(&scrubbed, &contents, &mut damage, &mut lost);
            }
        }
        let frozen = self.checkpoint()?;
        self.name_volumes(&frozen, &lost, &mut damage);
        damage.truncate(MOST_DAMAGE);
        Some(damage)
    }

    /// Reads a segment while nothing is written to it. `None` when there was no such moment, or nothing is in it any more.
    fn read_quietly(&self, segment: u32, pace: u64) -> Option<(PinnedSegment, Contents)> {
        for _ in 0..QUIET_TRIES {
            let scrubbed = self.locked(|core| core.pin_segment(segment))?;
            let before = self.locked(|core| core.idle_freezes());
            let contents = self.read_segment(&scrubbed, pace)?;
            let is_quiet = before.is_some() && before == self.locked(|core| core.idle_freezes());
            // Of a segment of data, only the last chunk can still have been under way, and it is soon done.
            if (is_quiet && scrubbed.is_metadata) || (!scrubbed.is_metadata && contents.broken.is_none()) {
                return Some((scrubbed, contents));
            }
            self.watch.pause(QUIET_PAUSE);
            if !scrubbed.is_metadata {
                // The same chunk once more: by now it is written, or it is bad.
                let contents = self.read_segment(&scrubbed, pace)?;
                return Some((scrubbed, contents));
            }
        }
        None
    }

    /// The auditor: every count of the checkpoint equals what a walk finds, and every account what is stored.
    fn audit(&self) -> Option<Vec<Damage>> {
        let frozen = self.checkpoint()?;
        let findings = FsckFindings::default();
        match Checkpoint::open(&*self.disk, frozen.superblock.clone(), &findings) {
            Ok(checkpoint) => drop(fsck::audit(&checkpoint, &findings)),
            Err(error) => return Some(vec![Damage { volume: None, what: error.to_string() }]),
        }
        let (found, _) = findings.take();
        Some(found.into_iter().map(|finding| Damage { volume: None, what: finding.to_string() }).collect())
    }

    /// Reads a segment, all copies, at the pace. `None` when the engine ends.
    fn read_segment(&self, scrubbed: &PinnedSegment, pace: u64) -> Option<Contents> {
        let geometry = self.locked(|core| *core.geometry());
        let start = geometry.segment_start(scrubbed.segment);
        let twin = scrubbed.is_metadata.then(|| geometry.mirror_offset(start));
        let mut copies = Vec::new();
        for from in std::iter::once(start).chain(twin) {
            copies.push(self.read_paced(from, scrubbed.sectors as usize * SECTOR, pace)?);
        }
        let array = self.locked(|core| core.array());
        let id = SummaryId { array, segment: scrubbed.segment, usage: scrubbed.usage };
        let (entries, broken) = list(id, scrubbed.summary, &copies);
        Some(Contents { copies, entries, broken })
    }

    /// The bytes; zeros, which pass no checksum, where the drive cannot read them. `None` when the engine ends.
    fn read_paced(&self, offset: u64, bytes: usize, pace: u64) -> Option<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        for (index, piece) in buffer.chunks_mut(PIECE).enumerate() {
            let began = clock::now();
            let at = offset + (index * PIECE) as u64;
            if self.disk.read_at(at, piece).is_err() {
                for (block, bytes) in piece.chunks_mut(SECTOR).enumerate() {
                    if self.disk.read_at(at + (block * SECTOR) as u64, bytes).is_err() {
                        bytes.fill(0);
                    }
                }
            }
            self.watch.state.lock().health.scrubbed += piece.len() as u64;
            let due = Duration::from_secs_f64(piece.len() as f64 / pace as f64);
            if let Some(left) = due.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
                self.watch.pause(left);
            }
            if self.is_ending() {
                return None;
            }
        }
        Some(buffer)
    }

    fn superblocks_agree(&self) -> bool {
        let newest = self.locked(|core| core.pin_checkpoint()).superblock;
        (0..SUPERBLOCK_COPIES).all(|copy| {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            self.disk.read_at(superblock_offset(copy), &mut bytes).is_ok() && bytes == newest.encode(copy)
        })
    }

    /// Mends what can be mended, and tells the rest.
    fn judge(
        &self,
        scrubbed: &PinnedSegment,
        contents: &Contents,
        damage: &mut Vec<Damage>,
        lost: &mut FxHashSet<u64>,
    ) {
        let start = self.locked(|core| core.geometry().segment_start(scrubbed.segment));
        if let Some(sector) = contents.broken {
            damage.push(Damage {
                volume: None,
                what: format!(
                    "the summary at sector {sector} of segment {} cannot be read: what the segment holds is not checked",
                    scrubbed.segment
                ),
            });
        }
        for Suspect { entry, good } in suspects_in(contents) {
            let is_mended = self.with_slots_of(&entry, |core| {
                !core.is_needed(scrubbed, &entry) || (scrubbed.is_metadata && core.rewrite(&entry, good.as_deref()))
            });
            if is_mended {
                continue;
            }
            let offset = start + u64::from(entry.sector) * SECTOR_BYTES;
            let bytes = u64::from(entry.sectors) * SECTOR_BYTES;
            if let SummaryItem::Slot(bits) = entry.item {
                lost.extend(blockmap::Ref::from_bits(bits).and_then(slot_of));
            }
            damage.push(Damage {
                volume: None,
                what: format!("{} ({bytes} bytes at {offset} of the drive) does not pass its checksum", name(&entry)),
            });
        }
    }

    /// Asks the core with the slot in memory that says whether an entry is needed, where that can be read.
    fn with_slots_of<T>(&self, entry: &SummaryEntry, ask: impl Fn(&mut Core) -> T) -> T {
        loop {
            let asked = self.locked(|core| match core.missing_slot_page(entry) {
                None => Ok(ask(core)),
                Some(absent) => Err((absent, *core.geometry())),
            });
            let ((page, located), geometry) = match asked {
                Ok(answer) => return answer,
                Err(absent) => absent,
            };
            let Some(bytes) = read_page_at(&*self.disk, &geometry, located) else { return self.locked(&ask) };
            let asked = self.locked(|core| core.load_slot_page(page, located, &bytes).then(|| ask(core)));
            if let Some(answer) = asked {
                return answer;
            }
        }
    }

    /// Says which blocks of which volumes are lost.
    fn name_volumes(&self, frozen: &PinnedCheckpoint, lost: &FxHashSet<u64>, damage: &mut Vec<Damage>) {
        if lost.is_empty() {
            return;
        }
        let findings = FsckFindings::default();
        let Ok(checkpoint) = Checkpoint::open(&*self.disk, frozen.superblock.clone(), &findings) else { return };
        for (volume, hurt) in fsck::locate(&checkpoint, lost) {
            damage.push(unreadable(volume, hurt.blocks, &hurt.runs));
        }
    }
}

/// What the summaries list, from the first copy of each that is good.
fn list(id: SummaryId, last: Option<u32>, copies: &[Vec<u8>]) -> (Vec<SummaryEntry>, Option<u32>) {
    let (mut entries, mut next) = (Vec::new(), last);
    while let Some(sector) = next {
        let found = copies.iter().filter_map(|copy| copy.get(sector as usize * SECTOR..));
        let Some((listed, previous)) = found.filter_map(|bytes| decode_summary(id, bytes)).next() else {
            return (entries, Some(sector));
        };
        entries.extend(listed);
        // Each points further back: a chain that does not would never end.
        next = previous.filter(|previous| *previous < sector);
    }
    (entries, None)
}

/// Entries of which a copy does not pass its checksum.
fn suspects_in(contents: &Contents) -> Vec<Suspect> {
    let stored = |copy: &Vec<u8>, entry: &SummaryEntry| {
        let from = usize::from(entry.sector) * SECTOR;
        let bytes = copy.get(from..from + usize::from(entry.sectors) * SECTOR)?;
        (crc_fast::crc32_iscsi(bytes) == entry.crc).then(|| bytes.to_vec())
    };
    let judge = |entry: &SummaryEntry| {
        let sound: Vec<Option<Vec<u8>>> = contents.copies.iter().map(|copy| stored(copy, entry)).collect();
        let is_sound = sound.iter().all(Option::is_some);
        (!is_sound).then(|| Suspect { entry: *entry, good: sound.into_iter().flatten().next() })
    };
    contents.entries.iter().filter_map(judge).collect()
}

fn slot_of(reference: blockmap::Ref) -> Option<u64> {
    match reference.target() {
        blockmap::RefTarget::Data(name) | blockmap::RefTarget::Page(name) => Some(name.slot),
        _ => None,
    }
}

fn name(entry: &SummaryEntry) -> String {
    match entry.item {
        SummaryItem::SlotPage(number) => format!("page {number} of the slot table"),
        SummaryItem::DirectoryPage(number) => format!("page {number} of the slot directory"),
        SummaryItem::Slot(bits) => match blockmap::Ref::from_bits(bits).map(blockmap::Ref::target) {
            Some(blockmap::RefTarget::Data(name)) => format!("the block of slot {}", name.slot),
            Some(blockmap::RefTarget::Page(name)) => format!("map page {name:?}"),
            _ => "what nobody knows".to_owned(),
        },
    }
}
