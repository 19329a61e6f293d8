//! Work in flight while the generation of its slot comes back.

use super::*;
use crate::machine::io::Io;
use blockmap::{GENERATION_MASK, RefTarget, SlotId};

/// Returns `blocks` blocks of 4 KiB, each compressible and different.
fn packed(seed: u64, blocks: u64) -> Bytes {
    (0..blocks).flat_map(|block| testing::noise(seed * 100 + block, 512).repeat(8)).collect::<Vec<u8>>().into()
}

/// Returns the slot of the first block of volume 1.
fn slot(core: &mut Core) -> SlotId {
    let root = core.state.root(V1).unwrap();
    let mut found = None;
    core.state.map.visit(&root, 0, 1, &mut |_, _, reference| found = Some(reference));
    match found.map(blockmap::Ref::target) {
        Some(RefTarget::Data(id)) => id,
        other => panic!("no block of data: {other:?}"),
    }
}

/// Executes the actions of the core, except those that `is_held` names, which it returns.
fn run(bench: &mut Bench, is_held: fn(&Action) -> bool) -> Vec<Action> {
    let mut held = Vec::new();
    loop {
        bench.core.kick();
        let mut actions = Vec::new();
        bench.core.poll(&mut actions);
        if actions.is_empty() {
            return held;
        }
        for action in actions {
            match action {
                action if is_held(&action) => held.push(action),
                Action::Io { id, io } => bench.core.io_done(id, perform(&bench.disk, &io)),
                Action::Work { id, work } => bench.core.worked(id, work.perform(&bench.disk)),
                Action::Fetch { .. } | Action::Read(_) | Action::Complete { .. } => {}
            }
        }
    }
}

fn is_chunk(action: &Action) -> bool {
    matches!(action, Action::Io { io: Io::Write { durability: Durability::Volatile, .. }, .. })
}

fn is_work(action: &Action) -> bool {
    matches!(action, Action::Work { .. })
}

/// Writes the first block and three others, which are enough to begin destage.
fn write(bench: &mut Bench, seed: u64) {
    bench.core.submit(Op::Write { volume: V1, lba: Lba(0), data: packed(seed, 1), fua: false }, seed);
    bench.core.submit(Op::Write { volume: V1, lba: Lba(seed * 80), data: packed(seed + 50, 3), fua: false }, 10 + seed);
    assert_eq!(run(bench, |_| false).len(), 0);
}

fn destage(bench: &mut Bench) {
    bench.core.space.backpressure.memory = true;
    bench.core.destage();
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.options.dirty_limit = 64 << 10;
    bench.restart();
    bench
}

/// Overwrites the first block 32 768 times, about: uses its old slot until the slot has its old
/// generation, then writes the block with this slot.
fn wrap(bench: &mut Bench, old: SlotId, seed: u64) {
    bench.core.submit(Op::Write { volume: V1, lba: Lba(0), data: packed(99, 1), fua: false }, 99);
    run(bench, is_work);
    let slots = &mut bench.core.state.map.slots;
    loop {
        let used = slots.allocate();
        assert_eq!(used.slot, old.slot);
        slots.free(used);
        if (used.generation + 1) & GENERATION_MASK == old.generation {
            break;
        }
    }
    write(bench, seed);
    assert_eq!(slot(&mut bench.core), old, "the same slot and generation");
}

fn expect_first_block(bench: &mut Bench, seed: u64) {
    bench.core.submit(Op::Read { volume: V1, range: range(0, 8) }, 5000 + seed);
    assert_eq!(bench.settle(5000 + seed), Some(Ok(Reply::Data(packed(seed, 1)))));
}

#[test]
fn write_in_flight_survives_a_generation_wrap() {
    let mut bench = bench();
    write(&mut bench, 1);
    let old = slot(&mut bench.core);
    destage(&mut bench);
    run(&mut bench, |_| false);
    destage(&mut bench);
    let first = run(&mut bench, is_chunk);
    assert_eq!(first.len(), 1);
    wrap(&mut bench, old, 2);
    destage(&mut bench);
    run(&mut bench, |_| false);
    destage(&mut bench);
    let second = run(&mut bench, is_chunk);
    assert_eq!(second.len(), 1);
    // The chunk with the old block is written; the one with the new block is not.
    bench.core.dispatcher.requeue(first.into_iter());
    run(&mut bench, |_| false);
    bench.core.submit(Op::Read { volume: V1, range: range(0, 8) }, 4000);
    let mut actions = Vec::new();
    bench.core.poll(&mut actions);
    let answer = actions.into_iter().find_map(|action| match action {
        Action::Complete { tag: 4000, result } => Some(result),
        Action::Read(plan) => Some(plan.execute(&bench.disk)),
        _ => None,
    });
    assert_eq!(answer, Some(Ok(Reply::Data(packed(2, 1)))));
    bench.core.dispatcher.requeue(second.into_iter());
    run(&mut bench, |_| false);
    expect_first_block(&mut bench, 2);
}

#[test]
fn batch_in_flight_survives_a_generation_wrap() {
    let mut bench = bench();
    write(&mut bench, 1);
    let old = slot(&mut bench.core);
    // Fingerprints are taken; comparison and compression are in flight.
    let begin = |bench: &mut Bench| {
        destage(bench);
        for action in run(bench, is_work) {
            let Action::Work { id, work } = action else { panic!("not work") };
            let done = work.perform(&bench.disk);
            bench.core.worked(id, done);
        }
        run(bench, is_work)
    };
    let first = begin(&mut bench);
    assert_eq!(first.len(), 1);
    wrap(&mut bench, old, 2);
    let second = begin(&mut bench);
    assert_eq!(second.len(), 1);
    bench.core.dispatcher.requeue(first.into_iter().chain(second));
    run(&mut bench, |_| false);
    bench.core.request_checkpoint();
    bench.settle(0);
    (bench.core, _) = Core::recover(&bench.disk, Some(bench.options)).unwrap();
    expect_first_block(&mut bench, 2);
}
