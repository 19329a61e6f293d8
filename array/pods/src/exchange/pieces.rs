//! Pieces of a chunk, and the marks that name their content.

use engine::{BlockService, ExtentState, Op, OpError, Reply, call};
use sha2::{Digest, Sha256};
use types::{BLOCK_BYTES, BlockRange, LBAS_PER_BLOCK, Lba, VolumeId};

/// Pieces of a chunk, at most: 1 MiB.
pub(crate) const MAX_PIECES: usize = 256;
/// Bytes of a piece.
pub(crate) const PIECE_BYTES: usize = BLOCK_BYTES as usize;

/// Names the content of a piece: its SHA-256, or one of the two below, which no data has in
/// practice.
pub(crate) type Mark = [u8; 32];

/// Blocks that are not mapped.
pub(crate) const HOLE: Mark = [0; 32];
/// Zeros that were written.
pub(crate) const ZEROS: Mark = [1; 32];

/// The content of a part of a volume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) marks: Vec<Mark>,
    /// Empty if no block is mapped.
    pub(crate) data: bytes::Bytes,
}

/// Returns the range of this many pieces.
///
/// # Errors
///
/// It is no range.
pub(crate) fn range_of(at: Lba, pieces: usize) -> Result<BlockRange, OpError> {
    BlockRange::new(at, pieces as u64 * LBAS_PER_BLOCK).map_err(|_| OpError::Malformed("the range of a copy"))
}

/// Reads pieces and returns their content. Blocks.
///
/// # Errors
///
/// They cannot be read.
pub(crate) fn read(engine: &dyn BlockService, volume: VolumeId, at: Lba, pieces: usize) -> Result<Content, OpError> {
    let mut marks = vec![HOLE; pieces];
    let (mut done, mut is_mapped) = (0, false);
    while done < pieces {
        let lba = Lba(at.0 + done as u64 * LBAS_PER_BLOCK);
        let status = Op::Status { volume, lba, limit: MAX_PIECES };
        let Reply::Extents(extents) = call(engine, status)? else { break };
        let before = done;
        for extent in extents {
            let end = (done + (extent.range.blocks() / LBAS_PER_BLOCK) as usize).min(pieces);
            if extent.state == ExtentState::Mapped {
                marks[done..end].fill(ZEROS);
                is_mapped = true;
            }
            done = end;
        }
        if done == before {
            return Err(OpError::Malformed("the state of blocks has gaps"));
        }
    }
    let data = match is_mapped {
        false => bytes::Bytes::new(),
        true => match call(engine, Op::Read { volume, range: range_of(at, pieces)? })? {
            Reply::Data(data) => data,
            _ => return Err(OpError::Malformed("a read without data")),
        },
    };
    for (mark, piece) in marks.iter_mut().zip(data.chunks_exact(PIECE_BYTES)).filter(|(mark, _)| **mark == ZEROS) {
        if piece.iter().any(|byte| *byte != 0) {
            *mark = Sha256::digest(piece).into();
        }
    }
    Ok(Content { marks, data })
}

/// Returns the name of a chunk: that of its marks.
pub(crate) fn name_of(marks: &[Mark]) -> Mark {
    Sha256::digest(marks.as_flattened()).into()
}
