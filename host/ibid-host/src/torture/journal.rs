//! The journal of `torture`: commands sent and their results.
//! A record is appended before its command is sent and after its response arrives, each with one
//! write. If the load is killed, at most the last record is torn.
//!
//! Layout, little-endian, 64 bytes each; the last four bytes are a CRC32C of the first 60:
//!
//! | bytes | header | | bytes | record |
//! | --- | --- | --- | --- | --- |
//! | 0..8 | `IBIDTORT` | | 0 | 1 sent, 2 answered |
//! | 8..12 | version, 1 | | 1 | operation (sent) or outcome (answered) |
//! | 12..16 | bytes per block, 512 | | 2..4 | zero |
//! | 16..24 | seed | | 4..8 | blocks |
//! | 24..32 | first LBA of the region | | 8..16 | sequence |
//! | 32..40 | blocks of the region | | 16..24 | LBA |
//! | 40..60 | zero | | 24..32 | source LBA of a copy |
//! | | | | 32..60 | zero |

use super::stamp::BLOCK;
use thiserror::Error;

/// Bytes of the header and of each record.
pub(crate) const RECORD: usize = 64;
const MAGIC: [u8; 8] = *b"IBIDTORT";
const VERSION: u32 = 1;

/// Logical blocks in a 4 KiB block of the array.
/// A copy whose source and destination differ in their offset within a 4 KiB block moves data in
/// several steps.
const CONGRUENCE: u64 = 8;

/// The seed and region that a journal belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Seed of all data.
    pub(crate) seed: u64,
    /// First block of the region.
    pub(crate) first: u64,
    /// Blocks of the region.
    pub(crate) blocks: u64,
}

/// Kind of a command that changes blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// WRITE of a different stamp to each block.
    Write,
    /// WRITE SAME of one stamp to all blocks.
    WriteSame,
    /// WRITE SAME of zeros.
    Zero,
    /// WRITE SAME of zeros with the UNMAP bit.
    ZeroUnmap,
    /// UNMAP.
    Unmap,
    /// EXTENDED COPY from `source`.
    Copy {
        /// First source block.
        source: u64,
    },
    /// COMPARE AND WRITE of the current content with a new stamp per block.
    CompareAndWrite,
}

/// A command that changes blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Number of the operation, from 1, unique within a journal.
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
    /// First changed block.
    pub(crate) lba: u64,
    /// Number of changed blocks.
    pub(crate) blocks: u32,
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was acknowledged, or a restart found it applied.
    Applied,
    /// The target rejected it without effect, or a restart found it not applied.
    NotApplied,
    /// It failed, so its blocks may hold anything.
    Unknown,
}

/// An entry of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The command is about to be sent.
    Sent(Operation),
    /// The command with this sequence has ended.
    Answered(u64, Outcome),
}

/// Why a journal cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum JournalError {
    /// The header is missing, torn, or of another program.
    #[error("not a torture journal")]
    Header,
    /// The header has another version or block size.
    #[error("journal has version {version} and blocks of {block_bytes} bytes, expected version 1 and 512 bytes")]
    Version {
        /// Version found.
        version: u32,
        /// Block size found.
        block_bytes: u32,
    },
    /// A record before the last one is damaged.
    #[error("journal record {0} is damaged")]
    Damaged(usize),
    /// An answer without its command, a second answer, or a sequence that does not increase.
    #[error("journal record {0} contradicts the records before it")]
    Order(usize),
}

fn seal(mut bytes: [u8; RECORD]) -> [u8; RECORD] {
    let crc = crc32c::crc32c(&bytes[..RECORD - 4]);
    bytes[RECORD - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn is_sealed(bytes: &[u8]) -> bool {
    bytes.len() == RECORD && bytes[RECORD - 4..] == crc32c::crc32c(&bytes[..RECORD - 4]).to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

impl Header {
    /// Returns the header in the file format.
    pub(crate) fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0u8; RECORD];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seed.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.blocks.to_le_bytes());
        seal(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, JournalError> {
        if !is_sealed(bytes) || bytes[..8] != MAGIC {
            return Err(JournalError::Header);
        }
        let (version, block_bytes) = (u32_at(bytes, 8), u32_at(bytes, 12));
        if version != VERSION || block_bytes as usize != BLOCK {
            return Err(JournalError::Version { version, block_bytes });
        }
        Ok(Self { seed: u64_at(bytes, 16), first: u64_at(bytes, 24), blocks: u64_at(bytes, 32) })
    }
}

impl Operation {
    /// Returns the block after the last changed one.
    pub(crate) fn end(&self) -> u64 {
        self.lba + u64::from(self.blocks)
    }

    /// Returns the first source block of a copy.
    pub(crate) fn source(&self) -> Option<u64> {
        match self.kind {
            Kind::Copy { source } => Some(source),
            _ => None,
        }
    }

    /// Returns true if a crash must leave the operation applied as a whole or not at all.
    /// Copies that are not congruent modulo 4 KiB are done in several steps, each atomic by itself.
    pub(crate) fn is_atomic(&self) -> bool {
        self.source().is_none_or(|source| source % CONGRUENCE == self.lba % CONGRUENCE)
    }

    pub(super) fn touches(&self, lba: u64, end: u64) -> bool {
        let overlaps = |start: u64| start < end && lba < start + u64::from(self.blocks);
        overlaps(self.lba) || self.source().is_some_and(overlaps)
    }
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Write => 1,
            Self::WriteSame => 2,
            Self::Zero => 3,
            Self::ZeroUnmap => 4,
            Self::Unmap => 5,
            Self::Copy { .. } => 6,
            Self::CompareAndWrite => 7,
        }
    }

    fn decode(code: u8, source: u64) -> Option<Self> {
        Some(match code {
            1 => Self::Write,
            2 => Self::WriteSame,
            3 => Self::Zero,
            4 => Self::ZeroUnmap,
            5 => Self::Unmap,
            6 => Self::Copy { source },
            7 => Self::CompareAndWrite,
            _ => return None,
        })
    }
}

impl Record {
    /// Returns the record in the file format.
    pub(crate) fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0u8; RECORD];
        match *self {
            Self::Sent(Operation { sequence, kind, lba, blocks }) => {
                bytes[0] = 1;
                bytes[1] = kind.code();
                bytes[4..8].copy_from_slice(&blocks.to_le_bytes());
                bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
                bytes[16..24].copy_from_slice(&lba.to_le_bytes());
                if let Kind::Copy { source } = kind {
                    bytes[24..32].copy_from_slice(&source.to_le_bytes());
                }
            }
            Self::Answered(sequence, outcome) => {
                bytes[0] = 2;
                bytes[1] = match outcome {
                    Outcome::Applied => 1,
                    Outcome::NotApplied => 2,
                    Outcome::Unknown => 3,
                };
                bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
            }
        }
        seal(bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if !is_sealed(bytes) {
            return None;
        }
        let sequence = u64_at(bytes, 8);
        match (bytes[0], bytes[1]) {
            (1, code) => Some(Self::Sent(Operation {
                sequence,
                kind: Kind::decode(code, u64_at(bytes, 24))?,
                lba: u64_at(bytes, 16),
                blocks: u32_at(bytes, 4),
            })),
            (2, 1) => Some(Self::Answered(sequence, Outcome::Applied)),
            (2, 2) => Some(Self::Answered(sequence, Outcome::NotApplied)),
            (2, 3) => Some(Self::Answered(sequence, Outcome::Unknown)),
            _ => None,
        }
    }
}

/// Decodes a journal: header, records, and the length of the valid part of the file.
/// Bytes after that length are one torn record, which must be cut off before more is appended.
pub(crate) fn decode(file: &[u8]) -> Result<(Header, Vec<Record>, usize), JournalError> {
    let header = Header::decode(file.get(..RECORD).ok_or(JournalError::Header)?)?;
    let body = &file[RECORD..];
    let mut records = Vec::with_capacity(body.len() / RECORD);
    for (index, bytes) in body.chunks(RECORD).enumerate() {
        match Record::decode(bytes) {
            Some(record) => records.push(record),
            // Only the last record can be torn, because each was complete before the next was
            // started.
            None if (index + 1) * RECORD >= body.len() => break,
            None => return Err(JournalError::Damaged(index)),
        }
    }
    let length = RECORD * (1 + records.len());
    Ok((header, records, length))
}

#[cfg(test)]
mod tests;
