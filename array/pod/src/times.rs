//! The times of the protocol.

use std::time::Duration;

/// Times of leases and decisions. The defaults are those of `docs/pods-protocol.md`; both arrays
/// use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Between two heartbeats of an array.
    pub heartbeat: Duration,
    /// From the moment when a holder sent its time to the end of the lease, by the holder's clock.
    pub lease: Duration,
    /// From the last grant, or the start of the process, to the moment when the grantor may
    /// continue alone, by the grantor's clock.
    pub grantor_wait: Duration,
    /// Without a sign of the peer, an array stops granting and answering.
    pub silence: Duration,
    /// An array that is not preferred begins to ask later than the other by this.
    pub not_preferred: Duration,
    /// A contact that leads to no agreement ends its session after this.
    pub contact: Duration,
    /// A report that the peer does not confirm for so long ends grants.
    pub unheard_grants: Duration,
    /// The same, for the session.
    pub unheard_session: Duration,
    /// The same; it counts as silence.
    pub unheard_silence: Duration,
    /// Changes of hosts are held at most so long until everything is committed.
    pub hold: Duration,
    /// From the begin of a hold to the moment when `GoSync` must have been sent.
    pub join: Duration,
    /// Between two attempts that hold changes.
    pub hold_retry: Duration,
    /// Between two questions to the mediator.
    pub ask: Duration,
    /// Between two readings of the register while nothing depends on it.
    pub mediator_poll: Duration,
    /// The mediator is lost, or back, when it was so for this long.
    pub mediator_change: Duration,
    /// A target that reports nothing for so long after `Start` ends the session.
    pub target: Duration,
    /// A port group stays active for so long while nothing is decided: commands wait.
    pub undecided: Duration,
    /// A port group is transitioning for at most so long.
    pub transitioning: Duration,
    /// A port group stays active for so long where only the peer may continue: it waits for the end
    /// of the lease, and stores that it is alone.
    pub peer_decides: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(200),
            lease: Duration::from_millis(2000),
            grantor_wait: Duration::from_millis(2100),
            silence: Duration::from_millis(1200),
            not_preferred: Duration::from_millis(800),
            contact: Duration::from_millis(1000),
            unheard_grants: Duration::from_millis(1000),
            unheard_session: Duration::from_millis(1500),
            unheard_silence: Duration::from_millis(2500),
            hold: Duration::from_millis(500),
            join: Duration::from_millis(1000),
            hold_retry: Duration::from_millis(5000),
            ask: Duration::from_millis(800),
            mediator_poll: Duration::from_millis(1000),
            mediator_change: Duration::from_millis(3000),
            target: Duration::from_millis(10_000),
            undecided: Duration::from_millis(4200),
            transitioning: Duration::from_millis(10_000),
            peer_decides: Duration::from_millis(4000),
        }
    }
}
