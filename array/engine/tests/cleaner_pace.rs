//! The cleaner continues without a rest, because hosts wait for it in a full pool.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::{Answers, MemoryDisk, carry_out, create, data};
use engine::{Change, Core, Op};
use ondisk::ArrayGeometry;
use testing::Rng;
use types::{Lba, VolumeId};

const GEOMETRY: ArrayGeometry = ArrayGeometry { capacity: 256 << 20, log_bytes: 4 << 20, segment_bytes: 2 << 20 };
const VOLUME: VolumeId = VolumeId(1);

/// Runs the core as its background thread does, with actions that end at once, until it has no
/// work left. Returns how often the thread would have rested although there was work.
fn rests(core: &mut Core, disk: &MemoryDisk) -> u64 {
    let mut rests = 0;
    loop {
        core.tick();
        core.kick();
        let continues = core.must_tick_again();
        carry_out(core, disk, &mut Answers::new());
        if !continues && !core.wants_tick() && !core.has_actions() {
            return rests;
        }
        rests += u64::from(!continues);
    }
}

#[test]
fn cleaner_relocates_a_segment_without_rests() {
    let (disk, mut core) = create(GEOMETRY);
    let blocks = core.space().capacity / 10 * 8 / 4096 * 8;
    core.submit(Op::Change(vec![Change::CreateVolume { volume: VOLUME, blocks }]), 0);
    let (mut total, mut rng) = (rests(&mut core, &disk), Rng::new(1));
    for round in 0..3 * blocks / 8 {
        let block = if round < blocks / 8 { round } else { rng.below(blocks / 8) };
        core.submit(Op::Write { volume: VOLUME, lba: Lba(block * 8), data: data(round, 8), fua: false }, round);
        total += rests(&mut core, &disk);
    }
    let cleaned = core.segments_cleaned();
    assert!(cleaned > 20, "{cleaned} segments were cleaned");
    assert!(total < cleaned, "{total} rests while {cleaned} segments were cleaned");
}
