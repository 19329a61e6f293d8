//! Is it worth trying to compress? A look at a small part of the data, for a small part of what compressing it would cost.
//!
//! Two signs, because each is blind where the other sees: bytes that are unevenly frequent (text, numbers, sparse pages), and eight-byte words
//! that come again (records of random content, padding). Data that are encrypted or compressed already show neither.

use crate::BLOCK_BYTES;

/// Slices looked at in every block, and their length in bytes.
const SLICES: usize = 4;
const SLICE_BYTES: usize = 64;
/// Of the eight-byte words of a block, one in so many is remembered (the same ones wherever they stand).
const WORD_SHARE_BITS: u32 = 6;
/// Remembered words, by their hash.
const SEEN: usize = 64;

/// True when a unit of these blocks (each of 4096 bytes) may well become smaller. One block that shows a sign is enough: the
/// compressor itself runs quickly over the others.
pub fn looks_compressible<B: AsRef<[u8]>>(blocks: &[B]) -> bool {
    blocks.iter().any(|block| is_uneven(block.as_ref())) || repeats_words(blocks)
}

/// Counts the bytes of a few slices and compares the sum of squares with what evenly spread ones give.
fn is_uneven(block: &[u8]) -> bool {
    let mut counts = [0u16; 256];
    let mut taken = 0u32;
    for slice in 0..SLICES {
        let at = slice * (BLOCK_BYTES / SLICES) + slice * SLICE_BYTES;
        let Some(bytes) = block.get(at..at + SLICE_BYTES) else { continue };
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        taken += SLICE_BYTES as u32;
    }
    let squares: u32 = counts.iter().map(|count| u32::from(*count) * u32::from(*count)).sum();
    // Evenly spread: taken + taken² / 256 (512 of 256 bytes), with a deviation of about 23. Half as much again is no accident.
    squares > (taken + taken * taken / 256) * 3 / 2
}

/// True when an eight-byte word comes twice, among those that are sampled by their value.
fn repeats_words<B: AsRef<[u8]>>(blocks: &[B]) -> bool {
    let mut seen = [0u64; SEEN];
    for block in blocks {
        let (words, _) = block.as_ref().as_chunks::<8>();
        for word in words {
            let hash = u64::from_le_bytes(*word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            if hash >> (64 - WORD_SHARE_BITS) == 1 {
                let place = &mut seen[(hash >> 32) as usize % SEEN];
                if *place == hash {
                    return true;
                }
                *place = hash;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::tests::noise;

    #[test]
    fn noise_shows_no_sign() {
        let wrong = (0..1000).filter(|seed| looks_compressible(&[noise(*seed, BLOCK_BYTES)])).count();
        assert!(wrong <= 2, "{wrong} of 1000 random blocks look compressible");
    }

    #[test]
    fn text_numbers_and_sparse_pages_do() {
        let text: Vec<u8> = b"All work and no play makes Jack a dull boy. ".iter().copied().cycle().take(BLOCK_BYTES).collect();
        let numbers: Vec<u8> = (0..1024u32).flat_map(|number| (number * 7).to_le_bytes()).collect();
        let mut sparse = vec![0; BLOCK_BYTES];
        sparse[..1024].copy_from_slice(&noise(1, 1024));
        for block in [text, numbers, sparse] {
            assert!(looks_compressible(&[noise(2, BLOCK_BYTES), block]));
        }
    }

    #[test]
    fn random_records_that_come_again_do() {
        let record = noise(3, 1024);
        assert!(looks_compressible(&[record.repeat(4), record.repeat(4)]));
    }
}
