//! EXTENDED COPY(LID1) under way, and what is remembered of it for RECEIVE COPY RESULTS (SPC-4 5.17, 6.4).

use crate::command::outcome::{Outcome, sense_of};
use crate::command::program::{Program, Step};
use engine::{Op, OpError, Reply};
use parking_lot::Mutex;
use scsi::copy::device_failure;
use scsi::{Sense, SenseKey, asc};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{BlockRange, Lba, VolumeId};

/// One segment, both ends found in the LUN map of the session and found allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its place in the segment descriptor list.
    pub(crate) number: u16,
    pub(crate) source: VolumeId,
    pub(crate) from: BlockRange,
    pub(crate) destination: VolumeId,
    pub(crate) to: Lba,
}

impl Segment {
    fn op(&self) -> Op {
        Op::Copy { source: self.source, from: self.from, destination: self.destination, to: self.to }
    }
}

/// How far a copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    InProgress,
    Complete,
    /// Ended with this sense data.
    Failed(Sense),
}

/// What is remembered of one copy of an I_T nexus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyRecord {
    pub(crate) state: CopyState,
    /// Segments that were copied whole.
    pub(crate) segments: u16,
    /// Bytes that were copied.
    pub(crate) bytes: u64,
}

/// The copies of an I_T nexus by list identifier: at most 256, the newest under each.
pub(crate) type CopyRecords = Arc<Mutex<BTreeMap<u8, CopyRecord>>>;

/// A copy of which a segment is under way. Segments follow one another (SPC-4 5.17.3), and a task that was aborted
/// goes no further than the one under way.
#[derive(Debug)]
pub(crate) struct CopyProgram {
    current: Segment,
    rest: std::vec::IntoIter<Segment>,
    record: CopyRecord,
    remembered: Option<(CopyRecords, u8)>,
}

impl CopyProgram {
    /// The first step of a copy. `remembered` says where it is told how it goes, unless the host does not want to know
    /// (LIST ID USAGE 11b).
    pub(crate) fn start(segments: Vec<Segment>, remembered: Option<(CopyRecords, u8)>) -> Step {
        let record = CopyRecord { state: CopyState::InProgress, segments: 0, bytes: 0 };
        let mut rest = segments.into_iter();
        match rest.next() {
            Some(current) => {
                let copy = Self { current, rest, record, remembered };
                copy.remember(CopyState::InProgress);
                Step::Submit(current.op(), Program::Copy(Box::new(copy)))
            }
            None => {
                if let Some((records, list)) = remembered {
                    records.lock().insert(list, CopyRecord { state: CopyState::Complete, ..record });
                }
                Step::Done(Outcome::GOOD)
            }
        }
    }

    /// Bytes of this and the following segments.
    pub(crate) fn bytes(&self) -> u64 {
        let segments = std::iter::once(&self.current).chain(self.rest.as_slice());
        segments.map(|segment| segment.from.bytes()).sum()
    }

    /// Goes on with the engine's answer to the segment under way.
    pub(crate) fn advance(mut self, result: Result<Reply, OpError>) -> Step {
        if let Err(error) = result {
            let sense = self.failure(&error);
            self.remember(CopyState::Failed(sense));
            return Step::Done(sense.into());
        }
        self.record.segments += 1;
        self.record.bytes += self.current.from.bytes();
        match self.rest.next() {
            Some(next) => {
                self.current = next;
                self.remember(CopyState::InProgress);
                Step::Submit(next.op(), Program::Copy(Box::new(self)))
            }
            None => {
                self.remember(CopyState::Complete);
                Step::Done(Outcome::GOOD)
            }
        }
    }

    /// The task was aborted: what was copied stays, and the copy goes no further.
    pub(crate) fn abandon(self) {
        self.remember(CopyState::Failed(Sense::new(SenseKey::CopyAborted, asc::NO_ADDITIONAL_SENSE_INFORMATION)));
    }

    fn remember(&self, state: CopyState) {
        if let Some((records, list)) = &self.remembered {
            records.lock().insert(*list, CopyRecord { state, ..self.record.clone() });
        }
    }

    /// COPY ABORTED with the number of the segment (SPC-4 5.17.7.4); but a full pool is told as such, so that a
    /// hypervisor stops the machine instead of failing its disk (SBC-4 4.7.3.6).
    fn failure(&self, error: &OpError) -> Sense {
        match error {
            OpError::NoSpace => sense_of(error, self.current.to),
            _ => device_failure(self.current.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(number: u16) -> Segment {
        let from = BlockRange::new(Lba(u64::from(number) * 8), 8).expect("a small range");
        Segment { number, source: VolumeId(1), from, destination: VolumeId(2), to: Lba(100) }
    }

    fn submitted(step: Step) -> Program {
        match step {
            Step::Submit(Op::Copy { .. }, program) => program,
            _ => panic!("no copy was submitted"),
        }
    }

    #[test]
    fn segments_follow_each_other_and_are_counted() {
        let records = CopyRecords::default();
        let program = submitted(CopyProgram::start(vec![segment(0), segment(1)], Some((records.clone(), 9))));
        assert_eq!(records.lock()[&9].state, CopyState::InProgress);
        let program = submitted(program.advance(Ok(Reply::Done)));
        assert_eq!(records.lock()[&9].segments, 1);
        assert!(matches!(program.advance(Ok(Reply::Done)), Step::Done(outcome) if outcome == Outcome::GOOD));
        assert_eq!(records.lock()[&9], CopyRecord { state: CopyState::Complete, segments: 2, bytes: 8192 });
    }

    #[test]
    fn a_failure_names_its_segment_and_ends_the_copy() {
        let records = CopyRecords::default();
        let program = submitted(CopyProgram::start(vec![segment(0), segment(1)], Some((records.clone(), 9))));
        let program = submitted(program.advance(Ok(Reply::Done)));
        let Step::Done(outcome) = program.advance(Err(OpError::MediumError { lba: Lba(3) })) else {
            panic!("the copy went on");
        };
        let sense = outcome.sense.expect("sense data");
        assert!(sense.is(SenseKey::CopyAborted, asc::THIRD_PARTY_DEVICE_FAILURE));
        assert_eq!(sense.command_specific, Some(1));
        assert_eq!(records.lock()[&9].state, CopyState::Failed(sense));
    }

    #[test]
    fn a_full_pool_is_told_as_such() {
        let program = submitted(CopyProgram::start(vec![segment(0)], None));
        let Step::Done(outcome) = program.advance(Err(OpError::NoSpace)) else { panic!("the copy went on") };
        assert_eq!(outcome.sense.map(|sense| sense.asc), Some(asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT));
    }
}
