//! Log groups: the records that one flush makes durable together. A group is replayed completely or
//! not at all.

use crate::record::{self, LogOp, MalformedRecord, len_u32};
use bytes::{Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};
use types::{Lsn, to_usize};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Groups start and end at multiples of this many bytes.
pub const GROUP_ALIGNMENT: u64 = 4096;

const MAGIC: [u8; 8] = *b"IBIDLOG\0";
const VERSION: u16 = 1;

/// Header of a group. The body follows immediately, then zeros up to the alignment.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub(crate) struct GroupHeader {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    /// Number of records in the body.
    count: U32,
    /// Id of the array that owns the log.
    array: [u8; 16],
    /// Increases with every recovery.
    epoch: U64,
    /// Group number: ascending, without gaps.
    sequence: U64,
    /// LSN of the first record. The LSNs of the other records follow without gaps.
    first_lsn: U64,
    /// Length of the body in bytes.
    body_bytes: U32,
    /// CRC32C of the body.
    body_crc: U32,
    /// `header_crc` of the preceding group. This chaining rejects stale groups from earlier passes
    /// over the ring.
    previous: U32,
    /// CRC32C of the fields above.
    header_crc: U32,
}

pub(crate) const HEADER_BYTES: usize = size_of::<GroupHeader>();
const _: () = assert!(HEADER_BYTES == 72);

/// Size of the buffer from which record headers are split off. The buffer is replaced when less
/// than [`MIN_HEAD_CAPACITY`] is left, which is enough for most headers.
const HEAD_BUFFER_BYTES: usize = 4096;
const MIN_HEAD_CAPACITY: usize = 64;

/// State needed to write, or to recognise, the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Id of the array that owns the log.
    pub array: [u8; 16],
    /// Epoch of the writer. A reader accepts any epoch that is not lower than that of the preceding
    /// group.
    pub epoch: u64,
    /// Sequence number of the next group.
    pub sequence: u64,
    /// LSN of the next record.
    pub lsn: Lsn,
    /// Header checksum of the preceding group.
    pub previous: u32,
}

/// Collects records until the next flush.
#[derive(Default)]
pub struct GroupBuilder {
    parts: Vec<Bytes>,
    /// Buffer from which the record headers between the payloads are split off.
    heads: BytesMut,
    bytes: usize,
    count: u32,
}

/// A complete group, ready to be written.
#[derive(Clone, Debug)]
pub struct SealedGroup {
    /// Contents, padded to [`GROUP_ALIGNMENT`].
    pub parts: Vec<Bytes>,
    /// Total length of the parts in bytes.
    pub bytes: u64,
    /// LSN of the last record.
    pub last_lsn: Lsn,
}

impl GroupBuilder {
    /// Appends a record to the group.
    pub fn push(&mut self, record: &[LogOp]) {
        if self.heads.capacity() < MIN_HEAD_CAPACITY {
            self.heads = BytesMut::with_capacity(HEAD_BUFFER_BYTES);
        }
        self.bytes += record::encode(record, &mut self.heads, &mut self.parts);
        self.count += 1;
    }

    /// Returns true if the group has no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of ring bytes that the group would occupy.
    pub fn ring_bytes(&self) -> u64 {
        ((HEADER_BYTES + self.bytes) as u64).next_multiple_of(GROUP_ALIGNMENT)
    }

    /// Returns the ring bytes that the group would occupy with `more` additional bytes of records.
    pub fn ring_bytes_with(&self, more: u64) -> u64 {
        ((HEADER_BYTES + self.bytes) as u64 + more).next_multiple_of(GROUP_ALIGNMENT)
    }

    /// Closes the group and advances the chain past it.
    pub fn seal(&mut self, chain: &mut Chain) -> SealedGroup {
        let mut body_crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
        self.parts.iter().for_each(|part| body_crc.update(part));
        #[expect(clippy::cast_possible_truncation, reason = "a CRC32C has 32 bits")]
        let body_crc = body_crc.finalize() as u32;
        let mut header = GroupHeader {
            magic: MAGIC,
            version: U16::new(VERSION),
            reserved: U16::ZERO,
            count: U32::new(self.count),
            array: chain.array,
            epoch: U64::new(chain.epoch),
            sequence: U64::new(chain.sequence),
            first_lsn: U64::new(chain.lsn.0),
            body_bytes: U32::new(len_u32(self.bytes)),
            body_crc: U32::new(body_crc),
            previous: U32::new(chain.previous),
            header_crc: U32::ZERO,
        };
        header.header_crc = U32::new(header.crc());
        let bytes = self.ring_bytes();
        let padding = to_usize(bytes) - HEADER_BYTES - self.bytes;
        let mut parts = Vec::with_capacity(self.parts.len() + 2);
        parts.push(Bytes::copy_from_slice(header.as_bytes()));
        parts.append(&mut self.parts);
        parts.push(Bytes::from_static(&[0; to_usize(GROUP_ALIGNMENT)]).slice(..padding));
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

    /// Returns the header if it is intact and belongs to the array.
    pub(crate) fn decode(bytes: &[u8], array: [u8; 16]) -> Option<Self> {
        let header = Self::read_from_prefix(bytes).ok()?.0;
        let is_valid = header.magic == MAGIC
            && header.version.get() == VERSION
            && header.header_crc.get() == header.crc()
            && header.array == array;
        is_valid.then_some(header)
    }

    /// Returns the header if it belongs to the group that the chain expects.
    pub(crate) fn expect(bytes: &[u8], chain: &Chain) -> Option<Self> {
        let header = Self::decode(bytes, chain.array)?;
        let is_valid = header.epoch.get() >= chain.epoch
            && header.sequence.get() == chain.sequence
            && header.first_lsn.get() == chain.lsn.0
            && header.previous.get() == chain.previous;
        is_valid.then_some(header)
    }

    /// True for the group that the chain expects and for later ones.
    pub(crate) fn is_lost(&self, chain: &Chain) -> bool {
        self.epoch.get() >= chain.epoch && self.sequence.get() >= chain.sequence
    }

    /// True for groups after the one that the chain expects.
    pub(crate) fn is_after(&self, chain: &Chain) -> bool {
        self.is_lost(chain) && self.sequence.get() > chain.sequence && self.last_lsn() >= chain.lsn
    }

    /// Returns the LSN of the last record.
    pub(crate) fn last_lsn(&self) -> Lsn {
        Lsn(self.first_lsn.get().saturating_add(u64::from(self.count.get())).saturating_sub(1))
    }

    /// Decodes operations until the first malformed record, whether or not the body passes its
    /// checksum. For reports only.
    pub(crate) fn decodable_ops(&self, group: &Bytes) -> Vec<LogOp> {
        let mut body = group.slice(HEADER_BYTES..HEADER_BYTES + self.body_bytes.get() as usize);
        (0..self.count.get()).map_while(|_| record::decode(&mut body).ok()).flatten().collect()
    }

    /// Returns the number of ring bytes that the whole group occupies.
    pub(crate) fn ring_bytes(&self) -> u64 {
        (HEADER_BYTES as u64 + u64::from(self.body_bytes.get())).next_multiple_of(GROUP_ALIGNMENT)
    }

    /// Decodes the records in the body. Returns `None` if the body fails its checksum.
    pub(crate) fn records(&self, group: &Bytes) -> Option<Result<Vec<Vec<LogOp>>, MalformedRecord>> {
        let mut body = group.slice(HEADER_BYTES..HEADER_BYTES + self.body_bytes.get() as usize);
        if crc_fast::crc32_iscsi(&body) != self.body_crc.get() {
            return None;
        }
        Some((0..self.count.get()).map(|_| record::decode(&mut body)).collect())
    }

    /// Advances the chain past this group.
    pub(crate) fn advance(&self, chain: &mut Chain) {
        chain.epoch = self.epoch.get();
        chain.previous = self.header_crc.get();
        chain.sequence += 1;
        chain.lsn = Lsn(chain.lsn.0 + u64::from(self.count.get()));
    }
}
