//! Deltas that have all blocks of their volume: without a page, so that a full pool or a lost page
//! does not keep blocks out of them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod common;

use common::served::{BLOCKS, GEOMETRY, Served, array, range, serving, stream, volume, whole};
use common::{Answers, create, perform, run, settle};
use engine::{Action, Change, Core, DeltaMode, DeltaOp, Gate, Io, Op, OpError, Options, Reply, Role};
use ondisk::ArrayGeometry;
use platform::DiskError;
use types::{BlockRange, LBAS_PER_BLOCK, Period, VolumeId};

/// Logical blocks of a leaf of the map.
const LEAF: u64 = 2048;

/// Runs a request while no page of the map can be read. The slot table can.
fn run_blind(pair: &mut Served, op: Op) -> Result<Reply, OpError> {
    let mut answers = Answers::new();
    pair.core.submit(op.clone(), 1);
    for _ in 0..1000 {
        let mut actions = Vec::new();
        pair.core.poll(&mut actions);
        for action in actions {
            match action {
                Action::Io { id, io: Io::Read { bytes, .. } } if bytes != blockmap::SLOT_PAGE_BYTES => {
                    pair.core.io_done(id, Err(DiskError::Io("lost".to_owned())));
                }
                Action::Io { id, io } => pair.core.io_done(id, perform(&pair.disk, &io)),
                Action::Complete { tag, result } => drop(answers.insert(tag, result)),
                Action::Read(plan) => drop(answers.insert(plan.tag(), plan.execute(&pair.disk))),
                Action::Fetch { id, plan } => pair.core.fetched(id, plan.execute(&pair.disk)),
                Action::Work { id, work } => pair.core.worked(id, work.perform(&pair.disk)),
            }
        }
        pair.core.kick();
        pair.core.tick();
        if let Some(answer) = answers.remove(&1) {
            return answer;
        }
    }
    panic!("no answer to {op:?}");
}

/// Opens an array from its checkpoint, without a page of the map in memory.
fn reopen_without_pages(pair: &mut Served) {
    pair.core.request_checkpoint();
    settle(&mut pair.core, &pair.disk);
    let options = Options { page_budget: 0, ..Options::for_geometry(&GEOMETRY) };
    pair.core = Core::recover(&pair.disk, Some(options)).unwrap().0;
}

/// An array in whose pool not even a hole finds space, with a tail of three ranges.
fn full_array() -> Served {
    let geometry = ArrayGeometry { capacity: 6 << 20, log_bytes: 512 << 10, segment_bytes: 64 << 10 };
    let (disk, core) = create(geometry);
    let mut pair = Served { disk, core, period: 0 };
    let plain = VolumeId(7);
    pair.run(Op::Change(vec![
        Change::CreateVolume { volume: volume(1), blocks: 64 * LEAF },
        Change::CreateVolume { volume: volume(2), blocks: BLOCKS },
        Change::CreateVolume { volume: plain, blocks: 4096 * LEAF },
    ]));
    pair.core.create_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Off).unwrap();
    pair.run(Op::Unmap { volume: volume(1), ranges: vec![range(8, 8), range(40 * LEAF, 16)] });
    pair.run(Op::Unmap { volume: volume(2), ranges: vec![range(64, 8)] });
    pair.run(Op::Zero { volume: plain, range: range(0, 4096 * LEAF) });
    let hole = |leaf| Op::Unmap { volume: plain, ranges: vec![range(leaf * LEAF, 8)] };
    let full = (0..4096).find(|leaf| run(&mut pair.core, &pair.disk, hole(*leaf)) == Err(OpError::NoSpace));
    full.expect("the pool of 6 MiB is full of pages");
    pair
}

#[test]
fn tail_enters_deltas_of_a_full_pool() {
    let mut pair = full_array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.add_tail();
    assert!(!pair.core.stream_status(stream()).unwrap().awaits_tail, "changes continue");
    let expected = (vec![(0, 64 * LEAF)], vec![(0, BLOCKS)]);
    assert_eq!((pair.delta(1), pair.delta(2)), expected);
    pair.change(Change::DeleteVolume { volume: VolumeId(7) });
    settle(&mut pair.core, &pair.disk);
    pair.reopen();
    assert_eq!((pair.delta(1), pair.delta(2)), expected);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    pair.add_tail();
    pair.change(Change::CopyVolume { source: volume(1), destination: volume(3) });
    assert_eq!(pair.delta(3), [(0, 64 * LEAF)]);
    pair.clear(1, vec![range(0, 40 * LEAF)]);
    assert_eq!(pair.delta(1), [(40 * LEAF, 24 * LEAF)], "with space, it has pages again");
    pair.clear(2, vec![range(0, BLOCKS)]);
    assert_eq!(pair.delta(2), []);
    pair.core.audit(&pair.disk).unwrap();
}

#[test]
fn blocks_of_a_mask_enter_deltas_of_a_full_pool() {
    let mut pair = full_array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    pair.add_tail();
    pair.clear(1, vec![whole()]);
    pair.add(1, &(0..64).map(|leaf| (leaf * LEAF, 8)).collect::<Vec<_>>());
    assert_eq!(pair.delta(1), [(0, 64 * LEAF)]);
}

#[test]
fn tail_enters_a_delta_with_a_lost_page() {
    let mut pair = serving(DeltaMode::Alone);
    pair.write(1, 8, 8);
    pair.write(1, LEAF + 8, 8);
    pair.write(2, 16, 8);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    for (number, lba) in [(2, 64), (1, 64), (1, LEAF + 64), (1, 640)] {
        pair.run(Op::Zero { volume: volume(number), range: range(lba, 8) });
    }
    reopen_without_pages(&mut pair);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let period = Period(pair.period);
    let add = Op::Delta(DeltaOp::AddTail { stream: stream(), period });
    assert_eq!(run_blind(&mut pair, add), Ok(Reply::Done));
    assert_eq!((pair.delta(1), pair.delta(2)), (vec![(0, BLOCKS)], vec![(0, BLOCKS)]));
    pair.reopen();
    assert_eq!((pair.delta(1), pair.delta(2)), (vec![(0, BLOCKS)], vec![(0, BLOCKS)]));
}

#[test]
fn lost_page_of_a_delta_fails_no_change() {
    for mode in [DeltaMode::Alone, DeltaMode::Source] {
        let mut pair = serving(mode);
        pair.add(1, &[(8, 8), (LEAF + 8, 8)]);
        reopen_without_pages(&mut pair);
        pair.begin(Role::Sequencer, Gate::Local, mode).unwrap();
        let period = Period(pair.period);
        let clear = DeltaOp::Clear { volume: volume(1), period, ranges: vec![range(8, 8)] };
        let lost = run_blind(&mut pair, Op::Delta(clear));
        assert!(matches!(lost, Err(OpError::MediumError { .. })), "a removal needs the page: {lost:?}");
        let unmap = Op::Unmap { volume: volume(1), ranges: vec![range(64, 8)] };
        assert_eq!(run_blind(&mut pair, unmap), Ok(Reply::Done), "{mode:?}");
        assert_eq!(pair.delta(1), [(0, BLOCKS)], "{mode:?}");
        pair.reopen();
        assert_eq!(pair.delta(1), [(0, BLOCKS)], "{mode:?}");
    }
}

#[test]
fn changes_of_volumes_need_no_page_of_a_delta() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(8, 8), (LEAF + 8, 8)]);
    reopen_without_pages(&mut pair);
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Source).unwrap();
    let resize = Change::ResizeVolume { volume: volume(1), blocks: LEAF + 64 };
    assert_eq!(run_blind(&mut pair, Op::Change(vec![resize])), Ok(Reply::Done));
    assert_eq!(pair.delta(1), [(0, LEAF + 64)]);
    let listed = |pair: &Served| pair.core.stream_status(stream()).unwrap().tail.unwrap();
    assert_eq!(listed(&pair), [(volume(1), whole())], "the peer may have another size");
    pair.reopen();
    assert_eq!(listed(&pair), [(volume(1), whole())]);
}

#[test]
fn full_delta_follows_every_change() {
    let mut pair = serving(DeltaMode::Source);
    pair.add(1, &[(0, whole().blocks())]);
    pair.run(Op::Zero { volume: volume(1), range: range(9, 6) });
    assert_eq!(pair.delta(1), [(0, BLOCKS)], "a part of a block");
    pair.copy((1, 64), 16, (2, 128));
    assert_eq!(pair.delta(2), [(128, 16)], "from a full one");
    pair.copy((2, 64), 128, (1, 64));
    assert_eq!(pair.delta(1), [(0, BLOCKS)], "a full one keeps what it has");
    pair.run(Op::Unmap { volume: volume(1), ranges: vec![range(8, 8), range(64, 9), range(100, 2)] });
    assert_eq!(pair.delta(1), [(0, 8), (16, 48), (72, BLOCKS - 72)]);
    let listed = |pair: &Served| pair.core.stream_status(stream()).unwrap().tail.unwrap();
    let ranges = [(1, 9, 6), (1, 8, 8), (1, 64, 9)].map(|(number, at, blocks)| (volume(number), range(at, blocks)));
    let is_listed = |pair: &Served| ranges.iter().all(|each| listed(pair).contains(each));
    assert!(is_listed(&pair), "the peer may not have the record that removes them: {:?}", listed(&pair));
    pair.reopen();
    assert!(is_listed(&pair), "{:?}", listed(&pair));
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    pair.add_tail();
    pair.add(2, &[(0, whole().blocks())]);
    pair.write(2, 8, 8);
    pair.change(Change::ResizeVolume { volume: volume(2), blocks: 64 });
    pair.change(Change::ResizeVolume { volume: volume(2), blocks: 3 * BLOCKS });
    assert_eq!(pair.delta(2), [(0, 3 * BLOCKS)]);
    pair.reopen();
    let is_of_second = |(listed, _): &(VolumeId, BlockRange)| *listed == volume(2);
    assert!(!listed(&pair).iter().any(is_of_second), "all is in the deltas");
    pair.core.request_checkpoint();
    settle(&mut pair.core, &pair.disk);
    pair.reopen();
    assert_eq!(pair.delta(2), [(0, 3 * BLOCKS)], "from the checkpoint");
}

#[test]
fn full_delta_takes_no_page() {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, DeltaMode::Alone).unwrap();
    let before = pair.core.usage().pages;
    pair.change(Change::CreateVolume { volume: volume(3), blocks: 100 * LEAF + LBAS_PER_BLOCK });
    pair.run(Op::Unmap { volume: volume(3), ranges: vec![range(50 * LEAF, 8)] });
    assert_eq!(pair.delta(3), [(0, 100 * LEAF + LBAS_PER_BLOCK)]);
    assert_eq!(pair.core.usage().pages, before);
}

#[test]
fn empty_delta_has_no_pages() {
    for mode in [DeltaMode::Alone, DeltaMode::Source] {
        let mut pair = serving(mode);
        let before = pair.core.usage().pages;
        let leaves = [8, LEAF + 8];
        for number in [1, 2] {
            pair.add(number, &leaves.map(|at| (at, 8)));
        }
        assert!(pair.core.usage().pages > before);
        leaves.into_iter().for_each(|at| pair.clear(1, vec![range(at, 8)]));
        if mode == DeltaMode::Source {
            // The first becomes empty by removals, the second by a copy of it and by a new size.
            pair.copy((1, LEAF), LEAF, (2, LEAF));
            pair.change(Change::ResizeVolume { volume: volume(2), blocks: 8 });
        } else {
            pair.clear(2, leaves.map(|at| range(at, 8)).to_vec());
        }
        settle(&mut pair.core, &pair.disk);
        assert_eq!((pair.delta(1), pair.delta(2)), (vec![], vec![]));
        assert_eq!(pair.core.usage().pages, before, "{mode:?}");
        pair.core.audit(&pair.disk).unwrap();
        pair.reopen();
        settle(&mut pair.core, &pair.disk);
        assert_eq!((pair.core.usage().pages, pair.delta(1)), (before, vec![]), "{mode:?}");
    }
}
