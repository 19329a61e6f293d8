//! Groups: the records that one flush makes durable together. A group is there wholly or not at all.

use crate::record::{self, LogOp, MalformedRecord};
use bytes::{Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};
use types::Lsn;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Groups begin and end on multiples of this many bytes.
pub const GROUP_ALIGNMENT: u64 = 4096;

const MAGIC: [u8; 8] = *b"IBIDLOG\0";
const VERSION: u16 = 1;

/// First bytes of a group. The body follows at once; zeros fill up to the alignment.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub(crate) struct GroupHeader {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    /// Records in the body.
    count: U32,
    /// Of which array this is the log.
    array: [u8; 16],
    /// Grows with every recovery.
    epoch: U64,
    /// Dense, ascending.
    sequence: U64,
    /// LSN of the first record; the others follow without gaps.
    first_lsn: U64,
    /// Length of the body.
    body_bytes: U32,
    /// CRC32C of the body.
    body_crc: U32,
    /// `header_crc` of the group before: a chain that no stale group fits into.
    previous: U32,
    /// CRC32C of the fields above.
    header_crc: U32,
}

pub(crate) const HEADER_BYTES: usize = size_of::<GroupHeader>();
const _: () = assert!(HEADER_BYTES == 72);

/// Bytes that the heads of records are cut off, until fewer are left than most of them take.
const HEAD_BUFFER_BYTES: usize = 4096;
const MIN_HEAD_CAPACITY: usize = 64;

/// What must be known to write, or to expect, the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Of which array this is the log.
    pub array: [u8; 16],
    /// Epoch of whoever writes; a reader takes any that is not smaller than the one before.
    pub epoch: u64,
    /// Sequence of the next group.
    pub sequence: u64,
    /// LSN of the next record.
    pub lsn: Lsn,
    /// Checksum of the group before.
    pub previous: u32,
}

/// Gathers records until the next flush.
#[derive(Default)]
pub struct GroupBuilder {
    parts: Vec<Bytes>,
    /// What stands between the payloads is cut off this.
    heads: BytesMut,
    bytes: usize,
    count: u32,
}

/// A group ready to be written.
#[derive(Clone, Debug)]
pub struct SealedGroup {
    /// Its bytes, padded to [`GROUP_ALIGNMENT`].
    pub parts: Vec<Bytes>,
    /// Their sum.
    pub bytes: u64,
    /// LSN of its last record.
    pub last_lsn: Lsn,
}

impl GroupBuilder {
    /// Adds a record.
    pub fn push(&mut self, record: &[LogOp]) {
        if self.heads.capacity() < MIN_HEAD_CAPACITY {
            self.heads = BytesMut::with_capacity(HEAD_BUFFER_BYTES);
        }
        self.bytes += record::encode(record, &mut self.heads, &mut self.parts);
        self.count += 1;
    }

    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the group would take in the ring.
    pub fn ring_bytes(&self) -> u64 {
        ((HEADER_BYTES + self.bytes) as u64).next_multiple_of(GROUP_ALIGNMENT)
    }

    /// Bytes that a group with so many more bytes of records would take.
    pub fn ring_bytes_with(&self, more: u64) -> u64 {
        ((HEADER_BYTES + self.bytes) as u64 + more).next_multiple_of(GROUP_ALIGNMENT)
    }

    /// Closes the group and moves the chain past it.
    pub fn seal(&mut self, chain: &mut Chain) -> SealedGroup {
        let mut body_crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
        self.parts.iter().for_each(|part| body_crc.update(part));
        let mut header = GroupHeader {
            magic: MAGIC,
            version: U16::new(VERSION),
            reserved: U16::ZERO,
            count: U32::new(self.count),
            array: chain.array,
            epoch: U64::new(chain.epoch),
            sequence: U64::new(chain.sequence),
            first_lsn: U64::new(chain.lsn.0),
            body_bytes: U32::new(self.bytes as u32),
            body_crc: U32::new(body_crc.finalize() as u32),
            previous: U32::new(chain.previous),
            header_crc: U32::ZERO,
        };
        header.header_crc = U32::new(header.crc());
        let bytes = self.ring_bytes();
        let padding = bytes as usize - HEADER_BYTES - self.bytes;
        let mut parts = Vec::with_capacity(self.parts.len() + 2);
        parts.push(Bytes::copy_from_slice(header.as_bytes()));
        parts.append(&mut self.parts);
        parts.push(Bytes::from_static(&[0; GROUP_ALIGNMENT as usize]).slice(..padding));
        chain.previous = header.header_crc.get();
        chain.sequence += 1;
        chain.lsn = Lsn(chain.lsn.0 + u64::from(self.count));
        (self.bytes, self.count) = (0, 0);
        SealedGroup { parts, bytes, last_lsn: Lsn(chain.lsn.0 - 1) }
    }
}

impl GroupHeader {
    fn crc(&self) -> u32 {
        crc_fast::crc32_iscsi(&self.as_bytes()[..HEADER_BYTES - size_of::<U32>()])
    }

    /// The header, when it is that of the group that the chain expects.
    pub(crate) fn expect(bytes: &[u8], chain: &Chain) -> Option<Self> {
        let header = Self::read_from_prefix(bytes).ok()?.0;
        let is_sound = header.magic == MAGIC
            && header.version.get() == VERSION
            && header.header_crc.get() == header.crc()
            && header.array == chain.array
            && header.epoch.get() >= chain.epoch
            && header.sequence.get() == chain.sequence
            && header.first_lsn.get() == chain.lsn.0
            && header.previous.get() == chain.previous;
        is_sound.then_some(header)
    }

    /// Bytes of the whole group in the ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        (HEADER_BYTES as u64 + u64::from(self.body_bytes.get())).next_multiple_of(GROUP_ALIGNMENT)
    }

    /// Reads the records of the group's body; `None` when the body is not the one that was written.
    pub(crate) fn records(&self, group: &Bytes) -> Option<Result<Vec<Vec<LogOp>>, MalformedRecord>> {
        let mut body = group.slice(HEADER_BYTES..HEADER_BYTES + self.body_bytes.get() as usize);
        if crc_fast::crc32_iscsi(&body) != self.body_crc.get() {
            return None;
        }
        Some((0..self.count.get()).map(|_| record::decode(&mut body)).collect())
    }

    /// Moves the chain past this group.
    pub(crate) fn advance(&self, chain: &mut Chain) {
        chain.epoch = self.epoch.get();
        chain.previous = self.header_crc.get();
        chain.sequence += 1;
        chain.lsn = Lsn(chain.lsn.0 + u64::from(self.count.get()));
    }
}
