use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64, u64, bool),
    Remove(u64, u64),
    SetWritten(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        // Few positions, so that runs are often adjacent.
        (0u64..32, 1u64..9, 0u64..6, any::<bool>()).prop_map(|(at, n, lane, w)| Step::Insert(at, n, lane, w)),
        (0u64..32, 1u64..9).prop_map(|(at, n)| Step::Remove(at, n)),
        (0u64..32, 1u64..9).prop_map(|(at, n)| Step::SetWritten(at, n)),
    ]
}

#[test]
fn adjacent_blocks_merge_into_one_run() {
    let mut map = BlockMap::new(2048);
    for block in (0..64).rev() {
        map.insert(block, 1, 4096 + block * 2048, State::ToBeZeroed);
    }
    map.set_written(0..64);
    assert_eq!(map.pieces(0..64), [Piece { first: 0, blocks: 64, place: Some((4096, State::Written)) }]);
    assert_eq!(map.runs.len(), 1);
}

proptest! {
    #[test]
    fn run_map_matches_a_map_of_single_blocks(steps in proptest::collection::vec(step(), 0..60)) {
        let mut map = BlockMap::new(8);
        let mut model = vec![None; 48];
        for step in steps {
            match step {
                Step::Insert(at, count, lane, written) => {
                    let state = if written { State::Written } else { State::ToBeZeroed };
                    map.insert(at, count, (lane * 1000 + at) * 8, state);
                    for block in at..at + count {
                        model[block as usize] = Some(((lane * 1000 + block) * 8, state));
                    }
                }
                Step::Remove(at, count) => {
                    let freed = map.remove(at..at + count);
                    let gone = model[at as usize..(at + count) as usize].iter().flatten().count() as u64;
                    prop_assert_eq!(freed.iter().map(|(_, blocks)| blocks / 8).sum::<u64>(), gone);
                    model[at as usize..(at + count) as usize].fill(None);
                }
                Step::SetWritten(at, count) => {
                    for (_, state) in model[at as usize..(at + count) as usize].iter_mut().flatten() {
                        *state = State::Written;
                    }
                    map.set_written(at..at + count);
                }
            }
            let mut seen = Vec::new();
            for piece in map.pieces(0..48) {
                seen.extend((0..piece.blocks).map(|i| piece.place.map(|(lba, state)| (lba + i * 8, state))));
            }
            prop_assert_eq!(&seen, &model);
            let part = map.pieces(5..17);
            prop_assert_eq!(part.iter().map(|piece| piece.blocks).sum::<u64>(), 12);
        }
        let allocated = model.iter().flatten().count() as u64;
        prop_assert_eq!(map.count().0, allocated);
    }
}
