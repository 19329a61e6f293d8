//! The contents of 512-byte blocks. Each distinct content has a small id, so the oracle stores a
//! volume as an array of ids.

use std::collections::HashMap;
use types::LBA_BYTES;

/// Bytes of a block, as an array length.
pub const LBA_LEN: usize = LBA_BYTES as usize;

/// Id of the content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content(pub u32);

impl Content {
    /// Never written, or unmapped; reads as zeros.
    pub const UNMAPPED: Content = Content(0);
    /// Zeros that are reported as mapped.
    pub const ZERO: Content = Content(1);
    /// Block that cannot be read after a drive failure. Any content is possible.
    pub const UNREADABLE: Content = Content(2);
}

#[derive(Clone)]
enum Held {
    Known(Box<[u8; LBA_LEN]>),
    /// One of these contents, not known which: left by a chunked copy that failed part-way.
    OneOf(Box<[Content]>),
}

/// All contents that occur in a run.
#[derive(Clone)]
pub struct Contents {
    held: Vec<Held>,
    by_hash: HashMap<u64, Vec<Content>>,
}

impl Default for Contents {
    fn default() -> Self {
        let zero = Held::Known(Box::new([0; LBA_LEN]));
        let nothing = || Held::OneOf(Box::new([]));
        Self { held: vec![nothing(), zero, nothing()], by_hash: HashMap::new() }
    }
}

impl Contents {
    /// Returns the id of the content of a block. Zeros are [`Content::ZERO`].
    pub fn id_of(&mut self, block: &[u8]) -> Content {
        if *block == [0; LBA_LEN] {
            return Content::ZERO;
        }
        let same = self.by_hash.entry(hash(block)).or_default();
        let found = same.iter().find(|c| matches!(&self.held[c.0 as usize], Held::Known(bytes) if bytes[..] == *block));
        if let Some(content) = found {
            return *content;
        }
        let content = Content(self.held.len() as u32);
        let mut bytes = Box::new([0; LBA_LEN]);
        bytes.copy_from_slice(block);
        self.held.push(Held::Known(bytes));
        same.push(content);
        content
    }

    /// Returns the ids of the blocks of a buffer.
    pub fn ids_of(&mut self, data: &[u8]) -> Vec<Content> {
        data.chunks_exact(LBA_LEN).map(|block| self.id_of(block)).collect()
    }

    /// Returns a content that is either `a` or `b`.
    pub fn either(&mut self, a: Content, b: Content) -> Content {
        let mut possible: Vec<Content> = self.possible(a);
        possible.extend(self.possible(b));
        possible.sort_unstable();
        possible.dedup();
        if let [only] = possible[..] {
            return only;
        }
        self.held.push(Held::OneOf(possible.into_boxed_slice()));
        Content(self.held.len() as u32 - 1)
    }

    /// Returns the contents that a block may hold: one, unless it is undecided.
    pub fn possible(&self, content: Content) -> Vec<Content> {
        match &self.held[content.0 as usize] {
            Held::OneOf(possible) if !possible.is_empty() => possible.to_vec(),
            _ => vec![content],
        }
    }

    /// Returns whether the content is decided.
    pub fn is_certain(&self, content: Content) -> bool {
        content == Content::UNMAPPED || matches!(self.held[content.0 as usize], Held::Known(_))
    }

    /// Returns the bytes of a decided content.
    pub fn bytes(&self, content: Content) -> &[u8; LBA_LEN] {
        match &self.held[content.0 as usize] {
            Held::Known(bytes) => bytes,
            Held::OneOf(_) => self.bytes(Content::ZERO),
        }
    }

    /// Returns whether a block that holds `expected` in the oracle may be observed as `seen`.
    ///
    /// An unmapped block may be observed as mapped zeros, because the array maps in units of 4 KiB.
    /// A mapped block may not be observed as unmapped.
    pub fn allows(&self, expected: Content, seen: Content) -> bool {
        expected == seen
            || seen == Content::UNREADABLE
            || (expected == Content::UNMAPPED && seen == Content::ZERO)
            || matches!(&self.held[expected.0 as usize], Held::OneOf(possible) if possible.iter().any(|one| self.allows(*one, seen)))
    }

    /// Like [`Contents::allows`], for an observation of bytes only: zeros may be mapped or
    /// unmapped.
    pub fn allows_bytes(&self, expected: Content, seen: Content) -> bool {
        self.allows(expected, seen) || (seen == Content::ZERO && self.allows(expected, Content::UNMAPPED))
    }
}

fn hash(block: &[u8]) -> u64 {
    block.chunks_exact(8).fold(0x51_7C_C1_B7_27_22_0A_95, |hash: u64, chunk| {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_blocks_have_one_content_id() {
        let mut contents = Contents::default();
        let (a, b) = (contents.id_of(&[7; LBA_LEN]), contents.id_of(&[8; LBA_LEN]));
        assert_ne!(a, b);
        assert_eq!(contents.id_of(&[7; LBA_LEN]), a);
        assert_eq!(contents.id_of(&[0; LBA_LEN]), Content::ZERO);
        assert_eq!(contents.bytes(b), &[8; LBA_LEN]);
        assert_eq!(contents.bytes(Content::UNMAPPED), &[0; LBA_LEN]);
    }

    #[test]
    fn mapped_zeros_never_appear_unmapped() {
        let contents = Contents::default();
        assert!(contents.allows(Content::UNMAPPED, Content::ZERO));
        assert!(!contents.allows(Content::ZERO, Content::UNMAPPED));
        assert!(contents.allows_bytes(Content::UNMAPPED, Content::ZERO));
    }

    #[test]
    fn undecided_content_allows_only_its_candidates() {
        let mut contents = Contents::default();
        let (a, b, c) = (contents.id_of(&[1; LBA_LEN]), contents.id_of(&[2; LBA_LEN]), contents.id_of(&[3; LBA_LEN]));
        let either = contents.either(a, b);
        let three = contents.either(either, Content::UNMAPPED);
        assert!(contents.allows(either, a) && contents.allows(either, b) && !contents.allows(either, c));
        assert!(contents.allows(three, b) && contents.allows_bytes(three, Content::ZERO) && !contents.allows(three, c));
        assert_eq!(contents.either(a, a), a);
        assert!(!contents.is_certain(either) && contents.is_certain(a) && contents.is_certain(Content::UNMAPPED));
    }
}
