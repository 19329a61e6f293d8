//! The scrubber: on a thread of its own, it audits a pinned checkpoint and reads all segments.
//!
//! It reads one segment after the other, so that a slow scrub pins little space. A bad checksum may
//! come from a segment that was being written during the read. So the scrubber reads it again after
//! the next checkpoint, and reports only bytes that are still bad then.

use super::Shared;
use super::monitor::{ScrubRequest, ScrubResult};
use super::read_errors::described;
use crate::machine::{Core, PinnedSegment, read_page_at};
use crate::service::Damage;
use blockmap::{Ref, RefTarget};
use fsck::{Checkpoint, FsckFindings};
use ondisk::{
    SECTOR_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SummaryEntry, SummaryId, SummaryItem, decode_summary,
    superblock_offset,
};
use platform::clock;
use rustc_hash::FxHashSet;
use std::time::Duration;

/// Attempts to read a segment while no checkpoint is in progress, and the pause between them.
const QUIET_ATTEMPTS: u32 = 20;
const QUIET_PAUSE: Duration = Duration::from_millis(200);
/// Time between two attempts of a postponed audit.
const AUDIT_PAUSE: Duration = Duration::from_secs(600);
/// Bytes read at a time; the scrubber keeps its pace between reads.
const READ_BYTES: usize = 1 << 20;
const SECTOR: usize = SECTOR_BYTES as usize;

/// All copies of a segment, and the entries of those summaries that could be read.
struct Contents {
    copies: Vec<Vec<u8>>,
    entries: Vec<SummaryEntry>,
    /// Sector of a summary that could not be read.
    bad_summary: Option<u32>,
}

/// Stored bytes that do not match their checksum.
struct Suspect {
    entry: SummaryEntry,
    /// A copy that does.
    good: Option<Vec<u8>>,
}

impl Shared {
    /// Runs the scrubber's thread.
    pub(super) fn scrub_in_background(&self) {
        while let Some(request) = self.monitor.next_request(AUDIT_PAUSE, || self.must_end_scans()) {
            match request {
                ScrubRequest::Scrub(bytes_per_second, known) => {
                    let result = self.scrub_all(bytes_per_second);
                    self.monitor.scrub_ended(result, known, clock::unix_millis());
                }
                ScrubRequest::Audit => {
                    if let Some(damage) = self.audit() {
                        tracing::info!("postponed audit of counts completed");
                        self.monitor.audit_ended(damage);
                    }
                }
            }
        }
    }

    /// Checks everything once. Returns the damage that could not be repaired; `None` if scans must
    /// end or the engine has stopped.
    fn scrub_all(&self, bytes_per_second: u64) -> Option<ScrubResult> {
        let audited = self.audit();
        if self.locked(|core| core.stopped().is_some()) {
            return None;
        }
        let is_audited = audited.is_some();
        let mut damage = audited.unwrap_or_default();
        let mut suspects = Vec::new();
        let segments = self.locked(|core| core.geometry().segments());
        for segment in 0..segments {
            if self.must_end_scans() {
                return None;
            }
            let Some(pinned) = self.locked(|core| core.pin_segment(segment)) else { continue };
            let contents = self.read_segment(&pinned, bytes_per_second)?;
            if contents.bad_summary.is_some() || !suspects_in(&contents).is_empty() {
                suspects.push(segment);
            }
        }
        let has_bad_superblock = !self.superblocks_agree();
        if suspects.is_empty() && !has_bad_superblock {
            return Some(ScrubResult { damage, is_audited });
        }
        // After a checkpoint, no suspect is still being written. The checkpoint also writes all
        // copies of the superblock again.
        self.checkpoint()?;
        let mut lost = FxHashSet::default();
        for segment in suspects {
            if let Some((pinned, contents)) = self.read_quietly(segment, bytes_per_second) {
                self.repair_or_report(&pinned, &contents, &mut damage, &mut lost);
            }
        }
        self.locate_lost(&lost, &mut damage);
        Some(ScrubResult { damage, is_audited })
    }

    /// Reads a segment while nothing is written to it. `None` if no attempt succeeds, or if the
    /// segment is empty by now.
    fn read_quietly(&self, segment: u32, bytes_per_second: u64) -> Option<(PinnedSegment, Contents)> {
        for _ in 0..QUIET_ATTEMPTS {
            let pinned = self.locked(|core| core.pin_segment(segment))?;
            let before = self.locked(|core| core.idle_freezes());
            let contents = self.read_segment(&pinned, bytes_per_second)?;
            let is_quiet = before.is_some() && before == self.locked(|core| core.idle_freezes());
            // In a data segment, only the last chunk can still be in flight, and not for long.
            if (is_quiet && pinned.is_metadata) || (!pinned.is_metadata && contents.bad_summary.is_none()) {
                return Some((pinned, contents));
            }
            self.monitor.pause(QUIET_PAUSE);
            if !pinned.is_metadata {
                // Reads the same chunk again: by now it is written, or it is bad.
                let contents = self.read_segment(&pinned, bytes_per_second)?;
                return Some((pinned, contents));
            }
        }
        None
    }

    /// Compares every count of a checkpoint with a walk over all references. `None` if scans must
    /// end, the engine has stopped, or hosts need the space of the checkpoint.
    fn audit(&self) -> Option<Vec<Damage>> {
        self.scan_checkpoint("audit", &|| !self.must_end_scans(), |pinned, should_continue| {
            let findings = FsckFindings::default();
            match Checkpoint::open(&*self.disk, pinned.superblock.clone(), &findings) {
                Ok(checkpoint) => drop(fsck::audit(&checkpoint, &findings, should_continue)),
                Err(error) => return vec![Damage { volume: None, description: error.to_string() }],
            }
            let (found, _) = findings.take();
            found.into_iter().map(|finding| Damage { volume: None, description: finding.to_string() }).collect()
        })
    }

    /// Reads all copies of a segment. `None` if scans must end.
    fn read_segment(&self, pinned: &PinnedSegment, bytes_per_second: u64) -> Option<Contents> {
        let geometry = self.locked(|core| *core.geometry());
        let start = geometry.segment_start(pinned.segment);
        let mirror = pinned.is_metadata.then(|| geometry.mirror_offset(start));
        let mut copies = Vec::new();
        for from in std::iter::once(start).chain(mirror) {
            copies.push(self.read_paced(from, pinned.sectors as usize * SECTOR, bytes_per_second)?);
        }
        let array = self.locked(|core| core.array());
        let id = SummaryId { array, segment: pinned.segment, usage: pinned.usage };
        let (entries, bad_summary) = list_entries(id, pinned.summary, &copies);
        Some(Contents { copies, entries, bad_summary })
    }

    /// Reads a range. Sectors that the drive cannot read become zeros, which match no checksum.
    /// `None` if scans must end.
    fn read_paced(&self, offset: u64, bytes: usize, bytes_per_second: u64) -> Option<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        for (index, part) in buffer.chunks_mut(READ_BYTES).enumerate() {
            let began = clock::now();
            let at = offset + (index * READ_BYTES) as u64;
            if self.disk.read_at(at, part).is_err() {
                for (sector, bytes) in part.chunks_mut(SECTOR).enumerate() {
                    if self.disk.read_at(at + (sector * SECTOR) as u64, bytes).is_err() {
                        bytes.fill(0);
                    }
                }
            }
            self.monitor.add_scrubbed(part.len() as u64);
            let due = Duration::from_secs_f64(part.len() as f64 / bytes_per_second as f64);
            if let Some(left) = due.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
                self.monitor.pause(left);
            }
            if self.must_end_scans() {
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

    /// Repairs bad metadata from memory or from its other copy, and reports the rest. Adds the
    /// slots of lost blocks and pages to `lost`.
    fn repair_or_report(
        &self,
        pinned: &PinnedSegment,
        contents: &Contents,
        damage: &mut Vec<Damage>,
        lost: &mut FxHashSet<u64>,
    ) {
        let start = self.locked(|core| core.geometry().segment_start(pinned.segment));
        if let Some(sector) = contents.bad_summary {
            let segment = pinned.segment;
            let description =
                format!("summary at sector {sector} of segment {segment} cannot be read; segment not checked");
            damage.push(Damage { volume: None, description });
        }
        for Suspect { entry, good } in suspects_in(contents) {
            let is_repaired = self.with_slot_loaded(&entry, |core| {
                !core.is_needed(pinned, &entry) || (pinned.is_metadata && core.rewrite(&entry, good.as_deref()))
            });
            if is_repaired {
                continue;
            }
            let offset = start + u64::from(entry.sector) * SECTOR_BYTES;
            let bytes = u64::from(entry.sectors) * SECTOR_BYTES;
            if let SummaryItem::Slot(bits) = entry.item {
                lost.extend(Ref::from_bits(bits).and_then(slot_of));
            }
            let description =
                format!("{} ({bytes} bytes at {offset} of the drive) does not pass its checksum", describe(&entry));
            damage.push(Damage { volume: None, description });
        }
    }

    /// Runs `ask` on the core while the slot of an entry is loaded, or without the slot if it
    /// cannot be read.
    fn with_slot_loaded<T>(&self, entry: &SummaryEntry, ask: impl Fn(&mut Core) -> T) -> T {
        loop {
            let asked = self.locked(|core| match core.missing_slot_page(entry) {
                None => Ok(ask(core)),
                Some(missing) => Err((missing, *core.geometry())),
            });
            let ((page, location), geometry) = match asked {
                Ok(answer) => return answer,
                Err(missing) => missing,
            };
            let Some(bytes) = read_page_at(&*self.disk, &geometry, location) else { return self.locked(&ask) };
            let asked = self.locked(|core| core.load_slot_page(page, location, &bytes).then(|| ask(core)));
            if let Some(answer) = asked {
                return answer;
            }
        }
    }

    /// Reports the lost blocks by volume.
    fn locate_lost(&self, lost: &FxHashSet<u64>, damage: &mut Vec<Damage>) {
        if lost.is_empty() {
            return;
        }
        let located =
            self.scan_checkpoint("location of lost blocks", &|| !self.must_end_scans(), |pinned, should_continue| {
                let findings = FsckFindings::default();
                let checkpoint = Checkpoint::open(&*self.disk, pinned.superblock.clone(), &findings).ok()?;
                fsck::locate(&checkpoint, lost, should_continue)
            });
        for (volume, ranges) in located.flatten().unwrap_or_default() {
            damage.push(described(volume, &ranges));
        }
    }
}

/// Returns the entries of all summaries, each from its first intact copy. If a summary has none,
/// returns its sector, too.
fn list_entries(id: SummaryId, last: Option<u32>, copies: &[Vec<u8>]) -> (Vec<SummaryEntry>, Option<u32>) {
    let (mut entries, mut next) = (Vec::new(), last);
    while let Some(sector) = next {
        let found = copies.iter().filter_map(|copy| copy.get(sector as usize * SECTOR..));
        let Some((listed, previous)) = found.filter_map(|bytes| decode_summary(id, bytes)).next() else {
            return (entries, Some(sector));
        };
        entries.extend(listed);
        // Each summary names an earlier one; a chain that does not would never end.
        next = previous.filter(|previous| *previous < sector);
    }
    (entries, None)
}

/// Returns the entries that have a copy with a bad checksum.
fn suspects_in(contents: &Contents) -> Vec<Suspect> {
    let intact = |copy: &Vec<u8>, entry: &SummaryEntry| {
        let from = usize::from(entry.sector) * SECTOR;
        let bytes = copy.get(from..from + usize::from(entry.sectors) * SECTOR)?;
        (crc_fast::crc32_iscsi(bytes) == entry.crc).then(|| bytes.to_vec())
    };
    let check = |entry: &SummaryEntry| {
        let copies: Vec<Option<Vec<u8>>> = contents.copies.iter().map(|copy| intact(copy, entry)).collect();
        let is_intact = copies.iter().all(Option::is_some);
        (!is_intact).then(|| Suspect { entry: *entry, good: copies.into_iter().flatten().next() })
    };
    contents.entries.iter().filter_map(check).collect()
}

fn slot_of(reference: Ref) -> Option<u64> {
    match reference.target() {
        RefTarget::Data(id) | RefTarget::Page(id) => Some(id.slot),
        _ => None,
    }
}

/// Describes what an entry lists.
fn describe(entry: &SummaryEntry) -> String {
    match entry.item {
        SummaryItem::SlotPage(number) => format!("page {number} of the slot table"),
        SummaryItem::DirectoryPage(number) => format!("page {number} of the slot directory"),
        SummaryItem::Slot(bits) => match Ref::from_bits(bits).map(Ref::target) {
            Some(RefTarget::Data(id)) => format!("block of slot {}", id.slot),
            Some(RefTarget::Page(id)) => format!("map page {id:?}"),
            _ => "entry of unknown kind".to_owned(),
        },
    }
}
