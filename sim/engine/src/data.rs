//! Generates write data of every kind: repetitive, duplicate, compressible and random.
//!
//! An array with data reduction handles each kind in a different way, and most bugs occur where two
//! kinds meet. Examples are a block equal to one still in memory, a block that differs from another
//! in one bit, and a block that was equal until just now. So half of the new data is derived from
//! data in the array.

use crate::content::{Contents, LBA_LEN};
use crate::state::{OracleState, OracleVolume, span};
use bytes::Bytes;
use testing::Rng;
use types::LBAS_PER_BLOCK;

/// Unit of deduplication, as an array length.
const BLOCK_LEN: usize = types::BLOCK_BYTES as usize;
/// Number of 4 KiB blocks that are the same in all runs.
const WELL_KNOWN: u64 = 6;

/// Mix of data kinds in one run, in percent. The rest is random bytes.
#[derive(Clone, Copy, Debug)]
pub struct ContentMix {
    /// Zeros and repeated words.
    pub repetitive: u64,
    /// Data that the array already holds, exactly or nearly.
    pub duplicate: u64,
    /// Data that a compressor makes smaller.
    pub compressible: u64,
}

impl ContentMix {
    /// Draws a mix.
    pub fn draw(rng: &mut Rng) -> Self {
        let (repetitive, duplicate, compressible) =
            rng.pick(&[(0, 0, 0), (10, 0, 0), (50, 0, 0), (5, 80, 5), (5, 40, 40), (5, 5, 80), (10, 30, 30)]);
        Self { repetitive, duplicate, compressible }
    }

    /// Generates data for `blocks` blocks of an array that holds `state`.
    pub fn data(&self, rng: &mut Rng, blocks: u64, state: &OracleState, contents: &Contents) -> Bytes {
        let mut data = vec![0; blocks as usize * LBA_LEN];
        let other = 100_u64.saturating_sub(self.repetitive + self.duplicate + self.compressible);
        match rng.weighted(&[self.repetitive, self.duplicate, self.compressible, other.max(1)]) {
            0 => repetitive(rng, &mut data),
            1 => duplicate(rng, &mut data, state, contents),
            2 => compressible(rng, &mut data),
            _ => rng.fill(&mut data),
        }
        data.into()
    }
}

fn repetitive(rng: &mut Rng, data: &mut [u8]) {
    match rng.below(4) {
        0 => {}
        1 => {
            let word = (rng.next_u64() as u32).to_le_bytes();
            data.chunks_exact_mut(4).for_each(|place| place.copy_from_slice(&word));
        }
        2 => data.fill(rng.pick(&[0x00, 0x55, 0xff])),
        _ => {
            // Zeros except for one block.
            let at = rng.index(data.len() / LBA_LEN) * LBA_LEN;
            rng.fill(&mut data[at..at + LBA_LEN]);
        }
    }
}

fn duplicate(rng: &mut Rng, data: &mut [u8], state: &OracleState, contents: &Contents) {
    match rng.below(6) {
        0 => {
            // Blocks equal to each other and to blocks of other writes.
            let mut block = [0; LBA_LEN];
            Rng::new(rng.below(4)).fill(&mut block);
            data.chunks_exact_mut(LBA_LEN).for_each(|place| place.copy_from_slice(&block));
        }
        1 => {
            for place in data.chunks_mut(BLOCK_LEN) {
                let mut block = [0; BLOCK_LEN];
                Rng::new(rng.below(WELL_KNOWN)).fill(&mut block);
                place.copy_from_slice(&block[..place.len()]);
            }
        }
        2..5 => held(rng, data, state, contents),
        _ => {
            held(rng, data, state, contents);
            // Differs in one bit from existing data: an array that trusts a fingerprint without
            // comparing the bytes returns the wrong block.
            let at = rng.index(data.len());
            data[at] ^= 1 << rng.below(8);
        }
    }
}

/// Copies data from a random volume, most often at the same offset within a 4 KiB block.
fn held(rng: &mut Rng, data: &mut [u8], state: &OracleState, contents: &Contents) {
    let volumes: Vec<&OracleVolume> = state.volumes.values().collect();
    let Some(volume) = (!volumes.is_empty()).then(|| volumes[rng.index(volumes.len())]) else {
        return rng.fill(data);
    };
    let blocks = (data.len() / LBA_LEN) as u64;
    let reach = if rng.percent(70) { volume.blocks.min(128) } else { volume.blocks };
    let mut start = rng.below(reach);
    if rng.percent(85) {
        start -= start % LBAS_PER_BLOCK;
    }
    let range = span(start, blocks.min(volume.blocks - start));
    for (content, place) in volume.read(range).into_iter().zip(data.chunks_exact_mut(LBA_LEN)) {
        place.copy_from_slice(contents.bytes(content));
    }
}

/// Generates random bytes diluted with letters. Compression groups of one to eight blocks shrink to
/// a fraction of their length.
fn compressible(rng: &mut Rng, data: &mut [u8]) {
    rng.fill(data);
    let kept = rng.pick(&[1, 4, 16, 64, 200]);
    let period = rng.pick(&[256, 512, 1024, 4096]);
    let shift = rng.index(period);
    for (index, byte) in data.iter_mut().enumerate() {
        if (index + shift) % period >= kept {
            *byte = b'a' + (index / period % 3) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use types::VolumeId;

    #[test]
    fn duplicate_data_comes_from_the_array() {
        let (mut state, mut contents) = (OracleState::default(), Contents::default());
        let mut block = [0; LBA_LEN];
        Rng::new(99).fill(&mut block);
        let name = contents.id_of(&block);
        let mut volume = OracleVolume::new(64);
        volume.fill(span(0, 64), name);
        state.volumes.insert(VolumeId(1), volume);
        let content_mix = ContentMix { repetitive: 0, duplicate: 100, compressible: 0 };
        let mut rng = Rng::new(1);
        let (mut same, mut near) = (0, 0);
        for _ in 0..400 {
            let data = content_mix.data(&mut rng, 8, &state, &contents);
            let differing: u32 = data.iter().zip(block.iter().cycle()).map(|(a, b)| (a ^ b).count_ones()).sum();
            same += u32::from(differing == 0);
            near += u32::from(differing == 1);
        }
        assert!(same > 50 && near > 20, "{same} equal, {near} nearly");
        assert_ne!(name, Content::ZERO);
    }

    #[test]
    fn generated_data_has_the_requested_length() {
        let (state, contents) = (OracleState::default(), Contents::default());
        for content_mix in [(100, 0, 0), (0, 100, 0), (0, 0, 100), (0, 0, 0)] {
            let content_mix =
                ContentMix { repetitive: content_mix.0, duplicate: content_mix.1, compressible: content_mix.2 };
            let mut rng = Rng::new(3);
            assert!(
                (1..50)
                    .all(|blocks| content_mix.data(&mut rng, blocks, &state, &contents).len()
                        == blocks as usize * LBA_LEN)
            );
        }
    }
}
