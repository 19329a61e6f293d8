//! The state of a pod for administrators.

use pod::{Alert, Changes, Hosts, Ports, Reads, Role, Rule, Side, Stored, WaitsFor};
use std::collections::VecDeque;
use std::time::Duration;

/// Alerts that are kept.
const ALERTS: usize = 64;

/// Positions of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Position of the last record.
    pub position: u64,
    /// Position up to which the log is durable here.
    pub durable: u64,
    /// Position up to which the other array has reported the same.
    pub heard: u64,
    /// No delta has a block.
    pub is_delta_empty: bool,
    /// Bytes of the log that the array which follows has lent, and that no record has used.
    pub room: u64,
    /// Mean time from the order of a record to its durability here, and to the report of the other
    /// array, in the last seconds; none if no record was ordered.
    pub latency: Option<(Duration, Duration)>,
}

/// The state of a pod.
#[derive(Clone, Debug)]
pub struct PodStatus {
    /// Part of this array.
    pub role: Role,
    /// The log of this array was damaged.
    pub is_hurt: bool,
    /// Number of the epoch.
    pub epoch: u32,
    /// This array orders changes, or did so last.
    pub is_sequencer: bool,
    /// This array is preferred.
    pub is_preferred: bool,
    /// The array that may continue without the other: none if the mediator decides, otherwise
    /// whether it is this one.
    pub only: Option<bool>,
    /// The tie rule is known to be durable on both arrays.
    pub is_rule_in_force: bool,
    /// Both arrays serve.
    pub is_in_step: bool,
    /// This array serves alone.
    pub is_alone: bool,
    /// There is a session with the other array.
    pub has_session: bool,
    /// The pod has a mediator.
    pub has_mediator: bool,
    /// Why the mediator does not answer, if so.
    pub mediator_problem: Option<String>,
    /// The event that it waits for, and for how long.
    pub waits_for: Option<(WaitsFor, Duration)>,
    /// Service of hosts.
    pub hosts: Hosts,
    /// Positions.
    pub flow: Option<Flow>,
    /// At a source: bytes sent and bytes to send in the present pass.
    pub resync: Option<(u64, u64)>,
    /// At a source: time until the other array has all content, at the present pace.
    pub resync_left: Option<Duration>,
    /// This array is out of step, and has too little free space to return.
    pub is_full: bool,
    /// The other array is connected, and has no such pod.
    pub is_peer_without: bool,
    /// All content of the source was here when it declared that.
    pub is_whole: bool,
    /// The other array has too little free space to be in step.
    pub is_peer_full: bool,
    /// Time of the last change of the state, in milliseconds since 1970; 0 if there was none.
    pub since_ms: u64,
    /// Requests of hosts that wait.
    pub waiting: usize,
    /// Changes of hosts that the engine has.
    pub in_flight: usize,
    /// The newest alerts: milliseconds since 1970, and the alert.
    pub alerts: VecDeque<(u64, Alert)>,
}

impl Default for PodStatus {
    fn default() -> Self {
        let hosts = Hosts {
            changes: Changes::Hold,
            reads: Reads::Never,
            own_ports: Ports::Transitioning,
            peer_ports: Ports::Active,
        };
        Self {
            role: Role::Local,
            is_hurt: false,
            epoch: 0,
            is_sequencer: false,
            is_preferred: false,
            only: None,
            is_rule_in_force: false,
            is_in_step: false,
            is_alone: false,
            has_session: false,
            has_mediator: false,
            mediator_problem: None,
            waits_for: None,
            hosts,
            flow: None,
            resync: None,
            resync_left: None,
            is_full: false,
            is_peer_without: false,
            is_whole: false,
            is_peer_full: false,
            since_ms: 0,
            waiting: 0,
            in_flight: 0,
            alerts: VecDeque::new(),
        }
    }
}

impl PodStatus {
    /// Keeps an alert.
    pub(crate) fn note(&mut self, alert: Alert, now_ms: u64) {
        if self.alerts.len() == ALERTS {
            self.alerts.pop_front();
        }
        self.alerts.push_back((now_ms, alert));
        self.since_ms = now_ms;
    }

    /// Takes up the state of the state machine.
    pub(crate) fn update(&mut self, stored: &Stored, side: Side, waits_for: Option<(WaitsFor, Duration)>) {
        (self.role, self.is_hurt, self.epoch) = (stored.role, stored.is_hurt, stored.epoch.0);
        self.is_sequencer = stored.sequencer == side;
        self.is_whole = stored.is_whole;
        self.is_preferred = stored.preference == side;
        self.only = match stored.rule.current {
            Rule::Mediator => None,
            Rule::Only(only) => Some(only == side),
        };
        self.is_rule_in_force = stored.rule.pending.is_none();
        self.has_mediator = stored.mediator.is_some();
        self.waits_for = waits_for;
    }
}
