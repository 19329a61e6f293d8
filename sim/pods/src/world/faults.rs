//! Faults, and when they happen.

use super::{MS, SECOND, Task, World, side_of};
use crate::fault::{Fault, Moment, Overtaking};
use crate::totals::Profile;
use pod::{Event, Request};

/// Time until both arrays are in step under the mediator, before the first fault.
const SETTLED: u64 = 8 * SECOND;
/// The last fault has ended by then.
pub(crate) const CALM: u64 = 48 * SECOND;
/// Hosts end then.
pub(crate) const HOSTS_END: u64 = 68 * SECOND;
/// The run ends then.
pub(crate) const END: u64 = 76 * SECOND;

impl World {
    /// Plans the faults of the run.
    pub(super) fn plan_faults(&mut self) {
        if self.profile == Profile::Single {
            let at = SETTLED + self.rng.below(2 * SECOND);
            let fault = self.single_fault();
            self.at(at, Task::Fault(fault));
            return;
        }
        if self.profile == Profile::Lease {
            self.plan_cuts();
            return;
        }
        if self.profile == Profile::Paths {
            self.plan_overtaking();
            return;
        }
        if self.rng.percent(50) {
            let (at, time) = (self.rng.between(6, 20) * SECOND, self.rng.between(5, 9) * SECOND);
            self.at(at, Task::Fault(Fault::NoMediator(time)));
        }
        let count = self.rng.between(1, 8);
        for _ in 0..count {
            let at = self.rng.between(SECOND, CALM - 8 * SECOND);
            // Several faults often come together.
            let burst = if self.rng.percent(40) { self.rng.between(1, 3) } else { 0 };
            for _ in 0..=burst {
                let offset = if burst == 0 { 0 } else { self.rng.below(3 * SECOND) };
                let most = CALM - at - offset;
                let fault = self.random_fault(most);
                self.at(at + offset, Task::Fault(fault));
            }
        }
    }

    /// Cuts the link several times. Sometimes a process ends at the same time, and is back soon.
    fn plan_cuts(&mut self) {
        let node = self.fast_node();
        let mut at = SETTLED;
        while at + 10 * SECOND < CALM {
            let crash = self.rng.percent(40).then(|| (node, self.rng.between(30, 300) * MS));
            let fault = Fault::CutAndCrash(self.rng.between(3500, 5000) * MS, crash);
            let offset = self.rng.below(SECOND);
            self.at(at + offset, Task::Fault(fault));
            at += 9 * SECOND;
        }
    }

    /// Hosts use one path after the other. Sometimes the session breaks.
    fn plan_overtaking(&mut self) {
        let mut at = SETTLED;
        while at + 7 * SECOND < CALM {
            let kind = self.rng.pick(&[Overtaking::Reset, Overtaking::Path, Overtaking::Death]);
            self.at(at, Task::Fault(Fault::Overtake(kind)));
            at += self.rng.between(3000, 6000) * MS;
            if self.rng.percent(20) {
                self.at(at, Task::Fault(Fault::Break));
            }
        }
    }

    /// Returns the array with the faster clock.
    pub(super) fn fast_node(&self) -> usize {
        usize::from(self.nodes[1].rate > self.nodes[0].rate)
    }

    /// Something has happened; a fault may follow at once.
    pub(super) fn moment(&mut self, node: usize, moment: Moment) {
        let percent = match moment {
            Moment::Rule => 10,
            Moment::RightMoves => 45,
            Moment::GoSync => 12,
            Moment::Decision => 6,
        };
        let is_calm = self.now + 14 * SECOND > CALM || self.now < 2 * SECOND;
        if self.profile != Profile::Mixed || is_calm || !self.rng.percent(percent) {
            return;
        }
        let (delay, time) = (self.rng.below(3 * MS), self.rng.between(2000, 9000) * MS);
        let other = 1 - node;
        let kinds = if moment == Moment::RightMoves { 12 } else { 6 };
        let fault = match self.rng.below(kinds) {
            0 | 1 | 6.. => Fault::Cut(time),
            2 => Fault::CutFrom(node, time),
            3 => Fault::Crash(node, time / 10),
            4 => Fault::Crash(other, time / 10),
            5 => Fault::CutAndCrash(time, Some((node, time / 20))),
        };
        self.at(delay, Task::Fault(fault));
        if moment == Moment::RightMoves && self.rng.percent(80) {
            // The mediator is back for both arrays, or for one only.
            let back = self.now + self.rng.below(1500 * MS);
            let away = if self.rng.percent(20) { 2 } else { self.rng.index(2) };
            for of in (0..2).filter(|of| *of != away) {
                self.unreachable_until[of] = back;
            }
        }
        if moment == Moment::GoSync && self.rng.percent(50) {
            self.nodes[node].slow_until = self.now + 2 * SECOND;
        }
    }

    fn single_fault(&mut self) -> Fault {
        let node = self.rng.index(2);
        let long = self.rng.between(8, 20) * SECOND;
        match self.rng.below(8) {
            0 => Fault::CutFrom(node, long),
            1 => Fault::Cut(long),
            2 => Fault::Break,
            3 => Fault::Crash(node, long),
            4 => Fault::Crash(node, 300 * MS),
            5 => Fault::Stop(node, long),
            6 => Fault::NoMediator(long),
            _ => Fault::Mediator(node, long),
        }
    }

    fn random_fault(&mut self, most: u64) -> Fault {
        let node = self.rng.index(2);
        let time = if self.rng.percent(50) { self.rng.size(3000) * MS } else { self.rng.between(1, 15) * SECOND };
        let time = time.min(most.saturating_sub(SECOND)).max(MS);
        match self.rng.weighted(&[10, 12, 8, 8, 16, 5, 4, 10, 6, 12, 6, 4, 5, 4]) {
            0 => Fault::CutFrom(node, time),
            1 => Fault::Cut(time),
            2 => Fault::Stall(node, time.min(1500 * MS)),
            3 => Fault::Break,
            4 => Fault::Crash(node, time),
            5 => Fault::CrashBoth(time, self.rng.between(100, 3000) * MS),
            6 if self.rng.percent(60) => Fault::Damage(node, self.rng.between(5, 60) * MS),
            6 => Fault::Damage(node, time),
            7 => Fault::Stop(node, time),
            8 => Fault::Mediator(node, time),
            9 => Fault::NoMediator(self.rng.between(4000, 9000).min(most / MS) * MS),
            10 => Fault::LateMediator(time),
            11 => Fault::SlowLog(node, time),
            12 => Fault::Prefer(side_of(node)),
            _ => Fault::Resign(node),
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        if !matches!(fault, Fault::Reopen(_)) {
            self.note(|| format!("fault: {fault:?}"));
            self.totals.faults += 1;
        }
        let now = self.now;
        match fault {
            Fault::CutFrom(node, time) => self.cut(node, time),
            Fault::Cut(time) => (0..2).for_each(|node| self.cut(node, time)),
            Fault::Stall(node, time) => self.link.stalled_until[node] = now + time,
            Fault::Break => self.break_session(),
            Fault::Crash(node, time) => self.crash(node, time, false),
            Fault::CrashBoth(time, other) => {
                self.crash(0, time, false);
                self.crash(1, other, false);
            }
            Fault::Damage(node, time) => self.crash(node, time, true),
            // A stop is not extended: later tasks would overtake those that wait for its end.
            Fault::Stop(node, time) if self.nodes[node].stopped_until <= now => {
                self.nodes[node].stopped_until = now + time;
            }
            Fault::Stop(..) => {}
            Fault::Mediator(node, time) => self.unreachable_until[node] = now + time,
            Fault::NoMediator(time) => self.unreachable_until = [now + time; 2],
            Fault::LateMediator(time) => self.late_until = now + time,
            Fault::SlowLog(node, time) => self.nodes[node].slow_until = now + time,
            Fault::Prefer(side) => {
                (0..2).for_each(|node| self.feed(node, Event::Request(Request::Prefer(side))));
            }
            Fault::Resign(node) => {
                self.totals.hand_overs += 1;
                self.feed(node, Event::Request(Request::Resign));
            }
            Fault::CutAndCrash(time, crash) => {
                (0..2).for_each(|node| self.cut(node, time));
                self.busy = now + 1300 * MS..now + 2500 * MS;
                if let Some((node, down)) = crash {
                    self.crash(node, down, false);
                }
            }
            Fault::Overtake(kind) => self.overtake(kind),
            Fault::Reopen(session) => self.reopen(session),
        }
    }
}
