//! The torture's journal: what was sent, and what was answered. A record is appended before its command is sent and after its
//! answer came, each by one write, so a kill of the load at any point leaves at most one torn record at the end.
//!
//! Layout, little-endian, 64 bytes each, the last four a CRC32C of the 60 before:
//!
//! | bytes | header | | bytes | record |
//! | --- | --- | --- | --- | --- |
//! | 0..8 | `IBIDTORT` | | 0 | 1 sent, 2 answered |
//! | 8..12 | version, 1 | | 1 | operation (sent) or outcome (answered) |
//! | 12..16 | bytes in a block, 512 | | 2..4 | zero |
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

/// Blocks in the array's unit of reference. Copies between ranges that lie differently within it move data in pieces.
const CONGRUENCE: u64 = 8;

/// What the journal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Seed of all content.
    pub(crate) seed: u64,
    /// First block of the region.
    pub(crate) first: u64,
    /// Blocks of the region.
    pub(crate) blocks: u64,
}

/// What an operation does to its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// WRITE of a stamp of its own to each block.
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
        /// First block copied from.
        source: u64,
    },
    /// COMPARE AND WRITE of what is there against a new stamp for each block.
    CompareAndWrite,
}

/// A command that changes blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    /// Number of the operation, from 1, never used twice in a journal.
    pub(crate) sequence: u64,
    /// What it does.
    pub(crate) kind: Kind,
    /// First block changed.
    pub(crate) lba: u64,
    /// Blocks changed.
    pub(crate) blocks: u32,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was acknowledged, or found whole after a restart.
    Applied,
    /// It was not sent after all, or found to have left no trace after a restart.
    NotApplied,
    /// It failed: its blocks may hold anything.
    Unknown,
}

/// One entry of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The command is about to be sent.
    Sent(Operation),
    /// The command of that sequence has ended.
    Answered(u64, Outcome),
}

/// Why a file is no journal that can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum JournalError {
    /// The header is missing, torn, or of another program.
    #[error("not a torture journal")]
    Header,
    /// The header is of another version, or of blocks of another size.
    #[error("journal has version {version} and blocks of {block_bytes} bytes, expected version 1 and 512 bytes")]
    Version {
        /// Found version.
        version: u32,
        /// Found block size.
        block_bytes: u32,
    },
    /// A record that is not the last one is damaged.
    #[error("journal record {0} is damaged")]
    Damaged(usize),
    /// An answer without its command, a second answer, or a sequence that does not ascend.
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
    /// The header as it stands in the file.
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
    /// The block after the last one changed.
    pub(crate) fn end(&self) -> u64 {
        self.lba + u64::from(self.blocks)
    }

    /// First block read, for operations whose effect depends on other blocks than those that they change.
    pub(crate) fn source(&self) -> Option<u64> {
        match self.kind {
            Kind::Copy { source } => Some(source),
            _ => None,
        }
    }

    /// True when the operation must be found wholly there or not at all after a crash. Copies between ranges that are not
    /// congruent to a 4 KiB block are done in pieces, each atomic in itself.
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
    /// The record as it stands in the file.
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

/// Reads a journal: its header, its records, and how many bytes of the file they are. What follows those is one torn record,
/// to be cut off before more is appended.
pub(crate) fn decode(file: &[u8]) -> Result<(Header, Vec<Record>, usize), JournalError> {
    let header = Header::decode(file.get(..RECORD).ok_or(JournalError::Header)?)?;
    let body = &file[RECORD..];
    let mut records = Vec::with_capacity(body.len() / RECORD);
    for (index, bytes) in body.chunks(RECORD).enumerate() {
        match Record::decode(bytes) {
            Some(record) => records.push(record),
            // Only the last record can be torn: each was whole before the next was begun.
            None if (index + 1) * RECORD >= body.len() => break,
            None => return Err(JournalError::Damaged(index)),
        }
    }
    let length = RECORD * (1 + records.len());
    Ok((header, records, length))
}

#[cfg(test)]
mod tests;
