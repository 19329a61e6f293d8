//! A map and slot table larger than their memory: every request completes, in bounded memory.

use super::*;
use crate::machine::io::{Io, perform};
use crate::machine::options::Options;
use crate::machine::pool;
use crate::service::{Change, Op, Tag};
use bytes::Bytes;
use ondisk::ArrayGeometry;
use std::collections::{BTreeSet, VecDeque};
use testing::MemoryDisk;
use types::{BlockRange, Lba, VolumeId};
use wal::{FillValue, LogOp};

const V: VolumeId = VolumeId(1);
const W: VolumeId = VolumeId(2);
/// Leaves of the map that hold blocks. With their pages of the slot table they take about 16 MiB.
const LEAVES: u64 = 2600;
/// Logical blocks that a leaf maps.
const LEAF: u64 = 2048;

/// Returns `blocks` logical blocks, all different.
fn data(seed: u64, blocks: u64) -> Bytes {
    let block = |n: u64| {
        let mut block = [0; 512];
        block[..8].copy_from_slice(&(seed + n).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        block[8..16].copy_from_slice(&(seed + n).to_le_bytes());
        block
    };
    (0..blocks).flat_map(block).collect::<Vec<u8>>().into()
}

fn range(lba: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(lba), blocks).unwrap()
}

/// A core, its drive, and the actions that are not executed yet.
struct Rig {
    disk: MemoryDisk,
    core: Core,
    queue: VecDeque<Action>,
    answered: BTreeSet<Tag>,
    /// Pages of the slot table read so far.
    reads: u64,
    /// Most bytes of pages in memory so far.
    most: u64,
}

impl Rig {
    fn new(geometry: ArrayGeometry, options: Options) -> Self {
        let disk = MemoryDisk::new(geometry.capacity);
        Core::create(&disk, &geometry, [9; 16]).unwrap();
        let (core, _) = Core::recover(&disk, Some(options)).unwrap();
        let mut rig = Self { disk, core, queue: VecDeque::new(), answered: BTreeSet::new(), reads: 0, most: 0 };
        let blocks = (LEAVES + 100) * LEAF;
        rig.run(Op::Change([V, W].map(|volume| Change::CreateVolume { volume, blocks }).to_vec()));
        rig
    }

    /// Writes all leaves, then opens the array again without memory for pages.
    fn written() -> Self {
        let geometry =
            ArrayGeometry { capacity: 4 << 30, log_bytes: 64 << 20, segment_bytes: 4 << 20 }.check().unwrap();
        let options = Options::for_geometry(&geometry);
        let mut rig = Self::new(geometry, options);
        for n in 0..LEAVES / 4 {
            rig.run(Op::Write { volume: V, lba: Lba(n * 4 * LEAF), data: data(n * 8192, 8192), fua: false });
        }
        rig.core.request_checkpoint();
        rig.rest();
        let (core, _) = Core::recover(&rig.disk, Some(Options { page_budget: 0, ..options })).unwrap();
        Self { core, reads: 0, most: 0, ..rig }
    }

    /// Executes the next action. False if there is none.
    fn step(&mut self) -> bool {
        let mut found = Vec::new();
        self.core.poll(&mut found);
        self.queue.extend(found);
        match self.queue.pop_front() {
            None => return false,
            Some(Action::Complete { tag, result }) => {
                assert!(result.is_ok(), "{result:?}");
                self.answered.insert(tag);
            }
            Some(Action::Read(plan)) => {
                plan.execute(&self.disk).unwrap();
                self.answered.insert(plan.tag());
            }
            Some(Action::Fetch { id, plan }) => self.core.fetched(id, plan.execute(&self.disk)),
            Some(Action::Work { id, work }) => self.core.worked(id, work.perform(&self.disk)),
            Some(Action::Io { id, io }) => {
                self.reads += u64::from(matches!(&io, Io::Read { bytes, .. } if *bytes == blockmap::SLOT_PAGE_BYTES));
                self.core.io_done(id, perform(&self.disk, &io));
            }
        }
        self.most = self.most.max(self.core.state.map.pages.bytes() + self.core.state.map.slots.loaded_page_bytes());
        true
    }

    /// Ticks, then executes the next action and all that were queued by then.
    fn go_on(&mut self) {
        self.core.tick();
        self.core.kick();
        self.step();
        self.steps(self.queue.len());
    }

    fn steps(&mut self, most: usize) {
        for _ in 0..most {
            self.step();
        }
    }

    /// Ticks and executes `per_tick` actions, until there are `answers` replies.
    fn until(&mut self, answers: usize, per_tick: usize) {
        for _ in 0..20_000 {
            if self.answered.len() >= answers {
                return;
            }
            self.core.tick();
            self.core.kick();
            self.steps(per_tick);
        }
        panic!("{} of {answers} replies after {} reads", self.answered.len(), self.reads);
    }

    fn run(&mut self, op: Op) {
        self.answered.clear();
        self.core.submit(op, 1);
        self.until(1, 1000);
    }

    fn rest(&mut self) {
        for _ in 0..100_000 {
            self.core.tick();
            self.core.kick();
            if !self.step() && !self.core.wants_tick() {
                return;
            }
        }
        panic!("core does not become idle");
    }
}

#[test]
fn large_unmap_runs_in_steps() {
    let mut rig = Rig::written();
    rig.core.submit(Op::Unmap { volume: V, ranges: (0..LEAVES).map(|n| range(n * LEAF + 8, 8)).collect() }, 7);
    rig.until(1, 16);
    assert!(rig.reads < 2 * LEAVES, "{} reads", rig.reads);
}

#[test]
fn many_concurrent_reads_complete_in_page_budget() {
    let mut rig = Rig::written();
    (0..LEAVES).for_each(|n| rig.core.submit(Op::Read { volume: V, range: range(n * LEAF + 8, 8) }, n));
    rig.until(LEAVES as usize, 16);
    assert!(rig.reads < 4 * LEAVES, "{} reads", rig.reads);
    assert!(rig.most < 12 << 20, "{} bytes of pages in memory", rig.most);
}

#[test]
fn read_completes_with_pinned_pages_over_budget() {
    let mut rig = Rig::written();
    for _ in 0..LEAVES * 256 {
        rig.core.state.map.slots.allocate();
    }
    rig.core.submit(Op::Read { volume: V, range: range(77 * LEAF, 8) }, 7);
    rig.until(1, 1);
}

#[test]
fn copy_within_a_volume_reads_few_slot_pages() {
    let mut rig = Rig::written();
    let copy = Op::Copy { source: V, from: range(5 * LEAF + 8, 8), destination: V, to: Lba(700 * LEAF + 16) };
    rig.core.submit(copy, 7);
    rig.until(1, 64);
    assert!(rig.reads < 10, "{} reads", rig.reads);
}

#[test]
fn drop_queue_is_bounded_and_survives_restart() {
    let mut rig = Rig::written();
    rig.core.submit(Op::Change(vec![Change::DeleteVolume { volume: V }]), 7);
    let mut wanted = u64::MAX;
    while rig.core.checkpoints() < wanted {
        if wanted == u64::MAX && rig.core.state.map.drops_len() > 500 {
            wanted = rig.core.request_checkpoint();
        }
        rig.go_on();
    }
    let (core, _) = Core::recover(&rig.disk, Some(rig.core.state.options)).unwrap();
    assert!(core.state.map.drops_len() > 100, "{}", core.state.map.drops_len());
    assert!(core.state.map.slots.bytes() < 64 << 10, "{}", core.state.map.slots.bytes());
    let mut most = 0;
    while rig.core.state.map.drops_len() > 0 {
        most = most.max(rig.core.state.map.drops_len());
        rig.go_on();
    }
    assert!(most < LEAVES as usize / 2, "drop queue reached {most} of {LEAVES} leaves");
}

#[test]
fn drop_queue_lets_memory_waiters_load_first() {
    let mut rig = Rig::written();
    rig.run(Op::Change(vec![Change::DeleteVolume { volume: V }]));
    while rig.core.state.map.drops_len() < 500 {
        rig.go_on();
    }
    while rig.step() {}
    // The background thread may tick again before a page has come.
    for ticks_per_load in [1, 2, 3] {
        // Any request: there is none to wake, so it waits no longer.
        rig.core.scheduler.await_memory(u64::MAX);
        for _ in 0..4 {
            (0..ticks_per_load).for_each(|_| rig.core.tick());
            while rig.step() {}
        }
        assert!(!rig.core.scheduler.has_memory_waiters(), "the request waits for the end of the drops");
    }
    assert!(rig.core.state.map.drops_len() > 100);
    rig.rest();
    assert_eq!(rig.core.state.map.drops_len(), 0);
}

#[test]
fn replay_needs_the_pages_that_the_request_needed() {
    let mut rig = Rig::written();
    // The blocks of a leaf get slots in different pages.
    for block in 0..64 {
        rig.run(Op::Write { volume: V, lba: Lba(block * 8), data: data(block << 40, 8), fua: false });
        let (lba, data) = (Lba((100 + block) * LEAF), data(block << 30, LEAF));
        rig.run(Op::Write { volume: V, lba, data, fua: false });
    }
    rig.core.request_checkpoint();
    rig.rest();
    rig.run(Op::Change(vec![Change::CopyVolume { source: V, destination: W }]));
    let mut relieved = 0;
    for block in 0..32 {
        rig.run(Op::Zero { volume: V, range: range(block * 16, 8) });
        let (range, pattern) = (range(block * 16 + 8, 8), data(block, 1));
        let (zero, same) =
            (Op::Zero { volume: V, range }, Op::WriteSame { volume: V, range, pattern: pattern.clone() });
        let state = &rig.core.state;
        let needed = state.missing(&zero, 0);
        assert_eq!(needed, state.missing(&same, 0));
        assert_eq!(needed, state.missing_for_record(&LogOp::Fill { volume: V, range, fill: FillValue::Zero }));
        assert_eq!(needed, state.missing_for_record(&LogOp::Same { volume: V, range, pattern }));
        let unmapped = state.missing(&Op::Unmap { volume: V, ranges: vec![range] }, 0);
        relieved += usize::from(needed.len() < unmapped.len());
    }
    assert!(relieved > 0, "a snapshot keeps the blocks");
}

/// Freed slots are reused although their pages were stored and evicted.
#[test]
fn reused_slots_do_not_grow_the_table() {
    let geometry = ArrayGeometry { capacity: 1 << 30, log_bytes: 256 << 20, segment_bytes: 4 << 20 }.check().unwrap();
    let options = Options { page_budget: 256 << 10, ..Options::for_geometry(&geometry) };
    let mut rig = Rig::new(geometry, options);
    let mut pages = Vec::new();
    for cycle in 0..5 {
        for n in 0..128 {
            rig.run(Op::Write {
                volume: V,
                lba: Lba(n * LEAF),
                data: data((cycle * 128 + n) * LEAF, LEAF),
                fua: false,
            });
        }
        rig.rest();
        rig.run(Op::Unmap { volume: V, ranges: vec![range(0, 128 * LEAF)] });
        rig.rest();
        rig.core.request_checkpoint();
        rig.rest();
        pages.push(rig.core.state.map.slots.pages());
    }
    assert!(rig.core.state.map.slots.absent_pages() > 0 && pages[4] <= pages[0] + 16, "{pages:?}");
}

/// The slots that the cleaner loaded are evicted while a checkpoint drains: it loads them again.
#[test]
fn cleaner_reloads_evicted_slots() {
    let mut rig = Rig::written();
    let is_full = |segment: &pool::Segment| segment.kind == pool::Kind::Data && segment.live > 1000;
    let victim = rig.core.space.pool.segments().iter().position(is_full).unwrap();
    let mut bytes = vec![0; rig.core.space.pool.segments()[victim].sectors as usize * 512];
    platform::Disk::read_at(&rig.disk, rig.core.state.geometry.segment_start(victim as u32), &mut bytes).unwrap();
    let (space, mut cx) = rig.core.clean_parts();
    space.victim_read(victim as u32, Some(bytes.into()), &mut cx);
    rig.core.tick();
    assert!(rig.core.loader.is_loading());
    // All pages are loaded, and evicted before the cleaner runs.
    while rig.step() {}
    rig.core.loader.evict_pages(&mut rig.core.state);
    rig.rest();
    rig.core.request_checkpoint();
    rig.rest();
    assert_eq!(rig.core.space.pool.segments()[victim].live, 0);
}
