//! An array that serves a stream with deltas.

use super::{MemoryDisk, create, data, perform, run, settle};
use engine::{
    Action, Change, Core, Credit, DeltaMode, DeltaOp, Extent, ExtentState, Gate, Io, NewPeriod, Op, OpError, Reply,
    Role, StreamEvent, StreamRecord, WHOLE_VOLUME_BLOCKS,
};
use ondisk::ArrayGeometry;
use types::{BlockRange, Lba, Period, StreamId, VolumeId};

pub(crate) const GEOMETRY: ArrayGeometry =
    ArrayGeometry { capacity: 32 << 20, log_bytes: 1 << 20, segment_bytes: 256 << 10 };
/// Size of a volume: two leaves of the map.
pub(crate) const BLOCKS: u64 = 4096;

/// Credit that never ends.
pub(crate) const UNLIMITED: Credit = Credit { bytes: u64::MAX, blocks: u64::MAX, records: u64::MAX };

pub(crate) fn stream() -> StreamId {
    StreamId::new(5).unwrap()
}

pub(crate) fn volume(number: u32) -> VolumeId {
    stream().volume(number)
}

pub(crate) fn range(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap()
}

pub(crate) fn whole() -> BlockRange {
    range(0, WHOLE_VOLUME_BLOCKS)
}

/// An array with two volumes of a stream, which is ready and closed.
pub(crate) fn array() -> Served {
    let (disk, core) = create(GEOMETRY);
    let mut pair = Served { disk, core, period: 0 };
    let create = [1, 2].map(|number| Change::CreateVolume { volume: volume(number), blocks: BLOCKS });
    pair.run(Op::Change(create.to_vec()));
    pair.core.create_stream(stream()).unwrap();
    settle(&mut pair.core, &pair.disk);
    pair
}

/// An array in a period with a delta.
pub(crate) fn serving(mode: DeltaMode) -> Served {
    let mut pair = array();
    pair.begin(Role::Sequencer, Gate::Local, mode).unwrap();
    pair
}

/// An array with a stream, in the period that was begun last.
pub(crate) struct Served {
    pub(crate) disk: MemoryDisk,
    pub(crate) core: Core,
    pub(crate) period: u64,
}

impl Served {
    pub(crate) fn begin(&mut self, role: Role, gate: Gate, delta: DeltaMode) -> Result<(), OpError> {
        let period = Period(self.period + 1);
        let last = self.core.stream_status(stream()).unwrap().position;
        self.core.begin_period(stream(), NewPeriod { period, role, gate, last, max_payload: 1 << 16, delta })?;
        self.core.stream_lent(stream(), period, UNLIMITED)?;
        self.period += 1;
        Ok(())
    }

    pub(crate) fn run(&mut self, op: Op) {
        let answer = run(&mut self.core, &self.disk, op.clone());
        assert_eq!(answer, Ok(Reply::Done), "{op:?}");
    }

    pub(crate) fn change(&mut self, change: Change) {
        self.run(Op::Change(vec![change]));
    }

    pub(crate) fn write(&mut self, number: u32, lba: u64, blocks: u64) {
        self.run(Op::Write { volume: volume(number), lba: Lba(lba), data: data(lba + 1, blocks), fua: false });
    }

    pub(crate) fn copy(&mut self, from: (u32, u64), blocks: u64, to: (u32, u64)) {
        let (source, destination) = (volume(from.0), volume(to.0));
        self.run(Op::Copy { source, from: range(from.1, blocks), destination, to: Lba(to.1) });
    }

    pub(crate) fn add(&mut self, number: u32, ranges: &[(u64, u64)]) {
        let ranges = ranges.iter().map(|(start, blocks)| range(*start, *blocks)).collect();
        self.run(Op::Delta(DeltaOp::Add { volume: volume(number), ranges }));
    }

    pub(crate) fn clear(&mut self, number: u32, ranges: Vec<BlockRange>) {
        let period = self.core.stream_status(stream()).unwrap().period;
        self.run(Op::Delta(DeltaOp::Clear { volume: volume(number), period, ranges }));
    }

    pub(crate) fn add_tail(&mut self) {
        self.run(Op::Delta(DeltaOp::AddTail { stream: stream(), period: Period(self.period) }));
    }

    /// Returns the delta of a volume: first block and blocks of each range.
    pub(crate) fn delta(&mut self, number: u32) -> Vec<(u64, u64)> {
        self.delta_in_steps(number, 100)
    }

    pub(crate) fn delta_in_steps(&mut self, number: u32, limit: usize) -> Vec<(u64, u64)> {
        let end = self.core.volumes()[&volume(number)];
        let (mut from, mut found) = (0, Vec::<(u64, u64)>::new());
        while from < end {
            let next = Op::Delta(DeltaOp::Next { volume: volume(number), from: Lba(from), limit });
            let answer = run(&mut self.core, &self.disk, next);
            let Ok(Reply::Extents(extents)) = answer else { panic!("no extents: {answer:?}") };
            assert!(!extents.is_empty() && extents.len() <= limit.max(1));
            for Extent { range, state } in extents {
                assert_eq!(range.start().0, from, "without gaps");
                from = range.end().0;
                match found.last_mut().filter(|(start, blocks)| start + blocks == range.start().0) {
                    _ if state == ExtentState::Deallocated => {}
                    Some((_, blocks)) => *blocks += range.blocks(),
                    None => found.push((range.start().0, range.blocks())),
                }
            }
        }
        assert_eq!(from, end);
        found
    }

    /// Runs the array until it has written to its drive this many times. True if it has no work
    /// before.
    pub(crate) fn run_writes(&mut self, writes: usize) -> bool {
        let mut done = 0;
        loop {
            self.core.kick();
            self.core.tick();
            let mut actions = Vec::new();
            self.core.poll(&mut actions);
            if actions.is_empty() && !self.core.wants_tick() {
                return true;
            }
            for action in actions {
                match action {
                    Action::Io { io: Io::Write { .. }, .. } if done == writes => return false,
                    Action::Io { id, io } => {
                        done += usize::from(matches!(io, Io::Write { .. }));
                        self.core.io_done(id, perform(&self.disk, &io));
                    }
                    Action::Work { id, work } => self.core.worked(id, work.perform(&self.disk)),
                    Action::Fetch { id, plan } => self.core.fetched(id, plan.execute(&self.disk)),
                    Action::Complete { .. } | Action::Read(_) => {}
                }
            }
        }
    }

    /// Ends the array after its last record, and opens it again.
    pub(crate) fn reopen(&mut self) {
        self.core = Core::recover(&self.disk, None).expect("the array opens").0;
        self.core.audit(&self.disk).unwrap();
    }

    pub(crate) fn records(&mut self) -> Vec<StreamRecord> {
        let next = || self.core.next_stream_event();
        let record = |event| match event {
            StreamEvent::Ordered { record, .. } => Some(record),
            StreamEvent::Durable { .. } => None,
        };
        std::iter::from_fn(next).filter_map(record).collect()
    }
}
