//! Common parts of the engine benchmarks. The engine core runs on one thread with a drive in memory
//! and performs all requested work immediately. The results therefore show the cost of the engine
//! alone, without drive or network.
#![allow(clippy::expect_used, reason = "a benchmark that fails panics")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test panics"))]

mod aged_disk;
pub mod load;
mod noise_disk;

pub use aged_disk::{AgedDisk, VOLUME as AGED_VOLUME};
pub use noise_disk::{NoiseDisk, noise_block};

use bytes::Bytes;
use engine::{Action, Core, Io, Op, OpError, Options, Reply, Tag};
use ondisk::ArrayGeometry;
use platform::{Disk, DiskError};
use testing::{MemoryDisk, SplitMix64, noise};
use types::VolumeId;

const PAGE_BYTES: usize = 4096;

/// An array, by default on a drive in memory.
pub struct Bench<D: Disk = MemoryDisk> {
    /// The drive.
    pub disk: D,
    /// The engine core.
    pub core: Core,
    actions: Vec<Action>,
    next_tag: Tag,
}

impl Bench {
    /// Creates and opens an array with this geometry.
    pub fn new(geometry: ArrayGeometry) -> Self {
        Self::on(MemoryDisk::filled(geometry.capacity, 1), geometry, Options::for_geometry(&geometry))
    }
}

impl<D: Disk> Bench<D> {
    /// Creates an array on a drive and opens it with these options.
    pub fn on(disk: D, geometry: ArrayGeometry, options: Options) -> Self {
        Core::create(&disk, &geometry, [7; 16]).expect("a new array on an empty drive");
        let (core, _) = Core::recover(&disk, Some(options)).expect("the array that was just made");
        Self { disk, core, actions: Vec::new(), next_tag: 0 }
    }

    /// Submits operations, commits them together, waits for all replies and returns the last one.
    /// Panics on an error.
    pub fn run(&mut self, ops: impl IntoIterator<Item = Op>) -> Reply {
        let mut waiting = 0;
        for op in ops {
            self.next_tag += 1;
            self.core.submit(op, self.next_tag);
            waiting += 1;
        }
        let mut last = Reply::Done;
        while waiting > 0 {
            self.core.kick();
            if self.core.wants_tick() {
                self.core.tick();
            }
            for result in self.carry_out() {
                last = result.expect("every operation of a benchmark succeeds");
                waiting -= 1;
            }
        }
        last
    }

    /// Runs until no background work is left.
    pub fn settle(&mut self) {
        while self.core.wants_tick() || self.core.has_actions() {
            self.core.tick();
            self.core.kick();
            self.carry_out();
        }
    }

    fn carry_out(&mut self) -> Vec<Result<Reply, OpError>> {
        let mut answers = Vec::new();
        let mut actions = std::mem::take(&mut self.actions);
        self.core.poll(&mut actions);
        for action in actions.drain(..) {
            match action {
                Action::Complete { result, .. } => answers.push(result),
                Action::Read(plan) => answers.push(plan.execute(&self.disk)),
                Action::Fetch { id, plan } => self.core.fetched(id, plan.execute(&self.disk)),
                Action::Work { id, work } => self.core.worked(id, work.perform(&self.disk)),
                Action::Io { id, io } => {
                    let result = self.perform(&io);
                    self.core.io_done(id, result);
                }
            }
        }
        self.actions = actions;
        answers
    }

    fn perform(&self, io: &Io) -> Result<Bytes, DiskError> {
        match io {
            Io::Read { offset, bytes, .. } => {
                let mut buffer = vec![0; *bytes];
                self.disk.read_at(*offset, &mut buffer)?;
                Ok(buffer.into())
            }
            Io::Write { offset, data, durability } => {
                let parts: Vec<&[u8]> = data.iter().map(|part| &part[..]).collect();
                self.disk.write_at(*offset, &parts, *durability).map(|()| Bytes::new())
            }
            Io::Flush | Io::Allocate { .. } | Io::Discard { .. } => Ok(Bytes::new()),
        }
    }

    /// Creates a volume of `bytes` bytes.
    pub fn create_volume(&mut self, name: u64, bytes: u64) -> VolumeId {
        let volume = VolumeId(name);
        self.run([Op::Change(vec![engine::Change::CreateVolume { volume, blocks: bytes / types::LBA_BYTES }])]);
        volume
    }

    /// Fills the first `bytes` bytes of a volume with incompressible data.
    pub fn fill(&mut self, volume: VolumeId, bytes: u64) {
        for megabyte in 0..bytes >> 20 {
            let data = noise(megabyte, 1 << 20).into();
            self.run([Op::Write { volume, lba: types::Lba(megabyte << 11), data, fua: false }]);
        }
        self.settle();
    }
}

/// Returns `pages` pages of 4 KiB that resemble those of a database: rows of ascending keys, dates,
/// amounts, names, words and random bytes.
///
/// LZ4 halves their size. No two pages are equal. The same seed yields the same pages.
pub fn database_like(seed: u64, pages: usize) -> Vec<Bytes> {
    const NAMES: [&str; 16] = [
        "Anna",
        "Bertram",
        "Cecilia",
        "Dmitri",
        "Eleanor",
        "Fatima",
        "Gustav",
        "Hiroko",
        "Ibrahim",
        "Johanna",
        "Konstantin",
        "Leila",
        "Margarethe",
        "Nikolai",
        "Olufemi",
        "Priscilla",
    ];
    const WORDS: [&str; 8] = ["open", "paid", "shipped", "returned", "cancelled", "waiting", "refunded", "new"];
    let mut random = SplitMix64::new(seed);
    let page = |number: usize| {
        let mut page = Vec::with_capacity(PAGE_BYTES + 128);
        page.extend_from_slice(&(number as u64).to_be_bytes());
        page.extend_from_slice(&random.next_u64().to_le_bytes());
        let mut key = seed << 32 | (number as u64) << 6;
        while page.len() < PAGE_BYTES {
            key += 1;
            page.extend_from_slice(&key.to_be_bytes());
            page.extend_from_slice(&(1_700_000_000 + key as u32 * 37 % 86_400).to_be_bytes());
            page.extend_from_slice(&(random.below(100_000) as u32).to_be_bytes());
            let (name, word) = (NAMES[random.below(16) as usize], WORDS[random.below(8) as usize]);
            let (month, day) = (1 + random.below(12), 1 + random.below(28));
            page.extend_from_slice(format!("{name:16}2026-{month:02}-{day:02} {word:10}").as_bytes());
            page.extend_from_slice(&random.next_u64().to_le_bytes()[..4]);
        }
        page.truncate(PAGE_BYTES);
        Bytes::from(page)
    };
    (0..pages).map(page).collect()
}
