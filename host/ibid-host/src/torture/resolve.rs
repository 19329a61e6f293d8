//! Determines whether operations that were open when the target died were applied.

use super::journal::Operation;
use super::model::{Model, Verdict};
use super::stamp::{BLOCK, Stamp};
use crate::failure::Failure;
use initiator::{LogicalUnit, Session};

/// Blocks per READ: 1 MiB, which every target accepts.
const PIECE: u64 = 2048;

/// An open operation and the state of its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedOperation {
    pub(super) operation: Operation,
    pub(super) verdict: Verdict,
}

impl ResolvedOperation {
    /// Returns true if an atomic operation is torn, or if a block holds neither its old nor its new
    /// content.
    pub(super) fn is_wrong(&self) -> bool {
        match self.verdict {
            Verdict::Applied | Verdict::NotApplied => false,
            Verdict::Torn => self.operation.is_atomic(),
            Verdict::Foreign { .. } => true,
        }
    }
}

impl std::fmt::Display for ResolvedOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Operation { sequence, kind, lba, blocks } = self.operation;
        write!(f, "operation {sequence}, {kind:?} of {blocks} blocks at LBA {lba}, not acknowledged: ")?;
        match self.verdict {
            Verdict::Applied => f.write_str("applied"),
            Verdict::NotApplied => f.write_str("not applied"),
            Verdict::Torn => f.write_str("torn"),
            Verdict::Foreign { lba } => write!(f, "LBA {lba} holds neither the old nor the new content"),
        }
    }
}

/// Reads and classifies the blocks of every open operation.
pub(super) async fn resolve(
    session: &mut Session,
    unit: &LogicalUnit,
    model: &Model,
) -> Result<Vec<ResolvedOperation>, Failure> {
    let mut resolved = Vec::new();
    for operation in model.open() {
        let mut data = Vec::with_capacity(operation.blocks as usize * BLOCK);
        let mut lba = operation.lba;
        while lba < operation.end() {
            let blocks = (operation.end() - lba).min(PIECE);
            let read = session.run(unit.read(lba, blocks as u32, false)).await;
            data.extend_from_slice(&read.map_err(Failure::command(format!("READ at LBA {lba}")))?);
            lba += blocks;
        }
        let judged = model.classify(operation, &data);
        let verdict =
            judged.ok_or_else(|| Failure::Wrong(format!("operation {} is outside the region", operation.sequence)))?;
        resolved.push(ResolvedOperation { operation: *operation, verdict });
    }
    Ok(resolved)
}

/// Describes a block that differs from its expected content.
pub(super) fn describe(model: &Model, lba: u64, block: &[u8]) -> String {
    let expected = model.stamps(lba, 1).and_then(|stamps| stamps.first().copied()).unwrap_or(Stamp::Unknown);
    match Stamp::read(model.header().seed, block) {
        Some(found) if found != expected => format!("LBA {lba} holds {found} instead of {expected}"),
        Some(_) => format!("LBA {lba} holds a damaged copy of {expected}"),
        None => format!("LBA {lba} holds unknown data instead of {expected}"),
    }
}
