//! Collects data that arrives in order, in one part or several.

use buffers::Buffer;
use bytes::Bytes;

/// A data collector. A single part, the usual case of a small transfer, is kept without a copy;
/// several parts are joined in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    whole: Bytes,
    parts: Buffer,
}

impl Gather {
    /// Number of bytes collected.
    pub(crate) fn len(&self) -> usize {
        self.whole.len() + self.parts.len()
    }

    /// Appends data. `capacity` is the total length for which memory may be allocated now.
    pub(crate) fn push(&mut self, data: Bytes, capacity: usize) {
        if data.is_empty() {
            return;
        }
        if self.len() == 0 {
            self.whole = data;
            return;
        }
        if self.parts.is_empty() {
            self.parts = Buffer::with_capacity(capacity.max(self.whole.len() + data.len()));
            self.parts.extend_from_slice(&std::mem::take(&mut self.whole));
        }
        self.parts.extend_from_slice(&data);
    }

    /// Returns the collected data.
    pub(crate) fn take(&mut self) -> Bytes {
        if self.parts.is_empty() { std::mem::take(&mut self.whole) } else { std::mem::take(&mut self.parts).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_part_is_kept_and_several_are_joined() {
        let mut gather = Gather::default();
        let piece = Bytes::from(vec![1; 100]);
        gather.push(piece.clone(), 100);
        assert_eq!(gather.take().as_ptr(), piece.as_ptr());
        assert_eq!(gather.len(), 0);
        for piece in [&b"ab"[..], b"", b"c", b"def"] {
            gather.push(Bytes::from_static(piece), 6);
        }
        assert_eq!(gather.len(), 6);
        assert_eq!(&gather.take()[..], b"abcdef");
    }
}
