//! Ageing: overwrites that do not add data are never refused, however long they continue.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{create, data, run, settle};
use engine::{Change, Core, Op, OpError, Options, Usage};
use ondisk::ArrayGeometry;
use testing::Rng;
use types::{Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 64 << 20, log_bytes: 2 << 20, segment_bytes: 256 << 10 };
const OLD: VolumeId = VolumeId(1);
/// Logical blocks in a write.
const PIECE: u64 = 32;

/// Fills the array to `percent_full` with incompressible data, then overwrites it `times` times in
/// random pieces, many at a time. The stored data does not grow, so no write may be refused.
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
fn overwrites_at_70_percent_full_are_not_refused() {
    overwritten(70, 8, 256 << 20);
}

/// With log, reserve, metadata and summaries almost no space is free, so each cleaned segment
/// yields little.
#[test]
fn overwrites_at_97_percent_full_are_not_refused() {
    overwritten(80, 2, 256 << 20);
}

/// The slots of overwritten and relocated blocks are on the drive: they are read, and do not
/// accumulate in memory.
#[test]
fn overwrites_with_paged_metadata_are_not_refused() {
    overwritten(70, 2, 0);
}
