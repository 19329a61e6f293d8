//! Making an array, and reading one back: superblock, manifest, slot table, then the log.

use super::check::check_superblock;
use super::checkpoint::Checkpoint;
use super::core::Core;
use super::dedup::Dedup;
use super::error::{CreateError, RecoverError};
use super::io::{Action, Io, perform};
use super::located::{LOCATIONS_PER_PAGE, Located, sectors_of};
use super::log::Log;
use super::manifest::{self, Manifest};
use super::options::Options;
use super::pool::{Kind, Phase, Pool};
use super::read::{read_located, read_manifest, read_superblocks};
use super::room::ReplayRoom;
use super::unit::UnitCache;
use blockmap::Map;
use bytes::Bytes;
use ondisk::{ArrayGeometry, LogPosition, Superblock, superblock_offset};
use platform::{Disk, DiskError, Durability};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use types::Lsn;
use wal::{Chain, LogOp, Replay, ReplayError};

/// What a recovery has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Groups of the log that were read.
    pub groups: u64,
    /// Records that were applied.
    pub records: u64,
    /// Bytes of data in them.
    pub bytes: u64,
}

impl Core {
    /// Makes an empty array of that name on a drive.
    pub fn create(disk: &dyn Disk, geometry: &ArrayGeometry, array: [u8; 16]) -> Result<(), CreateError> {
        if Superblock::choose(&read_superblocks(disk)?).is_ok() {
            return Err(CreateError::Exists);
        }
        disk.allocate(0, geometry.segment_start(0))?;
        clear_log(disk, geometry)?;
        let chain = Chain { array, epoch: 1, sequence: 1, lsn: Lsn(1), previous: 0 };
        let replay = Replay::new(chain, geometry.log_bytes, 0);
        let manifest = Manifest {
            volumes: Default::default(),
            values: Default::default(),
            segments: Pool::new(geometry).segments().to_vec(),
            next_usage: 1,
            slot_pages: 0,
            directory: Vec::new(),
            drops: Vec::new(),
        };
        let superblock =
            Superblock { array, sequence: 0, geometry: *geometry, log: position(&chain), manifest: Vec::new() };
        let (mut core, _) = Self::assemble(&superblock, manifest, Options::for_geometry(geometry));
        core.begin_log(replay);
        core.request_checkpoint();
        while core.checkpoint.completed == 0 {
            core.tick();
            if !core.carry_out(disk)? || core.stopped.is_some() {
                return Err(CreateError::NoRoom);
            }
        }
        while core.carry_out(disk)? {}
        Ok(())
    }

    /// Reads an array back: the newest checkpoint that counts, and every record of the log after it.
    pub fn recover(disk: &dyn Disk, options: Option<Options>) -> Result<(Core, Recovery), RecoverError> {
        let copies = read_superblocks(disk)?;
        let superblock = Superblock::choose(&copies)?;
        check_superblock(&superblock)?;
        let needed = superblock.geometry.capacity;
        if disk.size() < needed {
            return Err(RecoverError::TooShort { needed, found: disk.size() });
        }
        let manifest = read_manifest(disk, &superblock)?;
        let (slot_pages, locations) = (manifest.slot_pages, manifest.directory.clone());
        let options = options.unwrap_or_else(|| Options::for_geometry(&superblock.geometry));
        let (mut core, drops) = Self::assemble(&superblock, manifest, options);
        let found = core.read_slots(disk, slot_pages, locations)?;
        core.check_accounts(found)?;
        drops.into_iter().for_each(|name| core.map.restore_drop(name));
        core.check_roots(disk)?;
        // Before the replay writes into segments: what is free now, an older checkpoint may still name, and its copies must not count
        // when one of the new ones goes bad.
        for copy in superblock.stale_copies(&copies) {
            disk.write_at(superblock_offset(copy), &[&superblock.encode(copy)], Durability::Durable)?;
        }
        let report = core.replay(disk, &superblock)?;
        Ok((core, report))
    }

    fn assemble(superblock: &Superblock, manifest: Manifest, options: Options) -> (Core, Vec<blockmap::SlotId>) {
        let mut segments = manifest.segments;
        for run in &superblock.manifest {
            // The manifest describes the pool as it was before the manifest itself was stored.
            if let Some(segment) = segments.get_mut(run.segment() as usize) {
                if segment.phase == Phase::Free {
                    (segment.kind, segment.phase, segment.usage) = (Kind::Metadata, Phase::Sealed, manifest.next_usage);
                }
                segment.live = segment.live.saturating_add(sectors_of(run.bytes()));
                segment.sectors = segment.sectors.max(run.sector() + sectors_of(run.bytes()));
            }
        }
        let pool = Pool::restore(segments, manifest.next_usage + 1);
        let replay_room = ReplayRoom::new(pool.restartable());
        let core = Core {
            options,
            geometry: superblock.geometry,
            array: superblock.array,
            volumes: manifest.volumes,
            values_bytes: manifest.values.iter().map(|(key, value)| manifest::value_bytes(key, value)).sum(),
            values: manifest.values,
            map: Map::default(),
            freed: Vec::new(),
            dirty: Default::default(),
            dedup: Dedup::new(options.index_bytes),
            units: Arc::new(UnitCache::new(options.cache_bytes)),
            next_write: 0,
            pool,
            data_writer: None,
            metadata_writer: None,
            slot_directory: Vec::new(),
            directory_pages: manifest.directory,
            dirty_directory: BTreeSet::new(),
            manifest_runs: superblock.manifest.clone(),
            log: Log {
                builder: Default::default(),
                gathered: 0,
                chain: chain_at(superblock),
                ring: wal::Ring::new(superblock.geometry.log_bytes, superblock.log.head),
                in_flight: false,
                durable: Lsn(superblock.log.lsn.saturating_sub(1)),
            },
            locks: Default::default(),
            tasks: Default::default(),
            next_task: 1,
            lock_waiters: VecDeque::new(),
            room_waiters: VecDeque::new(),
            load_waiters: VecDeque::new(),
            commit_waiters: VecDeque::new(),
            runnable: VecDeque::new(),
            loading: Default::default(),
            drop_loads: 0,
            is_drop_stuck: false,
            ios: Default::default(),
            next_io: 1,
            works: Default::default(),
            batches: 0,
            chunk_writes: 0,
            actions: Vec::new(),
            checkpoint: Checkpoint::after(superblock.sequence),
            cleaner: Default::default(),
            pressure: Default::default(),
            replay_room,
            data_stored: 0,
            grow_to: None,
            newest: superblock.clone(),
            stopped: None,
        };
        (core, manifest.drops)
    }

    /// Reads the slot table, of which as much stays in memory as may. Gives the sectors that its slots answer for, by segment.
    fn read_slots(&mut self, disk: &dyn Disk, pages: u32, directory: Vec<Located>) -> Result<Vec<u64>, RecoverError> {
        for located in directory {
            let mut bytes = read_located(disk, &self.geometry, located)
                .ok_or(RecoverError::Damaged("a page of the slot directory"))?;
            for _ in 0..LOCATIONS_PER_PAGE {
                self.slot_directory.extend(Located::decode(&mut bytes));
            }
        }
        self.slot_directory.truncate(pages as usize);
        if self.slot_directory.len() != pages as usize {
            return Err(RecoverError::Damaged("the slot directory"));
        }
        let mut found = vec![0; self.pool.segments().len()];
        for page in 0..pages {
            let bytes = read_located(disk, &self.geometry, self.slot_directory[page as usize]);
            let Self { map, pool, .. } = self;
            let is_sound =
                bytes.is_some_and(|bytes| map.slots.append_stored(&bytes, |segment| pool.is_metadata(segment)));
            if !is_sound {
                return Err(RecoverError::Damaged("a page of the slot table"));
            }
            self.check_places(page, &mut found)?;
            self.shrink_pages();
        }
        Ok(found)
    }

    fn replay(&mut self, disk: &dyn Disk, superblock: &Superblock) -> Result<Recovery, RecoverError> {
        let mut report = Recovery::default();
        let start = self.geometry.log_start();
        let mut replay = Replay::new(chain_at(superblock), self.geometry.log_bytes, superblock.log.head);
        let mut read = |offset: u64, length: usize| {
            let mut bytes = vec![0; length];
            disk.read_at(start + offset, &mut bytes).map(|()| Bytes::from(bytes))
        };
        loop {
            let group = replay.next(&mut read).map_err(|error| match error {
                ReplayError::Read(error) => RecoverError::Disk(error),
                malformed @ ReplayError::Malformed { .. } => RecoverError::Log(malformed.to_string()),
            })?;
            let Some(group) = group else { break };
            report.groups += 1;
            for (_, record) in group {
                report.records += 1;
                self.replay_room.admit(&record);
                for op in &record {
                    report.bytes += if let LogOp::Write { data, .. } = op { data.len() as u64 } else { 0 };
                    self.replay_op(disk, op)?;
                }
            }
        }
        self.begin_log(replay);
        Ok(report)
    }

    fn replay_op(&mut self, disk: &dyn Disk, op: &LogOp) -> Result<(), RecoverError> {
        self.check_record(op)?;
        loop {
            let missing = self.missing_for_record(op);
            if missing.is_empty() {
                break;
            }
            if !missing.into_iter().all(|absent| self.load_now(disk, absent)) {
                return Err(RecoverError::Damaged("a page of the map"));
            }
        }
        self.apply(op);
        // What does not fit in memory gets its place while the rest is being replayed.
        while self.dirty.bytes() > self.options.dirty_limit && self.stopped.is_none() {
            self.pressure.memory = true;
            self.allocate_ahead();
            self.destage();
            self.cut_data_chunk();
            if !self.carry_out(disk)? {
                break;
            }
        }
        self.pressure = Default::default();
        self.shrink_pages();
        match &self.stopped {
            Some(reason) => Err(RecoverError::Replay(reason.to_string())),
            None => Ok(()),
        }
    }

    /// Writes on where the reader has ended, in an epoch of its own.
    fn begin_log(&mut self, replay: Replay) {
        let (mut chain, ring) = replay.finish();
        chain.epoch += 1;
        self.log.durable = Lsn(chain.lsn.0 - 1);
        (self.log.chain, self.log.ring) = (chain, ring);
    }

    /// Carries out what the core asks for at present, one after the other. False when it asked for nothing.
    fn carry_out(&mut self, disk: &dyn Disk) -> Result<bool, DiskError> {
        let mut actions = Vec::new();
        self.poll(&mut actions);
        let has_done = !actions.is_empty();
        for action in actions {
            match action {
                Action::Io { id, io } => {
                    let result = perform(disk, &io);
                    if let (Io::Write { .. } | Io::Flush, Err(error)) = (&io, &result) {
                        return Err(error.clone());
                    }
                    self.io_done(id, result);
                }
                Action::Fetch { id, plan } => self.fetched(id, plan.execute(disk)),
                Action::Work { id, work } => self.worked(id, work.perform(disk)),
                Action::Read(_) | Action::Complete { .. } => {}
            }
        }
        Ok(has_done)
    }
}

fn chain_at(superblock: &Superblock) -> Chain {
    let log = &superblock.log;
    Chain {
        array: superblock.array,
        epoch: log.epoch,
        sequence: log.sequence,
        lsn: Lsn(log.lsn),
        previous: log.previous,
    }
}

fn position(chain: &Chain) -> LogPosition {
    LogPosition { head: 0, sequence: chain.sequence, lsn: chain.lsn.0, epoch: chain.epoch, previous: chain.previous }
}

/// Zeros over the log's area: a file system then has it written once, and flushes of the log need no change of its own metadata.
fn clear_log(disk: &dyn Disk, geometry: &ArrayGeometry) -> Result<(), DiskError> {
    let zeros = vec![0; 1 << 20];
    let (mut at, end) = (geometry.log_start(), geometry.log_start() + geometry.log_bytes);
    while at < end {
        let length = zeros.len().min((end - at) as usize);
        disk.write_at(at, &[&zeros[..length]], Durability::Volatile)?;
        at += length as u64;
    }
    disk.flush()
}
