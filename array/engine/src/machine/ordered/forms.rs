//! The forms of requests and records that a stream orders.

use crate::delta_op::DeltaOp;
use crate::service::{Change, OpError};
use crate::stream_record::{MAX_FOLLOWED_OPS, StreamRecord};
use ondisk::WHOLE_VOLUME_BLOCKS;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::{FillValue, LogOp};

/// Size of a *full* delta: all blocks of its volume are in it. It has one block, which is not
/// mapped, so it needs no page. Every other delta is larger.
pub(crate) const FULL_DELTA_BLOCKS: u64 = LBAS_PER_BLOCK;

/// Checks what a record to follow holds, without regard to the volumes as they are now: records
/// before it may still change them.
pub(super) fn check_record(record: &StreamRecord) -> Result<(), OpError> {
    let is_followed = |op: &LogOp| {
        let is_change =
            changed_range(op).is_some_and(|(_, range)| !range.is_empty() && range.end().0 <= WHOLE_VOLUME_BLOCKS);
        is_change && op.volumes().all(|volume| volume.stream() == Some(record.stream) && !volume.is_delta())
    };
    if record.ops.len() > MAX_FOLLOWED_OPS || !has_known_form(&record.ops) {
        return Err(OpError::Malformed(
            "a record to follow is empty, a copy with its edges, up to 32 fills, or up to 32 changes of volumes",
        ));
    }
    if !record.ops.iter().all(is_followed) {
        return Err(OpError::Malformed("a record to follow changes a volume outside of its stream, or nothing"));
    }
    Ok(())
}

/// True for operations that one request puts into one record, and for a mark without any.
fn has_known_form(ops: &[LogOp]) -> bool {
    let is_write = |op: &LogOp| matches!(op, LogOp::Write { .. });
    let are_edges = |ops: &[LogOp]| ops.len() <= 2 && ops.iter().all(is_write);
    match ops {
        [LogOp::Same { .. }] => true,
        [LogOp::Copy { .. }, edges @ ..] => are_edges(edges),
        [LogOp::Write { .. }, ..] => are_edges(ops),
        [LogOp::Fill { .. }, ..] => ops.iter().all(|op| matches!(op, LogOp::Fill { .. })),
        _ => ops.iter().all(is_volume_change),
    }
}

/// True for an operation on a volume as a whole.
pub(crate) fn is_volume_change(op: &LogOp) -> bool {
    matches!(op, LogOp::Create { .. } | LogOp::Delete { .. } | LogOp::Resize { .. } | LogOp::CopyVolume { .. })
}

/// True for a record that reads what earlier records of its stream change: its pages are known
/// when those are applied.
pub(super) fn reads_earlier(record: &StreamRecord) -> bool {
    record.ops.iter().any(|op| is_volume_change(op) || matches!(op, LogOp::Copy { .. }))
}

/// Returns the blocks that an operation of a stream's record changes.
pub(super) fn changed_range(op: &LogOp) -> Option<(VolumeId, BlockRange)> {
    match op {
        LogOp::Write { volume, lba, data } => {
            BlockRange::new(*lba, data.len() as u64 / LBA_BYTES).ok().map(|range| (*volume, range))
        }
        LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => Some((*volume, *range)),
        LogOp::Copy { from, destination, to, .. } => {
            BlockRange::new(*to, from.blocks()).ok().map(|range| (*destination, range))
        }
        LogOp::Create { volume, .. }
        | LogOp::Delete { volume }
        | LogOp::Resize { volume, .. }
        | LogOp::CopyVolume { destination: volume, .. } => {
            BlockRange::new(Lba(0), WHOLE_VOLUME_BLOCKS).ok().map(|range| (*volume, range))
        }
        LogOp::Stream(_) | LogOp::Put { .. } | LogOp::Remove { .. } => None,
    }
}

/// Returns the volumes that a change names.
pub(crate) fn volumes_of(change: &Change) -> [Option<VolumeId>; 2] {
    match change {
        Change::CreateVolume { volume, .. } | Change::DeleteVolume { volume } | Change::ResizeVolume { volume, .. } => {
            [Some(*volume), None]
        }
        Change::CopyVolume { source, destination } => [Some(*source), Some(*destination)],
        Change::Put { .. } | Change::Remove { .. } => [None, None],
    }
}

/// Returns the blocks that a record changes in volumes, except those that it adds to their deltas:
/// the part of the record that its stream's tail lists.
pub(super) fn ranges_for_tail(ops: &[LogOp]) -> Vec<(VolumeId, BlockRange)> {
    let changed = ops.iter().filter_map(changed_range).filter(|(volume, _)| !volume.is_delta());
    changed.filter(|(volume, range)| !is_added(ops, *volume, *range)).collect()
}

/// True if a record adds the blocks that it changes in a volume to the delta.
fn is_added(ops: &[LogOp], volume: VolumeId, changed: BlockRange) -> bool {
    let is_whole = changed.blocks() == WHOLE_VOLUME_BLOCKS;
    let is_in = |range: BlockRange| range.start() <= changed.start() && changed.end() <= range.end();
    let is_part_in = |range: BlockRange| range.start() < changed.end() && changed.start() < range.end();
    let is_own = |op: &&LogOp| volume.delta().is_some() && op.volumes().last() == volume.delta();
    ops.iter().filter(is_own).fold(false, |is_added, op| match op {
        // All of a volume means that it is made, replaced or resized. Its record then adds all
        // that the peer may lack.
        LogOp::Fill { range, fill: FillValue::Zero, .. } => is_added || is_whole || is_in(*range),
        LogOp::Fill { range, .. } => is_added && (is_whole || !is_part_in(*range)),
        LogOp::Create { blocks, .. } => is_added || *blocks == FULL_DELTA_BLOCKS,
        LogOp::Resize { blocks, .. } => is_added || (!is_whole && *blocks == FULL_DELTA_BLOCKS),
        _ => false,
    })
}

/// True if an operation changes a delta.
pub(crate) fn is_of_delta(op: &LogOp) -> bool {
    op.volumes().next().is_some_and(VolumeId::is_delta)
}

/// Returns the volume of a request about the delta of one volume.
pub(super) fn volume_of_delta_op(op: &DeltaOp) -> Option<VolumeId> {
    match op {
        DeltaOp::AddTail { .. } => None,
        DeltaOp::Add { volume, .. } | DeltaOp::Clear { volume, .. } | DeltaOp::Next { volume, .. } => Some(*volume),
    }
}
