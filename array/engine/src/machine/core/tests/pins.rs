//! Pins: readers keep the segments that they read, and no others.

use super::*;
use crate::machine::pool::Phase;

/// Overwrites volume 1 again and again, far more than the pool holds: without the segments that
/// die, the core runs out of space.
fn overwrite(bench: &mut Bench, rounds: u64) {
    for round in 1..=rounds {
        for lba in (0..SIZE - 128).step_by(128) {
            let data = data(round * SIZE + lba, 128);
            bench.both(Op::Write { volume: V1, lba: Lba(lba), data, fua: false });
        }
    }
}

fn filled() -> Bench {
    let mut bench = Bench::new();
    overwrite(&mut bench, 1);
    bench.core.request_checkpoint();
    bench.settle(0);
    bench
}

#[test]
fn pinned_checkpoint_keeps_metadata_and_no_data() {
    let mut bench = filled();
    let pinned = bench.core.pin_checkpoint();
    let data = |core: &Core| {
        let segments = core.space.pool.segments();
        (0..segments.len() as u32).filter(|at| !core.space.pool.is_metadata(*at)).collect::<Vec<_>>()
    };
    let before = data(&bench.core);
    while bench.core.space.pool.coming() < 4 && !pinned.is_revoked() {
        overwrite(&mut bench, 1);
    }
    assert!(!pinned.is_revoked(), "the pool has space for the hosts");
    let held: Vec<u32> = data(&bench.core).into_iter().filter(|at| before.contains(at)).collect();
    let is_dying = |at: &u32| bench.core.space.pool.segments()[*at as usize].phase == Phase::Dying;
    assert!(!held.iter().any(is_dying), "dead segments of data are reused");
    let findings = fsck::FsckFindings::default();
    let checkpoint = fsck::Checkpoint::open(&bench.disk, pinned.superblock.clone(), &findings).unwrap();
    let marked = fsck::audit(&checkpoint, &findings, &|| true);
    assert_eq!(findings.take().0, []);
    assert!(marked.blocks > 800, "the checkpoint is still whole: {marked:?}");
}

/// Hosts wait for no reader of a checkpoint: if they need its segments, it loses them.
#[test]
fn hosts_that_need_space_revoke_a_pinned_checkpoint() {
    let mut bench = filled();
    bench.both(Op::Change(vec![Change::CreateVolume { volume: VolumeId(3), blocks: 1 << 20 }]));
    let pinned = bench.core.pin_checkpoint();
    while bench.core.space.pool.coming() < 4 && !pinned.is_revoked() {
        overwrite(&mut bench, 1);
    }
    for lba in (0..1 << 20).step_by(64) {
        bench.core.submit(Op::Write { volume: VolumeId(3), lba: Lba(lba), data: data(lba, 64), fua: false }, 9);
        if bench.settle(9).expect("a reply") == Err(OpError::NoSpace) {
            break;
        }
    }
    assert!(pinned.is_revoked());
    assert_eq!(bench.core.space.pool.coming(), 0, "all dead segments are free");
    bench.check();
}

#[test]
fn pinned_read_keeps_its_bytes_and_stops_no_write() {
    let mut bench = filled();
    bench.core.submit(Op::Read { volume: V1, range: range(256, 8) }, 77);
    let mut actions = Vec::new();
    bench.core.poll(&mut actions);
    let plan = actions.into_iter().find_map(|action| match action {
        Action::Read(plan) => Some(plan),
        _ => None,
    });
    let plan = plan.expect("a read from the drive");
    let before = plan.execute(&bench.disk);
    overwrite(&mut bench, 12);
    assert_eq!(plan.execute(&bench.disk), before);
    assert_eq!(bench.core.space.pool.coming(), 1, "only the segment that it reads is held");
    drop(plan);
    bench.core.tick();
    assert_eq!(bench.core.space.pool.coming(), 0);
}
