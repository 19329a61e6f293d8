//! The write cache: which replies wait for the log, its memory, and losses in a crash.

use super::*;

/// Returns the replies of the core before any of its I/O completes.
fn answers(core: &mut Core) -> Vec<Tag> {
    let mut actions = Vec::new();
    core.poll(&mut actions);
    let tags = actions.iter().filter_map(|action| match action {
        Action::Complete { tag, result: Ok(_) } => Some(*tag),
        _ => None,
    });
    let tags = tags.collect();
    core.dispatcher.requeue(actions.into_iter().filter(|action| !matches!(action, Action::Complete { .. })));
    tags
}

fn with_write_cache() -> Bench {
    let mut bench = Bench::new();
    bench.options.write_cache = true;
    bench.restart();
    bench
}

fn write(lba: u64, seed: u64, fua: bool) -> Op {
    Op::Write { volume: V1, lba: Lba(lba), data: data(seed, 8), fua }
}

/// Opens the array as it is on the drive, and checks the first 4 KiB at each LBA.
fn expect_after_crash(bench: &mut Bench, expected: &[(u64, Bytes)]) {
    (bench.core, _) = Core::recover(&bench.disk, Some(bench.options)).unwrap();
    for (lba, held) in expected {
        bench.core.submit(Op::Read { volume: V1, range: range(*lba, 8) }, 2000 + lba);
        assert_eq!(bench.settle(2000 + lba), Some(Ok(Reply::Data(held.clone()))), "LBA {lba}");
    }
}

#[test]
fn write_cache_acknowledges_before_flush() {
    let mut bench = with_write_cache();
    bench.core.submit(write(0, 1, false), 1001);
    assert_eq!(answers(&mut bench.core), [1001], "write is acknowledged from memory");
    bench.core.submit(Op::Flush, 1002);
    assert_eq!(answers(&mut bench.core), [0; 0], "flush waits for the log");
    assert_eq!(bench.settle(1002), Some(Ok(Reply::Done)));
    bench.core.submit(write(8, 2, true), 1003);
    assert_eq!(answers(&mut bench.core), [0; 0], "FUA write waits for the log");
    assert_eq!(bench.settle(1003), Some(Ok(Reply::Done)));
    bench.core.submit(write(16, 3, false), 1004);
    assert_eq!(answers(&mut bench.core), [1004]);
    // Power fails: only writes that were neither flushed nor forced may be lost.
    expect_after_crash(&mut bench, &[(0, data(1, 8)), (8, data(2, 8)), (16, Bytes::from(vec![0; 4096]))]);
}

/// Power fails right after the reply: the write of the lock and the write before it survive.
#[test]
fn locks_survive_a_crash_with_write_cache() {
    let mut bench = with_write_cache();
    let zeros = Bytes::from(vec![0; 4096]);
    let (compare, bits) = (data(1, 8), Bytes::from(vec![0x0F; 4096]));
    let lock = Op::CompareAndWrite { volume: V1, lba: Lba(0), compare, write: data(2, 8) };
    let set = Op::Or { volume: V1, lba: Lba(8), data: bits.clone() };
    for (tag, op, expected) in [(1, lock, [data(2, 8), zeros]), (2, set, [data(2, 8), bits])] {
        bench.core.submit(write(0, 1, false), 1000 + tag);
        if tag == 2 {
            bench.core.submit(write(0, 2, false), 1100);
        }
        assert!(answers(&mut bench.core).contains(&(1000 + tag)), "the write before it is cached");
        bench.core.submit(op, tag);
        assert_eq!(answers(&mut bench.core), [0; 0], "the reply waits for the log");
        let mut steps = 0;
        while !answers(&mut bench.core).contains(&tag) {
            step(&mut bench);
            steps += 1;
            assert!(steps < 100, "operation {tag} has no reply");
        }
        expect_after_crash(&mut bench, &[(0, expected[0].clone()), (8, expected[1].clone())]);
    }
}

/// Kicks the log, and executes the queued actions of the core.
fn step(bench: &mut Bench) {
    bench.core.kick();
    let mut actions = Vec::new();
    bench.core.poll(&mut actions);
    for action in actions {
        match action {
            Action::Io { id, io } => bench.core.io_done(id, perform(&bench.disk, &io)),
            Action::Fetch { id, plan } => bench.core.fetched(id, plan.execute(&bench.disk)),
            Action::Work { id, work } => bench.core.worked(id, work.perform(&bench.disk)),
            Action::Complete { .. } | Action::Read(_) => {}
        }
    }
}

/// The log does not complete a write. A host overwrites the same 64 KiB, so that dirty blocks
/// alone would limit nothing: the log keeps the bytes of every write.
#[test]
fn write_cache_holds_a_bounded_part_of_memory() {
    let mut bench = with_write_cache();
    bench.options.dirty_limit = 1 << 20;
    bench.options.page_budget = 64 << 20;
    bench.restart();
    let (writes, bytes) = (6, 64 << 10);
    let mut answered = 0;
    for tag in 0..writes {
        bench.core.submit(Op::Write { volume: V1, lba: Lba(0), data: data(tag, 128), fua: false }, 1000 + tag);
        bench.core.kick();
        answered += answers(&mut bench.core).len() as u64;
    }
    assert!((2..=4).contains(&answered), "{answered} writes of {bytes} bytes are cached: a quarter of 1 MiB");
    for tag in writes..40 {
        bench.core.submit(Op::Write { volume: V1, lba: Lba(2048), data: data(tag, 128), fua: false }, 1000 + tag);
        bench.core.kick();
        assert_eq!(answers(&mut bench.core), [0; 0], "the cache is full");
        assert!(bench.core.log.unflushed() + bench.core.destager.dirty.bytes() <= 1 << 20);
    }
    bench.core.submit(Op::Flush, 5000);
    assert_eq!(bench.settle(5000), Some(Ok(Reply::Done)));
    assert_eq!(bench.core.log.unflushed(), 0);
    assert_eq!(bench.core.scheduler.next_runnable(), None);
    bench.core.submit(Op::Read { volume: V1, range: range(2048, 128) }, 5001);
    assert_eq!(bench.settle(5001), Some(Ok(Reply::Data(data(39, 128)))), "no write is lost");
}
