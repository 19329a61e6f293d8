//! The bytes that a connection has to send, as one chain for one vectored write.
//!
//! Headers and small data segments are appended to a shared scratch block. Large data segments are
//! linked by reference: 32 reads of 4 KiB become 64 slices, without a copy of their data.

use std::{collections::VecDeque, io::IoSlice};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{
    digest::{self, Digests},
    pdu::{BHS_LEN, Bhs, Encode, padding, set_lengths},
};

/// Data segments shorter than this are copied after their header: cheaper than a slice of their
/// own.
const COPY_BELOW: usize = 512;
/// Size of a scratch block in bytes.
const SCRATCH_LEN: usize = 8192;

/// A queue of bytes to send. It implements [`Buf`], so `AsyncWriteExt::write_buf` sends as much as
/// the socket accepts with one `writev`.
#[derive(Debug, Default)]
pub struct Output {
    /// Digests to add; off until the login is complete.
    pub digests: Digests,
    sealed: VecDeque<Bytes>,
    open: BytesMut,
    len: usize,
    /// Number of bytes sent since the start.
    sent: u64,
}

impl Output {
    /// Creates an empty queue that adds these digests.
    pub fn new(digests: Digests) -> Self {
        Self { digests, ..Self::default() }
    }

    /// Queues a PDU.
    pub fn push(&mut self, pdu: &impl Encode) {
        let data = pdu.data();
        let len = data.len();
        self.push_parts(pdu.bhs(), &pdu.ahs(), len, std::iter::once(data), None);
    }

    /// Queues a PDU whose data segment of `data_len` bytes is in several parts. `digest` is that of
    /// the segment and its padding, if it is known.
    pub(crate) fn push_parts(
        &mut self,
        mut bhs: Bhs,
        ahs: &Bytes,
        data_len: usize,
        parts: impl IntoIterator<Item = Bytes>,
        digest: Option<u32>,
    ) {
        set_lengths(&mut bhs, ahs.len(), data_len);
        self.open.reserve_scratch(BHS_LEN + ahs.len() + 2 * digest::DIGEST_LEN);
        let before = self.open.len();
        self.open.put_slice(&bhs);
        self.open.put_slice(ahs);
        if self.digests.header {
            let crc = digest::crc(&self.open[before..]);
            self.open.put_slice(&digest::to_wire(crc));
        }
        self.len += self.open.len() - before;
        if data_len > 0 {
            self.push_data(data_len, parts, digest);
        }
    }

    fn push_data(&mut self, data_len: usize, parts: impl IntoIterator<Item = Bytes>, digest: Option<u32>) {
        let mut crc = 0;
        for part in parts {
            if self.digests.data && digest.is_none() {
                crc = digest::crc_append(crc, &part);
            }
            self.put(part);
        }
        let pad = padding(data_len);
        self.open.reserve_scratch(pad + digest::DIGEST_LEN);
        self.open.put_bytes(0, pad);
        self.len += pad;
        if self.digests.data {
            let digest = digest.unwrap_or_else(|| digest::crc_append(crc, &[0; 3][..pad]));
            self.open.put_slice(&digest::to_wire(digest));
            self.len += digest::DIGEST_LEN;
        }
    }

    fn put(&mut self, part: Bytes) {
        self.len += part.len();
        if part.len() < COPY_BELOW {
            self.open.reserve_scratch(part.len());
            self.open.put_slice(&part);
        } else {
            if !self.open.is_empty() {
                self.sealed.push_back(self.open.split().freeze());
            }
            self.sealed.push_back(part);
        }
    }

    /// Returns true if there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of bytes to send. A caller stops reading from a peer that does not read its
    /// responses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of bytes sent since the start.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of bytes queued since the start, sent or not.
    pub(crate) fn end(&self) -> u64 {
        self.sent + self.len as u64
    }

    /// Removes all bytes and returns them as slices in order.
    pub fn take_all(&mut self) -> Vec<Bytes> {
        let mut all: Vec<Bytes> = self.sealed.drain(..).collect();
        if !self.open.is_empty() {
            all.push(self.open.split().freeze());
        }
        self.sent += self.len as u64;
        self.len = 0;
        all
    }
}

/// Reserves whole blocks, which keeps allocations rare: `BytesMut` reuses a block once all its
/// slices are dropped.
trait ReserveScratch {
    fn reserve_scratch(&mut self, additional: usize);
}

impl ReserveScratch for BytesMut {
    fn reserve_scratch(&mut self, additional: usize) {
        if self.capacity() - self.len() < additional {
            self.reserve(additional.max(SCRATCH_LEN));
        }
    }
}

impl Buf for Output {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        self.sealed.front().map_or(&self.open[..], |front| &front[..])
    }

    fn chunks_vectored<'a>(&'a self, dst: &mut [IoSlice<'a>]) -> usize {
        let open = Some(&self.open[..]).filter(|open| !open.is_empty());
        let slices = self.sealed.iter().map(|part| &part[..]).chain(open);
        dst.iter_mut().zip(slices).map(|(to, from)| *to = IoSlice::new(from)).count()
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len, "advanced past the end of the output");
        self.len -= count;
        self.sent += count as u64;
        while count > 0 {
            let Some(front) = self.sealed.front_mut() else {
                self.open.advance(count);
                return;
            };
            if count < front.len() {
                front.advance(count);
                return;
            }
            count -= front.len();
            self.sealed.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::{DataIn, Decoder, Frame, NopIn};

    fn output() -> (Output, Vec<u8>) {
        let mut output = Output::new(Digests { header: true, data: true });
        output.push(&DataIn { data: Bytes::from(vec![7; 4097]), ..DataIn::default() });
        output.push(&NopIn::default());
        output.push(&DataIn { data: Bytes::from_static(b"small"), ..DataIn::default() });
        let mut copy = Output::new(output.digests);
        copy.push(&DataIn { data: Bytes::from(vec![7; 4097]), ..DataIn::default() });
        copy.push(&NopIn::default());
        copy.push(&DataIn { data: Bytes::from_static(b"small"), ..DataIn::default() });
        (output, copy.take_all().concat())
    }

    #[test]
    fn output_is_the_same_for_any_advance_step() {
        for step in [1, 47, 48, 52, 1000, 4097, 5000] {
            let (mut output, whole) = output();
            assert_eq!(output.remaining(), whole.len());
            let mut got = Vec::new();
            while output.has_remaining() {
                let take = step.min(output.chunk().len());
                got.extend_from_slice(&output.chunk()[..take]);
                output.advance(take);
            }
            assert_eq!(got, whole);
        }
    }

    #[test]
    fn vectored_chunks_cover_the_whole_output() {
        let (output, whole) = output();
        let mut slices = [IoSlice::new(&[]); 16];
        let count = output.chunks_vectored(&mut slices);
        let got: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(got, whole);
        assert_eq!(count, 3);
    }

    #[test]
    fn output_with_digests_decodes() {
        let (mut output, _) = output();
        let mut decoder = Decoder { digests: output.digests, ..Decoder::default() };
        let mut wire = BytesMut::from(&output.take_all().concat()[..]);
        let frames: Vec<Frame> = std::iter::from_fn(|| decoder.next(&mut wire).unwrap()).collect();
        assert_eq!(frames.len(), 3);
        assert!(frames.iter().all(|frame| frame.data_digest_ok));
        assert_eq!(frames[0].data.len(), 4097);
        assert_eq!(&frames[2].data[..], b"small");
        assert!(wire.is_empty());
    }
}
