//! The reference model: the same operations on a plain map of 512-byte blocks.
//!
//! The simulator and property tests compare the engine with it, and the layers above use it as an
//! engine in their tests. It is deliberately simple: it has no log and no tree.

use crate::service::{
    BlockService, Change, EqualCopy, Extent, ExtentState, Health, KeyValue, MAX_COMPARE_BLOCKS, MAX_TRANSFER_BYTES,
    Maintenance, Op, OpError, Owner, PoolSpace, Reply, Sink, SpaceByFamily, Tag, VolumeSpace,
};
use bytes::{Bytes, BytesMut};
use platform::threads::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockRange, LBA_BYTES, Lba, VolumeId};

const LBA_LEN: usize = LBA_BYTES as usize;
const ZERO_BLOCK: [u8; LBA_LEN] = [0; LBA_LEN];

/// A volume of the model: its size and its mapped blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelVolume {
    /// Size in blocks.
    pub blocks: u64,
    mapped: BTreeMap<u64, Box<[u8; LBA_LEN]>>,
}

impl ModelVolume {
    /// Returns the bytes of a range inside the volume.
    pub fn read(&self, range: BlockRange) -> Bytes {
        let mut out = BytesMut::zeroed(range.bytes() as usize);
        for (lba, block) in self.mapped.range(range.start().0..range.end().0) {
            let at = (lba - range.start().0) as usize * LBA_LEN;
            out[at..at + LBA_LEN].copy_from_slice(&block[..]);
        }
        out.freeze()
    }

    fn write(&mut self, lba: Lba, data: &[u8]) {
        for (index, block) in data.chunks_exact(LBA_LEN).enumerate() {
            let mut stored = Box::new([0; LBA_LEN]);
            stored.copy_from_slice(block);
            self.mapped.insert(lba.0 + index as u64, stored);
        }
    }

    fn unmap(&mut self, range: BlockRange) {
        let keys: Vec<u64> = self.mapped.range(range.start().0..range.end().0).map(|(lba, _)| *lba).collect();
        for key in keys {
            self.mapped.remove(&key);
        }
    }

    fn compare(&self, lba: Lba, expected: &[u8]) -> Result<(), OpError> {
        let held = self.read(self.inside(lba, expected.len())?);
        match held.iter().zip(expected).position(|(a, b)| a != b) {
            Some(offset) => Err(OpError::Miscompare { offset: offset as u64 }),
            None => Ok(()),
        }
    }

    fn inside(&self, lba: Lba, bytes: usize) -> Result<BlockRange, OpError> {
        if bytes == 0 || !bytes.is_multiple_of(LBA_LEN) {
            return Err(OpError::Malformed("length is not a multiple of 512 bytes"));
        }
        self.check(
            BlockRange::new(lba, (bytes / LBA_LEN) as u64).map_err(|_| OpError::OutOfRange { blocks: self.blocks })?,
        )
    }

    fn check(&self, range: BlockRange) -> Result<BlockRange, OpError> {
        if range.end().0 > self.blocks { Err(OpError::OutOfRange { blocks: self.blocks }) } else { Ok(range) }
    }

    /// Returns the state of each run of blocks from `lba` on.
    fn status(&self, lba: Lba, limit: usize) -> Result<Vec<Extent>, OpError> {
        let rest = self.inside(lba, LBA_LEN).and_then(|_| {
            BlockRange::new(lba, self.blocks - lba.0).map_err(|_| OpError::OutOfRange { blocks: self.blocks })
        })?;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = rest.start().0;
        while at < rest.end().0 && extents.len() < limit.max(1) {
            let is_mapped = self.mapped.contains_key(&at);
            let end = if is_mapped {
                (at..rest.end().0).find(|block| !self.mapped.contains_key(block)).unwrap_or(rest.end().0)
            } else {
                self.mapped.range(at..).next().map_or(rest.end().0, |(lba, _)| *lba)
            };
            let state = if is_mapped { ExtentState::Mapped } else { ExtentState::Deallocated };
            let range = BlockRange::new(Lba(at), end - at).map_err(|_| OpError::OutOfRange { blocks: self.blocks })?;
            extents.push(Extent { range, state });
            at = end;
        }
        Ok(extents)
    }
}

/// The state of the model: volumes and catalog values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// The volumes by id.
    pub volumes: BTreeMap<VolumeId, ModelVolume>,
    /// The catalog values by key.
    pub values: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    fn volume(&mut self, volume: VolumeId) -> Result<&mut ModelVolume, OpError> {
        self.volumes.get_mut(&volume).ok_or(OpError::NoSuchVolume(volume))
    }

    /// Executes one operation.
    pub fn apply(&mut self, op: &Op) -> Result<Reply, OpError> {
        match op {
            Op::Read { volume, range } => {
                if range.bytes() > MAX_TRANSFER_BYTES {
                    return Err(OpError::Malformed("transfer is too long"));
                }
                let volume = self.volume(*volume)?;
                Ok(Reply::Data(volume.read(volume.check(*range)?)))
            }
            Op::Write { volume, lba, data, .. } => {
                let volume = self.volume(*volume)?;
                volume.inside(*lba, data.len())?;
                volume.write(*lba, data);
                Ok(Reply::Done)
            }
            Op::WriteSame { volume, range, pattern } => self.write_same(*volume, *range, pattern),
            Op::Zero { volume, range } => self.write_same(*volume, *range, &ZERO_BLOCK),
            Op::Unmap { volume, ranges } => {
                let volume = self.volume(*volume)?;
                ranges.iter().try_for_each(|range| volume.check(*range).map(|_| ()))?;
                ranges.iter().for_each(|range| volume.unmap(*range));
                Ok(Reply::Done)
            }
            Op::CompareAndWrite { volume, lba, compare, write, .. } => {
                if compare.len() != write.len() || compare.len() as u64 > MAX_COMPARE_BLOCKS * LBA_BYTES {
                    return Err(OpError::Malformed("compare and write buffers differ in length or are too long"));
                }
                let volume = self.volume(*volume)?;
                volume.compare(*lba, compare)?;
                volume.write(*lba, write);
                Ok(Reply::Done)
            }
            Op::Or { volume, lba, data, .. } => {
                let volume = self.volume(*volume)?;
                let old = volume.read(volume.inside(*lba, data.len())?);
                let new: Vec<u8> = old.iter().zip(data.iter()).map(|(a, b)| a | b).collect();
                volume.write(*lba, &new);
                Ok(Reply::Done)
            }
            Op::Compare { volume, lba, data } => self.volume(*volume)?.compare(*lba, data).map(|()| Reply::Done),
            Op::Copy { source, from, destination, to } => self.copy(*source, *from, *destination, *to),
            Op::CopyIfEqual(copy) => {
                let EqualCopy { source, from, other, at, destination, to } = **copy;
                let source = self.volume(source)?;
                let held = source.read(source.check(from)?);
                self.volume(other)?.compare(at, &held)?;
                self.copy(other, copy.other_range().unwrap_or_default(), destination, to)
            }
            Op::Flush => Ok(Reply::Done),
            Op::StreamChange(_) | Op::Follow(_) | Op::Sync { .. } | Op::Delta(_) => {
                Err(OpError::Malformed("no such stream"))
            }
            Op::Status { volume, lba, limit } => Ok(Reply::Extents(self.volume(*volume)?.status(*lba, *limit)?)),
            Op::Change(changes) => self.change(changes),
        }
    }

    fn write_same(&mut self, volume: VolumeId, range: BlockRange, pattern: &[u8]) -> Result<Reply, OpError> {
        let volume = self.volume(volume)?;
        volume.check(range)?;
        if pattern.len() != LBA_LEN {
            return Err(OpError::Malformed("pattern is not 512 bytes long"));
        }
        (range.start().0..range.end().0).for_each(|lba| volume.write(Lba(lba), pattern));
        Ok(Reply::Done)
    }

    fn copy(&mut self, source: VolumeId, from: BlockRange, destination: VolumeId, to: Lba) -> Result<Reply, OpError> {
        let source = self.volume(source)?;
        source.check(from)?;
        let held: Vec<(u64, Box<[u8; LBA_LEN]>)> = source
            .mapped
            .range(from.start().0..from.end().0)
            .map(|(lba, block)| (lba - from.start().0, block.clone()))
            .collect();
        let target = self.volume(destination)?;
        let range = BlockRange::new(to, from.blocks()).map_err(|_| OpError::OutOfRange { blocks: target.blocks })?;
        target.check(range)?;
        target.unmap(range);
        target.mapped.extend(held.into_iter().map(|(offset, block)| (to.0 + offset, block)));
        Ok(Reply::Done)
    }

    fn change(&mut self, changes: &[Change]) -> Result<Reply, OpError> {
        let mut next = self.clone();
        for change in changes {
            match change {
                Change::CreateVolume { volume, blocks } => {
                    if next.volumes.contains_key(volume) {
                        return Err(OpError::VolumeExists(*volume));
                    }
                    next.volumes.insert(*volume, ModelVolume { blocks: *blocks, mapped: BTreeMap::new() });
                }
                Change::DeleteVolume { volume } => {
                    next.volumes.remove(volume).ok_or(OpError::NoSuchVolume(*volume))?;
                }
                Change::ResizeVolume { volume, blocks } => {
                    let volume = next.volume(*volume)?;
                    volume.mapped.split_off(blocks);
                    volume.blocks = *blocks;
                }
                Change::CopyVolume { source, destination } => {
                    if source == destination {
                        return Err(OpError::Malformed("source and destination are the same volume"));
                    }
                    let held = next.volume(*source)?.clone();
                    next.volumes.insert(*destination, held);
                }
                Change::Put { key, value } => {
                    next.values.insert(key.clone(), value.clone());
                }
                Change::Remove { key } => {
                    next.values.remove(key);
                }
            }
        }
        *self = next;
        Ok(Reply::Done)
    }
}

/// The model as a [`Service`](crate::Service).
#[derive(Default)]
pub struct ModelEngine(Mutex<Model>);

impl BlockService for ModelEngine {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        let result = self.0.lock().apply(&op);
        sink.complete(tag, result);
    }

    fn write_cache(&self) -> bool {
        false
    }
}

impl KeyValue for ModelEngine {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.lock().values.get(key).cloned()
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let model = self.0.lock();
        let from = model.values.range(prefix.to_vec()..);
        from.take_while(|(key, _)| key.starts_with(prefix)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl Maintenance for ModelEngine {
    fn space(&self) -> PoolSpace {
        let data = self.0.lock().volumes.values().map(|volume| volume.mapped.len() as u64 * LBA_BYTES).sum();
        PoolSpace { capacity: u64::MAX, used: data, data, written: data, data_stored: data, ..PoolSpace::default() }
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        let model = self.0.lock();
        let volume = model.volumes.get(&volume)?;
        let written = volume.mapped.len() as u64 * LBA_BYTES;
        Some(VolumeSpace { provisioned: volume.blocks * LBA_BYTES, written })
    }

    /// Counts each volume by itself, because the model shares nothing.
    fn account_space(&self, owner: &dyn Fn(VolumeId) -> Owner, _: Option<Duration>) -> Option<SpaceByFamily> {
        let model = self.0.lock();
        let mut accounting = SpaceByFamily::default();
        for (id, volume) in &model.volumes {
            let Owner { family, is_snapshot } = owner(*id);
            let space = accounting.families.entry(family).or_default();
            let bytes = volume.mapped.len() as u64 * LBA_BYTES;
            if is_snapshot {
                space.snapshots += bytes;
            } else {
                (space.written, space.unique) = (space.written + bytes, space.unique + bytes);
            }
        }
        Some(accounting)
    }

    /// Always succeeds, because the model has no capacity limit.
    fn grow(&self, _: u64) -> Result<(), OpError> {
        Ok(())
    }

    /// Does nothing, because the model has no stored bytes.
    fn scrub(&self, _: u64) {}

    fn health(&self) -> Health {
        Health::default()
    }
}
