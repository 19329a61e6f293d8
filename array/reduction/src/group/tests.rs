use super::*;
use proptest::prelude::*;
use testing::noise;

/// Creates a block with `random` random bytes; the others are one letter.
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
    let group = pack(&[Bytes::from_static(&[b'x'; BLOCK_LEN])], &mut Scratch::default()).unwrap();
    assert_eq!(group.len(), 512);
    // One literal, a match of 4089 bytes at distance 1 (15 + 15 × 255 + 245 + the minimum of 4),
    // six literals.
    let mut expected = vec![1, 1, 35, 0, 0, 0, 0, 0, 0x1F, b'x', 1, 0];
    expected.extend([255; 15]);
    expected.extend([245, 0x60, b'x', b'x', b'x', b'x', b'x', b'x']);
    expected.resize(512, 0);
    assert_eq!(group[..], expected[..]);
}

#[test]
fn group_that_saves_no_sector_is_not_packed() {
    let mut scratch = Scratch::default();
    assert_eq!(pack(&[noise(1, BLOCK_LEN).into()], &mut scratch), None);
    assert_eq!(pack_dense(&[noise(1, BLOCK_LEN).into()], &mut scratch), None);
    assert_eq!(pack(&[block(1, 4000)], &mut scratch), None);
    let group = pack(&[block(1, 3400)], &mut scratch).unwrap();
    assert_eq!(group.len(), 7 * 512);
    assert!(is_packed(1, 7) && !is_packed(1, 8));
}

#[test]
fn full_group_of_random_data_fits_the_scratch() {
    let mut scratch = Scratch::default();
    // The last block is compressible, so that the probe accepts the group.
    let blocks: Vec<Bytes> = (0..8).map(|seed| block(seed, if seed == 7 { 100 } else { BLOCK_LEN })).collect();
    for group in [pack(&blocks, &mut scratch).unwrap(), pack_dense(&blocks, &mut scratch).unwrap()] {
        assert_eq!(unpack(&group, 8).unwrap(), joined(&blocks));
        assert_eq!(unpack(&group, 7), Err(DamagedGroup::Header));
        assert_eq!(unpack(&group[..group.len() - 600], 8), Err(DamagedGroup::Header));
    }
}

#[test]
fn damaged_group_headers_are_refused() {
    let blocks = [block(1, 500), block(2, 500)];
    let group = pack(&blocks, &mut Scratch::default()).unwrap();
    for at in 0..GROUP_HEADER_BYTES {
        for bit in 0..8 {
            let mut damaged = group.to_vec();
            damaged[at] ^= 1 << bit;
            assert!(unpack(&damaged, 2).is_err(), "bit {bit} of byte {at}");
        }
    }
    for blocks in [0, 1, 9, usize::MAX] {
        assert_eq!(unpack(&group, blocks), Err(DamagedGroup::Header));
    }
}

proptest! {
    #[test]
    fn groups_round_trip(parts in prop::collection::vec((any::<u64>(), 0..=BLOCK_LEN), 1..=MAX_GROUP_BLOCKS), is_dense: bool) {
        let blocks: Vec<Bytes> = parts.iter().map(|(seed, random)| block(*seed, *random)).collect();
        let mut scratch = Scratch::default();
        let packed = if is_dense { pack_dense(&blocks, &mut scratch) } else { pack(&blocks, &mut scratch) };
        if let Some(group) = packed {
            prop_assert!(group.len() % SECTOR_LEN == 0 && is_packed(blocks.len(), group.len() / SECTOR_LEN));
            prop_assert_eq!(unpack(&group, blocks.len()).unwrap(), joined(&blocks));
        } else {
            prop_assert!(parts.iter().any(|(_, random)| *random > 3000));
        }
    }

    #[test]
    fn arbitrary_group_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..700), codec in 0..4u8, blocks in 0..10u8) {
        if bytes.len() >= GROUP_HEADER_BYTES {
            let length = (bytes.len() as u16).to_le_bytes();
            bytes[..GROUP_HEADER_BYTES].copy_from_slice(&[codec, blocks, length[0], length[1], 0, 0, 0, 0]);
        }
        if let Ok(plain) = unpack(&bytes, usize::from(blocks)) {
            prop_assert_eq!(plain.len(), usize::from(blocks) * BLOCK_LEN);
        }
    }

    #[test]
    fn damaged_group_is_read_or_refused(seed: u64, at in 0..4000usize, bit in 0..8u32, is_dense: bool) {
        let blocks = [block(seed, 1000), block(seed ^ 1, 2000)];
        let mut scratch = Scratch::default();
        let group = if is_dense { pack_dense(&blocks, &mut scratch) } else { pack(&blocks, &mut scratch) };
        let mut damaged = group.unwrap().to_vec();
        let at = at % damaged.len();
        damaged[at] ^= 1 << bit;
        if let Ok(plain) = unpack(&damaged, 2) {
            prop_assert_eq!(plain.len(), 2 * BLOCK_LEN);
        }
    }
}

#[test]
fn group_has_at_least_one_sector_per_block() {
    let mut scratch = Scratch::default();
    for blocks in 1..=MAX_GROUP_BLOCKS {
        // One repeated byte with few exceptions, which compresses to at most a hundred bytes.
        let block = |seed: usize| {
            let mut block = vec![b'x'; BLOCK_LEN];
            block[seed] = b'y';
            Bytes::from(block)
        };
        let plain: Vec<Bytes> = (0..blocks).map(block).collect();
        for group in [pack(&plain, &mut scratch).unwrap(), pack_dense(&plain, &mut scratch).unwrap()] {
            assert_eq!(group.len(), blocks * SECTOR_LEN);
            assert_eq!(unpack(&group, blocks).unwrap(), plain.concat());
        }
    }
}
