//! The oracle's state of an array: volumes of content ids and the values of the catalog.
//!
//! It executes the same operations as `engine::model::Model` but is an independent implementation,
//! so the two can be compared. Copies of a state share leaves, so a copy or a comparison takes
//! microseconds.

use crate::content::{Content, Contents, LBA_LEN};
use engine::{Change, Extent, ExtentState, MAX_COMPARE_BLOCKS, MAX_TRANSFER_BYTES, Op, OpError, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{BlockRange, Lba, VolumeId};

/// Blocks of one shared piece of a volume: 1 MiB.
pub const LEAF_BLOCKS: u64 = 2048;
type Leaf = [Content; LEAF_BLOCKS as usize];

/// A volume: its size and what its blocks hold.
#[derive(Clone, Debug, Default)]
pub struct OracleVolume {
    /// Size in blocks.
    pub blocks: u64,
    leaves: BTreeMap<u64, Arc<Leaf>>,
}

impl OracleVolume {
    /// Creates an empty volume.
    pub fn new(blocks: u64) -> Self {
        Self { blocks, leaves: BTreeMap::new() }
    }

    /// Returns the content of a block.
    pub fn get(&self, lba: u64) -> Content {
        self.leaves.get(&(lba / LEAF_BLOCKS)).map_or(Content::UNMAPPED, |leaf| leaf[(lba % LEAF_BLOCKS) as usize])
    }

    /// Returns the contents of a range.
    pub fn read(&self, range: BlockRange) -> Vec<Content> {
        let mut held = Vec::with_capacity(range.blocks() as usize);
        for (leaf, from, to) in pieces(range) {
            match self.leaves.get(&leaf) {
                Some(leaf) => held.extend_from_slice(&leaf[from..to]),
                None => held.extend(std::iter::repeat_n(Content::UNMAPPED, to - from)),
            }
        }
        held
    }

    /// Stores contents from block `start`.
    pub fn write(&mut self, start: u64, contents: &[Content]) {
        let mut rest = contents;
        for (leaf, from, to) in pieces(span(start, contents.len() as u64)) {
            let (now, later) = rest.split_at(to - from);
            Arc::make_mut(self.leaf(leaf))[from..to].copy_from_slice(now);
            rest = later;
        }
    }

    /// Stores one content in every block of a range.
    pub fn fill(&mut self, range: BlockRange, content: Content) {
        let mut whole: Option<Arc<Leaf>> = None;
        for (leaf, from, to) in pieces(range) {
            if to - from < LEAF_BLOCKS as usize {
                Arc::make_mut(self.leaf(leaf))[from..to].fill(content);
            } else if content == Content::UNMAPPED {
                self.leaves.remove(&leaf);
            } else {
                let shared = whole.get_or_insert_with(|| Arc::new([content; LEAF_BLOCKS as usize]));
                self.leaves.insert(leaf, shared.clone());
            }
        }
    }

    fn leaf(&mut self, leaf: u64) -> &mut Arc<Leaf> {
        self.leaves.entry(leaf).or_insert_with(|| Arc::new([Content::UNMAPPED; LEAF_BLOCKS as usize]))
    }

    fn resize(&mut self, blocks: u64) {
        if blocks < self.blocks {
            self.fill(span(blocks, self.blocks - blocks), Content::UNMAPPED);
        }
        self.blocks = blocks;
    }

    fn check(&self, range: BlockRange) -> Result<BlockRange, OpError> {
        if range.end().0 > self.blocks { Err(OpError::OutOfRange { blocks: self.blocks }) } else { Ok(range) }
    }

    fn inside(&self, lba: Lba, bytes: usize) -> Result<BlockRange, OpError> {
        if bytes == 0 || !bytes.is_multiple_of(LBA_LEN) {
            return Err(OpError::Malformed("length is not a whole number of blocks"));
        }
        let out_of_range = |_| OpError::OutOfRange { blocks: self.blocks };
        self.check(BlockRange::new(lba, (bytes / LBA_LEN) as u64).map_err(out_of_range)?)
    }

    /// Returns the first block of `range` where `seen` holds a content that this volume does not
    /// allow.
    pub fn first_difference(&self, seen: &OracleVolume, range: BlockRange, contents: &Contents) -> Option<u64> {
        for (leaf, from, to) in pieces(range) {
            match (self.leaves.get(&leaf), seen.leaves.get(&leaf)) {
                (None, None) => {}
                (Some(a), Some(b)) if Arc::ptr_eq(a, b) || a[from..to] == b[from..to] => {}
                _ => {
                    let first = leaf * LEAF_BLOCKS;
                    let blocks = first + from as u64..first + to as u64;
                    let differs = |lba: &u64| !contents.allows(self.get(*lba), seen.get(*lba));
                    if let Some(lba) = blocks.into_iter().find(differs) {
                        return Some(lba);
                    }
                }
            }
        }
        None
    }
}

/// Returns the range of `blocks` blocks from `start`; empty if it exceeds the address space.
pub fn span(start: u64, blocks: u64) -> BlockRange {
    BlockRange::new(Lba(start), blocks).unwrap_or_default()
}

/// Splits a range by leaf: (leaf, first block in it, block after the last in it).
fn pieces(range: BlockRange) -> impl Iterator<Item = (u64, usize, usize)> {
    let (start, end) = (range.start().0, range.end().0);
    let leaves = if range.is_empty() { 0..0 } else { start / LEAF_BLOCKS..(end - 1) / LEAF_BLOCKS + 1 };
    leaves.map(move |leaf| {
        let first = leaf * LEAF_BLOCKS;
        ((leaf), (start.max(first) - first) as usize, (end.min(first + LEAF_BLOCKS) - first) as usize)
    })
}

/// The expected reply to an operation.
#[derive(Clone, Debug)]
pub enum Expected {
    /// [`Reply::Done`].
    Done,
    /// [`Reply::Data`] of these blocks.
    Data(Vec<Content>),
    /// [`Reply::Extents`] for some of these blocks from the first on, at most `limit` extents.
    Extents {
        /// Contents from the requested block to the end of the volume.
        held: Vec<Content>,
        /// Maximum number of extents.
        limit: usize,
    },
}

/// The state of an array.
#[derive(Clone, Debug, Default)]
pub struct OracleState {
    /// Volumes by id.
    pub volumes: BTreeMap<VolumeId, OracleVolume>,
    /// Values of the catalog by key.
    pub values: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl OracleState {
    fn volume(&mut self, volume: VolumeId) -> Result<&mut OracleVolume, OpError> {
        self.volumes.get_mut(&volume).ok_or(OpError::NoSuchVolume(volume))
    }

    /// Executes one operation. If a comparison depends on an undecided content, `seen` (the reply
    /// of the array) decides it.
    pub fn apply(
        &mut self,
        contents: &mut Contents,
        op: &Op,
        seen: Option<&Result<Reply, OpError>>,
    ) -> Result<Expected, OpError> {
        match op {
            Op::Read { range, .. } if range.bytes() > MAX_TRANSFER_BYTES => {
                Err(OpError::Malformed("transfer too long"))
            }
            Op::Read { volume, range } => {
                let volume = self.volume(*volume)?;
                Ok(Expected::Data(volume.read(volume.check(*range)?)))
            }
            Op::Write { volume, lba, data, .. } => {
                let volume = self.volume(*volume)?;
                volume.inside(*lba, data.len())?;
                volume.write(lba.0, &contents.ids_of(data));
                Ok(Expected::Done)
            }
            Op::WriteSame { volume, range, pattern } => self.write_same(contents, *volume, *range, pattern),
            Op::Zero { volume, range } => {
                let volume = self.volume(*volume)?;
                volume.fill(volume.check(*range)?, Content::ZERO);
                Ok(Expected::Done)
            }
            Op::Unmap { volume, ranges } => {
                let volume = self.volume(*volume)?;
                ranges.iter().try_for_each(|range| volume.check(*range).map(|_| ()))?;
                ranges.iter().for_each(|range| volume.fill(*range, Content::UNMAPPED));
                Ok(Expected::Done)
            }
            Op::CompareAndWrite { compare, write, .. }
                if compare.len() != write.len() || compare.len() as u64 > MAX_COMPARE_BLOCKS * LBA_LEN as u64 =>
            {
                Err(OpError::Malformed("compare and write differ in length, or are too long"))
            }
            Op::CompareAndWrite { volume, lba, compare, write, .. } => {
                self.compare(contents, *volume, *lba, compare, seen)?;
                self.volume(*volume)?.write(lba.0, &contents.ids_of(write));
                Ok(Expected::Done)
            }
            Op::Or { volume, lba, data, .. } => {
                let volume = self.volume(*volume)?;
                let old = volume.read(volume.inside(*lba, data.len())?);
                let new: Vec<Content> =
                    old.iter().zip(data.chunks_exact(LBA_LEN)).map(|(old, set)| or(contents, *old, set)).collect();
                volume.write(lba.0, &new);
                Ok(Expected::Done)
            }
            Op::Compare { volume, lba, data } => {
                self.compare(contents, *volume, *lba, data, seen).map(|()| Expected::Done)
            }
            Op::Copy { source, from, destination, to } => self.copy(*source, *from, *destination, *to),
            Op::Flush => Ok(Expected::Done),
            Op::Follow(_) | Op::StreamChange(_) | Op::Sync { .. } | Op::Delta(_) | Op::CopyIfEqual(_) => {
                Err(OpError::Malformed("no such stream"))
            }
            Op::Status { volume, lba, limit } => {
                let volume = self.volume(*volume)?;
                volume.inside(*lba, LBA_LEN)?;
                Ok(Expected::Extents { held: volume.read(span(lba.0, volume.blocks - lba.0)), limit: *limit })
            }
            Op::Change(changes) => self.change(changes),
        }
    }

    fn write_same(
        &mut self,
        contents: &mut Contents,
        volume: VolumeId,
        range: BlockRange,
        pattern: &[u8],
    ) -> Result<Expected, OpError> {
        let volume = self.volume(volume)?;
        volume.check(range)?;
        if pattern.len() != LBA_LEN {
            return Err(OpError::Malformed("pattern is not one block"));
        }
        volume.fill(range, contents.id_of(pattern));
        Ok(Expected::Done)
    }

    fn compare(
        &mut self,
        contents: &Contents,
        volume: VolumeId,
        lba: Lba,
        expected: &[u8],
        seen: Option<&Result<Reply, OpError>>,
    ) -> Result<(), OpError> {
        let volume = self.volume(volume)?;
        let held = volume.read(volume.inside(lba, expected.len())?);
        if !held.iter().all(|content| contents.is_certain(*content)) {
            return match seen {
                Some(Err(OpError::Miscompare { offset })) => Err(OpError::Miscompare { offset: *offset }),
                _ => Ok(()),
            };
        }
        for (index, (content, block)) in held.iter().zip(expected.chunks_exact(LBA_LEN)).enumerate() {
            if let Some(byte) = contents.bytes(*content).iter().zip(block).position(|(a, b)| a != b) {
                return Err(OpError::Miscompare { offset: (index * LBA_LEN + byte) as u64 });
            }
        }
        Ok(())
    }

    fn copy(
        &mut self,
        source: VolumeId,
        from: BlockRange,
        destination: VolumeId,
        to: Lba,
    ) -> Result<Expected, OpError> {
        let source = self.volume(source)?;
        let held = source.read(source.check(from)?);
        let target = self.volume(destination)?;
        let range = BlockRange::new(to, from.blocks()).map_err(|_| OpError::OutOfRange { blocks: target.blocks })?;
        target.check(range)?;
        target.write(to.0, &held);
        Ok(Expected::Done)
    }

    fn change(&mut self, changes: &[Change]) -> Result<Expected, OpError> {
        let mut next = self.clone();
        for change in changes {
            match change {
                Change::CreateVolume { volume, .. } if next.volumes.contains_key(volume) => {
                    return Err(OpError::VolumeExists(*volume));
                }
                Change::CreateVolume { volume, blocks } => {
                    next.volumes.insert(*volume, OracleVolume::new(*blocks));
                }
                Change::DeleteVolume { volume } => {
                    next.volumes.remove(volume).ok_or(OpError::NoSuchVolume(*volume))?;
                }
                Change::ResizeVolume { volume, blocks } => next.volume(*volume)?.resize(*blocks),
                Change::CopyVolume { source, destination } => {
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
        Ok(Expected::Done)
    }
}

/// Returns the content of a block that held `old` after a bitwise OR with `set`.
fn or(contents: &mut Contents, old: Content, set: &[u8]) -> Content {
    let mut result: Option<Content> = None;
    for possible in contents.possible(old) {
        let bytes: Vec<u8> = contents.bytes(possible).iter().zip(set).map(|(a, b)| a | b).collect();
        let new = contents.id_of(&bytes);
        result = Some(result.map_or(new, |before| contents.either(before, new)));
    }
    result.unwrap_or(Content::ZERO)
}

/// Compares a reply with the expected one. The error describes the difference.
pub fn check_answer(
    contents: &mut Contents,
    expected: &Result<Expected, OpError>,
    seen: &Result<Reply, OpError>,
) -> Result<(), String> {
    match (expected, seen) {
        (Ok(Expected::Done), Ok(Reply::Done)) => Ok(()),
        (Ok(Expected::Data(held)), Ok(Reply::Data(data))) => {
            if data.len() != held.len() * LBA_LEN {
                return Err(format!("{} bytes instead of {} blocks", data.len(), held.len()));
            }
            for (index, (expected, block)) in held.iter().zip(data.chunks_exact(LBA_LEN)).enumerate() {
                if contents.is_certain(*expected) && contents.bytes(*expected)[..] == *block {
                    continue;
                }
                let seen = contents.id_of(block);
                if !contents.allows_bytes(*expected, seen) {
                    return Err(format!("block {index} of {} holds {seen:?}, expected {expected:?}", held.len()));
                }
            }
            Ok(())
        }
        (Ok(Expected::Extents { held, limit }), Ok(Reply::Extents(extents))) => {
            check_extents(contents, held, *limit, extents)
        }
        (Err(OpError::Malformed(_)), Err(OpError::Malformed(_))) => Ok(()),
        (Err(expected), Err(seen)) if expected == seen => Ok(()),
        (expected, seen) => Err(format!("answered {}, expected {}", summary(seen), summary_of_expected(expected))),
    }
}

fn check_extents(contents: &Contents, held: &[Content], limit: usize, extents: &[Extent]) -> Result<(), String> {
    let covered: u64 = extents.iter().map(|extent| extent.range.blocks()).sum();
    if extents.is_empty() || extents.len() > limit.max(1) || covered > held.len() as u64 {
        return Err(format!(
            "{} extents of {covered} blocks, requested at most {limit} of {} blocks",
            extents.len(),
            held.len()
        ));
    }
    if extents.iter().any(|extent| extent.range.is_empty())
        || extents.windows(2).any(|two| two[0].range.end() != two[1].range.start())
    {
        return Err(format!("extents do not follow each other: {extents:?}"));
    }
    let states = extents.iter().flat_map(|extent| std::iter::repeat_n(extent.state, extent.range.blocks() as usize));
    for (index, (content, state)) in held.iter().zip(states).enumerate() {
        if state == ExtentState::Deallocated && !contents.allows(*content, Content::UNMAPPED) {
            return Err(format!("block {index} from the requested one is reported deallocated but holds {content:?}"));
        }
    }
    Ok(())
}

/// Describes a reply in a few words.
pub fn summary(reply: &Result<Reply, OpError>) -> String {
    match reply {
        Ok(Reply::Done) => "done".to_owned(),
        Ok(Reply::Data(data)) => format!("{} bytes", data.len()),
        Ok(Reply::Extents(extents)) => format!("{} extents", extents.len()),
        Ok(Reply::Synced { blocks, .. }) => format!("{blocks} blocks in step"),
        Err(error) => format!("'{error}'"),
    }
}

fn summary_of_expected(expected: &Result<Expected, OpError>) -> String {
    match expected {
        Ok(Expected::Done) => "done".to_owned(),
        Ok(Expected::Data(held)) => format!("{} blocks", held.len()),
        Ok(Expected::Extents { .. }) => "extents".to_owned(),
        Err(error) => format!("'{error}'"),
    }
}

#[cfg(test)]
mod tests;
