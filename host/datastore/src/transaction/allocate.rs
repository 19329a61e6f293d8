//! Allocates and frees descriptors, pages and blocks: bits in clusters, each locked while it
//! changes.

use crate::io::Io;
use crate::layout::cluster::{Cluster, kind_of};
use crate::layout::geometry::Resource;
use crate::layout::superblock::Superblock;
use crate::layout::{SECTOR_BYTES, image_of};
use crate::transaction::{GuardId, Transaction};
use crate::{DatastoreError, Result};
use std::collections::BTreeMap;

/// A run of numbers: the first one and the count.
pub(crate) type NumberRun = (u32, u32);

/// Maximum number of clusters that one transaction allocates from.
const MAX_CLUSTERS: usize = 64;
/// Clusters per read when the estimates are out of date.
const SCAN_SECTORS: u64 = 2048;

impl Transaction {
    fn cluster(&self, guard: GuardId, resource: Resource, index: u32) -> Result<Cluster> {
        let cluster: Cluster = self.view(guard, kind_of(resource), index)?;
        if cluster.total() == self.mounted.geometry().in_cluster(resource, index) {
            Ok(cluster)
        } else {
            Err(DatastoreError::Damaged { what: "cluster", sector: self.sector(guard) })
        }
    }

    /// Allocates at least one and at most `most` numbers, in few runs if they are found quickly.
    pub(crate) async fn take(&mut self, resource: Resource, most: u32) -> Result<Vec<NumberRun>> {
        let taken = self.take_estimated(resource, most).await?;
        if !taken.is_empty() {
            return Ok(taken);
        }
        if self.scan(resource).await? == 0 {
            return Err(match resource {
                Resource::Descriptors => DatastoreError::NoMetadata("file descriptors"),
                Resource::Pages => DatastoreError::NoMetadata("pages"),
                Resource::Blocks => DatastoreError::NoSpace,
            });
        }
        let taken = self.take_estimated(resource, most).await?;
        // There is free space, but only in clusters that other hosts have locked.
        if taken.is_empty() { Err(DatastoreError::Busy) } else { Ok(taken) }
    }

    /// Allocates exactly `count` numbers.
    pub(crate) async fn take_all(&mut self, resource: Resource, count: u32) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        while numbers.len() < count as usize {
            for (first, length) in self.take(resource, count - numbers.len() as u32).await? {
                numbers.extend(first..first + length);
            }
        }
        Ok(numbers)
    }

    /// Allocates from clusters that were not full when last read, starting at the cursor.
    async fn take_estimated(&mut self, resource: Resource, most: u32) -> Result<Vec<NumberRun>> {
        let count = self.mounted.geometry().clusters(resource);
        let estimate = self.state.free_estimate(resource);
        let order = (0..count).map(|step| (estimate.cursor + step) % count.max(1));
        let candidates: Vec<u32> = order.filter(|index| estimate.free[*index as usize] > 0).collect();
        let mut taken = Vec::new();
        let mut missing = most;
        let mut rest = &candidates[..];
        let mut used = 0;
        while missing > 0 && !rest.is_empty() && used < MAX_CLUSTERS {
            // Locks as many clusters at once as should suffice. Busy clusters are skipped.
            let mut expected = 0;
            let estimate = self.state.free_estimate(resource);
            let enough = rest.iter().position(|index| {
                expected += estimate.free[*index as usize];
                expected >= missing
            });
            let batch = enough.map_or(rest.len(), |last| last + 1).min(MAX_CLUSTERS - used);
            let (now, later) = rest.split_at(batch);
            rest = later;
            used += batch;
            missing -= self.take_from(resource, now, 0, missing, &mut taken).await?;
        }
        Ok(taken)
    }

    /// Allocates from the given clusters, in each from number `first` on.
    async fn take_from(
        &mut self,
        resource: Resource,
        clusters: &[u32],
        first: u32,
        most: u32,
        taken: &mut Vec<NumberRun>,
    ) -> Result<u32> {
        let geometry = *self.mounted.geometry();
        let sectors: Vec<u64> = clusters.iter().map(|index| geometry.cluster_sector(resource, *index)).collect();
        let guards = self.lock_all(&sectors).await?;
        let mut count = 0;
        for (index, guard) in clusters.iter().zip(guards) {
            let Some(guard) = guard.filter(|_| count < most) else { continue };
            let mut cluster = self.cluster(guard, resource, *index)?;
            let before = count;
            let mut from = first;
            while let Some((first, length)) = cluster.free_run(from, most - count) {
                (first..first + length).for_each(|bit| {
                    cluster.take(bit);
                });
                push_run(taken, (index * geometry.per_cluster(resource) + first, length));
                count += length;
                from = first + length;
                if count == most {
                    break;
                }
            }
            let estimate = self.state.free_estimate(resource);
            estimate.free[*index as usize] = cluster.free();
            estimate.cursor = *index;
            if count > before {
                self.set(guard, &cluster);
            }
        }
        Ok(count)
    }

    /// Allocates at most `most` free numbers in one cluster, from `first` on. Returns `None` if a
    /// live host has locked the cluster.
    pub(crate) async fn take_in(
        &mut self,
        resource: Resource,
        index: u32,
        first: u32,
        most: u32,
    ) -> Result<Option<Vec<NumberRun>>> {
        let sector = self.mounted.geometry().cluster_sector(resource, index);
        if self.lock_all(&[sector]).await?.first().copied().flatten().is_none() {
            return Ok(None);
        }
        let mut taken = Vec::new();
        self.take_from(resource, &[index], first, most, &mut taken).await?;
        Ok(Some(taken))
    }

    /// Frees runs.
    ///
    /// # Errors
    /// [`DatastoreError::Busy`] if a live host has locked one of their clusters.
    pub(crate) async fn free_items(&mut self, resource: Resource, runs: &[NumberRun]) -> Result<()> {
        let geometry = *self.mounted.geometry();
        let per = geometry.per_cluster(resource);
        let mut by_cluster: BTreeMap<u32, Vec<NumberRun>> = BTreeMap::new();
        for (first, length) in runs {
            let (mut at, end) = (*first, first + length);
            while at < end {
                let stop = end.min((at / per + 1) * per);
                by_cluster.entry(at / per).or_default().push((at % per, stop - at));
                at = stop;
            }
        }
        let sectors: Vec<u64> = by_cluster.keys().map(|index| geometry.cluster_sector(resource, *index)).collect();
        let guards = self.lock_all(&sectors).await?;
        for ((index, runs), guard) in by_cluster.into_iter().zip(guards) {
            let guard = guard.ok_or(DatastoreError::Busy)?;
            let mut cluster = self.cluster(guard, resource, index)?;
            for bit in runs.into_iter().flat_map(|(first, length)| first..first + length) {
                if !cluster.free_item(bit) {
                    return Err(DatastoreError::Damaged { what: "cluster", sector: self.sector(guard) });
                }
            }
            self.state.free_estimate(resource).free[index as usize] = cluster.free();
            self.set(guard, &cluster);
        }
        Ok(())
    }

    /// Reads the free count of every cluster and returns the sum. Concurrent changes by other hosts
    /// may or may not be included.
    pub(crate) async fn scan(&mut self, resource: Resource) -> Result<u64> {
        let free = scan(&self.mounted.io, &self.mounted.superblock, resource).await?;
        let sum = free.iter().map(|free| u64::from(*free)).sum();
        self.state.free_estimate(resource).free = free;
        Ok(sum)
    }
}

/// Returns the free count of each cluster of a resource.
pub(crate) async fn scan(io: &Io, superblock: &Superblock, resource: Resource) -> Result<Vec<u32>> {
    let geometry = &superblock.geometry;
    let mut free = Vec::with_capacity(geometry.clusters(resource) as usize);
    let pieces = geometry.cluster_runs(resource).into_iter().flat_map(|(first, count)| {
        let pieces = (0..count).step_by(SCAN_SECTORS as usize);
        pieces.map(move |at| (first + at, u64::from(count - at).min(SCAN_SECTORS)))
    });
    for (first, sectors) in pieces {
        let at = geometry.cluster_sector(resource, first);
        let bytes = io.read(at, sectors).await?;
        for (offset, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            let index = first + offset as u32;
            let cluster = Cluster::load(&image_of(sector), resource, index, geometry, superblock.uuid);
            let damaged = DatastoreError::Damaged { what: "cluster", sector: at + offset as u64 };
            free.push(cluster.ok_or(damaged)?.free());
        }
    }
    Ok(free)
}

/// Appends a run to a list, merging it with the last run if they are adjacent.
pub(crate) fn push_run(runs: &mut Vec<NumberRun>, run: NumberRun) {
    match runs.last_mut() {
        Some((first, length)) if *first + *length == run.0 => *length += run.1,
        _ => runs.push(run),
    }
}
