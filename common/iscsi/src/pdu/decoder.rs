//! Splits a byte stream into PDUs. Lengths are checked before the bytes arrive, digests before the
//! contents are used.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

use super::wire::{BHS_LEN, Bhs, Frame, padding};
use crate::digest::{self, DIGEST_LEN, Digests};

/// Length limits for a peer. We declare both limits, so a longer PDU is a protocol error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest data segment: our MaxRecvDataSegmentLength (RFC 7143 13.12).
    pub max_data_segment: u32,
    /// Longest list of additional header segments, in bytes.
    pub max_ahs: u32,
}

impl Default for DecodeLimits {
    /// The data segment length that applies before negotiation, and enough for the longest CDB.
    fn default() -> Self {
        Self { max_data_segment: 8192, max_ahs: 256 }
    }
}

/// Why decoding cannot continue: the start of the next PDU is unknown, or the peer exceeds a
/// declared limit. The connection must be closed (RFC 7143 7.7, error recovery level 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The data segment is longer than our MaxRecvDataSegmentLength.
    #[error("data segment of {length} bytes exceeds the limit of {limit} bytes")]
    DataSegmentTooLong {
        /// DataSegmentLength.
        length: u32,
        /// Our limit.
        limit: u32,
    },
    /// The additional header segments are longer than the limit.
    #[error("additional header segments of {length} bytes exceed the limit of {limit} bytes")]
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

/// An incremental decoder. It keeps no bytes: they stay in the caller's buffer until the PDU is
/// complete.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Length limits for the peer.
    pub limits: DecodeLimits,
    /// The digests negotiated for this direction.
    pub digests: Digests,
}

/// Offsets and lengths of the parts of the first PDU in a buffer.
struct PduLayout {
    ahs_len: usize,
    header_end: usize,
    data_len: usize,
    padded_len: usize,
    total_len: usize,
}

impl Decoder {
    /// Creates a decoder with these limits. Digests are off until the login is complete (RFC 7143
    /// 13.1).
    pub fn new(limits: DecodeLimits) -> Self {
        Self { limits, digests: Digests::default() }
    }

    /// Removes the next complete PDU from the front of `input`; returns `None` if more bytes are
    /// needed.
    ///
    /// Only the 48 bytes of the header are copied; the data segment is a view of `input`.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, DecodeError> {
        let Some(bhs) = input.first_chunk::<BHS_LEN>().copied() else { return Ok(None) };
        let layout = self.layout(&bhs)?;
        if self.digests.header && input.len() >= layout.header_end {
            let at = BHS_LEN + layout.ahs_len;
            if digest::crc(&input[..at]) != digest::from_wire(&input[at..layout.header_end]) {
                return Err(DecodeError::HeaderDigest);
            }
        }
        if input.len() < layout.total_len {
            return Ok(None);
        }
        input.advance(BHS_LEN);
        let ahs = if layout.ahs_len == 0 { Bytes::new() } else { input.split_to(layout.ahs_len).freeze() };
        input.advance(layout.header_end - BHS_LEN - layout.ahs_len);
        if layout.data_len == 0 {
            return Ok(Some(Frame { bhs, ahs, data: Bytes::new(), data_digest_ok: true }));
        }
        let mut data = input.split_to(layout.total_len - layout.header_end).freeze();
        let data_digest_ok = !self.digests.data
            || digest::crc(&data[..layout.padded_len]) == digest::from_wire(&data[layout.padded_len..]);
        data.truncate(layout.data_len);
        Ok(Some(Frame { bhs, ahs, data, data_digest_ok }))
    }

    /// Returns the total length in bytes of the PDU at the front of `input`, so that a reader can
    /// reserve space. It is the length of a header if the header is incomplete, and never exceeds
    /// the limits.
    pub fn wanted(&self, input: &[u8]) -> usize {
        let bhs = input.first_chunk::<BHS_LEN>();
        bhs.and_then(|bhs| self.layout(bhs).ok()).map_or(BHS_LEN, |layout| layout.total_len)
    }

    /// RFC 7143 11.2.1.6: DataSegmentLength is the data segment payload length in bytes (excluding
    /// padding).
    fn layout(&self, bhs: &Bhs) -> Result<PduLayout, DecodeError> {
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
        Ok(PduLayout { ahs_len, header_end, data_len, padded_len, total_len: header_end + padded_len + data_digest })
    }
}
