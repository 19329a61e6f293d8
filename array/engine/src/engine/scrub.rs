//! The scrubber: on a thread of its own, it audits a pinned checkpoint and reads all segments.
//!
//! It reads one segment after the other, so that a slow scrub pins little space.

use super::Shared;
use super::monitor::{ScrubRequest, ScrubResult};
use super::read_errors::described;
use crate::machine::{Core, PinnedSegment, SegmentContents, WithCore, read_or_zero};
use crate::service::Damage;
use fsck::{Checkpoint, FsckFindings};
use ondisk::{SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, superblock_offset};
use platform::clock;
use rustc_hash::FxHashSet;
use std::time::Duration;

/// Attempts to read a segment while nothing writes to it, and the pause between them.
const QUIET_ATTEMPTS: u32 = 20;
const QUIET_PAUSE: Duration = Duration::from_millis(200);
/// Time between two attempts of a postponed audit.
const AUDIT_PAUSE: Duration = Duration::from_secs(600);
/// Bytes read at a time; the scrubber keeps its pace between reads.
const READ_BYTES: usize = 1 << 20;

impl WithCore for Shared {
    fn with_core<T>(&self, run: impl FnOnce(&mut Core) -> T) -> T {
        self.locked(run)
    }
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
            if !contents.is_intact() {
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
                let found = contents.repair(&pinned, self, &*self.disk);
                lost.extend(found.lost);
                let descriptions = found.descriptions.into_iter();
                damage.extend(descriptions.map(|description| Damage { volume: None, description }));
            }
        }
        self.locate_lost(&lost, &mut damage);
        Some(ScrubResult { damage, is_audited })
    }

    /// Reads a segment while nothing is written to it. `None` if no attempt succeeds, if the
    /// segment is empty by now, or if scans must end.
    fn read_quietly(&self, segment: u32, bytes_per_second: u64) -> Option<(PinnedSegment, SegmentContents)> {
        let mut known = None;
        for _ in 0..QUIET_ATTEMPTS {
            let (pinned, mark) = self.locked(|core| {
                let pinned = known.take().or_else(|| core.pin_segment(segment))?;
                let mark = core.quiet_mark(&pinned);
                Some((pinned, mark))
            })?;
            if let Some(mark) = mark {
                let contents = self.read_segment(&pinned, bytes_per_second)?;
                if self.locked(|core| core.was_quiet(&pinned, mark)) {
                    return Some((pinned, contents));
                }
            }
            // A data segment grows, but the chunks in flight at the pin end soon.
            known = Some(pinned).filter(|pinned| !pinned.is_metadata());
            self.monitor.pause(QUIET_PAUSE);
            if self.must_end_scans() {
                return None;
            }
        }
        tracing::warn!(segment, "bad checksum not confirmed: the segment is being written");
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
    fn read_segment(&self, pinned: &PinnedSegment, bytes_per_second: u64) -> Option<SegmentContents> {
        SegmentContents::read(pinned, |offset, bytes| self.read_paced(offset, bytes, bytes_per_second))
    }

    /// Reads a range. Sectors that the drive cannot read become zeros, which match no checksum.
    /// `None` if scans must end.
    fn read_paced(&self, offset: u64, bytes: usize, bytes_per_second: u64) -> Option<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        for (index, part) in buffer.chunks_mut(READ_BYTES).enumerate() {
            let began = clock::now();
            let at = offset + (index * READ_BYTES) as u64;
            read_or_zero(&*self.disk, at, part);
            self.monitor.add_scrubbed(part.len() as u64);
            let due = Duration::from_secs_f64(part.len() as f64 / bytes_per_second as f64);
            if let Some(left) = due.checked_sub(clock::since(began)).filter(|left| !left.is_zero()) {
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
