//! Decides how to proceed after a response: accept it, resend the command, or fail. The rules
//! follow ESXi's observable behaviour.

use crate::error::DeviceError;
use bytes::Bytes;
use initiator::{CommandRefusal, Completion};
use scsi::{SenseKey, Status, asc};
use std::time::Duration;

/// Timeouts and retry limits of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// Time after which a command is aborted.
    pub command_timeout: Duration,
    /// Silence on a path with open commands after which it is pinged (NOP-Out).
    pub ping_after: Duration,
    /// Timeout of a ping, a login and an abort.
    pub ping_timeout: Duration,
    /// First pause before reconnecting a lost path; it doubles up to
    /// [`longest_reconnect`](Self::longest_reconnect).
    pub first_reconnect: Duration,
    /// Longest pause before reconnecting.
    pub longest_reconnect: Duration,
    /// Time for which commands wait while all paths are down (ESXi: Misc.APDTimeout).
    pub paths_down_timeout: Duration,
    /// Number of retries after a reservation conflict (ESXi: Scsi.ConflictRetries).
    pub conflict_retries: u32,
    /// Pause before each of these retries.
    pub conflict_pause: Duration,
    /// Number of retries if the target is busy or not ready.
    pub busy_retries: u32,
    /// Pause before each of these retries.
    pub busy_pause: Duration,
    /// Interval at which a path whose port serves no data queries the state of the port.
    pub standby_poll: Duration,
}

impl Default for RetryRules {
    fn default() -> Self {
        Self {
            command_timeout: Duration::from_secs(40),
            ping_after: Duration::from_secs(15),
            ping_timeout: Duration::from_secs(10),
            first_reconnect: Duration::from_millis(50),
            longest_reconnect: Duration::from_secs(5),
            paths_down_timeout: Duration::from_secs(140),
            conflict_retries: 80,
            conflict_pause: Duration::from_millis(20),
            busy_retries: 600,
            busy_pause: Duration::from_millis(50),
            standby_poll: Duration::from_secs(1),
        }
    }
}

/// Number of immediate retries after unit attentions.
const ATTENTION_RETRIES: u32 = 100;
/// Number of retries of commands that the target aborted.
const ABORTED_RETRIES: u32 = 5;

/// How to proceed after a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Return this result.
    Done(Bytes),
    /// The command was not executed: resend it after this pause.
    Retry(Duration),
    /// The same, but query the states of the ports first.
    QueryPort(Duration),
    /// It is unknown whether the command was executed.
    InDoubt,
    /// The command failed permanently.
    Failed(DeviceError),
}

/// Retries of one command by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts {
    attentions: u32,
    conflicts: u32,
    busy: u32,
    aborted: u32,
}

fn within(count: &mut u32, limit: u32) -> bool {
    *count += 1;
    *count <= limit
}

impl Attempts {
    /// Decides how to proceed after a response.
    pub(super) fn decide(&mut self, completion: Completion, rules: &RetryRules) -> RetryDecision {
        let status = completion.status;
        let sense = completion.sense;
        match (status, sense) {
            (Some(Status::Busy | Status::TaskSetFull), _) if within(&mut self.busy, rules.busy_retries) => {
                RetryDecision::Retry(rules.busy_pause)
            }
            (Some(Status::ReservationConflict), _) if within(&mut self.conflicts, rules.conflict_retries) => {
                RetryDecision::Retry(rules.conflict_pause)
            }
            (Some(Status::TaskAborted), _) => RetryDecision::InDoubt,
            (Some(Status::CheckCondition), Some(sense)) => match (sense.key, sense.asc) {
                // SAM-5 5.14: the unit attention replaces the execution of the command.
                (SenseKey::UnitAttention, asc::ASYMMETRIC_ACCESS_STATE_CHANGED)
                    if within(&mut self.attentions, ATTENTION_RETRIES) =>
                {
                    RetryDecision::QueryPort(Duration::ZERO)
                }
                (SenseKey::UnitAttention, _) if within(&mut self.attentions, ATTENTION_RETRIES) => {
                    RetryDecision::Retry(Duration::ZERO)
                }
                // SPC-4 5.15.2.7: a port in these states accepts no data commands.
                (
                    SenseKey::NotReady,
                    asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION
                    | asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE
                    | asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE,
                ) if within(&mut self.busy, rules.busy_retries) => RetryDecision::QueryPort(rules.busy_pause),
                (SenseKey::NotReady, asc::LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY)
                    if within(&mut self.busy, rules.busy_retries) =>
                {
                    RetryDecision::Retry(rules.busy_pause)
                }
                (SenseKey::AbortedCommand, _) if within(&mut self.aborted, ABORTED_RETRIES) => RetryDecision::InDoubt,
                _ => RetryDecision::Failed(DeviceError::from_sense(sense)),
            },
            _ => match completion.into_result() {
                Ok(data) => RetryDecision::Done(data),
                Err(CommandRefusal::Check(sense)) => RetryDecision::Failed(DeviceError::from_sense(sense)),
                Err(CommandRefusal::Status(status)) => RetryDecision::Failed(DeviceError::from_status(status)),
                Err(CommandRefusal::TargetFailure | CommandRefusal::BadData(_)) => {
                    RetryDecision::Failed(DeviceError::InvalidResponse)
                }
            },
        }
    }
}

/// Returns true if the device refused the command as unsupported.
pub(super) fn is_unsupported(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Check(sense) if sense.key == SenseKey::IllegalRequest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iscsi::pdu::Residual;
    use scsi::Sense;

    fn answer(status: Status, sense: Option<Sense>) -> Completion {
        Completion { token: 0, status: Some(status), sense, data: Bytes::new(), residual: Residual::None }
    }

    fn check(sense: Sense) -> Completion {
        answer(Status::CheckCondition, Some(sense))
    }

    #[test]
    fn responses_map_to_retry_decisions() {
        let rules = RetryRules::default();
        let not_ready = |asc| check(Sense::new(SenseKey::NotReady, asc));
        let standby = asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE;
        for (given, expected) in [
            (answer(Status::Good, None), RetryDecision::Done(Bytes::new())),
            (answer(Status::Busy, None), RetryDecision::Retry(rules.busy_pause)),
            (answer(Status::TaskSetFull, None), RetryDecision::Retry(rules.busy_pause)),
            (answer(Status::ReservationConflict, None), RetryDecision::Retry(rules.conflict_pause)),
            (answer(Status::TaskAborted, None), RetryDecision::InDoubt),
            (check(Sense::unit_attention(asc::POWER_ON_OCCURRED)), RetryDecision::Retry(Duration::ZERO)),
            (
                check(Sense::unit_attention(asc::ASYMMETRIC_ACCESS_STATE_CHANGED)),
                RetryDecision::QueryPort(Duration::ZERO),
            ),
            (not_ready(standby), RetryDecision::QueryPort(rules.busy_pause)),
            (not_ready(asc::MEDIUM_NOT_PRESENT), {
                RetryDecision::Failed(DeviceError::Check(Sense::new(SenseKey::NotReady, asc::MEDIUM_NOT_PRESENT)))
            }),
            (check(Sense::lba_out_of_range(5)), RetryDecision::Failed(DeviceError::OutOfRange { lba: 5 })),
        ] {
            assert_eq!(Attempts::default().decide(given, &rules), expected);
        }
    }

    #[test]
    fn retries_stop_at_their_limits() {
        let rules = RetryRules { conflict_retries: 2, busy_retries: 0, ..RetryRules::default() };
        let mut attempts = Attempts::default();
        let conflict = || answer(Status::ReservationConflict, None);
        assert_eq!(attempts.decide(conflict(), &rules), RetryDecision::Retry(rules.conflict_pause));
        assert_eq!(attempts.decide(conflict(), &rules), RetryDecision::Retry(rules.conflict_pause));
        assert_eq!(attempts.decide(conflict(), &rules), RetryDecision::Failed(DeviceError::ReservationConflict));
        assert_eq!(attempts.decide(answer(Status::Busy, None), &rules), {
            RetryDecision::Failed(DeviceError::Status(Status::Busy))
        });
    }
}
