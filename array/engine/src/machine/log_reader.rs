//! Reads of the log during a replay.

use bytes::Bytes;
use ondisk::ArrayGeometry;
use platform::{Disk, DiskError};

/// Bytes that one read of the drive takes, and bytes that are read ahead beyond them.
const PIECE_BYTES: u64 = 1 << 20;
const AHEAD_BYTES: u64 = 4 << 20;

/// Reads the ring of the log in pieces of 1 MiB, because its groups follow each other.
pub(crate) struct LogReader<'a> {
    disk: &'a dyn Disk,
    start: u64,
    ring_bytes: u64,
    /// Offset in the ring of the piece in memory.
    piece_at: u64,
    piece: Vec<u8>,
}

impl<'a> LogReader<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, geometry: &ArrayGeometry) -> Self {
        let (start, ring_bytes) = (geometry.log_start(), geometry.log_bytes);
        Self { disk, start, ring_bytes, piece_at: 0, piece: Vec::new() }
    }

    /// Returns `length` bytes at an offset of the ring. They are a copy, so that one record does
    /// not keep a piece in memory.
    pub(crate) fn read(&mut self, offset: u64, length: usize) -> Result<Bytes, DiskError> {
        if let Some(held) = self.held(offset, length) {
            return Ok(Bytes::copy_from_slice(held));
        }
        let piece = PIECE_BYTES.min(self.ring_bytes.saturating_sub(offset)) as usize;
        if length < piece {
            self.piece.resize(piece, 0);
            self.piece_at = offset;
            match self.disk.read_at(self.start + offset, &mut self.piece) {
                Ok(()) => {
                    let next = offset + piece as u64;
                    let ahead = AHEAD_BYTES.min(self.ring_bytes - next);
                    if ahead > 0 {
                        self.disk.will_read(self.start + next, ahead);
                    }
                    return Ok(Bytes::copy_from_slice(&self.piece[..length]));
                }
                // A part that nothing needs may be unreadable.
                Err(_) => self.piece.clear(),
            }
        }
        self.read_exactly(offset, length)
    }

    /// As [`LogReader::read`], with a read of the drive of this length.
    pub(crate) fn read_exactly(&self, offset: u64, length: usize) -> Result<Bytes, DiskError> {
        let mut bytes = vec![0; length];
        self.disk.read_at(self.start + offset, &mut bytes).map(|()| bytes.into())
    }

    fn held(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.piece_at)?).ok()?;
        self.piece.get(from..from.checked_add(length)?)
    }
}
