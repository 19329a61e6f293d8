//! EXTENDED COPY(LID1) and RECEIVE COPY RESULTS (SPC-4 5.17, 6.4, 6.17 to 6.26).

use crate::command::context::CommandContext;
use crate::command::copy_records::{CopyRecord, CopyRecords};
use crate::command::outcome::{CommandOutcome, sense_of, short_data};
use crate::pod_ports::PortState;
use crate::unit::view::{Attachment, View};
use bytes::Bytes;
use engine::{Op, OpError, Reply};
use scsi::cdb::CopyResults;
use scsi::copy::{
    CopyState, CopyStatus, Cscd, FailedSegment, ListIdUsage, OperatingParameters, Segment, device_failure,
    not_reachable, parse_copy_list, segment_out_of_range,
};
use scsi::inquiry::Designator;
use scsi::{Sense, SenseFormat, SenseKey, Status, asc};
use std::sync::Arc;
use types::{BlockRange, Lba, ObjectId, VolumeId};

/// A logical unit that a copy reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CopyEnd {
    object: ObjectId,
    content: VolumeId,
}

impl CopyEnd {
    fn of(attachment: &Attachment) -> Self {
        Self { object: attachment.unit.volume, content: attachment.content }
    }
}

/// A segment whose source and destination were found in the LUN map and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ResolvedSegment {
    /// Index in the segment descriptor list.
    number: u16,
    source: CopyEnd,
    from: BlockRange,
    destination: CopyEnd,
    to: Lba,
}

impl ResolvedSegment {
    fn op(&self) -> Op {
        let (source, destination) = (self.source.content, self.destination.content);
        Op::Copy { source, from: self.from, destination, to: self.to }
    }
}

/// The next step of a copy.
pub(crate) enum CopyStep {
    /// Submit the operation, and continue the program with its result.
    Submit(Op, Box<CopyProgram>),
    /// The copy has ended.
    Done(CommandOutcome),
}

/// A copy in progress. Segments are copied in sequence (SPC-4 5.17.3). An aborted copy stops after
/// the current segment.
#[derive(Debug)]
pub(crate) struct CopyProgram {
    current: ResolvedSegment,
    rest: std::vec::IntoIter<ResolvedSegment>,
    /// The volume that received the command, if another array serves it, too.
    shared: Option<ObjectId>,
    record: CopyRecord,
    records: Option<(CopyRecords, u8)>,
}

impl CopyProgram {
    /// Starts a copy. `records` receives its progress under the list identifier; it is `None` if
    /// the host does not want results (LIST ID USAGE 11b).
    fn start(segments: Vec<ResolvedSegment>, shared: Option<ObjectId>, records: Option<(CopyRecords, u8)>) -> CopyStep {
        let record = CopyRecord { state: CopyState::InProgress, failure: None, segments: 0, bytes: 0 };
        let mut rest = segments.into_iter();
        match rest.next() {
            Some(current) => {
                let copy = Self { current, rest, shared, record, records };
                copy.save(CopyState::InProgress, None);
                CopyStep::Submit(current.op(), Box::new(copy))
            }
            None => {
                if let Some((records, list)) = records {
                    records.lock().insert(list, CopyRecord { state: CopyState::Done, ..record });
                }
                CopyStep::Done(CommandOutcome::GOOD)
            }
        }
    }

    /// Returns the bytes of the current and all following segments.
    pub(crate) fn bytes(&self) -> u64 {
        let segments = std::iter::once(&self.current).chain(self.rest.as_slice());
        segments.map(|segment| segment.from.bytes()).sum()
    }

    /// Returns the volume or snapshot whose content the current segment expects there.
    pub(crate) fn object_at(&self, content: VolumeId) -> Option<ObjectId> {
        let ends = [self.current.source, self.current.destination];
        ends.iter().find(|end| end.content == content).map(|end| end.object)
    }

    /// Notes where the content of a volume or snapshot is now. Returns the operation of the current
    /// segment.
    pub(crate) fn move_content(&mut self, object: ObjectId, content: VolumeId) -> Op {
        let segments = std::iter::once(&mut self.current).chain(self.rest.as_mut_slice());
        let ends = segments.flat_map(|segment| [&mut segment.source, &mut segment.destination]);
        ends.filter(|end| end.object == object).for_each(|end| end.content = content);
        self.current.op()
    }

    /// Continues with the result of the current segment.
    pub(crate) fn advance(mut self: Box<Self>, result: Result<Reply, OpError>) -> CopyStep {
        if let Err(error) = result {
            let sense = self.failure(&error);
            self.save(CopyState::Failed, Some(sense));
            return CopyStep::Done(sense.into());
        }
        self.record.segments += 1;
        self.record.bytes += self.current.from.bytes();
        match self.rest.next() {
            Some(next) => {
                self.current = next;
                self.save(CopyState::InProgress, None);
                CopyStep::Submit(next.op(), self)
            }
            None => {
                self.save(CopyState::Done, None);
                CopyStep::Done(CommandOutcome::GOOD)
            }
        }
    }

    /// Records that the copy was aborted. Segments copied so far stay.
    pub(crate) fn abandon(&self) {
        let sense = Sense::new(SenseKey::CopyAborted, asc::NO_ADDITIONAL_SENSE_INFORMATION);
        self.save(CopyState::Failed, Some(sense));
    }

    fn save(&self, state: CopyState, failure: Option<Sense>) {
        if let Some((records, list)) = &self.records {
            records.lock().insert(*list, CopyRecord { state, failure, ..self.record });
        }
    }

    /// Returns the sense data of a failure: COPY ABORTED with the segment number (SPC-4 5.17.7.4).
    /// A full pool is reported as such, so that a hypervisor pauses the virtual machine instead of
    /// failing its disk (SBC-4 4.7.3.6). An engine that has stopped is NOT READY.
    ///
    /// If the volume that received the command is not accessible on this array, the error is that
    /// of its ports, so that the host repeats the copy at the other array. If only another volume
    /// of the copy may be the cause, the paths of the receiving volume are good: the copy fails,
    /// and the host copies the blocks itself.
    fn failure(&self, error: &OpError) -> Sense {
        match error {
            OpError::NoSpace | OpError::ReadOnly | OpError::Stopped(_) => sense_of(error, self.current.to),
            OpError::Unavailable(_) | OpError::Transition(_) if self.has_end(self.shared) => {
                sense_of(error, self.current.to)
            }
            _ => device_failure(self.current.number),
        }
    }

    fn has_end(&self, volume: Option<ObjectId>) -> bool {
        let ends = [self.current.source.object, self.current.destination.object];
        volume.is_some_and(|volume| ends.contains(&volume))
    }
}

/// Starts EXTENDED COPY. All segments are checked before the first is copied.
///
/// Sources and destinations are searched only among the logical units of this session, and each
/// must allow the access. Otherwise a host could reach the volumes of others (CVE-2020-28374).
/// `shared` is the volume that received the command, if another array serves it, too.
pub(crate) fn extended_copy(
    context: &CommandContext<'_>,
    shared: Option<ObjectId>,
    length: u32,
    data: &Bytes,
) -> Result<CopyStep, Sense> {
    if length == 0 {
        return Ok(CopyStep::Done(CommandOutcome::GOOD));
    }
    let Some(list) = data.get(..length as usize) else { return Err(short_data()) };
    let list = parse_copy_list(list)?;
    let records = match list.usage {
        ListIdUsage::NoIdentifier => None,
        ListIdUsage::HoldData | ListIdUsage::DiscardData => Some((context.copies.clone(), list.id)),
    };
    // SPC-4 5.16.7.2: a list identifier in use is refused, because two copies would overwrite each
    // other's results.
    if let Some((records, id)) = &records
        && records.lock().get(id).is_some_and(|record| record.state == CopyState::InProgress)
    {
        return Err(Sense::illegal(asc::OPERATION_IN_PROGRESS));
    }
    let mut segments = Vec::with_capacity(list.segments.len());
    for (index, segment) in list.segments.iter().enumerate() {
        let (source, destination) = list.ends_of(index, segment)?;
        segments.extend(resolve(context, index as u16, segment, source, destination)?);
    }
    Ok(CopyProgram::start(segments, shared, records))
}

/// Resolves and checks one segment. Returns `None` if it has no blocks.
fn resolve(
    context: &CommandContext<'_>,
    number: u16,
    segment: &Segment,
    source: &Cscd,
    destination: &Cscd,
) -> Result<Option<ResolvedSegment>, Sense> {
    let source = find(context.view, source).ok_or(not_reachable(number, true))?;
    let destination = find(context.view, destination).ok_or(not_reachable(number, false))?;
    if source.unit.reservations.forbids_reads(context.nexus)
        || destination.unit.reservations.forbids_writes(context.nexus)
        || destination.check_writable().is_err()
        || [source, destination].iter().any(|end| is_unavailable(context, end) || !end.unit.reservations.is_known())
    {
        return Err(device_failure(number));
    }
    let blocks = u64::from(segment.blocks);
    let is_inside = |range: &BlockRange, attachment: &Attachment| range.end().0 <= attachment.blocks;
    let from = BlockRange::new(segment.source_lba, blocks).ok().filter(|range| is_inside(range, source));
    let to = BlockRange::new(segment.destination_lba, blocks).ok().filter(|range| is_inside(range, destination));
    let from = from.ok_or(segment_out_of_range(number, true))?;
    let to = to.ok_or(segment_out_of_range(number, false))?;
    Ok((!from.is_empty()).then(|| ResolvedSegment {
        number,
        source: CopyEnd::of(source),
        from,
        destination: CopyEnd::of(destination),
        to: to.start(),
    }))
}

fn is_unavailable(context: &CommandContext<'_>, attachment: &Attachment) -> bool {
    context.ports(attachment).is_some_and(|ports| ports.own == PortState::Unavailable)
}

/// Returns the logical unit of this session with a designator of VPD page 83h.
fn find<'a>(view: &'a View, cscd: &Cscd) -> Option<&'a Arc<Attachment>> {
    let wanted = &cscd.designator;
    view.iter().find(|attachment| {
        *wanted == Designator::naa(attachment.naa) || *wanted == Designator::t10_vendor(&attachment.serial)
    })
}

/// RECEIVE COPY RESULTS: the state of a copy of this nexus, or the limits of the copy manager.
pub(crate) fn copy_results(
    context: &CommandContext<'_>,
    action: CopyResults,
    list: u8,
    allocation: u32,
) -> Result<CommandOutcome, Sense> {
    let record = context.copies.lock().get(&list).cloned();
    // SPC-4 6.26: an unknown list identifier is an invalid field.
    let unknown = Sense::invalid_cdb_field(2, None);
    let data = match (action, record) {
        (CopyResults::OperatingParameters, _) => OperatingParameters::ours().to_bytes(),
        (CopyResults::CopyStatus, Some(record)) => copy_status(&record).to_bytes().to_vec(),
        // AVAILABLE DATA is 0, because no supported segment type holds data for the host.
        (CopyResults::ReceiveData, Some(_)) => vec![0; 4],
        (CopyResults::FailedSegmentDetails, Some(CopyRecord { failure: Some(sense), .. })) => {
            FailedSegment { status: Status::CheckCondition, sense }.to_bytes(SenseFormat::Fixed)
        }
        (CopyResults::FailedSegmentDetails, Some(_)) => vec![0; 4],
        (_, None) => return Err(unknown),
    };
    Ok(CommandOutcome::truncated(data, allocation))
}

fn copy_status(record: &CopyRecord) -> CopyStatus {
    CopyStatus {
        state: record.state,
        segments: record.segments,
        kibibytes: u32::try_from(record.bytes >> 10).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(number: u16) -> ResolvedSegment {
        let from = BlockRange::new(Lba(u64::from(number) * 8), 8).expect("a small range");
        let end = |number| CopyEnd { object: ObjectId(number), content: VolumeId(number) };
        ResolvedSegment { number, source: end(1), from, destination: end(2), to: Lba(100) }
    }

    fn submitted(step: CopyStep) -> Box<CopyProgram> {
        match step {
            CopyStep::Submit(Op::Copy { .. }, program) => program,
            _ => panic!("no copy was submitted"),
        }
    }

    #[test]
    fn copy_segments_run_in_sequence_and_are_counted() {
        let records = CopyRecords::default();
        let program = submitted(CopyProgram::start(vec![segment(0), segment(1)], None, Some((records.clone(), 9))));
        assert_eq!(records.lock()[&9].state, CopyState::InProgress);
        let program = submitted(program.advance(Ok(Reply::Done)));
        assert_eq!(records.lock()[&9].segments, 1);
        let end = program.advance(Ok(Reply::Done));
        assert!(matches!(end, CopyStep::Done(outcome) if outcome == CommandOutcome::GOOD));
        let expected = CopyRecord { state: CopyState::Done, failure: None, segments: 2, bytes: 8192 };
        assert_eq!(records.lock()[&9], expected);
    }

    #[test]
    fn copy_failure_names_its_segment_and_ends_the_copy() {
        let records = CopyRecords::default();
        let program = submitted(CopyProgram::start(vec![segment(0), segment(1)], None, Some((records.clone(), 9))));
        let program = submitted(program.advance(Ok(Reply::Done)));
        let CopyStep::Done(outcome) = program.advance(Err(OpError::MediumError { lba: Lba(3) })) else {
            panic!("the copy continued");
        };
        let sense = outcome.sense.expect("sense data");
        assert!(sense.is(SenseKey::CopyAborted, asc::THIRD_PARTY_DEVICE_FAILURE));
        assert_eq!(sense.command_specific, Some(1));
        let record = records.lock()[&9].clone();
        assert_eq!((record.state, record.failure), (CopyState::Failed, Some(sense)));
    }

    #[test]
    fn copy_follows_content_that_moves() {
        let mut program = submitted(CopyProgram::start(vec![segment(0), segment(1)], None, None));
        assert_eq!(program.object_at(VolumeId(2)), Some(ObjectId(2)));
        let op = program.move_content(ObjectId(2), VolumeId(9));
        assert!(matches!(op, Op::Copy { source: VolumeId(1), destination: VolumeId(9), .. }), "{op:?}");
        assert_eq!((program.object_at(VolumeId(2)), program.object_at(VolumeId(9))), (None, Some(ObjectId(2))));
        let CopyStep::Submit(op, _) = program.advance(Ok(Reply::Done)) else { panic!("the copy ended") };
        assert!(matches!(op, Op::Copy { source: VolumeId(1), destination: VolumeId(9), .. }), "{op:?}");
    }

    #[test]
    fn copy_into_a_full_pool_reports_space_exhaustion() {
        let program = submitted(CopyProgram::start(vec![segment(0)], None, None));
        let CopyStep::Done(outcome) = program.advance(Err(OpError::NoSpace)) else { panic!("the copy continued") };
        assert_eq!(outcome.sense.map(|sense| sense.asc), Some(asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT));
    }
}
