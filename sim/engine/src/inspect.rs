//! Reads everything that an array holds, as a host would.

use crate::content::{Content, Contents};
use crate::history::SimViolation;
use crate::machine::{Answers, SimMachine};
use crate::state::{OracleState, OracleVolume, span, summary};
use crate::subject::SimSubject;
use engine::{Extent, ExtentState, Op, OpError, Reply};
use types::{BlockRange, LBAS_PER_BLOCK, Lba, VolumeId};

/// Blocks per read.
const READ_BLOCKS: u64 = 8192;

/// What the inspection found.
pub struct Found {
    /// State of the array.
    pub state: OracleState,
    /// Number of unreadable blocks.
    pub unreadable: u64,
}

/// Reads the volumes `1..=last` and the values of the catalog. Returns `None` if the drive stops.
/// No operation may be in flight. Unreadable blocks are a violation unless the drive `has_failed`
/// before.
pub fn inspect<S: SimSubject>(
    machine: &mut SimMachine<'_, S>,
    contents: &mut Contents,
    last: u64,
    has_failed: bool,
) -> Result<Option<Found>, SimViolation> {
    let mut found =
        Found { state: OracleState { values: machine.subject.values(), ..OracleState::default() }, unreadable: 0 };
    for id in (1..=last).map(VolumeId) {
        // Larger than any volume: the error reply contains the size of the volume.
        let beyond = span(u64::MAX / 1024, 1);
        let blocks = match ask(machine, Op::Read { volume: id, range: beyond })? {
            Some(Err(OpError::OutOfRange { blocks })) => blocks,
            Some(Err(OpError::NoSuchVolume(_))) => continue,
            Some(other) => {
                return Err(SimViolation(format!("{id}: read beyond the end answered {}", summary(&other))));
            }
            None => return Ok(None),
        };
        let mut volume = OracleVolume::new(blocks);
        for start in (0..blocks).step_by(READ_BLOCKS as usize) {
            let range = span(start, READ_BLOCKS.min(blocks - start));
            let Some(unreadable) = read(machine, contents, id, &mut volume, range, has_failed)? else {
                return Ok(None);
            };
            found.unreadable += unreadable;
        }
        let Some(extents) = extents(machine, id, blocks, has_failed)? else {
            return Ok(None);
        };
        for extent in extents.iter().filter(|extent| extent.state == ExtentState::Deallocated) {
            if volume.read(extent.range).iter().any(|content| ![Content::ZERO, Content::UNREADABLE].contains(content)) {
                return Err(SimViolation(format!("{id}: {:?} is reported deallocated but holds data", extent.range)));
            }
            if found.unreadable == 0 {
                volume.fill(extent.range, Content::UNMAPPED);
            }
        }
        found.state.volumes.insert(id, volume);
    }
    Ok(Some(found))
}

/// Reads a range and returns the number of unreadable blocks. If a medium error is acceptable,
/// reads the halves separately.
fn read<S: SimSubject>(
    machine: &mut SimMachine<'_, S>,
    contents: &mut Contents,
    id: VolumeId,
    volume: &mut OracleVolume,
    range: BlockRange,
    has_failed: bool,
) -> Result<Option<u64>, SimViolation> {
    match ask(machine, Op::Read { volume: id, range })? {
        Some(Ok(Reply::Data(data))) if data.len() as u64 == range.bytes() => {
            volume.write(range.start().0, &contents.ids_of(&data));
        }
        Some(Err(OpError::MediumError { .. })) if has_failed && range.blocks() > LBAS_PER_BLOCK => {
            let (start, half) = (range.start().0, range.blocks() / 2);
            let mut unreadable = 0;
            for part in [span(start, half), span(start + half, range.blocks() - half)] {
                match read(machine, contents, id, volume, part, has_failed)? {
                    Some(count) => unreadable += count,
                    None => return Ok(None),
                }
            }
            return Ok(Some(unreadable));
        }
        Some(Err(OpError::MediumError { .. })) if has_failed => {
            volume.fill(range, Content::UNREADABLE);
            return Ok(Some(range.blocks()));
        }
        Some(other) => return Err(SimViolation(format!("{id}: read of {range:?} answered {}", summary(&other)))),
        None => return Ok(None),
    }
    Ok(Some(0))
}

/// Returns all extents of a volume.
fn extents<S: SimSubject>(
    machine: &mut SimMachine<'_, S>,
    id: VolumeId,
    blocks: u64,
    has_failed: bool,
) -> Result<Option<Vec<Extent>>, SimViolation> {
    let mut all: Vec<Extent> = Vec::new();
    let mut at = 0;
    while at < blocks {
        let more = match ask(machine, Op::Status { volume: id, lba: Lba(at), limit: 4096 })? {
            Some(Ok(Reply::Extents(extents))) => extents,
            Some(Err(OpError::MediumError { .. })) if has_failed => return Ok(Some(all)),
            Some(other) => {
                return Err(SimViolation::new(format!("{id}: status from {at} answered {}", summary(&other))));
            }
            None => return Ok(None),
        };
        for extent in &more {
            if extent.range.start().0 != at || extent.range.is_empty() || extent.range.end().0 > blocks {
                return Err(SimViolation::new(format!("{id}: extent {extent:?} instead of one from {at}")));
            }
            at = extent.range.end().0;
        }
        if more.is_empty() {
            return Err(SimViolation::new(format!("{id}: no extents from {at}")));
        }
        all.extend(more);
    }
    Ok(Some(all))
}

fn ask<S: SimSubject>(machine: &mut SimMachine<'_, S>, op: Op) -> Result<Option<Result<Reply, OpError>>, SimViolation> {
    let mut others = Answers::new();
    let answer = machine.call(op, &mut others)?;
    match others.first() {
        Some((tag, _)) => Err(SimViolation::new(format!("operation {tag} answered without a request"))),
        None => Ok(answer),
    }
}
