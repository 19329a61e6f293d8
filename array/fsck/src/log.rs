//! Checks the log after the checkpoint: the chain of groups, and whether their records can be
//! applied.

use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, FsckFindings, Severity, Span, Structure};
use bytes::Bytes;
use ondisk::Superblock;
use platform::Disk;
use std::collections::BTreeMap;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lsn, MAX_VOLUME_BYTES, Period, Position, StreamId, VolumeId};
use wal::{Chain, GROUP_ALIGNMENT, LogOp, Replay, ReplayError, StreamEntry};

const MAGIC: &[u8] = b"IBIDLOG\0";
const HEADER_BYTES: usize = 72;
/// Bytes read at a time when searching for groups beyond the end of the chain.
const PIECE: usize = 4 << 20;

/// Contents of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// Groups after the checkpoint.
    pub groups: u64,
    /// Records in these groups.
    pub records: u64,
}

/// Fields of a group header with a correct checksum.
struct Header {
    sequence: u64,
    epoch: u64,
    body_bytes: u64,
}

/// Reads the log from the end of the checkpoint. `checkpoint` is `None` if the volumes are unknown.
pub(crate) fn check(
    disk: &dyn Disk,
    superblock: &Superblock,
    checkpoint: Option<&Checkpoint<'_>>,
    findings: &FsckFindings,
) -> LogTotals {
    let start = superblock.geometry.log_start();
    let position = &superblock.log;
    let chain = Chain {
        array: superblock.array,
        epoch: position.epoch,
        sequence: position.sequence,
        lsn: Lsn(position.lsn),
        previous: position.previous,
    };
    let mut replay = Replay::new(chain, superblock.geometry.log_bytes, position.head);
    let mut read = |offset: u64, length: usize| {
        let mut bytes = vec![0; length];
        disk.read_at(start + offset, &mut bytes).map(|()| Bytes::from(bytes))
    };
    let mut volumes: Option<BTreeMap<VolumeId, u64>> = checkpoint
        .map(|checkpoint| checkpoint.manifest.volumes.iter().map(|(name, volume)| (*name, volume.blocks)).collect());
    let mut streams: BTreeMap<StreamId, (Period, Position)> = checkpoint
        .map(|checkpoint| checkpoint.manifest.streams.iter().map(|(id, stream)| (*id, stream.last)).collect())
        .unwrap_or_default();
    let mut logged = LogTotals::default();
    loop {
        let group = match replay.next(&mut read) {
            Ok(Some(group)) => group,
            Ok(None) => break,
            Err(error) => {
                findings.add(unreadable_log(error));
                return logged;
            }
        };
        logged.groups += 1;
        for (lsn, record) in group {
            logged.records += 1;
            let Some(volumes) = &mut volumes else { continue };
            let placed = follow(&mut streams, &record);
            if let Some(what) = placed.err().or_else(|| record.iter().find_map(|op| apply(volumes, op).err())) {
                findings.add(inapplicable_record(lsn, what));
            }
        }
    }
    let (chain, ring) = replay.finish();
    check_log_end(disk, superblock, &chain, ring.head(), findings);
    logged
}

fn unreadable_log<E: std::fmt::Display>(error: ReplayError<E>) -> Finding {
    Finding::new(Severity::Damage, Structure::Log, "log")
        .what(error.to_string())
        .meaning("The array cannot start without losing acknowledged operations.")
        .advice("Copy the drive before anything else. Then restore the array from a backup.")
}

fn inapplicable_record(lsn: Lsn, what: &'static str) -> Finding {
    Finding::new(Severity::Damage, Structure::Log, format!("log record {}", lsn.0))
        .what(format!("it cannot be applied: {what}"))
        .meaning("The array cannot start.")
        .advice("This is a bug in the software, not a drive error: report it. Copy the drive before anything else.")
}

/// Checks the position of the next group after the end of the chain. It may hold nothing, or the
/// remains of a group torn by a crash. If later groups exist, it held an acknowledged group that is
/// damaged now.
fn check_log_end(disk: &dyn Disk, superblock: &Superblock, end: &Chain, head: u64, findings: &FsckFindings) {
    let start = superblock.geometry.log_start();
    let later = later_group(disk, superblock, end);
    if let Some((offset, sequence)) = later {
        let finding = Finding::new(Severity::Damage, Structure::Log, format!("log group {}", end.sequence))
            .at(start + head, GROUP_ALIGNMENT)
            .what(format!("it is damaged: the chain ends before it, but group {sequence} at {} of the drive was written after it", start + offset))
            .meaning("The acknowledged operations of this group and of all later groups are lost.")
            .advice("Do not start the array, which would continue without them. Copy the drive, then restore the most recent data.");
        return findings.add(finding);
    }
    for at in if head == 0 { vec![0] } else { vec![head, 0] } {
        let mut first = vec![0; GROUP_ALIGNMENT as usize];
        let is_inside = at + GROUP_ALIGNMENT <= superblock.geometry.log_bytes;
        if !is_inside || disk.read_at(start + at, &mut first).is_err() {
            continue;
        }
        if resembles_header(&first, superblock, end) {
            let finding = Finding::new(Severity::Note, Structure::Log, format!("log group {}", end.sequence))
                .at(start + at, GROUP_ALIGNMENT)
                .what("it is the last one and incomplete: its checksum does not match")
                .meaning("This is normal after a crash during its write, and nothing of it was acknowledged then. If the array did not crash, the group was damaged later.");
            return findings.add(finding);
        }
    }
}

/// Returns true if the bytes resemble the header of the next group in the chain. One of its fields
/// may be wrong.
fn resembles_header(bytes: &[u8], superblock: &Superblock, end: &Chain) -> bool {
    let field =
        |at: usize, length: usize| bytes[at..at + length].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let matches = [
        bytes[..8] == *MAGIC,
        bytes[16..32] == superblock.array,
        field(32, 8) == end.epoch || field(32, 8) == end.epoch + 1,
        field(40, 8) == end.sequence,
        field(48, 8) == end.lsn.0,
        field(64, 4) == u64::from(end.previous),
    ];
    matches.iter().filter(|is_match| **is_match).count() >= matches.len() - 1
}

/// Finds a group with a higher sequence number than the missing one. A crash cannot leave one,
/// because only one group is in flight at a time.
fn later_group(disk: &dyn Disk, superblock: &Superblock, end: &Chain) -> Option<(u64, u64)> {
    let (start, length) = (superblock.geometry.log_start(), superblock.geometry.log_bytes);
    let (mut at, mut skip_to) = (0, 0);
    let mut buffer = vec![0; PIECE];
    while at < length {
        let piece = &mut buffer[..PIECE.min((length - at) as usize)];
        if disk.read_at(start + at, piece).is_err() {
            at += piece.len() as u64;
            continue;
        }
        for (index, block) in piece.chunks(GROUP_ALIGNMENT as usize).enumerate() {
            let offset = at + index as u64 * GROUP_ALIGNMENT;
            if offset < skip_to {
                continue;
            }
            let Some(header) = header(block, superblock) else { continue };
            if header.sequence > end.sequence && header.epoch >= end.epoch {
                return Some((offset, header.sequence));
            }
            // The body of a group is skipped, because a host may have written data that resemble a
            // group.
            skip_to = offset + (HEADER_BYTES as u64 + header.body_bytes).next_multiple_of(GROUP_ALIGNMENT);
        }
        at += piece.len() as u64;
    }
    None
}

/// Returns the positions of the groups after the checkpoint.
pub(crate) fn groups(disk: &dyn Disk, superblock: &Superblock) -> Vec<Span> {
    let (start, length) = (superblock.geometry.log_start(), superblock.geometry.log_bytes);
    let mut groups = Vec::new();
    for offset in (start..start + length).step_by(GROUP_ALIGNMENT as usize) {
        let mut first = [0; HEADER_BYTES];
        let is_read = disk.read_at(offset, &mut first).is_ok();
        let header = header(&first, superblock).filter(|header| is_read && header.sequence >= superblock.log.sequence);
        groups.extend(header.map(|header| Span { offset, bytes: HEADER_BYTES as u64 + header.body_bytes }));
    }
    groups
}

fn header(bytes: &[u8], superblock: &Superblock) -> Option<Header> {
    let bytes = bytes.get(..HEADER_BYTES)?;
    let field =
        |at: usize, length: usize| bytes[at..at + length].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let is_valid = bytes[..8] == *MAGIC
        && bytes[16..32] == superblock.array
        && field(68, 4) == u64::from(crc32c::crc32c(&bytes[..68]));
    is_valid.then(|| Header { epoch: field(32, 8), sequence: field(40, 8), body_bytes: field(56, 4) })
}

/// Checks the place of a record in its stream: the next one of the period, or the first of a later
/// period. A record without a place changes no volume of a stream.
fn follow(streams: &mut BTreeMap<StreamId, (Period, Position)>, record: &[LogOp]) -> Result<(), &'static str> {
    let (entry, ops) = match record.split_first() {
        Some((LogOp::Stream(entry), ops)) => (Some(entry), ops),
        _ => (None, record),
    };
    // With a place: volumes of its stream. Without one: volumes of no stream that is listed,
    // deltas, and stages, which take pieces of any volume.
    let may_change = |volume: VolumeId| match (entry, volume.stream()) {
        (Some(entry), stream) => stream == Some(entry.stream),
        (None, stream) => {
            volume.is_delta() || volume.is_stage() || stream.is_none_or(|stream| !streams.contains_key(&stream))
        }
    };
    let is_copy_to_stage = |op: &LogOp| matches!(op, LogOp::Copy { destination, .. } if destination.is_stage());
    let is_allowed = |op: &LogOp| op.volumes().all(may_change) || (entry.is_none() && is_copy_to_stage(op));
    if !ops.iter().all(is_allowed) {
        return Err("it changes a volume of another stream, or of none");
    }
    let Some(StreamEntry { stream, period, position, heard }) = entry else { return Ok(()) };
    let last = streams.get_mut(stream).ok_or("no such stream")?;
    let is_next = if *period == last.0 { last.1.next() == *position } else { *period > last.0 };
    if !is_next || position.0 == 0 || heard > position {
        return Err("its position does not follow the last one of its stream");
    }
    *last = (*period, *position);
    Ok(())
}

/// Applies the effect of an operation to the volume sizes.
fn apply(volumes: &mut BTreeMap<VolumeId, u64>, op: &LogOp) -> Result<(), &'static str> {
    let is_size =
        |blocks: u64| blocks > 0 && blocks.is_multiple_of(LBAS_PER_BLOCK) && blocks <= MAX_VOLUME_BYTES / LBA_BYTES;
    let size =
        |volumes: &BTreeMap<VolumeId, u64>, volume: &VolumeId| volumes.get(volume).copied().ok_or("no such volume");
    let inside = |volumes: &BTreeMap<VolumeId, u64>, volume: &VolumeId, start: u64, blocks: u64| {
        let end = start.checked_add(blocks).ok_or("range exceeds the address space")?;
        if end <= size(volumes, volume)? { Ok(()) } else { Err("range exceeds the volume") }
    };
    let within = |volumes: &BTreeMap<VolumeId, u64>, volume: &VolumeId, range: &BlockRange| {
        inside(volumes, volume, range.start().0, range.blocks())
    };
    match op {
        LogOp::Write { volume, lba, data } => inside(volumes, volume, lba.0, data.len() as u64 / LBA_BYTES),
        LogOp::Fill { volume, range, .. } | LogOp::Same { volume, range, .. } => within(volumes, volume, range),
        LogOp::Copy { source, from, destination, to } => {
            within(volumes, source, from)?;
            inside(volumes, destination, to.0, from.blocks())
        }
        LogOp::Create { volume, blocks } if is_size(*blocks) => match volumes.insert(*volume, *blocks) {
            None => Ok(()),
            Some(_) => Err("volume already exists"),
        },
        LogOp::Resize { volume, blocks } if is_size(*blocks) => {
            size(volumes, volume)?;
            volumes.insert(*volume, *blocks);
            Ok(())
        }
        LogOp::Create { .. } | LogOp::Resize { .. } => Err("invalid volume size"),
        LogOp::Delete { volume } => volumes.remove(volume).map(|_| ()).ok_or("no such volume"),
        LogOp::CopyVolume { source, destination } => {
            let blocks = size(volumes, source)?;
            volumes.insert(*destination, blocks);
            if source == destination { Err("volume is copied onto itself") } else { Ok(()) }
        }
        LogOp::Stream(_) | LogOp::Put { .. } | LogOp::Remove { .. } => Ok(()),
    }
}
