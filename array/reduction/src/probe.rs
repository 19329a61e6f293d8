//! Is it worth trying to compress? A look at a small part of the data, for a small part of what compressing it would cost.
//!
//! Two signs, because each is blind where the other sees: bytes that are unevenly frequent (text, numbers, sparse pages), and eight-byte words
//! that come again (records of random content, padding). Data that are encrypted or compressed already show neither. More is not worth
//! looking for: the compressor itself hurries over what it cannot compress.

use crate::BLOCK_LEN;

/// Slices whose bytes are counted in every block, and their length.
const SLICES: usize = 4;
const SLICE_BYTES: usize = 32;
/// From one slice to the next: the last one ends with the block.
const SLICE_STEP: usize = (BLOCK_LEN - SLICE_BYTES) / (SLICES - 1);
/// Bytes that are counted in a block.
const COUNTED: u32 = (SLICES * SLICE_BYTES) as u32;
/// Pairs of equal bytes among them that are no accident. Evenly spread, the sum of the squares of the counts (twice the pairs, and the bytes)
/// is COUNTED + COUNTED² / 256, and it deviates by about 11 from that 192: half as much again does not come about by itself.
const MANY_PAIRS: u32 = ((COUNTED + COUNTED * COUNTED / 256) * 3 / 2 - COUNTED) / 2;
/// From one word that is remembered to the next.
const WORD_STEP: usize = 64;
/// Words that are remembered, by their hash: as many as a full unit has.
const SEEN_BITS: u32 = 9;
/// So many words that were there before are no accident, and a saving of a sector is near.
const REPEATS: u32 = 4;

/// True when a unit of these blocks (each of 4096 bytes) may well become smaller. One block that shows a sign is enough: the
/// compressor itself runs quickly over the others.
pub fn looks_compressible<B: AsRef<[u8]>>(blocks: &[B]) -> bool {
    blocks.iter().any(|block| is_uneven(block.as_ref())) || repeats_words(blocks)
}

/// Counts the bytes of a few slices: true when some come so often that the sum of the squares is far above what evenly spread ones give.
fn is_uneven(block: &[u8]) -> bool {
    let mut counts = [0u8; 256];
    let mut pairs = 0u32;
    for slice in 0..SLICES {
        let Some(bytes) = block.get(slice * SLICE_STEP..slice * SLICE_STEP + SLICE_BYTES) else { continue };
        for byte in bytes {
            // Each byte makes a pair with every equal one before it.
            let count = &mut counts[usize::from(*byte)];
            pairs += u32::from(*count);
            *count += 1;
        }
        if pairs > MANY_PAIRS {
            return true;
        }
    }
    false
}

/// True when words at the same places of a 64-byte grid come again.
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
    fn noise_shows_no_sign() {
        let wrong = (0..1000).filter(|seed| looks_compressible(&[noise(*seed, BLOCK_LEN)])).count();
        assert!(wrong <= 2, "{wrong} of 1000 random blocks look compressible");
    }

    #[test]
    fn text_numbers_and_sparse_pages_do() {
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
    fn random_records_that_come_again_do() {
        let record = noise(3, 1024);
        assert!(looks_compressible(&[record.repeat(4), record.repeat(4)]));
    }
}
