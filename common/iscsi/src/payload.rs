//! The data of a command as a chain of parts, so that no part is copied.

use std::collections::VecDeque;

use bytes::Bytes;

/// A chain of byte slices. Read data is passed to the socket without a copy.
#[derive(Clone, Debug, Default)]
pub struct PayloadChain {
    // Most chains have one part, which needs no allocation.
    first: Bytes,
    rest: VecDeque<Bytes>,
    len: usize,
}

impl PayloadChain {
    /// Number of bytes in all parts.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a part.
    pub fn push(&mut self, part: Bytes) {
        if part.is_empty() {
            return;
        }
        self.len += part.len();
        if self.first.is_empty() {
            self.first = part;
        } else {
            self.rest.push_back(part);
        }
    }

    /// Drops all bytes after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            *self = self.split_to(len);
        }
    }

    /// Removes the first `len` bytes and returns them; all bytes if there are fewer.
    pub fn split_to(&mut self, len: usize) -> Self {
        let mut head = Self::default();
        while head.len < len && self.len > 0 {
            let take = self.first.len().min(len - head.len);
            head.push(self.first.split_to(take));
            self.len -= take;
            if self.first.is_empty() {
                self.first = self.rest.pop_front().unwrap_or_default();
            }
        }
        head
    }

    /// Returns the bytes in one part; copies if there are several parts.
    pub fn to_bytes(&self) -> Bytes {
        if self.rest.is_empty() {
            return self.first.clone();
        }
        let mut whole = Vec::with_capacity(self.len);
        whole.extend_from_slice(&self.first);
        self.rest.iter().for_each(|part| whole.extend_from_slice(part));
        whole.into()
    }
}

impl IntoIterator for PayloadChain {
    type Item = Bytes;
    type IntoIter = std::iter::Chain<std::iter::Once<Bytes>, std::collections::vec_deque::IntoIter<Bytes>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.rest)
    }
}

impl From<Bytes> for PayloadChain {
    fn from(part: Bytes) -> Self {
        Self { len: part.len(), first: part, rest: VecDeque::new() }
    }
}

impl From<Vec<u8>> for PayloadChain {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl FromIterator<Bytes> for PayloadChain {
    fn from_iter<I: IntoIterator<Item = Bytes>>(parts: I) -> Self {
        let mut payload = Self::default();
        parts.into_iter().for_each(|part| payload.push(part));
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_a_payload_keeps_byte_order() {
        let whole: Vec<u8> = (0..=255).collect();
        for step in [1, 7, 100, 256, 300] {
            let mut payload: PayloadChain = whole.chunks(50).map(Bytes::copy_from_slice).collect();
            let mut got = Vec::new();
            while !payload.is_empty() {
                let head = payload.split_to(step);
                assert!(head.len() <= step);
                got.extend_from_slice(&head.to_bytes());
                assert_eq!(payload.len(), whole.len() - got.len());
            }
            assert_eq!(got, whole);
        }
    }

    #[test]
    fn truncating_beyond_the_end_is_a_no_op() {
        let mut payload = PayloadChain::from(vec![1, 2, 3]);
        payload.truncate(9);
        assert_eq!(&payload.to_bytes()[..], [1, 2, 3]);
        payload.truncate(1);
        assert_eq!(&payload.to_bytes()[..], [1]);
    }
}
