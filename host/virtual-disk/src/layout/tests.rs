use super::*;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Returns runs for these lengths, with gaps where marked.
fn placed(lengths: &[(bool, u64)], first: u64) -> Vec<Placed> {
    let (mut offset, mut lba, mut runs) = (0, first, Vec::new());
    for (present, mib) in lengths {
        if *present {
            runs.push(Placed { offset, bytes: mib * MIB, lba });
        }
        offset += mib * MIB;
        // The next run is elsewhere.
        lba += (mib * 3 + 5) * 2048;
    }
    runs
}

fn lba_of(runs: &[Placed], offset: u64) -> Option<u64> {
    let run = runs.iter().find(|run| run.offset <= offset && offset < run.end())?;
    Some(run.lba + (offset - run.offset) / 512)
}

#[test]
fn transfers_of_16_mib_use_a_quarter_of_the_commands() {
    let joint = [Joint { offset: 0, bytes: 64 * MIB, source: 0, destination: 1 << 20 }];
    assert_eq!(commands(&joint, 4 * MIB, 1, 512).len(), 16);
    assert_eq!(commands(&joint, 16 * MIB, 1, 512).len(), 4);
}

#[test]
fn scattered_runs_share_a_command() {
    let scattered: Vec<_> =
        (0..8).map(|i| Joint { offset: i * MIB, bytes: MIB, source: i * 9999, destination: i * 2048 }).collect();
    assert_eq!(commands(&scattered, 4 * MIB, 1, 512).len(), 8);
    assert_eq!(commands(&scattered, 4 * MIB, 2, 512).len(), 4);
    assert_eq!(commands(&scattered, 4 * MIB, 64, 512).len(), 2);
}

proptest! {
    #[test]
    fn commands_copy_each_common_block_once(
        source in proptest::collection::vec((any::<bool>(), 1u64..9), 1..10),
        destination in proptest::collection::vec((any::<bool>(), 1u64..9), 1..10),
        transfer in 1u64..6,
        most_runs in 1usize..4,
    ) {
        let (source, destination) = (placed(&source, 2048), placed(&destination, 1 << 30));
        let joints = join(&source, &destination, 512);
        let mut copied = Vec::new();
        for command in commands(&joints, transfer * MIB, most_runs, 512) {
            prop_assert!(command.len() <= most_runs);
            prop_assert!(command.iter().map(|run| run.blocks * 512).sum::<u64>() <= transfer * MIB);
            for run in command {
                copied.extend((0..run.blocks / 2048).map(|i| (run.source + i * 2048, run.destination + i * 2048)));
            }
        }
        let expected: Vec<_> = (0..100)
            .filter_map(|block| Some((lba_of(&source, block * MIB)?, lba_of(&destination, block * MIB)?)))
            .collect();
        prop_assert_eq!(copied, expected);
    }
}
