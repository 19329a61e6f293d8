//! Walks the metadata: from descriptors to blocks, from the root along all names, and over the
//! bitmaps.

use super::checker::{Check, WrongCluster};
use super::problem::{Problem, resource_name};
use crate::layout::cluster::Cluster;
use crate::layout::descriptor::{Descriptor, FileKind, ROOT_DIRECTORY};
use crate::layout::geometry::Resource;
use crate::layout::lock::{Guarded, Kind};
use crate::tree::{Directory, read_map};
use crate::{DatastoreError, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Sectors per read.
const CHUNK: u64 = 2048;

/// Counters of a check.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) blocks: u64,
}

/// Used numbers of each resource, as bitmaps.
struct Used(BTreeMap<Resource, Vec<u64>>);

impl Used {
    fn new(check: &Check) -> Self {
        let geometry = &check.superblock.geometry;
        let words = |count: u32| vec![0; (count as usize).div_ceil(64)];
        Self(BTreeMap::from([
            (Resource::Descriptors, words(geometry.descriptors)),
            (Resource::Pages, words(geometry.pages)),
            (Resource::Blocks, words(geometry.block_numbers())),
        ]))
    }

    fn contains(&self, resource: Resource, number: u32) -> bool {
        let word = self.0.get(&resource).and_then(|words| words.get(number as usize / 64));
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Marks a number as used. Returns false if it was used already or does not exist.
    fn add(&mut self, resource: Resource, number: u32) -> bool {
        let word = self.0.get_mut(&resource).and_then(|words| words.get_mut(number as usize / 64));
        let Some(word) = word else { return false };
        let before = *word;
        *word |= 1 << (number % 64);
        *word != before
    }
}

/// Checks everything below the superblock.
pub(super) async fn walk(check: &mut Check) -> Result<Totals> {
    let mut used = Used::new(check);
    for extent in check.superblock.geometry.extents() {
        for block in extent.first_block..extent.first_block + extent.reserved {
            used.add(Resource::Blocks, block);
        }
    }
    let mut totals = Totals::default();
    let descriptors = descriptors(check, &mut used, &mut totals).await?;
    names(check, &descriptors).await?;
    for resource in [Resource::Descriptors, Resource::Pages, Resource::Blocks] {
        clusters(check, &used, resource).await?;
    }
    Ok(totals)
}

/// Reads all descriptors, and the maps of those in use.
async fn descriptors(check: &mut Check, used: &mut Used, totals: &mut Totals) -> Result<BTreeMap<u32, Descriptor>> {
    let (geometry, volume) = (check.superblock.geometry, check.superblock.uuid);
    let mut found = BTreeMap::new();
    for first in (0..geometry.descriptors).step_by(CHUNK as usize) {
        let count = u64::from(geometry.descriptors - first).min(CHUNK);
        for (index, image) in (first..).zip(check.images(geometry.descriptor_sector(first), count).await?) {
            let sector = geometry.descriptor_sector(index);
            let Some(descriptor) = Descriptor::decode(&image, Kind::Descriptor, index, volume) else {
                check.problems.push(Problem::Descriptor { descriptor: index, sector });
                continue;
            };
            check.note_lock(sector, descriptor.lock().owner(), Some(index));
            if let Some(kind) = descriptor.kind() {
                used.add(Resource::Descriptors, index);
                map(check, used, totals, index, &descriptor, kind).await?;
                found.insert(index, descriptor);
            }
        }
    }
    Ok(found)
}

/// Reads the map of one file or directory.
async fn map(
    check: &mut Check,
    used: &mut Used,
    totals: &mut Totals,
    index: u32,
    descriptor: &Descriptor,
    kind: FileKind,
) -> Result<()> {
    let map = match read_map(&check.io, &check.superblock, index, descriptor).await {
        Err(DatastoreError::Damaged { sector, .. }) => {
            check.problems.push(Problem::Descriptor { descriptor: index, sector });
            return Ok(());
        }
        map => map?,
    };
    let leaf = match kind {
        FileKind::File => Resource::Blocks,
        FileKind::Directory => Resource::Pages,
    };
    let pages = map.pages().map(|(_, _, page)| (Resource::Pages, page));
    let leaves = map.within(0..u32::MAX);
    let leaves = leaves.iter().flat_map(|(_, run)| (run.target..run.target + run.length).map(|number| (leaf, number)));
    for (resource, number) in pages.chain(leaves) {
        if !used.add(resource, number) {
            check.problems.push(Problem::TakenTwice { what: resource_name(resource), number, descriptor: index });
        }
    }
    match kind {
        FileKind::File => {
            totals.files += 1;
            totals.blocks += map.leaves();
        }
        FileKind::Directory => totals.directories += 1,
    }
    let fits = kind == FileKind::Directory
        || u64::from(map.end()) <= descriptor.size.get().div_ceil(check.superblock.geometry.block_bytes());
    let counts = (descriptor.leaves.get(), u64::from(descriptor.pages.get()));
    if !fits || counts != (map.leaves(), map.pages().count() as u64) {
        check.problems.push(Problem::Counts { descriptor: index });
    }
    Ok(())
}

/// Follows all names from the root.
async fn names(check: &mut Check, descriptors: &BTreeMap<u32, Descriptor>) -> Result<()> {
    let mut named = BTreeSet::from([ROOT_DIRECTORY]);
    let mut waiting = vec![ROOT_DIRECTORY];
    while let Some(index) = waiting.pop() {
        let Some(descriptor) = descriptors.get(&index) else { continue };
        let directory = match Directory::read(&check.io, &check.superblock, index, descriptor).await {
            Err(DatastoreError::Damaged { sector, .. }) => {
                check.problems.push(Problem::Descriptor { descriptor: index, sector });
                continue;
            }
            directory => directory?,
        };
        let mut seen = BTreeSet::new();
        for entry in directory.pages.into_iter().flatten() {
            if !seen.insert(entry.name.clone()) {
                check.problems.push(Problem::NameTwice { directory: index, name: entry.name.clone() });
            }
            let target = descriptors.get(&entry.descriptor);
            let target = target.filter(|found| {
                found.file_id.get() == entry.file_id
                    && found.kind() == Some(entry.kind)
                    && named.insert(entry.descriptor)
            });
            let Some(target) = target else {
                check.problems.push(Problem::Dangling { directory: index, name: entry.name });
                continue;
            };
            if target.parent.get() != index {
                check.problems.push(Problem::Parent { descriptor: entry.descriptor });
            }
            if entry.kind == FileKind::Directory {
                waiting.push(entry.descriptor);
            }
        }
    }
    let stray_locks = descriptors.keys().filter(|index| !named.contains(index));
    check.problems.extend(stray_locks.map(|index| Problem::Orphan { descriptor: *index }));
    Ok(())
}

/// Compares the clusters of a resource with the used numbers.
async fn clusters(check: &mut Check, used: &Used, resource: Resource) -> Result<()> {
    let (geometry, volume) = (check.superblock.geometry, check.superblock.uuid);
    let runs = geometry.cluster_runs(resource).into_iter();
    let pieces = runs.flat_map(|(first, count)| {
        let pieces = (0..count).step_by(CHUNK as usize);
        pieces.map(move |at| (first + at, u64::from(count - at).min(CHUNK)))
    });
    for (first, sectors) in pieces {
        for (index, image) in (first..).zip(check.images(geometry.cluster_sector(resource, first), sectors).await?) {
            let sector = geometry.cluster_sector(resource, index);
            let Some(cluster) = Cluster::load(&image, resource, index, &geometry, volume) else {
                check.problems.push(Problem::Cluster { sector });
                continue;
            };
            check.note_lock(sector, cluster.lock().owner(), None);
            compare(check, used, resource, index, &cluster);
        }
    }
    Ok(())
}

fn compare(check: &mut Check, used: &Used, resource: Resource, index: u32, cluster: &Cluster) {
    let geometry = check.superblock.geometry;
    let base = index * geometry.per_cluster(resource);
    let counted = cluster.count_free();
    if counted != cluster.free() {
        let sector = geometry.cluster_sector(resource, index);
        check.problems.push(Problem::FreeCount { sector, recorded: cluster.free(), counted });
    }
    let what = resource_name(resource);
    let taken: Vec<bool> = (0..cluster.total()).map(|bit| used.contains(resource, base + bit)).collect();
    let differs = (0..cluster.total()).zip(&taken).any(|(bit, used)| cluster.is_taken(bit) != *used);
    if differs || counted != cluster.free() {
        check.wrong_clusters.push(WrongCluster { resource, index, taken });
    }
    let mut leaked = None;
    for bit in 0..cluster.total() {
        let number = base + bit;
        match (cluster.is_taken(bit), used.contains(resource, number)) {
            (false, true) => check.problems.push(Problem::NotMarked { what, number }),
            (true, false) => {
                let (_, count) = leaked.get_or_insert((number, 0));
                *count += 1;
            }
            _ => {}
        }
    }
    if let Some((first, count)) = leaked {
        check.problems.push(Problem::Leaked { what, first, count });
    }
}
