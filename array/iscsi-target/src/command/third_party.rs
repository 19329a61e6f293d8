//! EXTENDED COPY(LID1) and RECEIVE COPY RESULTS (SPC-4 6.4, 6.17 to 6.26).

use crate::command::copy::{self, CopyProgram, CopyRecord};
use crate::command::outcome::{Outcome, short_data};
use crate::command::program::Step;
use crate::session::Session;
use crate::unit::reservation::{READ, WRITE};
use crate::unit::view::Attachment;
use bytes::Bytes;
use scsi::cdb::CopyResults;
use scsi::copy::{
    CopyState, CopyStatus, Cscd, FailedSegment, ListIdUsage, OperatingParameters, Segment, device_failure,
    not_reachable, parse_copy_list, segment_out_of_range,
};
use scsi::inquiry::Designator;
use scsi::{Sense, SenseFormat, Status};
use std::sync::Arc;
use types::BlockRange;

impl Session {
    /// Both ends of every segment are looked for among the units of this session and nowhere else, and both must admit
    /// what is done with them (CVE-2020-28374 is what happens otherwise). Nothing is copied before all are found good.
    pub(crate) fn extended_copy(&self, length: u32, data: &Bytes) -> Result<Step, Sense> {
        if length == 0 {
            return Ok(Outcome::GOOD.into());
        }
        let Some(list) = data.get(..length as usize) else { return Err(short_data()) };
        let list = parse_copy_list(list)?;
        let remembered = match list.usage {
            ListIdUsage::NoIdentifier => None,
            ListIdUsage::HoldData | ListIdUsage::DiscardData => Some((self.copies.clone(), list.id)),
        };
        // SPC-4 5.16.7.2: two copies of one name at a time would make each other's results unreadable.
        if let Some((records, id)) = &remembered
            && records.lock().get(id).is_some_and(|record| record.state == copy::CopyState::InProgress)
        {
            return Err(Sense::illegal(scsi::asc::OPERATION_IN_PROGRESS));
        }
        let mut segments = Vec::with_capacity(list.segments.len());
        for (place, segment) in list.segments.iter().enumerate() {
            let (source, destination) = list.ends_of(place, segment)?;
            segments.extend(self.resolve(place as u16, segment, source, destination)?);
        }
        Ok(CopyProgram::start(segments, remembered))
    }

    /// One segment, ready for the engine; `None` when it copies nothing.
    fn resolve(
        &self,
        number: u16,
        segment: &Segment,
        source: &Cscd,
        destination: &Cscd,
    ) -> Result<Option<copy::Segment>, Sense> {
        let source = self.find(source).ok_or(not_reachable(number, true))?;
        let destination = self.find(destination).ok_or(not_reachable(number, false))?;
        if source.unit.held.forbids(&self.nexus, &READ)
            || destination.unit.held.forbids(&self.nexus, &WRITE)
            || destination.admits_writes().is_err()
        {
            return Err(device_failure(number));
        }
        let blocks = u64::from(segment.blocks);
        let inside = |range: &BlockRange, attachment: &Attachment| range.end().0 <= attachment.blocks;
        let from = BlockRange::new(segment.source_lba, blocks).ok().filter(|range| inside(range, source));
        let to = BlockRange::new(segment.destination_lba, blocks).ok().filter(|range| inside(range, destination));
        let from = from.ok_or(segment_out_of_range(number, true))?;
        let to = to.ok_or(segment_out_of_range(number, false))?;
        Ok((!from.is_empty()).then(|| copy::Segment {
            number,
            source: source.unit.volume,
            from,
            destination: destination.unit.volume,
            to: to.start(),
        }))
    }

    /// The logical unit of this session with a name of VPD page 83h.
    fn find(&self, cscd: &Cscd) -> Option<&Arc<Attachment>> {
        let wanted = &cscd.designator;
        self.view.iter().find(|attachment| {
            *wanted == Designator::naa(attachment.naa) || *wanted == Designator::t10_vendor(&attachment.serial)
        })
    }

    /// How a copy of this nexus has gone, or the limits of the copy manager.
    pub(crate) fn copy_results(&self, action: CopyResults, list: u8, allocation: u32) -> Result<Outcome, Sense> {
        let record = self.copies.lock().get(&list).cloned();
        // SPC-4 6.26: a list identifier that names no copy is an invalid field.
        let unknown = Sense::invalid_cdb_field(2, None);
        let data = match (action, record) {
            (CopyResults::OperatingParameters, _) => OperatingParameters::ours().to_bytes(),
            (CopyResults::CopyStatus, Some(record)) => copy_status(&record).to_bytes().to_vec(),
            // No segment type that we have holds data for the host: AVAILABLE DATA says that none are there.
            (CopyResults::ReceiveData, Some(_)) => vec![0; 4],
            (CopyResults::FailedSegmentDetails, Some(CopyRecord { state: copy::CopyState::Failed(sense), .. })) => {
                FailedSegment { status: Status::CheckCondition, sense }.to_bytes(SenseFormat::Fixed)
            }
            (CopyResults::FailedSegmentDetails, Some(_)) => vec![0; 4],
            (_, None) => return Err(unknown),
        };
        Ok(Outcome::cut(data, allocation))
    }
}

fn copy_status(record: &CopyRecord) -> CopyStatus {
    CopyStatus {
        state: match record.state {
            copy::CopyState::InProgress => CopyState::InProgress,
            copy::CopyState::Complete => CopyState::Done,
            copy::CopyState::Failed(_) => CopyState::Failed,
        },
        segments: record.segments,
        kibibytes: u32::try_from(record.bytes >> 10).unwrap_or(u32::MAX),
    }
}
