//! Commands that wait for the engine: what to do with its answer.

use crate::command::copy::CopyProgram;
use crate::command::outcome::{Outcome, sense_of};
use crate::unit::qos::Ticket;
use crate::unit::reservation::Changed;
use engine::{Extent, Op, OpError, Reply};
use scsi::lba_status::{Provisioning, StatusRun, build_lba_status};
use scsi::persistent_reservation::NexusId;
use scsi::{Asc, Sense};
use types::Lba;

/// What a command wants next.
pub(crate) enum Step {
    /// Give this to the engine, and its answer to the program.
    Submit(Op, Program),
    /// A reservation has changed, or changes as soon as that is stored; the command is answered when the commands that it aborts
    /// have ended.
    Reserved(Changed),
    /// More answers have to come.
    Wait(Program),
    /// The command has ended.
    Done(Outcome),
}

impl From<Outcome> for Step {
    fn from(outcome: Outcome) -> Self {
        Self::Done(outcome)
    }
}

/// The rest of a command of which an operation is under way.
#[derive(Debug)]
pub(crate) enum Program {
    /// One operation; `lba` is its first block. Data that were read go to the host.
    Single { lba: Lba },
    /// When the operation under way has gone well, another one.
    Then(Box<(Op, Program)>),
    /// Several operations, one after the other.
    Sequence(Box<Sequence>),
    /// GET LBA STATUS.
    Status { lba: Lba, allocation: u32 },
    /// EXTENDED COPY.
    Copy(Box<CopyProgram>),
    /// The limits of its volume keep the command back: what it will do when its ticket is called.
    Held(Box<(Ticket, Op, Program)>),
    /// PERSISTENT RESERVE OUT: its change is being stored. What follows when it is, and how the command ends when there is no room.
    Storing { aborted: Vec<NexusId>, lacking: Asc },
    /// The command ends when so many answers have come.
    Gather { left: u8, outcome: Box<Outcome> },
}

/// Operations of one command that follow each other. What they read is thrown away.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// First block of the command.
    pub(crate) lba: Lba,
    /// Where, in the data compared by the command, the operation under way begins.
    pub(crate) offset: u64,
    /// What is left, each with its own offset.
    pub(crate) rest: std::vec::IntoIter<(u64, Op)>,
}

impl Sequence {
    /// The first step of a command that is these operations.
    pub(crate) fn start(lba: Lba, operations: Vec<(u64, Op)>) -> Step {
        Self { lba, offset: 0, rest: operations.into_iter() }.next()
    }

    fn next(mut self) -> Step {
        match self.rest.next() {
            Some((offset, op)) => {
                self.offset = offset;
                Step::Submit(op, Program::Sequence(Box::new(self)))
            }
            None => Step::Done(Outcome::GOOD),
        }
    }
}

impl Program {
    /// Goes on with the engine's answer.
    pub(crate) fn advance(self, result: Result<Reply, OpError>) -> Step {
        match self {
            Self::Copy(copy) => copy.advance(result),
            Self::Single { lba } => Step::Done(match result {
                Ok(Reply::Data(data)) => Outcome::data(data),
                Ok(_) => Outcome::GOOD,
                Err(error) => sense_of(&error, lba).into(),
            }),
            Self::Then(next) => match result {
                Ok(_) => Step::Submit(next.0, next.1),
                Err(error) => Step::Done(sense_of(&error, next.1.lba()).into()),
            },
            Self::Sequence(sequence) => match result {
                Ok(_) => sequence.next(),
                Err(OpError::Miscompare { offset }) => {
                    let error = OpError::Miscompare { offset: offset + sequence.offset };
                    Step::Done(sense_of(&error, sequence.lba).into())
                }
                Err(error) => Step::Done(sense_of(&error, sequence.lba).into()),
            },
            // Nothing was submitted, so nothing is answered.
            Self::Held(held) => Step::Wait(Self::Held(held)),
            Self::Status { lba, allocation } => Step::Done(match result {
                Ok(Reply::Extents(extents)) => Outcome::cut(lba_status(&extents), allocation),
                Ok(_) => Outcome::GOOD,
                Err(error) => sense_of(&error, lba).into(),
            }),
            Self::Storing { aborted, lacking } => match result {
                Ok(_) => Step::Reserved(Changed { store: None, lacking, attentions: Vec::new(), aborted }),
                Err(OpError::NoSpace) => Step::Done(Sense::illegal(lacking).into()),
                Err(error) => Step::Done(sense_of(&error, Lba(0)).into()),
            },
            Self::Gather { left, mut outcome } => {
                if let Err(error) = result {
                    *outcome = sense_of(&error, Lba(0)).into();
                }
                match left {
                    0 | 1 => Step::Done(*outcome),
                    _ => Step::Wait(Self::Gather { left: left - 1, outcome }),
                }
            }
        }
    }

    /// The command was aborted; the operation under way was its last.
    pub(crate) fn abandon(self) {
        match self {
            Self::Copy(copy) => copy.abandon(),
            Self::Held(held) => held.2.abandon(),
            _ => {}
        }
    }

    /// First block of the command, for the sense data of an error that names none.
    fn lba(&self) -> Lba {
        match self {
            Self::Single { lba } | Self::Status { lba, .. } => *lba,
            Self::Then(next) => next.1.lba(),
            Self::Sequence(sequence) => sequence.lba,
            Self::Held(held) => held.2.lba(),
            Self::Copy(_) | Self::Storing { .. } | Self::Gather { .. } => Lba(0),
        }
    }
}

/// GET LBA STATUS data (SBC-4 5.8). A run longer than 32 bits can say is cut; the host asks again behind it.
fn lba_status(extents: &[Extent]) -> Vec<u8> {
    let run = |extent: &Extent| StatusRun {
        lba: extent.range.start(),
        blocks: u32::try_from(extent.range.blocks()).unwrap_or(u32::MAX),
        status: match extent.state {
            engine::Provisioning::Mapped => Provisioning::Mapped,
            engine::Provisioning::Deallocated => Provisioning::Deallocated,
        },
    };
    let whole = extents.iter().position(|extent| extent.range.blocks() > u64::from(u32::MAX));
    let runs: Vec<StatusRun> = extents.iter().take(whole.map_or(extents.len(), |at| at + 1)).map(run).collect();
    build_lba_status(&runs)
}
