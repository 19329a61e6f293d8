//! The service that hosts get, and the reason if it is not the full one. Rules 5 and 20.

use super::{Consent, Join, Machine, Source};
use crate::event::{Action, Changes, Hosts, Ports, Reads};
use crate::planted::Bug;
use crate::state::{Role, Rule};
use crate::why::{WaitsFor, Why};

impl Machine {
    /// Returns the service of hosts.
    pub fn hosts(&self) -> Hosts {
        match self.stored.role {
            Role::Local => service(Changes::Serve, Reads::Always, Ports::Active, Ports::Unavailable),
            Role::Solo if self.stored.is_hurt => unavailable(),
            Role::Solo => self.hosts_of_owner(),
            Role::Sync => self.hosts_in_sync(),
            Role::Target | Role::Lost | Role::Diverged | Role::Left => unavailable(),
        }
    }

    fn hosts_of_owner(&self) -> Hosts {
        if !self.is_alone() {
            return service(Changes::Hold, Reads::Never, self.paused_ports(), Ports::Active);
        }
        let changes = if self.join.is_some() { Changes::Hold } else { Changes::Serve };
        service(changes, Reads::Always, Ports::Active, Ports::Unavailable)
    }

    fn hosts_in_sync(&self) -> Hosts {
        if self.stored.is_hurt {
            return unavailable();
        }
        let may_read = self.is_fresh && self.asking.is_none() && self.join.is_none() && self.is_running();
        let reads = match self.leases.end() {
            _ if may_read && self.has(Bug::NoLeaseCheck) => Reads::Always,
            Some(end) if may_read => Reads::Until(end),
            _ => Reads::Never,
        };
        let is_held = self.is_sequencer()
            && (self.hold.is_some() || self.stored.rule.pending.is_some() || self.stored.leaving.is_some());
        if !self.is_in_step() {
            return service(Changes::Hold, reads, self.paused_ports(), Ports::Active);
        }
        let changes = if is_held { Changes::Hold } else { Changes::Serve };
        service(changes, reads, Ports::Active, Ports::Active)
    }

    /// The own ports while nothing is decided. Most decisions come before hosts need to know: their
    /// commands wait, and Linux looks for the end of a transition only every 2 s. Then the ports
    /// are in transition for some seconds; Linux waits for its end before it uses another path. If
    /// only the peer may continue, it serves before that, or does not answer.
    fn paused_ports(&self) -> Ports {
        let rule = self.stored.rule;
        let is_up_to_peer = rule.pending.is_none() && rule.current == Rule::Only(self.side.other());
        let paused = self.now.saturating_sub(self.in_step_at);
        let (quiet, most) = match is_up_to_peer {
            true => (self.times.peer_decides, self.times.peer_decides),
            false => (self.times.undecided, self.times.undecided + self.times.transitioning),
        };
        if paused < quiet {
            Ports::Active
        } else if paused < most {
            Ports::Transitioning
        } else {
            Ports::Unavailable
        }
    }

    /// Reports the service of hosts if it has changed.
    pub(super) fn show_hosts(&mut self) {
        let hosts = self.hosts();
        if self.hosts != Some(hosts) {
            self.hosts = Some(hosts);
            self.actions.push(Action::Hosts(hosts));
        }
    }

    /// Returns why the pod is not in the full service, and since when. None if it is.
    pub fn why(&self) -> Option<Why> {
        let why = |waits_for, since| Some(Why { waits_for, since });
        match self.stored.role {
            Role::Local => None,
            _ if self.stored.is_hurt => why(WaitsFor::Owner, self.since),
            Role::Sync if self.is_in_step() => match self.hold {
                Some(since) => why(WaitsFor::Commit, since),
                None if self.stored.rule.pending.is_some() => why(WaitsFor::RuleInForce, self.since),
                None => None,
            },
            Role::Sync => self.why_paused(),
            Role::Solo => match (self.join, self.session.and_then(|session| session.source)) {
                (Some(Join::Holding(since) | Join::Storing(since)), _) => why(WaitsFor::Commit, since),
                (None, Some(Source::Started(since))) if self.facts.is_peer_full => why(WaitsFor::PeerRoom, since),
                (None, Some(Source::Started(since))) => why(WaitsFor::Resync, since),
                (None, Some(_)) => why(WaitsFor::Mask, self.since),
                (None, None) if self.session.is_some() => why(WaitsFor::PeerState, self.since),
                (None, None) => why(WaitsFor::Peer, self.since),
            },
            Role::Target if self.is_running() => why(WaitsFor::Resync, self.since),
            Role::Target | Role::Lost => why(WaitsFor::Owner, self.since),
            Role::Diverged => why(WaitsFor::Person, self.since),
            Role::Left => why(WaitsFor::Nothing, self.since),
        }
    }

    fn why_paused(&self) -> Option<Why> {
        let silence = self.in_step_at;
        let waits_for = match self.asking {
            Some(_) if self.view().has_own_right(self.is_fresh) => WaitsFor::LeaseEnd(self.peer_lease_end()),
            Some(asking) if asking.won.is_some() => WaitsFor::LeaseEnd(self.peer_lease_end()),
            Some(asking) => return Some(Why { waits_for: WaitsFor::Mediator, since: asking.since }),
            None if self.session.is_some_and(|session| matches!(session.consent, Consent::Wins(_))) => {
                WaitsFor::PeerYields
            }
            None if self.join.is_some() => WaitsFor::Commit,
            None => match self.stored.rule.current {
                Rule::Only(side) if side != self.side => WaitsFor::PeerThatMayContinue,
                _ => WaitsFor::Peer,
            },
        };
        Some(Why { waits_for, since: silence })
    }
}

fn service(changes: Changes, reads: Reads, own_ports: Ports, peer_ports: Ports) -> Hosts {
    Hosts { changes, reads, own_ports, peer_ports }
}

fn unavailable() -> Hosts {
    service(Changes::Fail, Reads::Never, Ports::Unavailable, Ports::Active)
}
