//! The forms of requests and records that a stream orders.

use crate::delta_op::DeltaOp;
use crate::service::{Change, OpError};
use crate::stream_record::{FollowedRecord, MAX_FOLLOWED_OPS, MAX_MESSAGE_BYTES, StreamChange, StreamRecord};
use ondisk::WHOLE_VOLUME_BLOCKS;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lba, VolumeId};
use wal::{FillValue, LogOp};

/// Size of a *full* delta: all blocks of its volume are in it. It has one block, which is not
/// mapped, so it needs no page. Every other delta is larger.
pub(crate) const FULL_DELTA_BLOCKS: u64 = LBAS_PER_BLOCK;

/// Checks what a record to follow holds, without regard to the volumes as they are now: records
/// before it may still change them.
pub(super) fn check_record(followed: &FollowedRecord) -> Result<(), OpError> {
    let FollowedRecord { record, values } = followed;
    let is_followed = |op: &LogOp| {
        let is_change =
            changed_range(op).is_some_and(|(_, range)| !range.is_empty() && range.end().0 <= WHOLE_VOLUME_BLOCKS);
        let is_named = |volume: VolumeId| volume.stream() == Some(record.stream) && !volume.is_delta();
        let is_from_stage =
            matches!(op, LogOp::Copy { source, destination, .. } if source.is_stage() && !destination.is_stage());
        is_change && op.volumes().all(is_named) && (is_from_stage || !op.volumes().any(VolumeId::is_stage))
    };
    if record.ops.len() > MAX_FOLLOWED_OPS || !has_known_form(&record.ops) {
        return Err(OpError::Malformed(
            "a record to follow is empty, a copy with its edges, up to 32 fills, or up to 32 changes of volumes",
        ));
    }
    if !record.ops.iter().all(is_followed) {
        return Err(OpError::Malformed("a record to follow changes a volume outside of its stream, or nothing"));
    }
    if record.message.is_empty() {
        let is_plain = values.is_empty();
        return if is_plain { Ok(()) } else { Err(OpError::Malformed("values with a record that has no message")) };
    }
    if !record.ops.iter().all(is_volume_change) {
        return Err(OpError::Malformed("a message in a record that changes blocks"));
    }
    check_message(&record.message, values)
}

/// Checks what a change of a stream holds, without regard to the volumes as they are now.
pub(super) fn check_change(change: &StreamChange) -> Result<(), OpError> {
    let StreamChange { stream, changes, message, values, .. } = change;
    if changes.is_empty() && message.is_empty() {
        return Err(OpError::Malformed("a change of a stream without a change of volumes and without a message"));
    }
    if changes.len() > MAX_FOLLOWED_OPS {
        return Err(OpError::Malformed("more than 32 changes of a stream's volumes in one record"));
    }
    let is_own = |change: &Change| {
        let is_named = |volume: VolumeId| volume.stream() == Some(*stream) && !volume.is_stage();
        !is_value(change) && volumes_of(change).into_iter().flatten().all(is_named)
    };
    if !changes.iter().all(is_own) {
        return Err(OpError::Malformed("a change of a stream with another volume, or with a value among its volumes"));
    }
    check_message(message, values)
}

fn check_message(message: &[u8], values: &[Change]) -> Result<(), OpError> {
    if message.len() > MAX_MESSAGE_BYTES {
        return Err(OpError::Malformed("the message of a record is longer than 256 KiB"));
    }
    if values.iter().all(is_value) { Ok(()) } else { Err(OpError::Malformed("a change of a volume among values")) }
}

/// True for a change of the catalog alone.
pub(super) fn is_value(change: &Change) -> bool {
    matches!(change, Change::Put { .. } | Change::Remove { .. })
}

/// True for operations that one request puts into one record, and for a mark without any.
fn has_known_form(ops: &[LogOp]) -> bool {
    let is_write = |op: &LogOp| matches!(op, LogOp::Write { .. });
    let are_edges = |ops: &[LogOp]| ops.len() <= 2 && ops.iter().all(is_write);
    match ops {
        [LogOp::Same { .. }] => true,
        [LogOp::Copy { .. }, edges @ ..] => are_edges(edges),
        [LogOp::Write { .. } | LogOp::Fill { .. }, ..] => {
            are_edges(ops) || ops.iter().all(|op| matches!(op, LogOp::Fill { .. })) || is_content(ops)
        }
        _ => ops.iter().all(is_volume_change),
    }
}

/// True for operations that set blocks of 4 KiB of one volume, one after the other: the content
/// that a source sends.
fn is_content(ops: &[LogOp]) -> bool {
    let mut next = None;
    ops.iter().all(|op| {
        let (LogOp::Write { .. } | LogOp::Fill { .. }) = op else { return false };
        let Some((volume, range)) = changed_range(op) else { return false };
        let is_aligned = (range.start().0 | range.end().0).is_multiple_of(LBAS_PER_BLOCK);
        is_aligned && next.replace((volume, range.end())).is_none_or(|due| due == (volume, range.start()))
    })
}

/// True for a copy to a stage, which each array makes by itself.
pub(super) fn is_copy_to_stage(op: &LogOp) -> bool {
    matches!(op, LogOp::Copy { source, destination, .. } if destination.is_stage() && !source.is_delta())
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
    let mut ranges: Vec<_> = changed.filter(|(volume, range)| !is_added(ops, *volume, *range)).collect();
    if !ops.is_empty() && ops.iter().all(is_of_delta) {
        // The content of these blocks was sent, and they left the delta.
        ranges.extend(ops.iter().filter_map(|op| match op {
            LogOp::Fill { volume, range, fill: FillValue::Hole } => Some((volume.volume_of_delta()?, *range)),
            _ => None,
        }));
    }
    ranges
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

/// True if an operation of a record here is one for the peer, too.
pub(crate) fn is_for_peer(op: &LogOp) -> bool {
    !is_of_delta(op) && !matches!(op, LogOp::Put { .. } | LogOp::Remove { .. })
}

/// Returns the volume of a request about the delta of one volume.
pub(super) fn volume_of_delta_op(op: &DeltaOp) -> Option<VolumeId> {
    match op {
        DeltaOp::AddTail { .. } => None,
        DeltaOp::Add { volume, .. } | DeltaOp::Clear { volume, .. } | DeltaOp::Next { volume, .. } => Some(*volume),
    }
}
