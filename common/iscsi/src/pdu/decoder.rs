//! Cuts PDUs out of a byte stream, checking lengths before it waits for them and digests before anybody looks at the
//! content.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use super::wire::{BHS_LEN, Bhs, Frame, padding};
use crate::digest::{self, DIGEST_LEN, Digests};

/// What a peer may send; both limits are declared by us, so a longer PDU breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest data segment: our MaxRecvDataSegmentLength (RFC 7143 13.12).
    pub max_data_segment: u32,
    /// Longest list of additional header segments, in bytes.
    pub max_ahs: u32,
}

impl Default for DecodeLimits {
    /// The length of every data segment before anything is negotiated, and room for the longest CDB.
    fn default() -> Self {
        Self { max_data_segment: 8192, max_ahs: 256 }
    }
}

/// Why the stream cannot be followed any further: the place where the next PDU begins is unknown, or the peer ignores
/// what was declared. The connection has to be closed (RFC 7143 7.7, error recovery level 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The data segment is longer than our MaxRecvDataSegmentLength.
    #[error("data segment of {length} bytes, {limit} were allowed")]
    DataSegmentTooLong {
        /// DataSegmentLength.
        length: u32,
        /// Our limit.
        limit: u32,
    },
    /// The additional header segments are longer than the limit.
    #[error("additional header segments of {length} bytes, {limit} were allowed")]
    AhsTooLong {
        /// TotalAHSLength in bytes.
        length: u32,
        /// Our limit.
        limit: u32,
    },
    /// The header digest does not match.
    #[error("header digest does not match")]
    HeaderDigest,
}

/// An incremental decoder. It holds no bytes: they stay in the caller's buffer until a whole PDU is there.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Lengths a peer must keep to.
    pub limits: DecodeLimits,
    /// The digests negotiated for this direction.
    pub digests: Digests,
}

/// Where the parts of the PDU at the front of a buffer end.
struct Shape {
    ahs_len: usize,
    header_end: usize,
    data_len: usize,
    padded_len: usize,
    total_len: usize,
}

impl Decoder {
    /// A decoder with these limits, without digests: they are off until the login is over (RFC 7143 13.1).
    pub fn new(limits: DecodeLimits) -> Self {
        Self { limits, digests: Digests::default() }
    }

    /// Takes the next whole PDU from the front of `input`; none when more bytes are needed.
    ///
    /// Nothing is copied but the 48 bytes of the header: the data segment is a view of `input`.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let Some(bhs) = input.first_chunk::<BHS_LEN>().copied() else { return Ok(None) };
        let shape = self.shape(&bhs)?;
        if self.digests.header && input.len() >= shape.header_end {
            let at = BHS_LEN + shape.ahs_len;
            if digest::crc(&input[..at]) != digest::from_wire(&input[at..shape.header_end]) {
                return Err(DecodeError::HeaderDigest);
            }
        }
        if input.len() < shape.total_len {
            return Ok(None);
        }
        input.advance(BHS_LEN);
        let ahs = if shape.ahs_len == 0 { Bytes::new() } else { input.split_to(shape.ahs_len).freeze() };
        input.advance(shape.header_end - BHS_LEN - shape.ahs_len);
        if shape.data_len == 0 {
            return Ok(Some(Frame { bhs, ahs, data: Bytes::new(), data_digest_ok: true }));
        }
        let mut data = input.split_to(shape.total_len - shape.header_end).freeze();
        let data_digest_ok = !self.digests.data
            || digest::crc(&data[..shape.padded_len]) == digest::from_wire(&data[shape.padded_len..]);
        data.truncate(shape.data_len);
        Ok(Some(Frame { bhs, ahs, data, data_digest_ok }))
    }

    /// How many bytes the PDU at the front of `input` has in all: what a reader should make room for. A header's
    /// length when not even that is there, and never more than the limits allow.
    pub fn wanted(&self, input: &[u8]) -> usize {
        let bhs = input.first_chunk::<BHS_LEN>();
        bhs.and_then(|bhs| self.shape(bhs).ok()).map_or(BHS_LEN, |shape| shape.total_len)
    }

    /// RFC 7143 11.2.1.6: DataSegmentLength is the data segment payload length in bytes (excluding padding).
    fn shape(&self, bhs: &Bhs) -> Result<Shape, DecodeError> {
        let ahs_len = u32::from(bhs[4]) * 4;
        let data_len = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]);
        if ahs_len > self.limits.max_ahs {
            return Err(DecodeError::AhsTooLong { length: ahs_len, limit: self.limits.max_ahs });
        }
        if data_len > self.limits.max_data_segment {
            let limit = self.limits.max_data_segment;
            return Err(DecodeError::DataSegmentTooLong { length: data_len, limit });
        }
        let (ahs_len, data_len) = (ahs_len as usize, data_len as usize);
        let header_end = BHS_LEN + ahs_len + if self.digests.header { DIGEST_LEN } else { 0 };
        let padded_len = data_len + padding(data_len);
        // RFC 7143 11.2.4: without a data segment there is no data digest either.
        let data_digest = if self.digests.data && data_len > 0 { DIGEST_LEN } else { 0 };
        Ok(Shape { ahs_len, header_end, data_len, padded_len, total_len: header_end + padded_len + data_digest })
    }
}
