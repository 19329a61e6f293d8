//! Compressibility probe: samples a small part of the data to decide whether compression is
//! worthwhile.
//!
//! It looks for two signs that complement each other: an uneven distribution of byte values (text,
//! numbers, sparse pages), and repeated eight-byte words (repeated random records, padding).
//! Encrypted or compressed data show neither. The probe may miss other compressible data. It need
//! not be more precise, because the compressor quickly skips incompressible data.

use crate::BLOCK_LEN;

/// Number of slices counted in every block, and the length of a slice in bytes.
const SLICES: usize = 4;
const SLICE_BYTES: usize = 32;
/// Distance between slices, chosen so that the last one ends with the block.
const SLICE_STEP: usize = (BLOCK_LEN - SLICE_BYTES) / (SLICES - 1);
/// Number of bytes counted in a block.
const COUNTED: u32 = (SLICES * SLICE_BYTES) as u32;
/// Threshold for pairs of equal bytes. For uniformly distributed bytes the expected sum of squared
/// counts (twice the pairs plus the bytes) is COUNTED + COUNTED² / 256 = 192, with a standard
/// deviation of about 11. The threshold is 1.5 times this sum, which is not reached by accident.
const MAX_RANDOM_PAIRS: u32 = ((COUNTED + COUNTED * COUNTED / 256) * 3 / 2 - COUNTED) / 2;
/// Distance between sampled words.
const WORD_STEP: usize = 64;
/// Number of sampled words that are remembered, by hash: as many as a full compression group has.
const SEEN_BITS: u32 = 9;
/// Threshold for repeated words. This many are not an accident, and the saving approaches one
/// sector.
const REPEATS: u32 = 4;

/// Returns true if a compression group of these 4096-byte blocks is likely to become smaller. One
/// block with a sign is enough, because the compressor quickly skips the others.
pub fn looks_compressible<B: AsRef<[u8]>>(blocks: &[B]) -> bool {
    blocks.iter().any(|block| is_uneven(block.as_ref())) || repeats_words(blocks)
}

/// Returns true if the sampled byte values are distributed unevenly.
fn is_uneven(block: &[u8]) -> bool {
    let mut counts = [0u8; 256];
    let mut pairs = 0u32;
    for slice in 0..SLICES {
        let Some(bytes) = block.get(slice * SLICE_STEP..slice * SLICE_STEP + SLICE_BYTES) else { continue };
        for byte in bytes {
            // Each byte forms a pair with every equal byte before it.
            let count = &mut counts[usize::from(*byte)];
            pairs += u32::from(*count);
            *count += 1;
        }
        if pairs > MAX_RANDOM_PAIRS {
            return true;
        }
    }
    false
}

/// Returns true if words at a stride of 64 bytes are repeated.
fn repeats_words<B: AsRef<[u8]>>(blocks: &[B]) -> bool {
    let mut seen = [0u64; 1 << SEEN_BITS];
    let mut repeats = 0;
    for block in blocks {
        let (words, _) = block.as_ref().as_chunks::<8>();
        for word in words.iter().step_by(WORD_STEP / 8) {
            let hash = u64::from_le_bytes(*word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let before = std::mem::replace(&mut seen[(hash >> (64 - SEEN_BITS)) as usize], hash);
            repeats += u32::from(before == hash);
        }
    }
    repeats >= REPEATS
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::noise;

    #[test]
    fn noise_does_not_look_compressible() {
        let wrong = (0..1000).filter(|seed| looks_compressible(&[noise(*seed, BLOCK_LEN)])).count();
        assert!(wrong <= 2, "{wrong} of 1000 random blocks look compressible");
    }

    #[test]
    fn text_numbers_and_sparse_pages_look_compressible() {
        let text: Vec<u8> =
            b"All work and no play makes Jack a dull boy. ".iter().copied().cycle().take(BLOCK_LEN).collect();
        let numbers: Vec<u8> = (0..1024u32).flat_map(|number| (number * 7).to_le_bytes()).collect();
        let mut sparse = vec![0; BLOCK_LEN];
        sparse[..1024].copy_from_slice(&noise(1, 1024));
        for block in [text, numbers, sparse] {
            assert!(looks_compressible(&[noise(2, BLOCK_LEN), block]));
        }
    }

    #[test]
    fn repeated_random_records_look_compressible() {
        let record = noise(3, 1024);
        assert!(looks_compressible(&[record.repeat(4), record.repeat(4)]));
    }
}
