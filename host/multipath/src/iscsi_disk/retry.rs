//! What a host does with an answer: takes it, sends the command again, or gives up. ESXi's rules, as far as they show.

use crate::error::DeviceError;
use bytes::Bytes;
use initiator::{CommandRefusal, Completion};
use scsi::{SenseKey, Status, asc};
use std::time::Duration;

/// How patient a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// How long a command may take before it is aborted.
    pub command_timeout: Duration,
    /// How long a path with open commands may be silent before it is asked whether it lives (NOP-Out).
    pub ping_after: Duration,
    /// How long that answer, a login, or an abort may take.
    pub ping_timeout: Duration,
    /// The first pause before a lost path is tried again; it doubles up to
    /// [`longest_reconnect`](Self::longest_reconnect).
    pub first_reconnect: Duration,
    /// The longest such pause.
    pub longest_reconnect: Duration,
    /// How long commands wait for a path when all are down (ESXi: Misc.APDTimeout).
    pub paths_down_timeout: Duration,
    /// How often a command is sent again that met another host's reservation (ESXi: Scsi.ConflictRetries).
    pub conflict_retries: u32,
    /// The pause before it is.
    pub conflict_pause: Duration,
    /// How often a command is sent again to a target that was busy or not ready.
    pub busy_retries: u32,
    /// The pause before it is.
    pub busy_pause: Duration,
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
        }
    }
}

/// How often a command is sent again at once because the target had something to tell first.
const ATTENTION_RETRIES: u32 = 100;
/// How often one is that the target has aborted by itself.
const ABORTED_RETRIES: u32 = 5;

/// What to do with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It is the answer.
    Done(Bytes),
    /// The command was not done: send it again after this pause.
    Again(Duration),
    /// The same, and ask the port first what it is good for.
    AskPort(Duration),
    /// The command was or was not done, and nobody will tell.
    InDoubt,
    /// It failed, and will again.
    Failed(DeviceError),
}

/// The times that one command was sent again, by reason.
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
    /// What to do with an answer.
    pub(super) fn judge(&mut self, completion: Completion, rules: &RetryRules) -> Judgement {
        let status = completion.status;
        let sense = completion.sense;
        match (status, sense) {
            (Some(Status::Busy | Status::TaskSetFull), _) if within(&mut self.busy, rules.busy_retries) => {
                Judgement::Again(rules.busy_pause)
            }
            (Some(Status::ReservationConflict), _) if within(&mut self.conflicts, rules.conflict_retries) => {
                Judgement::Again(rules.conflict_pause)
            }
            (Some(Status::TaskAborted), _) => Judgement::InDoubt,
            (Some(Status::CheckCondition), Some(sense)) => match (sense.key, sense.asc) {
                // SAM-5 5.14: told instead of doing the command.
                (SenseKey::UnitAttention, asc::ASYMMETRIC_ACCESS_STATE_CHANGED)
                    if within(&mut self.attentions, ATTENTION_RETRIES) =>
                {
                    Judgement::AskPort(Duration::ZERO)
                }
                (SenseKey::UnitAttention, _) if within(&mut self.attentions, ATTENTION_RETRIES) => {
                    Judgement::Again(Duration::ZERO)
                }
                // SPC-4 5.15.2.7: states in which a port takes no data commands.
                (
                    SenseKey::NotReady,
                    asc::LOGICAL_UNIT_NOT_ACCESSIBLE_ASYMMETRIC_ACCESS_STATE_TRANSITION
                    | asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE
                    | asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_UNAVAILABLE_STATE,
                ) if within(&mut self.busy, rules.busy_retries) => Judgement::AskPort(rules.busy_pause),
                (SenseKey::NotReady, asc::LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY)
                    if within(&mut self.busy, rules.busy_retries) =>
                {
                    Judgement::Again(rules.busy_pause)
                }
                (SenseKey::AbortedCommand, _) if within(&mut self.aborted, ABORTED_RETRIES) => Judgement::InDoubt,
                _ => Judgement::Failed(DeviceError::from_sense(sense)),
            },
            _ => match completion.into_result() {
                Ok(data) => Judgement::Done(data),
                Err(CommandRefusal::Check(sense)) => Judgement::Failed(DeviceError::from_sense(sense)),
                Err(CommandRefusal::Status(status)) => Judgement::Failed(DeviceError::from_status(status)),
                Err(CommandRefusal::TargetFailure | CommandRefusal::BadData(_)) => {
                    Judgement::Failed(DeviceError::Nonsense)
                }
            },
        }
    }
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
    fn answers_have_their_consequences() {
        let rules = RetryRules::default();
        let not_ready = |asc| check(Sense::new(SenseKey::NotReady, asc));
        let standby = asc::LOGICAL_UNIT_NOT_ACCESSIBLE_TARGET_PORT_IN_STANDBY_STATE;
        for (given, expected) in [
            (answer(Status::Good, None), Judgement::Done(Bytes::new())),
            (answer(Status::Busy, None), Judgement::Again(rules.busy_pause)),
            (answer(Status::TaskSetFull, None), Judgement::Again(rules.busy_pause)),
            (answer(Status::ReservationConflict, None), Judgement::Again(rules.conflict_pause)),
            (answer(Status::TaskAborted, None), Judgement::InDoubt),
            (check(Sense::unit_attention(asc::POWER_ON_OCCURRED)), Judgement::Again(Duration::ZERO)),
            (check(Sense::unit_attention(asc::ASYMMETRIC_ACCESS_STATE_CHANGED)), Judgement::AskPort(Duration::ZERO)),
            (not_ready(standby), Judgement::AskPort(rules.busy_pause)),
            (not_ready(asc::MEDIUM_NOT_PRESENT), {
                Judgement::Failed(DeviceError::Check(Sense::new(SenseKey::NotReady, asc::MEDIUM_NOT_PRESENT)))
            }),
            (check(Sense::lba_out_of_range(5)), Judgement::Failed(DeviceError::OutOfRange { lba: 5 })),
        ] {
            assert_eq!(Attempts::default().judge(given, &rules), expected);
        }
    }

    #[test]
    fn patience_ends() {
        let rules = RetryRules { conflict_retries: 2, busy_retries: 0, ..RetryRules::default() };
        let mut attempts = Attempts::default();
        let conflict = || answer(Status::ReservationConflict, None);
        assert_eq!(attempts.judge(conflict(), &rules), Judgement::Again(rules.conflict_pause));
        assert_eq!(attempts.judge(conflict(), &rules), Judgement::Again(rules.conflict_pause));
        assert_eq!(attempts.judge(conflict(), &rules), Judgement::Failed(DeviceError::ReservationConflict));
        assert_eq!(attempts.judge(answer(Status::Busy, None), &rules), {
            Judgement::Failed(DeviceError::Status(Status::Busy))
        });
    }
}
