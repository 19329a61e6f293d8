//! Long requests about deltas: others run between their steps.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::served::{Served, array, range, serving, stream, volume};
use common::{Answers, carry_out, run, settle};
use engine::{DeltaMode, DeltaOp, Gate, MAX_DELTA_RANGES, NewPeriod, Op, OpError, Reply, Role};
use types::{BlockRange, Lba, Period};

/// Most records of a request about deltas before others run.
const TURN: u64 = 5;

/// Every second block of a volume.
fn scattered(count: u64) -> Vec<BlockRange> {
    (0..count).map(|number| range(number * 16, 8)).collect()
}

/// Ticks until a request is answered. A read that arrives in between is answered at once.
fn serve_between(pair: &mut Served, tag: u64) -> u64 {
    let mut answers = Answers::new();
    for ticks in 0..1000 {
        carry_out(&mut pair.core, &pair.disk, &mut answers);
        if let Some(answer) = answers.remove(&tag) {
            assert_eq!(answer, Ok(Reply::Done));
            assert!(!pair.core.wants_tick());
            return ticks;
        }
        pair.core.submit(Op::Read { volume: volume(1), range: range(0, 8) }, 1 << 32);
        carry_out(&mut pair.core, &pair.disk, &mut answers);
        assert!(matches!(answers.remove(&(1 << 32)), Some(Ok(Reply::Data(_)))));
        let before = pair.core.usage().last.0;
        pair.core.tick();
        pair.core.kick();
        assert!(pair.core.usage().last.0 - before <= TURN, "one turn for a tick");
    }
    panic!("no answer");
}

/// An array after the first turn of request 7, which adds a long tail to the deltas.
fn adding_a_tail() -> Served {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    // The tail lists a range for each 2 KiB of the log: 512.
    (0..2).for_each(|_| pair.run(Op::Unmap { volume: volume(2), ranges: scattered(250) }));
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let before = pair.core.usage().last.0;
    pair.core.submit(Op::Delta(DeltaOp::AddTail { stream: stream(), period: Period(pair.period) }), 7);
    assert!(pair.core.usage().last.0 - before <= TURN && pair.core.must_tick_again());
    pair
}

#[test]
fn long_tail_enters_in_turns() {
    let mut pair = adding_a_tail();
    pair.core.submit(Op::Zero { volume: volume(1), range: range(8, 8) }, 8);
    let ticks = serve_between(&mut pair, 7);
    assert!(ticks >= 3, "{ticks}");
    assert!(!pair.core.stream_status(stream()).unwrap().awaits_tail);
    let answers = settle(&mut pair.core, &pair.disk);
    assert!(answers.is_empty(), "the change was answered with the tail: {answers:?}");
    assert_eq!((pair.delta(1), pair.delta(2).len()), (vec![(8, 8)], 250));
}

#[test]
fn another_period_ends_a_tail_between_turns() {
    let mut pair = adding_a_tail();
    let last = pair.core.stream_status(stream()).unwrap().position;
    let (period, role, gate) = (Period(pair.period + 1), Role::Sequencer, Gate::Local);
    let new = NewPeriod { period, role, gate, last, max_payload: 1 << 16, delta: DeltaMode::Source };
    pair.core.begin_period(stream(), new).unwrap();
    pair.period += 1;
    let answers = settle(&mut pair.core, &pair.disk);
    assert!(matches!(answers[&7], Err(OpError::Unavailable(_))), "{answers:?}");
    assert!(pair.core.stream_status(stream()).unwrap().awaits_tail);
    pair.add_tail();
    assert!(!pair.core.stream_status(stream()).unwrap().awaits_tail);
}

#[test]
fn many_ranges_of_a_mask_run_in_turns() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(0, 4096)]);
    for (tag, is_added) in [(1, true), (2, false)] {
        let (volume, ranges) = (volume(if is_added { 2 } else { 1 }), scattered(200));
        let op = if is_added {
            DeltaOp::Add { volume, ranges }
        } else {
            DeltaOp::Clear { volume, period: Period(1), ranges }
        };
        let before = pair.core.usage().last.0;
        pair.core.submit(Op::Delta(op), tag);
        assert!(pair.core.usage().last.0 - before <= TURN && pair.core.wants_tick());
        if is_added {
            serve_between(&mut pair, tag);
        } else {
            // It locks its ranges.
            assert_eq!(settle(&mut pair.core, &pair.disk)[&tag], Ok(Reply::Done));
        }
    }
    assert_eq!((pair.delta(1).len(), pair.delta(2).len()), (200, 200));
}

#[test]
fn requests_have_a_limit_of_ranges() {
    let mut pair = serving(DeltaMode::Source);
    let most = vec![range(0, 8); MAX_DELTA_RANGES];
    pair.run(Op::Delta(DeltaOp::Add { volume: volume(1), ranges: most.clone() }));
    let more = [most, vec![range(0, 8)]].concat();
    for op in [
        DeltaOp::Add { volume: volume(1), ranges: more.clone() },
        DeltaOp::Clear { volume: volume(1), period: Period(1), ranges: more },
    ] {
        assert!(matches!(run(&mut pair.core, &pair.disk, Op::Delta(op)), Err(OpError::Malformed(_))));
    }
    let next = DeltaOp::Next { volume: volume(1), from: Lba(0), limit: 8 };
    assert!(run(&mut pair.core, &pair.disk, Op::Delta(next)).is_ok());
}
