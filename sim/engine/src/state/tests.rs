use super::*;
use crate::ops::Mix;
use engine::model::Model;
use proptest::prelude::*;
use testing::Rng;

const VOLUME: VolumeId = VolumeId(1);

fn state(blocks: u64) -> OracleState {
    OracleState { volumes: [(VOLUME, OracleVolume::new(blocks))].into(), values: BTreeMap::new() }
}

#[test]
fn fill_across_leaves_changes_only_its_range() {
    let mut volume = OracleVolume::new(4 * LEAF_BLOCKS);
    volume.fill(span(LEAF_BLOCKS - 1, LEAF_BLOCKS + 2), Content::ZERO);
    let mapped: Vec<u64> = (0..volume.blocks).filter(|lba| volume.get(*lba) == Content::ZERO).collect();
    assert_eq!(mapped, (LEAF_BLOCKS - 1..2 * LEAF_BLOCKS + 1).collect::<Vec<_>>());
    volume.fill(span(0, 4 * LEAF_BLOCKS), Content::UNMAPPED);
    assert!((0..volume.blocks).all(|lba| volume.get(lba) == Content::UNMAPPED));
}

#[test]
fn shrunk_volume_does_not_regain_its_data() {
    let mut contents = Contents::default();
    let mut state = state(32);
    let data = Op::Write { volume: VOLUME, lba: Lba(8), data: vec![1; 16 * LBA_LEN].into(), fua: false };
    state.apply(&mut contents, &data, None).unwrap();
    for blocks in [16, 32] {
        state.apply(&mut contents, &Op::Change(vec![Change::ResizeVolume { volume: VOLUME, blocks }]), None).unwrap();
    }
    let held = state.volumes[&VOLUME].read(span(8, 16));
    assert_eq!(held[..8], [contents.id_of(&[1; LBA_LEN]); 8]);
    assert_eq!(held[8..], [Content::UNMAPPED; 8]);
}

#[test]
fn wrong_read_reply_is_rejected() {
    let mut contents = Contents::default();
    let data = contents.ids_of(&[[1; LBA_LEN], [2; LBA_LEN]].concat());
    let expected = Ok(Expected::Data(data));
    let answer = |first: u8, second: u8| Ok(Reply::Data([[first; LBA_LEN], [second; LBA_LEN]].concat().into()));
    assert_eq!(check_answer(&mut contents, &expected, &answer(1, 2)), Ok(()));
    assert!(check_answer(&mut contents, &expected, &answer(1, 3)).is_err());
    assert!(check_answer(&mut contents, &expected, &Ok(Reply::Data(vec![1; LBA_LEN].into()))).is_err());
    assert!(check_answer(&mut contents, &expected, &Err(OpError::NoSpace)).is_err());
}

#[test]
fn incomplete_or_wrong_extents_are_rejected() {
    let mut contents = Contents::default();
    let data = contents.id_of(&[1; LBA_LEN]);
    let held = [data, data, Content::UNMAPPED, Content::UNMAPPED];
    let expected = Ok(Expected::Extents { held: held.to_vec(), limit: 8 });
    let mapped = |start, blocks| Extent { range: span(start, blocks), state: ExtentState::Mapped };
    let free = |start, blocks| Extent { range: span(start, blocks), state: ExtentState::Deallocated };
    let mut check_answer =
        |extents: &[Extent]| check_answer(&mut contents, &expected, &Ok(Reply::Extents(extents.to_vec()))).is_ok();
    assert!(check_answer(&[mapped(0, 2), free(2, 2)]));
    assert!(check_answer(&[mapped(0, 4)]), "the array maps in larger units");
    assert!(!check_answer(&[mapped(0, 1), free(1, 3)]), "data is mapped");
    assert!(check_answer(&[mapped(0, 2)]), "the rest is for another question");
    assert!(!check_answer(&[mapped(0, 2), free(2, 3)]), "only four blocks exist");
    assert!(!check_answer(&[mapped(0, 2), free(3, 1)]), "a gap");
    assert!(!check_answer(&[]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Two independent models agree on every reply and every block.
    #[test]
    fn oracle_matches_the_engine_model(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let mix = Mix::draw(&mut rng, 64, false);
        let (mut contents, mut state, mut model, mut next_volume) = (Contents::default(), OracleState::default(), Model::default(), 0);
        for _ in 0..40 {
            let op = mix.next(&mut rng, &state, &contents, &mut next_volume);
            let reply = model.apply(&op);
            let expected = state.apply(&mut contents, &op, Some(&reply));
            prop_assert_eq!(check_answer(&mut contents, &expected, &reply), Ok(()), "{}", crate::history::describe(&op));
        }
        prop_assert_eq!(state.volumes.keys().collect::<Vec<_>>(), model.volumes.keys().collect::<Vec<_>>());
        prop_assert_eq!(&state.values, &model.values);
        for (id, volume) in &state.volumes {
            let held = &model.volumes[id];
            prop_assert_eq!(volume.blocks, held.blocks);
            let bytes = held.read(span(0, held.blocks));
            let wrong = volume.read(span(0, volume.blocks)).iter().zip(bytes.chunks_exact(LBA_LEN)).position(|(a, b)| contents.bytes(*a)[..] != *b);
            prop_assert_eq!(wrong, None);
        }
    }
}
