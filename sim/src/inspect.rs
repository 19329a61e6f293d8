//! Reads all that an array holds, the way a host would.

use crate::content::{Content, Contents};
use crate::disk::SimDisk;
use crate::history::Violation;
use crate::machine::{Answers, Machine};
use crate::state::{State, Volume, brief, span};
use crate::subject::Subject;
use engine::{Extent, Op, OpError, Provisioning, Reply};
use units::{Lba, VolumeId};

/// Blocks of one read.
const READ_BLOCKS: u64 = 8192;

/// What the array holds in the volumes `1..=last` and its values; None when the drive stops meanwhile. Nothing may be
/// under way.
pub fn inspect<S: Subject>(
    machine: &mut Machine<'_, S>,
    disk: &SimDisk,
    contents: &mut Contents,
    last: u64,
) -> Result<Option<State>, Violation> {
    let mut state = State { values: machine.subject.values(), ..State::default() };
    for id in (1..=last).map(VolumeId) {
        // No volume is so large: the answer tells its size.
        let beyond = span(u64::MAX / 1024, 1);
        let blocks = match ask(machine, Op::Read { volume: id, range: beyond })? {
            Some(Err(OpError::OutOfRange { blocks })) => blocks,
            Some(Err(OpError::NoSuchVolume(_))) => continue,
            Some(other) => {
                return Err(Violation::new(format!("{id}: a read beyond the end is answered {}", brief(&other))));
            }
            None => return Ok(None),
        };
        let mut volume = Volume::new(blocks);
        for start in (0..blocks).step_by(READ_BLOCKS as usize) {
            let range = span(start, READ_BLOCKS.min(blocks - start));
            match ask(machine, Op::Read { volume: id, range })? {
                Some(Ok(Reply::Data(data))) if data.len() as u64 == range.bytes() => {
                    volume.write(start, &contents.names(&data))
                }
                Some(other) => {
                    return Err(Violation::new(format!("{id}: a read of {range:?} is answered {}", brief(&other))));
                }
                None => return Ok(None),
            }
        }
        let Some(extents) = extents(machine, id, blocks)? else {
            return Ok(None);
        };
        for extent in extents.iter().filter(|extent| extent.state == Provisioning::Deallocated) {
            if volume.read(extent.range).iter().any(|content| *content != Content::ZERO) {
                return Err(Violation::new(format!("{id}: {:?} is told deallocated and holds data", extent.range)));
            }
            volume.fill(extent.range, Content::UNMAPPED);
        }
        state.volumes.insert(id, volume);
    }
    Ok(if disk.is_crashed() { None } else { Some(state) })
}

/// All extents of a volume.
fn extents<S: Subject>(
    machine: &mut Machine<'_, S>,
    id: VolumeId,
    blocks: u64,
) -> Result<Option<Vec<Extent>>, Violation> {
    let mut all: Vec<Extent> = Vec::new();
    let mut at = 0;
    while at < blocks {
        let more = match ask(machine, Op::Status { volume: id, lba: Lba(at), limit: 4096 })? {
            Some(Ok(Reply::Extents(extents))) => extents,
            Some(other) => return Err(Violation::new(format!("{id}: status from {at} is answered {}", brief(&other)))),
            None => return Ok(None),
        };
        for extent in &more {
            if extent.range.start().0 != at || extent.range.is_empty() || extent.range.end().0 > blocks {
                return Err(Violation::new(format!("{id}: extent {extent:?} where one from {at} was due")));
            }
            at = extent.range.end().0;
        }
        if more.is_empty() {
            return Err(Violation::new(format!("{id}: no extents from {at} on")));
        }
        all.extend(more);
    }
    Ok(Some(all))
}

fn ask<S: Subject>(machine: &mut Machine<'_, S>, op: Op) -> Result<Option<Result<Reply, OpError>>, Violation> {
    let mut others = Answers::new();
    let answer = machine.call(op, &mut others)?;
    match others.first() {
        Some((tag, _)) => Err(Violation::new(format!("operation {tag} is answered though nothing was asked"))),
        None => Ok(answer),
    }
}
