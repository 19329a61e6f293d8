//! Content of a block under `torture`: a stamp that names the operation and the address that wrote
//! it.
//! The stamp identifies misplaced and stale blocks.

use testing::SplitMix64;

/// Bytes of a logical block; `torture` supports no other size.
pub(crate) const BLOCK: usize = 512;

const MAGIC: [u8; 8] = *b"ibidblok";

/// The content of one block, by its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stamp {
    /// All zeros: never written, zeroed or unmapped.
    Zero,
    /// Written by operation `sequence` to `lba`. A copy moves the stamp unchanged.
    Written {
        /// The operation that wrote the data.
        sequence: u64,
        /// The block to which it was first written.
        lba: u64,
    },
    /// The content is not known, or a command on the block failed: any content is accepted.
    Unknown,
}

impl Stamp {
    /// Writes the 512 bytes of this stamp; [`Stamp::Unknown`] writes zeros.
    pub(crate) fn render(self, seed: u64, block: &mut [u8]) {
        block.fill(0);
        let Self::Written { sequence, lba } = self else { return };
        for (at, field) in [MAGIC, seed.to_le_bytes(), sequence.to_le_bytes(), lba.to_le_bytes()].iter().enumerate() {
            block[at * 8..at * 8 + 8].copy_from_slice(field);
        }
        let body = &mut block[32..];
        // Three kinds of data exercise incompressible, compressible and nearly empty blocks.
        match sequence % 3 {
            0 => SplitMix64::stream(seed ^ sequence, lba).fill(body),
            1 => body.chunks_mut(8).for_each(|word| word.copy_from_slice(&sequence.to_le_bytes()[..word.len()])),
            _ => {}
        }
    }

    /// Returns the stamp in the first bytes of a block, without checking the rest.
    /// `None` means neither zeros nor a stamp of `seed`.
    pub(crate) fn read(seed: u64, block: &[u8]) -> Option<Self> {
        if block.iter().all(|byte| *byte == 0) {
            return Some(Self::Zero);
        }
        let field = |at: usize| block.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
        if field(0)? != MAGIC || u64::from_le_bytes(field(8)?) != seed {
            return None;
        }
        Some(Self::Written { sequence: u64::from_le_bytes(field(16)?), lba: u64::from_le_bytes(field(24)?) })
    }

    /// Returns true if `block` holds exactly the bytes of this stamp; always true for unknown
    /// content.
    pub(crate) fn matches(self, seed: u64, block: &[u8]) -> bool {
        if self == Self::Unknown {
            return true;
        }
        let mut expected = [0u8; BLOCK];
        self.render(seed, &mut expected);
        expected == block
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Zero => f.write_str("zeros"),
            Self::Written { sequence, lba } => write!(f, "the data of operation {sequence} for LBA {lba}"),
            Self::Unknown => f.write_str("anything"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamp_is_read_back_and_matches_only_its_bytes() {
        for sequence in 1..=3 {
            let stamp = Stamp::Written { sequence, lba: 77 };
            let mut block = [0u8; BLOCK];
            stamp.render(9, &mut block);
            assert_eq!(Stamp::read(9, &block), Some(stamp));
            assert!(stamp.matches(9, &block));
            assert_eq!(Stamp::read(8, &block), None, "another seed");
            block[BLOCK - 1] ^= 1;
            assert!(!stamp.matches(9, &block), "one bit of the last byte");
        }
    }

    #[test]
    fn unknown_stamp_matches_any_block() {
        assert_eq!(Stamp::read(1, &[0; BLOCK]), Some(Stamp::Zero));
        assert!(Stamp::Zero.matches(1, &[0; BLOCK]));
        assert!(!Stamp::Zero.matches(1, &[1; BLOCK]));
        assert!(Stamp::Unknown.matches(1, &[0xa5; BLOCK]));
        assert_eq!(Stamp::read(1, &[0xa5; BLOCK]), None);
    }

    #[test]
    fn stamp_layout_is_fixed() {
        let mut block = [0u8; BLOCK];
        Stamp::Written { sequence: 5, lba: 0x0102 }.render(0xff, &mut block);
        assert_eq!(&block[..32], b"ibidblok\xff\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0");
        assert!(block[32..].iter().all(|byte| *byte == 0));
    }
}
