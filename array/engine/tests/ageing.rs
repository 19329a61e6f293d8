//! An old array: what overwrites what is there already finds room, however long it goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{create, data, run, settle};
use engine::{Change, Core, Op, OpError, Options, Usage};
use ondisk::ArrayGeometry;
use testing::Rng;
use types::{Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 2 << 20, segment_bytes: 256 << 10 };
const OLD: VolumeId = VolumeId(1);
/// Blocks of 512 bytes in a write.
const PIECE: u64 = 32;

/// So full of what cannot be reduced, overwritten so often by the like in pieces at random, many at a time. Nothing grows, so nothing may
/// be refused.
fn overwritten(percent_full: u64, times: u64, page_budget: u64) {
    let (disk, _) = create(GEOMETRY);
    let options = Options { page_budget, ..Options::for_geometry(&GEOMETRY) };
    let (mut core, _) = Core::recover(&disk, Some(options)).unwrap();
    let blocks = GEOMETRY.capacity / 512 * percent_full / 100 / PIECE * PIECE;
    run(&mut core, &disk, Op::Change(vec![Change::CreateVolume { volume: OLD, blocks }])).unwrap();
    for lba in (0..blocks).step_by(PIECE as usize) {
        run(&mut core, &disk, Op::Write { volume: OLD, lba: Lba(lba), data: data(lba, PIECE), fua: false }).unwrap();
    }
    let (mut rng, mut seed) = (Rng::new(1), blocks);
    for round in 0..times * blocks / PIECE / 64 {
        for tag in 0..64 {
            let lba = rng.below(blocks / PIECE) * PIECE;
            seed += 1;
            core.submit(Op::Write { volume: OLD, lba: Lba(lba), data: data(seed, PIECE), fua: false }, tag);
        }
        let answers = settle(&mut core, &disk);
        assert_eq!(answers.len(), 64);
        let refused = answers.values().filter(|answer| **answer == Err(OpError::NoSpace)).count();
        assert_eq!(
            refused,
            0,
            "in round {round}: {:?}, {:?}, {} segments cleaned",
            core.usage(),
            core.space(),
            core.segments_cleaned()
        );
    }
    core.audit(&disk).unwrap();
    core.request_checkpoint();
    settle(&mut core, &disk);
    let Usage { pages, slots, .. } = core.usage();
    assert_eq!(pages + slots < 256 << 10, page_budget == 0, "{pages} and {slots} bytes");
}

#[test]
fn random_overwrites_of_an_array_that_is_70_percent_full_are_never_refused() {
    overwritten(70, 8, 256 << 20);
}

/// With the log, the reserve, the metadata and the summaries, hardly anything is free: every segment that is cleaned gives little.
#[test]
fn nor_are_those_of_one_that_holds_all_but_a_few_percent_of_what_it_can() {
    overwritten(80, 2, 256 << 20);
}

/// What is overwritten and moved has its slots on the drive: they are read, and they do not pile up in memory.
#[test]
fn nor_are_those_of_one_whose_map_and_slots_do_not_fit_in_memory() {
    overwritten(70, 2, 0);
}
