//! The log behind the checkpoint: its chain of groups, and whether their records fit what they are applied to.

use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, FsckFindings, Severity, Span, Structure};
use bytes::Bytes;
use ondisk::Superblock;
use platform::Disk;
use std::collections::BTreeMap;
use types::{BlockRange, LBA_BYTES, LBAS_PER_BLOCK, Lsn, MAX_VOLUME_BYTES, VolumeId};
use wal::{Chain, GROUP_ALIGNMENT, LogOp, Replay, ReplayError};

const MAGIC: &[u8] = b"IBIDLOG\0";
const HEADER_BYTES: usize = 72;
/// Bytes that are looked through at a time for what follows the end of the chain.
const PIECE: usize = 4 << 20;

/// What the log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// Groups behind the checkpoint.
    pub groups: u64,
    /// Records in them.
    pub records: u64,
}

/// What a header says of a group, its own checksum being right.
struct Header {
    sequence: u64,
    epoch: u64,
    body_bytes: u64,
}

/// Reads the log from where the checkpoint ends. `checkpoint` is there when its volumes are known.
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
    let mut logged = LogTotals::default();
    loop {
        let group = match replay.next(&mut read) {
            Ok(Some(group)) => group,
            Ok(None) => break,
            Err(error) => {
                findings.add(unusable(error));
                return logged;
            }
        };
        logged.groups += 1;
        for (lsn, record) in group {
            logged.records += 1;
            let Some(volumes) = &mut volumes else { continue };
            if let Some(what) = record.iter().find_map(|op| apply(volumes, op).err()) {
                findings.add(misfit(lsn, what));
            }
        }
    }
    let (chain, ring) = replay.finish();
    look_behind(disk, superblock, &chain, ring.head(), findings);
    logged
}

fn unusable<E: std::fmt::Display>(error: ReplayError<E>) -> Finding {
    Finding::new(Severity::Damage, Structure::Log, "the log")
        .what(error.to_string())
        .meaning("The array does not start: it does not leave out what was acknowledged.")
        .advice("Copy the drive before anything else. Restore the array from a copy.")
}

fn misfit(lsn: Lsn, what: &'static str) -> Finding {
    Finding::new(Severity::Damage, Structure::Log, format!("record {} of the log", lsn.0))
        .what(format!("it does not fit the state that it is applied to: {what}"))
        .meaning("The array does not start.")
        .advice("This is a mistake of the program, not of the drive: please report it. Copy the drive before anything else.")
}

/// What stands where the next group would: nothing, the rest of one that a crash cut short, or one that was acknowledged and is
/// damaged now, which those behind it show.
fn look_behind(disk: &dyn Disk, superblock: &Superblock, end: &Chain, head: u64, findings: &FsckFindings) {
    let start = superblock.geometry.log_start();
    let later = later_group(disk, superblock, end);
    if let Some((offset, sequence)) = later {
        let finding = Finding::new(Severity::Damage, Structure::Log, format!("group {} of the log", end.sequence))
            .at(start + head, GROUP_ALIGNMENT)
            .what(format!("it is damaged: the chain ends before it, and group {sequence}, at {} of the drive, was written after it", start + offset))
            .meaning("Operations that were acknowledged are lost: those of this group and of all behind it.")
            .advice("Do not start the array: it would go on without them. Copy the drive, then restore what was written last.");
        return findings.add(finding);
    }
    for at in if head == 0 { vec![0] } else { vec![head, 0] } {
        let mut first = vec![0; GROUP_ALIGNMENT as usize];
        let is_inside = at + GROUP_ALIGNMENT <= superblock.geometry.log_bytes;
        if !is_inside || disk.read_at(start + at, &mut first).is_err() {
            continue;
        }
        if looks_like(&first, superblock, end) {
            let finding = Finding::new(Severity::Note, Structure::Log, format!("group {} of the log", end.sequence))
                .at(start + at, GROUP_ALIGNMENT)
                .what("it is the last one, and it is not complete: a checksum does not hold")
                .meaning("A crash while it was written leaves this behind, and then nothing of it was acknowledged. When the array was not stopped by a crash, it was damaged later.");
            return findings.add(finding);
        }
    }
}

/// True for bytes that begin as the group would that the chain expects, whatever is wrong with them: most fields are right.
fn looks_like(bytes: &[u8], superblock: &Superblock, end: &Chain) -> bool {
    let field =
        |at: usize, length: usize| bytes[at..at + length].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let signs = [
        bytes[..8] == *MAGIC,
        bytes[16..32] == superblock.array,
        field(32, 8) == end.epoch || field(32, 8) == end.epoch + 1,
        field(40, 8) == end.sequence,
        field(48, 8) == end.lsn.0,
        field(64, 4) == u64::from(end.previous),
    ];
    signs.iter().filter(|sign| **sign).count() >= signs.len() - 1
}

/// A group of a higher sequence than the one that is missing. There is none in a log that a crash has ended: one group is under way
/// at a time.
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
            // What a group carries is not looked into: a host may have written something that looks like a group.
            skip_to = offset + (HEADER_BYTES as u64 + header.body_bytes).next_multiple_of(GROUP_ALIGNMENT);
        }
        at += piece.len() as u64;
    }
    None
}

/// Where the groups behind the checkpoint stand.
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
    let is_sound = bytes[..8] == *MAGIC
        && bytes[16..32] == superblock.array
        && field(68, 4) == u64::from(crc32c::crc32c(&bytes[..68]));
    is_sound.then(|| Header { epoch: field(32, 8), sequence: field(40, 8), body_bytes: field(56, 4) })
}

/// Does to the sizes of the volumes what an operation does.
fn apply(volumes: &mut BTreeMap<VolumeId, u64>, op: &LogOp) -> Result<(), &'static str> {
    let is_size =
        |blocks: u64| blocks > 0 && blocks.is_multiple_of(LBAS_PER_BLOCK) && blocks <= MAX_VOLUME_BYTES / LBA_BYTES;
    let size =
        |volumes: &BTreeMap<VolumeId, u64>, volume: &VolumeId| volumes.get(volume).copied().ok_or("no such volume");
    let inside = |volumes: &BTreeMap<VolumeId, u64>, volume: &VolumeId, start: u64, blocks: u64| {
        let end = start.checked_add(blocks).ok_or("a range without an end")?;
        if end <= size(volumes, volume)? { Ok(()) } else { Err("a range beyond the end of its volume") }
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
            Some(_) => Err("a volume that exists already"),
        },
        LogOp::Resize { volume, blocks } if is_size(*blocks) => {
            size(volumes, volume)?;
            volumes.insert(*volume, *blocks);
            Ok(())
        }
        LogOp::Create { .. } | LogOp::Resize { .. } => Err("a volume of an impossible size"),
        LogOp::Delete { volume } => volumes.remove(volume).map(|_| ()).ok_or("no such volume"),
        LogOp::CopyVolume { source, destination } => {
            let blocks = size(volumes, source)?;
            volumes.insert(*destination, blocks);
            if source == destination { Err("a volume that is copied onto itself") } else { Ok(()) }
        }
        LogOp::Put { .. } | LogOp::Remove { .. } => Ok(()),
    }
}
