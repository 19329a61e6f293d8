//! Conditions on every moment, and on the end.

use super::faults::{CALM, END, HOSTS_END};
use super::{MS, SECOND, World};
use crate::totals::{PAUSES, Profile, Violation};
use pod::Role;

/// Longest pause of hosts after a single failure.
const LONGEST_PAUSE: u64 = 5 * SECOND;

impl World {
    /// Checks the pair after a step of an array.
    pub(super) fn check(&mut self, _: usize) {
        let [a, b] = [0, 1].map(|node| self.nodes[node].machine.as_ref());
        let (Some(a), Some(b)) = (a, b) else { return };
        if a.is_alone() && b.is_alone() {
            self.violate("both arrays serve alone".to_owned());
            return;
        }
        let is_newer_sync = |owner: &pod::Machine, peer: &pod::Machine| {
            let (owner, peer) = (owner.stored(), peer.stored());
            owner.role == Role::Solo && peer.role == Role::Sync && peer.period > owner.period
        };
        if is_newer_sync(a, b) || is_newer_sync(b, a) {
            self.violate("an array serves alone beside a SYNC that began later".to_owned());
            return;
        }
        let is_same = |x: &crate::log::Log, y: &crate::log::Log| x.last == y.last && x.period == y.period;
        let [x, y] = [&self.nodes[0].log, &self.nodes[1].log];
        let is_equal = x.values() == y.values();
        if a.is_in_step() && b.is_in_step() && is_same(x, y) && !is_equal {
            let text = format!("in step at {}, but {:?} is not {:?}", x.last, x.values(), y.values());
            self.violate(text);
        }
    }

    /// Notes the time since the last write that was answered.
    pub(super) fn note_pause(&mut self) {
        let pause = self.now - self.last_good;
        self.last_good = self.now;
        if self.profile == Profile::Single && self.now > 6 * SECOND {
            self.longest = self.longest.max(pause);
        }
    }

    /// Runs all: faults, then none; hosts, then none.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        self.run_until(CALM)?;
        self.nodes.iter_mut().for_each(|node| (node.stopped_until, node.slow_until) = (0, 0));
        self.link.cut_until = [0; 2];
        self.link.stalled_until = [0; 2];
        self.late_until = 0;
        let has_mediator = self.profile == Profile::Single || !self.rng.percent(20);
        self.unreachable_until = [if has_mediator { 0 } else { END }; 2];
        self.run_until(HOSTS_END)?;
        self.are_hosts_done = true;
        self.run_until(END)?;
        self.check_pause()?;
        self.check_end()
    }

    fn check_pause(&mut self) -> Result<(), Violation> {
        if self.profile != Profile::Single {
            return Ok(());
        }
        let at = usize::try_from(self.longest / (500 * MS)).unwrap_or(PAUSES).min(PAUSES - 1);
        self.totals.pauses[at] += 1;
        self.totals.longest_pause = self.longest / MS;
        if self.longest > LONGEST_PAUSE {
            return Err(Violation(format!("hosts pause for {} ms after a single failure", self.longest / MS)));
        }
        Ok(())
    }

    /// In the end both arrays are in step, with equal content and empty deltas, and no forward
    /// waits. With a damaged log, a person may have to decide; forwards wait for that, too.
    fn check_end(&mut self) -> Result<(), Violation> {
        let states = || {
            let of = |node: usize| {
                let held = &self.nodes[node];
                let why = held.machine.as_ref().and_then(pod::Machine::why);
                format!("array {node}: {:?}, waits for {why:?}", held.log.stored())
            };
            format!("{}; {}; register {:?}", of(0), of(1), self.register)
        };
        let are_in_step = self.nodes.iter().all(|n| n.machine.as_ref().is_some_and(pod::Machine::is_in_step));
        if !are_in_step {
            if self.may_wait_for_person {
                self.totals.person += 1;
                return Ok(());
            }
            return Err(Violation(format!("not in step in the end: {}", states())));
        }
        self.check_forwards()?;
        let [x, y] = [&self.nodes[0].log, &self.nodes[1].log];
        if x.values() != y.values() || x.last != y.last {
            return Err(Violation(format!("contents differ in the end: {:?}, {:?}", x.values(), y.values())));
        }
        if x.delta() != 0 || y.delta() != 0 {
            return Err(Violation("a delta is not empty in the end".to_owned()));
        }
        Ok(())
    }
}
