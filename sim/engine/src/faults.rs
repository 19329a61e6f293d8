//! The faults of a run, drawn from its seed.

use crate::disk::{DamageKind, Faults, SimDisk};
use crate::injected_bug::InjectedBug;
use crate::machine::Delays;
use crate::subject::SimScale;
use testing::Rng;

/// Number of recent writes among which damage is placed.
const RECENT_WRITES: usize = 64;

/// The kinds of faults of one run.
#[derive(Clone, Copy, Debug)]
pub struct FaultProfile {
    /// Bytes that the drive writes atomically.
    pub unit: u64,
    /// Percent of the crashes that end only the process.
    pub process_crashes: u64,
    /// Percent of the crashes after which a place of the drive is damaged.
    pub damage: u64,
    /// Delays of each step.
    pub delays: Delays,
    log: (u64, u64),
    scale: SimScale,
    bug: Option<InjectedBug>,
}

impl FaultProfile {
    /// Draws a profile for an array of `scale` whose log has the offsets `log`.
    pub fn draw(rng: &mut Rng, log: (u64, u64), scale: SimScale, bug: Option<InjectedBug>) -> Self {
        let unit = rng.pick(&[512, 512, 4096]);
        let process_crashes = rng.pick(&[0, 0, 30, 70]);
        let damage = if scale.segment_bytes > 0 { rng.pick(&[0, 0, 0, 40]) } else { 0 };
        let one_hangs_in = rng.pick(&[0, 0, 0, 20, 200]);
        let delays = Delays {
            step_ms: rng.pick(&[1, 10, 100]),
            one_hangs_in,
            reports_early: bug == Some(InjectedBug::CompleteHungIo),
            fails_page_reads: bug == Some(InjectedBug::FailPageReads),
        };
        Self { unit, process_crashes, damage, delays, log, scale, bug }
    }

    /// Returns the faults that are always armed, while the array works or (`recovers`) is opened.
    pub fn armed(&self, recovers: bool) -> Faults {
        let bug = self.bug.and_then(|bug| bug.of_drive(self.log, recovers));
        Faults { bug, space: self.scale.space, ..Faults::default() }
    }

    /// Damages a place of the drive that was written recently. Returns the byte range, or `None` if
    /// there is no such place.
    ///
    /// A log group is damaged only if a later one is durable. Otherwise the damage looks like a
    /// write that a crash has torn, and no array can distinguish the two.
    pub fn damage(&self, disk: &SimDisk, rng: &mut Rng) -> Option<((u64, u64), DamageKind)> {
        let writes = disk.finished_writes();
        let is_log = |write: &&(u64, u64)| (self.log.0..self.log.1).contains(&write.0);
        let is_superblock = |write: &&(u64, u64)| write.0 < self.log.0;
        let mut recent: Vec<(u64, u64)> = match rng.below(4) {
            0 => writes.iter().filter(is_log).copied().collect(),
            1 => writes.iter().filter(is_superblock).copied().collect(),
            _ => writes.iter().filter(|write| write.0 >= self.log.1).copied().collect(),
        };
        if recent.first().is_some_and(|write| is_log(&write)) {
            // Each recovery stores the last group again.
            let last = recent.last().copied();
            recent.retain(|write| last.is_none_or(|last| write.1 <= last.0 || last.1 <= write.0));
        }
        recent.drain(..recent.len().saturating_sub(RECENT_WRITES));
        let (from, to) = *recent.get(rng.index(recent.len().max(1)))?;
        let start = rng.between(from, to.saturating_sub(1).max(from));
        let segment_bytes = self.scale.segment_bytes;
        let range = match start.checked_sub(self.log.1) {
            // All of a segment: it holds one copy of metadata, or data.
            Some(inside) if rng.percent(15) => {
                let first = self.log.1 + inside / segment_bytes * segment_bytes;
                (first, first + segment_bytes)
            }
            _ => (start, (start + rng.size(16 << 10)).min(to)),
        };
        let kind = rng.pick(&[DamageKind::Rot, DamageKind::Rot, DamageKind::BadSectors]);
        disk.damage(range, kind);
        Some((range, kind))
    }
}
