//! Programs: the state of a command between two operations of the engine.

use crate::command::copy::{CopyProgram, CopyStep};
use crate::command::outcome::{CommandOutcome, outcome_of};
use crate::nexus::ids::Ticket;
use crate::unit::limits::QosLimits;
use crate::unit::qos::Cost;
use crate::unit::reservation::ReservationChange;
use crate::unit::reservation::place::SharedReserveOut;
use engine::{Extent, Op, OpError, Reply};
use scsi::lba_status::{ProvisioningStatus, StatusRun, build_lba_status};
use scsi::persistent_reservation::NexusId;
use scsi::{Asc, Sense};
use std::sync::Arc;
use types::Lba;

/// The next step of a command.
pub(crate) enum Step {
    /// Submit the operation, and continue the program with its result.
    Submit(Op, Program),
    /// Store the reservation change if necessary and abort the commands that it names. The command
    /// is answered when those have ended.
    ChangeReservation(ReservationChange),
    /// Change the reservations of a unit that two arrays serve.
    ShareReservation(SharedReserveOut),
    /// Dispatch the command again when the reservations of the unit have been read.
    AwaitReservations,
    /// Wait for a further event.
    Wait(Program),
    /// The command has ended.
    Done(CommandOutcome),
}

impl From<CommandOutcome> for Step {
    fn from(outcome: CommandOutcome) -> Self {
        Self::Done(outcome)
    }
}

impl From<CopyStep> for Step {
    fn from(step: CopyStep) -> Self {
        match step {
            CopyStep::Submit(op, copy) => Self::Submit(op, Program::Copy(copy)),
            CopyStep::Done(outcome) => Self::Done(outcome),
        }
    }
}

/// The remaining work of a command that waits for the engine or for another event.
#[derive(Debug)]
pub(crate) enum Program {
    /// A single operation that starts at `lba`. Data that it reads is sent to the host.
    Single { lba: Lba },
    /// A further operation, submitted if the current one succeeds.
    Then(Box<(Op, Program)>),
    /// Several operations in sequence.
    Sequence(Box<Sequence>),
    /// GET LBA STATUS.
    Status { lba: Lba, allocation: u32 },
    /// EXTENDED COPY.
    Copy(Box<CopyProgram>),
    /// Throttled by the limits of its volume or of its volume group.
    Throttled(Box<ThrottledCommand>),
    /// PERSISTENT RESERVE OUT whose change is being stored. Afterwards the commands of the nexuses
    /// in `aborted` are aborted. `no_space` is the sense code if the pool is full.
    StoreReservation { aborted: Vec<NexusId>, no_space: Asc },
    /// PERSISTENT RESERVE OUT that waits for aborted commands to end.
    AwaitAborts,
    /// PERSISTENT RESERVE OUT that waits for both arrays.
    AwaitShared,
}

/// A command that waits for QoS limits. If it passes the last one, the operation is submitted.
#[derive(Debug)]
pub(crate) struct ThrottledCommand {
    /// Identifies the command to `limits`.
    pub(crate) ticket: Ticket,
    /// The limits that the command waits for.
    pub(crate) limits: Arc<QosLimits>,
    pub(crate) cost: Cost,
    pub(crate) op: Op,
    pub(crate) program: Program,
}

/// Operations of one command that run in sequence. Data that they read is discarded.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// First block of the command.
    lba: Lba,
    /// Offset of the current operation in the data that the command compares.
    offset: u64,
    /// The remaining operations, each with its offset.
    rest: std::vec::IntoIter<(u64, Op)>,
}

impl Sequence {
    /// Returns the first step of a command that consists of `operations`.
    pub(crate) fn start(lba: Lba, operations: Vec<(u64, Op)>) -> Step {
        Self { lba, offset: 0, rest: operations.into_iter() }.next()
    }

    fn next(mut self) -> Step {
        match self.rest.next() {
            Some((offset, op)) => {
                self.offset = offset;
                Step::Submit(op, Program::Sequence(Box::new(self)))
            }
            None => Step::Done(CommandOutcome::GOOD),
        }
    }
}

impl Program {
    /// Continues the command with the result of the current operation.
    pub(crate) fn advance(self, result: Result<Reply, OpError>) -> Step {
        match self {
            Self::Copy(copy) => copy.advance(result).into(),
            Self::Single { lba } => Step::Done(match result {
                Ok(Reply::Data(data)) => CommandOutcome::data(data),
                Ok(_) => CommandOutcome::GOOD,
                Err(error) => outcome_of(&error, lba),
            }),
            Self::Then(next) => match result {
                Ok(_) => Step::Submit(next.0, next.1),
                Err(error) => Step::Done(outcome_of(&error, next.1.lba())),
            },
            Self::Sequence(sequence) => match result {
                Ok(_) => sequence.next(),
                Err(OpError::Miscompare { offset }) => {
                    let error = OpError::Miscompare { offset: offset + sequence.offset };
                    Step::Done(outcome_of(&error, sequence.lba))
                }
                Err(error) => Step::Done(outcome_of(&error, sequence.lba)),
            },
            // A throttled command has no operation in progress, so no result belongs to it.
            Self::Throttled(throttled) => Step::Wait(Self::Throttled(throttled)),
            // Its outcome comes as an event.
            Self::AwaitShared => Step::Wait(Self::AwaitShared),
            Self::Status { lba, allocation } => Step::Done(match result {
                Ok(Reply::Extents(extents)) => CommandOutcome::truncated(lba_status(&extents), allocation),
                Ok(_) => CommandOutcome::GOOD,
                Err(error) => outcome_of(&error, lba),
            }),
            Self::StoreReservation { aborted, no_space } => match result {
                Ok(_) => Step::ChangeReservation(ReservationChange {
                    store: None,
                    no_space,
                    attentions: Vec::new(),
                    aborted,
                }),
                Err(OpError::NoSpace) => Step::Done(Sense::illegal(no_space).into()),
                Err(error) => Step::Done(outcome_of(&error, Lba(0))),
            },
            Self::AwaitAborts => Step::Done(match result {
                Ok(_) => CommandOutcome::GOOD,
                Err(error) => outcome_of(&error, Lba(0)),
            }),
        }
    }

    /// Ends the program of an aborted command after its last operation.
    pub(crate) fn abandon(self) {
        match self {
            Self::Copy(copy) => copy.abandon(),
            Self::Throttled(throttled) => throttled.program.abandon(),
            _ => {}
        }
    }

    /// Returns the first block of the command, for the sense data of errors that name none.
    fn lba(&self) -> Lba {
        match self {
            Self::Single { lba } | Self::Status { lba, .. } => *lba,
            Self::Then(next) => next.1.lba(),
            Self::Sequence(sequence) => sequence.lba,
            Self::Throttled(throttled) => throttled.program.lba(),
            Self::Copy(_) | Self::StoreReservation { .. } | Self::AwaitAborts | Self::AwaitShared => Lba(0),
        }
    }
}

/// Returns GET LBA STATUS data (SBC-4 5.8). The list ends with the first run of more blocks than
/// 32 bits can count, cut to that maximum; the host continues after it.
fn lba_status(extents: &[Extent]) -> Vec<u8> {
    let run = |extent: &Extent| StatusRun {
        lba: extent.range.start(),
        blocks: u32::try_from(extent.range.blocks()).unwrap_or(u32::MAX),
        status: match extent.state {
            engine::ExtentState::Mapped => ProvisioningStatus::Mapped,
            engine::ExtentState::Deallocated => ProvisioningStatus::Deallocated,
        },
    };
    let cut = extents.iter().position(|extent| extent.range.blocks() > u64::from(u32::MAX));
    let runs: Vec<StatusRun> = extents.iter().take(cut.map_or(extents.len(), |at| at + 1)).map(run).collect();
    build_lba_status(&runs)
}
