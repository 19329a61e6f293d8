use super::*;
use proptest::prelude::*;
use testing::noise;

/// A block of which so many bytes are random and the others one letter.
fn block(seed: u64, random: usize) -> Bytes {
    let mut bytes = vec![b'x'; BLOCK_LEN];
    bytes[..random].copy_from_slice(&noise(seed, random));
    bytes.into()
}

fn joined(blocks: &[Bytes]) -> Vec<u8> {
    blocks.concat()
}

#[test]
fn golden_bytes() {
    let unit = pack(&[Bytes::from_static(&[b'x'; BLOCK_LEN])], &mut Scratch::default()).unwrap();
    assert_eq!(unit.len(), 512);
    // One literal, a match of 4089 at distance 1 (15 + 15 × 255 + 245 + the least of 4), six literals.
    let mut expected = vec![1, 1, 35, 0, 0, 0, 0, 0, 0x1F, b'x', 1, 0];
    expected.extend([255; 15]);
    expected.extend([245, 0x60, b'x', b'x', b'x', b'x', b'x', b'x']);
    expected.resize(512, 0);
    assert_eq!(unit[..], expected[..]);
}

#[test]
fn what_saves_no_sector_is_not_packed() {
    let mut scratch = Scratch::default();
    assert_eq!(pack(&[noise(1, BLOCK_LEN).into()], &mut scratch), None);
    assert_eq!(pack_dense(&[noise(1, BLOCK_LEN).into()], &mut scratch), None);
    assert_eq!(pack(&[block(1, 4000)], &mut scratch), None);
    let unit = pack(&[block(1, 3400)], &mut scratch).unwrap();
    assert_eq!(unit.len(), 7 * 512);
    assert!(is_packed(1, 7) && !is_packed(1, 8));
}

#[test]
fn a_full_unit_of_the_worst_data_fits_the_scratch() {
    let mut scratch = Scratch::default();
    // The last block is compressible, so that the probe lets all of them through.
    let blocks: Vec<Bytes> = (0..8).map(|seed| block(seed, if seed == 7 { 100 } else { BLOCK_LEN })).collect();
    for unit in [pack(&blocks, &mut scratch).unwrap(), pack_dense(&blocks, &mut scratch).unwrap()] {
        assert_eq!(unpack(&unit, 8).unwrap(), joined(&blocks));
        assert_eq!(unpack(&unit, 7), Err(DamagedGroup::Header));
        assert_eq!(unpack(&unit[..unit.len() - 600], 8), Err(DamagedGroup::Header));
    }
}

#[test]
fn every_damaged_header_is_refused() {
    let blocks = [block(1, 500), block(2, 500)];
    let unit = pack(&blocks, &mut Scratch::default()).unwrap();
    for at in 0..GROUP_HEADER_BYTES {
        for bit in 0..8 {
            let mut damaged = unit.to_vec();
            damaged[at] ^= 1 << bit;
            assert!(unpack(&damaged, 2).is_err(), "bit {bit} of byte {at}");
        }
    }
    for blocks in [0, 1, 9, usize::MAX] {
        assert_eq!(unpack(&unit, blocks), Err(DamagedGroup::Header));
    }
}

proptest! {
    #[test]
    fn units_survive_the_round_trip(parts in prop::collection::vec((any::<u64>(), 0..=BLOCK_LEN), 1..=MAX_GROUP_BLOCKS), is_dense: bool) {
        let blocks: Vec<Bytes> = parts.iter().map(|(seed, random)| block(*seed, *random)).collect();
        let mut scratch = Scratch::default();
        let packed = if is_dense { pack_dense(&blocks, &mut scratch) } else { pack(&blocks, &mut scratch) };
        if let Some(unit) = packed {
            prop_assert!(unit.len() % SECTOR_LEN == 0 && is_packed(blocks.len(), unit.len() / SECTOR_LEN));
            prop_assert_eq!(unpack(&unit, blocks.len()).unwrap(), joined(&blocks));
        } else {
            prop_assert!(parts.iter().any(|(_, random)| *random > 3000));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..700), codec in 0..4u8, blocks in 0..10u8) {
        if bytes.len() >= GROUP_HEADER_BYTES {
            let length = (bytes.len() as u16).to_le_bytes();
            bytes[..GROUP_HEADER_BYTES].copy_from_slice(&[codec, blocks, length[0], length[1], 0, 0, 0, 0]);
        }
        if let Ok(plain) = unpack(&bytes, usize::from(blocks)) {
            prop_assert_eq!(plain.len(), usize::from(blocks) * BLOCK_LEN);
        }
    }

    #[test]
    fn a_damaged_unit_is_read_or_refused(seed: u64, at in 0..4000usize, bit in 0..8u32, is_dense: bool) {
        let blocks = [block(seed, 1000), block(seed ^ 1, 2000)];
        let mut scratch = Scratch::default();
        let unit = if is_dense { pack_dense(&blocks, &mut scratch) } else { pack(&blocks, &mut scratch) };
        let mut damaged = unit.unwrap().to_vec();
        let at = at % damaged.len();
        damaged[at] ^= 1 << bit;
        if let Ok(plain) = unpack(&damaged, 2) {
            prop_assert_eq!(plain.len(), 2 * BLOCK_LEN);
        }
    }
}

#[test]
fn every_block_of_a_unit_has_a_sector_to_answer_for() {
    let mut scratch = Scratch::default();
    for blocks in 1..=MAX_GROUP_BLOCKS {
        // The same byte over and over, but for a few: a hundred bytes at most when it is compressed.
        let block = |seed: usize| {
            let mut block = vec![b'x'; BLOCK_LEN];
            block[seed] = b'y';
            Bytes::from(block)
        };
        let plain: Vec<Bytes> = (0..blocks).map(block).collect();
        for unit in [pack(&plain, &mut scratch).unwrap(), pack_dense(&plain, &mut scratch).unwrap()] {
            assert_eq!(unit.len(), blocks * SECTOR_LEN);
            assert_eq!(unpack(&unit, blocks).unwrap(), plain.concat());
        }
    }
}
