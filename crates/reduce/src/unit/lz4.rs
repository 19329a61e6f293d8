//! The LZ4 block format (lz4_Block_format.md, 1.6), written for units: what it gives is stored in whole sectors, so it stops looking for
//! repetitions as soon as those that are left can hardly save another one. Any decoder reads it.

use super::{MAX_UNIT_BYTES, sectors};
use bytes::Bytes;

/// A repetition is at least that long.
const MIN_MATCH: usize = 4;
/// The last bytes are literals (five by the format; decoders that copy in a hurry like one more), and no match begins less than so many
/// bytes before the end.
const LAST_LITERALS: usize = 6;
const LAST_START: usize = 12;
/// A length that its four bits of the token cannot hold goes on in bytes.
const LONG: usize = 15;
/// Up to this length, at most one more byte is needed.
const LONG_IN_ONE: usize = LONG + 255;
/// Literals that are copied as one, whether there are as many or fewer.
const SHORT_LITERALS: usize = 16;
/// Bytes that a token, so many literals, an offset and two lengths may take, with what the copy writes beyond them.
const SHORT_SEQUENCE: usize = 24;
/// Steps of one width before the search hurries on with a larger one.
const PATIENCE: usize = 32;
/// Bytes before the end at which stopping comes into question.
const NEAR_END: usize = 2048;
const HASH_BITS: u32 = 12;

/// Positions are 16 bits wide. With this much room behind the last of them, no read needs a check.
type Plain = [u8; (1 << 16) + SHORT_LITERALS];
type Positions = [u16; 1 << HASH_BITS];

const _: () = assert!(MAX_UNIT_BYTES < 1 << 16);

/// The blocks of a unit, and memory to compress them with.
pub(super) struct Encoder {
    plain: Box<Plain>,
    /// Where each hash of five bytes was met last; at first, at the beginning.
    positions: Box<Positions>,
    length: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        let plain = Box::new([0; size_of::<Plain>()]);
        Self { plain, positions: Box::new([0; 1 << HASH_BITS]), length: 0 }
    }
}

impl Encoder {
    /// Takes the blocks of a unit, one after the other.
    pub(super) fn gather(&mut self, blocks: &[Bytes]) {
        self.length = 0;
        for block in blocks {
            self.plain[self.length..self.length + block.len()].copy_from_slice(block);
            self.length += block.len();
        }
    }

    /// The blocks.
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain[..self.length]
    }

    /// Compresses the blocks into `out`. Gives the length of the stream; `None` when there is not room enough for it.
    pub(super) fn compress(&mut self, out: &mut [u8]) -> Option<usize> {
        let (plain, positions, end) = (&*self.plain, &mut *self.positions, self.length);
        positions.fill(0);
        let (mut anchor, mut length) = (0, 0);
        while let Some((found, offset)) = search(plain, positions, anchor.max(1), end.saturating_sub(LAST_START)) {
            let after = match_end(plain, found + MIN_MATCH, offset, end - LAST_LITERALS);
            positions[hash(word(plain, after - 2))] = (after - 2) as u16;
            let mut start = found;
            while start > anchor && start > offset && byte(plain, start - 1) == byte(plain, start - offset - 1) {
                start -= 1;
            }
            length = put(out, length, plain, anchor..start, offset, after - start - MIN_MATCH)?;
            anchor = after;
            if is_rest_in_vain(length, anchor, end - anchor) {
                break;
            }
        }
        put_literals(out, length, &plain[anchor..end], 0)
    }
}

#[inline(always)]
fn word(plain: &Plain, at: usize) -> u64 {
    let at = usize::from(at as u16);
    plain[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn byte(plain: &Plain, at: usize) -> u8 {
    plain[usize::from(at as u16)]
}

/// Of the first five bytes of a word.
#[inline(always)]
fn hash(word: u64) -> usize {
    ((word << 24).wrapping_mul(889_523_592_379) >> (64 - HASH_BITS)) as usize
}

/// The next place, up to `last`, at which four bytes stand that stood before, and how far before. Where nothing is found for long it looks
/// at every second place only, then at every third.
#[inline(always)]
fn search(plain: &Plain, positions: &mut Positions, mut at: usize, last: usize) -> Option<(usize, usize)> {
    let mut step = 1;
    while at <= last {
        let until = (at + (PATIENCE - 1) * step).min(last);
        while at <= until {
            let here = word(plain, at);
            let before = usize::from(std::mem::replace(&mut positions[hash(here)], at as u16));
            if word(plain, before) as u32 == here as u32 {
                return Some((at, at - before));
            }
            at += step;
        }
        step += 1;
    }
    None
}

/// Where the bytes from `at` on cease to be those `offset` before; `most` at the latest.
#[inline(always)]
fn match_end(plain: &Plain, mut at: usize, offset: usize, most: usize) -> usize {
    while at < most {
        let differing = word(plain, at) ^ word(plain, at - offset);
        if differing != 0 {
            at += differing.trailing_zeros() as usize / 8;
            break;
        }
        at += 8;
    }
    at.min(most)
}

/// True when the bytes that are `left` may as well be stored as they are: by what the `done` ones came to, and a quarter better, they would
/// not save a sector.
#[inline(always)]
fn is_rest_in_vain(length: usize, done: usize, left: usize) -> bool {
    const BETTER: (usize, usize) = (3, 4);
    left < NEAR_END && {
        let expected = left * length * BETTER.0 / (done * BETTER.1);
        sectors(length + left + left / 255 + 2) <= sectors(length + expected)
    }
}

/// Puts a sequence: literals, and a match of `length` beyond the least. Most are short: they need one check of the room and no loop.
#[inline(always)]
fn put(
    out: &mut [u8],
    at: usize,
    plain: &Plain,
    literals: std::ops::Range<usize>,
    offset: usize,
    length: usize,
) -> Option<usize> {
    let count = literals.len();
    let [low, high] = (offset as u16).to_le_bytes();
    match out.get_mut(at..).and_then(|out| out.first_chunk_mut::<SHORT_SEQUENCE>()) {
        Some(out) if count <= SHORT_LITERALS && length < LONG_IN_ONE => {
            out[0] = token(count, length);
            // Written in any case, and written over where it is not meant.
            out[1] = count.wrapping_sub(LONG) as u8;
            let mut next = 1 + usize::from(count >= LONG);
            let from = usize::from(literals.start as u16);
            out[next..next + SHORT_LITERALS].copy_from_slice(&plain[from..from + SHORT_LITERALS]);
            next += count;
            (out[next], out[next + 1], out[next + 2]) = (low, high, length.wrapping_sub(LONG) as u8);
            Some(at + next + 2 + usize::from(length >= LONG))
        }
        _ => {
            let at = put_literals(out, at, &plain[literals], length)?;
            out.get_mut(at..at + 2)?.copy_from_slice(&[low, high]);
            put_length(out, at + 2, length)
        }
    }
}

#[inline(always)]
fn token(literals: usize, length: usize) -> u8 {
    (literals.min(LONG) << 4 | length.min(LONG)) as u8
}

/// Puts the token of a sequence and its literals.
#[inline(never)]
fn put_literals(out: &mut [u8], at: usize, literals: &[u8], length: usize) -> Option<usize> {
    *out.get_mut(at)? = token(literals.len(), length);
    let at = put_length(out, at + 1, literals.len())?;
    out.get_mut(at..at + literals.len())?.copy_from_slice(literals);
    Some(at + literals.len())
}

/// Puts what a token could not hold of a length.
fn put_length(out: &mut [u8], mut at: usize, length: usize) -> Option<usize> {
    let Some(mut left) = length.checked_sub(LONG) else { return Some(at) };
    while left >= 255 {
        *out.get_mut(at)? = 255;
        (at, left) = (at + 1, left - 255);
    }
    *out.get_mut(at)? = left as u8;
    Some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BLOCK_BYTES;
    use crate::unit::tests::noise;
    use proptest::prelude::*;

    fn compressed(blocks: &[Bytes]) -> Option<Vec<u8>> {
        let (mut encoder, mut out) = (Encoder::default(), vec![0; 2 * MAX_UNIT_BYTES]);
        encoder.gather(blocks);
        let length = encoder.compress(&mut out)?;
        Some(out[..length].to_vec())
    }

    fn decoded(stream: &[u8], blocks: usize) -> Vec<u8> {
        let mut plain = vec![0; blocks * BLOCK_BYTES];
        assert_eq!(lz4_flex::block::decompress_into(stream, &mut plain).unwrap(), plain.len());
        plain
    }

    #[test]
    fn lengths_go_on_in_bytes() {
        // A match at distance 300, so that 300 literals come before it: 15 + 255 + 30.
        let block: Vec<u8> = noise(1, 300).into_iter().cycle().take(BLOCK_BYTES).collect();
        let stream = compressed(&[block.clone().into()]).unwrap();
        assert_eq!((stream[..3].to_vec(), &stream[3..303]), (vec![0xFF, 255, 30], &block[..300]));
        // The match ends six bytes before the end: 3790 = 4 + 15 + 14 × 255 + 201.
        assert_eq!(stream[303..305], [44, 1]);
        assert_eq!(stream[305..], [[255; 14].as_slice(), &[201, 0x60], &block[BLOCK_BYTES - 6..]].concat());
        assert_eq!(decoded(&stream, 1), block);
    }

    #[test]
    fn what_saves_no_sector_is_not_looked_for() {
        // Rows of 40 random bytes and 24 that are always the same: to the end, they come to six sectors, and 300 bytes are left over.
        let row = |seed: u64| [noise(seed, 40), b"the same twenty-four bys".to_vec()].concat();
        let block: Vec<u8> = (0..64).flat_map(row).collect();
        let stream = compressed(&[block.clone().into()]).unwrap();
        assert_eq!((sectors(stream.len()), sectors(lz4_flex::block::compress(&block).len())), (6, 6));
        assert!(stream.ends_with(&block[BLOCK_BYTES - 512..]), "the last rows stand there as they are");
        assert_eq!(decoded(&stream, 1), block);
    }

    #[test]
    fn a_stream_that_does_not_fit_is_none() {
        let mut encoder = Encoder::default();
        encoder.gather(&[noise(3, BLOCK_BYTES).into()]);
        let whole = BLOCK_BYTES + 17 + 1;
        assert_eq!(encoder.compress(&mut vec![0; whole]), Some(whole));
        assert_eq!(encoder.compress(&mut vec![0; whole - 1]), None);
        encoder.gather(&[vec![7; BLOCK_BYTES].into()]);
        let mut out = vec![0; 64];
        let length = encoder.compress(&mut out).unwrap();
        assert!((0..length).all(|room| encoder.compress(&mut out[..room]).is_none()));
    }

    proptest! {
        /// Blocks of pieces that are random, or were there before, near or far.
        #[test]
        fn every_decoder_reads_it(
            blocks in 1usize..9,
            pieces in prop::collection::vec((any::<bool>(), 1usize..700, any::<u16>(), 1u8..=255), 1..400),
            seed in any::<u64>(),
        ) {
            let length = blocks * BLOCK_BYTES;
            let mut plain: Vec<u8> = Vec::with_capacity(length + 700);
            for (at, (is_new, piece, back, letters)) in pieces.iter().cycle().zip(0u64..).map(|(piece, at)| (at, piece)) {
                if plain.len() >= length {
                    break;
                }
                let from = plain.len() - (usize::from(*back) % (plain.len() + 1));
                if *is_new || from == plain.len() {
                    plain.extend(noise(seed ^ at, *piece).iter().map(|byte| byte % letters));
                } else {
                    (from..from + piece).for_each(|at| plain.push(plain[at]));
                }
            }
            plain.truncate(length);
            let unit: Vec<Bytes> = plain.chunks(BLOCK_BYTES).map(Bytes::copy_from_slice).collect();
            let stream = compressed(&unit).unwrap();
            prop_assert_eq!(decoded(&stream, blocks), plain);
        }
    }
}
