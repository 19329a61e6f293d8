//! Division of a partition. It is fixed at creation and follows from a few numbers in the
//! superblock.

use super::{FS_BLOCK_SECTORS, MAX_HOSTS, PAGE_SECTORS, SECTOR_BYTES};

/// Descriptors per cluster.
pub(crate) const DESCRIPTORS_PER_CLUSTER: u32 = 256;
/// Pages per cluster.
pub(crate) const PAGES_PER_CLUSTER: u32 = 256;
/// Maximum number of items in the bitmap of a cluster.
pub(crate) const MAX_PER_CLUSTER: u32 = 2048;
/// First sector of the heartbeat slots.
pub(crate) const HEARTBEATS_AT: u64 = 128;
/// Sector of the backup superblock.
pub(crate) const BACKUP_AT: u64 = 1024;
/// First sector of the journals.
const JOURNALS_AT: u64 = FS_BLOCK_SECTORS;
/// Sectors of a file block: 1, 2, 4 or 8 MiB, as in VMFS 3.
const BLOCK_SECTORS: [u32; 4] = [2048, 4096, 8192, 16384];
/// Maximum number of extents after the first.
pub(crate) const MAX_EXTENTS: usize = 8;
/// First sector of the clusters on an extent after the first.
pub(crate) const EXTENT_CLUSTERS_AT: u64 = 128;
/// Minimum number of file blocks.
const MIN_BLOCKS: u64 = 16;
/// Sectors of a journal on a datastore smaller than `LARGE_BLOCKS`, and on a larger one.
const JOURNAL_SECTORS: [u32; 2] = [256, 1024];
const LARGE_BLOCKS: u64 = 16 * 1024;
/// Block numbers have 31 bits, and a pointer needs one value for "none".
const MAX_BLOCKS: u64 = (1 << 31) - 2;

/// Resources that clusters allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// File descriptors.
    Descriptors,
    /// Pages.
    Pages,
    /// Number of file blocks.
    Blocks,
}

/// Division of a partition. Sectors count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Size of the partition in sectors.
    pub(crate) sectors: u64,
    /// Sectors of the journal of each host.
    pub(crate) journal_sectors: u32,
    /// Number of file descriptors; a multiple of [`DESCRIPTORS_PER_CLUSTER`].
    pub(crate) descriptors: u32,
    /// Number of pages; a multiple of [`PAGES_PER_CLUSTER`].
    pub(crate) pages: u32,
    /// File blocks.
    pub(crate) blocks: u32,
    /// File blocks per cluster; the last cluster may have fewer.
    pub(crate) blocks_per_cluster: u32,
    /// Sectors of a file block.
    pub(crate) block_sectors: u32,
    /// Sectors of the extents after the first; 0 after the last one.
    pub(crate) extents: [u64; MAX_EXTENTS],
}

/// Division of an extent after the first. Its blocks begin at its first sector; those with its
/// header and clusters are never free, so no run of blocks continues from one extent to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentPlan {
    /// First sector.
    pub(crate) base: u64,
    /// First cluster of blocks.
    pub(crate) first_cluster: u32,
    /// Number of clusters.
    pub(crate) clusters: u32,
    /// First block.
    pub(crate) first_block: u32,
    /// Number of blocks.
    pub(crate) blocks: u32,
    /// Number of blocks with its header and clusters.
    pub(crate) reserved: u32,
}

impl Geometry {
    /// Plans a new datastore of `sectors` sectors with file blocks of `block_sectors` sectors;
    /// `None` if it is too small or too large.
    pub(crate) fn plan(sectors: u64, block_sectors: u32) -> Option<Self> {
        let whole = sectors / FS_BLOCK_SECTORS;
        let most_blocks = (sectors / u64::from(block_sectors)).min(MAX_BLOCKS);
        let descriptors = (whole / 16).next_power_of_two().clamp(256, 65536) as u32;
        let pages = (whole / 508 + u64::from(descriptors)).next_multiple_of(u64::from(PAGES_PER_CLUSTER));
        let plan = Self {
            sectors,
            journal_sectors: JOURNAL_SECTORS[usize::from(whole >= LARGE_BLOCKS)],
            descriptors,
            pages: u32::try_from(pages).ok()?,
            blocks: 0,
            blocks_per_cluster: (most_blocks / 64).next_power_of_two().clamp(32, u64::from(MAX_PER_CLUSTER)) as u32,
            block_sectors,
            extents: [0; MAX_EXTENTS],
        };
        // The block clusters precede the blocks, so first assume the maximum number of blocks.
        let most = Self { blocks: u32::try_from(most_blocks).ok()?, ..plan };
        let blocks = sectors.checked_sub(most.blocks_at())? / u64::from(block_sectors);
        let blocks = blocks.min(MAX_BLOCKS);
        // Fewer blocks need no more clusters, so the plan fits the partition.
        (blocks >= MIN_BLOCKS).then_some(Self { blocks: blocks as u32, ..plan })
    }

    /// Returns whether the numbers, read from a disk, are consistent.
    pub(crate) fn is_valid(&self) -> bool {
        let clusters =
            self.descriptors.is_multiple_of(DESCRIPTORS_PER_CLUSTER) && self.pages.is_multiple_of(PAGES_PER_CLUSTER);
        clusters
            && self.descriptors > 0
            && self.pages > 0
            && (16..=65536).contains(&self.journal_sectors)
            && BLOCK_SECTORS.contains(&self.block_sectors)
            && (1..=MAX_PER_CLUSTER).contains(&self.blocks_per_cluster)
            && u64::from(self.blocks) <= MAX_BLOCKS
            && self.blocks_at() + u64::from(self.blocks) * u64::from(self.block_sectors) <= self.sectors
            && self.extent_plans().is_some()
    }

    /// Returns the first sector of a host's journal.
    pub(crate) fn journal_at(&self, slot: u16) -> u64 {
        JOURNALS_AT + u64::from(slot) * u64::from(self.journal_sectors)
    }

    /// Returns the number of clusters of a resource.
    pub(crate) fn clusters(&self, resource: Resource) -> u32 {
        match resource {
            Resource::Descriptors => self.descriptors / DESCRIPTORS_PER_CLUSTER,
            Resource::Pages => self.pages / PAGES_PER_CLUSTER,
            Resource::Blocks => self.extents().last().map_or(self.first_clusters(), |e| e.first_cluster + e.clusters),
        }
    }

    /// Returns the clusters of blocks on the first extent.
    fn first_clusters(&self) -> u32 {
        self.blocks.div_ceil(self.blocks_per_cluster)
    }

    /// Returns the extents after the first; `None` if one is too small or has too many blocks.
    fn extent_plans(&self) -> Option<Vec<ExtentPlan>> {
        let (mut base, mut cluster, mut plans) = (self.sectors, self.first_clusters(), Vec::new());
        for sectors in self.extents.into_iter().take_while(|sectors| *sectors > 0) {
            let blocks = u32::try_from(sectors / u64::from(self.block_sectors)).ok()?;
            let clusters = blocks.div_ceil(self.blocks_per_cluster);
            let reserved = (EXTENT_CLUSTERS_AT + u64::from(clusters)).div_ceil(u64::from(self.block_sectors)) as u32;
            let first_block = cluster.checked_mul(self.blocks_per_cluster)?;
            let end = u64::from(first_block) + u64::from(blocks);
            if u64::from(blocks) < u64::from(reserved) + MIN_BLOCKS || end > MAX_BLOCKS {
                return None;
            }
            plans.push(ExtentPlan { base, first_cluster: cluster, clusters, first_block, blocks, reserved });
            (base, cluster) = (base + sectors, cluster + clusters);
        }
        Some(plans)
    }

    /// Returns the extents after the first.
    pub(crate) fn extents(&self) -> Vec<ExtentPlan> {
        // Valid geometries have plans.
        self.extent_plans().unwrap_or_default()
    }

    /// Returns this datastore with one more extent; `None` if it is too small, or if there are too
    /// many extents or blocks.
    pub(crate) fn extended(&self, sectors: u64) -> Option<Self> {
        let mut more = *self;
        *more.extents.iter_mut().find(|sectors| **sectors == 0)? = sectors;
        more.extent_plans().filter(|_| sectors > 0).map(|_| more)
    }

    /// Returns the number of the last block plus one.
    pub(crate) fn block_numbers(&self) -> u32 {
        self.extents().last().map_or(self.blocks, |extent| extent.first_block + extent.blocks)
    }

    /// Returns the number of blocks that files can have.
    pub(crate) fn usable_blocks(&self) -> u64 {
        let more = self.extents().iter().map(|extent| u64::from(extent.blocks - extent.reserved)).sum::<u64>();
        u64::from(self.blocks) + more
    }

    fn extent_of_cluster(&self, cluster: u32) -> Option<ExtentPlan> {
        if self.extents[0] == 0 || cluster < self.first_clusters() {
            return None;
        }
        self.extents().into_iter().rev().find(|extent| cluster >= extent.first_cluster)
    }

    /// Returns the number of items in a full cluster of a resource.
    pub(crate) fn per_cluster(&self, resource: Resource) -> u32 {
        match resource {
            Resource::Descriptors => DESCRIPTORS_PER_CLUSTER,
            Resource::Pages => PAGES_PER_CLUSTER,
            Resource::Blocks => self.blocks_per_cluster,
        }
    }

    /// Returns the number of items in cluster `index`.
    pub(crate) fn in_cluster(&self, resource: Resource, index: u32) -> u32 {
        if resource == Resource::Blocks
            && let Some(extent) = self.extent_of_cluster(index)
        {
            let before = (index - extent.first_cluster).saturating_mul(self.blocks_per_cluster);
            return extent.blocks.saturating_sub(before).min(self.blocks_per_cluster);
        }
        let all = match resource {
            Resource::Descriptors => self.descriptors,
            Resource::Pages => self.pages,
            Resource::Blocks => self.blocks,
        };
        let per = self.per_cluster(resource);
        all.saturating_sub(index.saturating_mul(per)).min(per)
    }

    /// Returns the first cluster sector of a resource on the first extent.
    pub(crate) fn clusters_at(&self, resource: Resource) -> u64 {
        let journals_end = self.journal_at(MAX_HOSTS as u16);
        let aligned = |resource| u64::from(self.clusters(resource)).next_multiple_of(PAGE_SECTORS);
        match resource {
            Resource::Descriptors => journals_end,
            Resource::Pages => journals_end + aligned(Resource::Descriptors),
            Resource::Blocks => journals_end + aligned(Resource::Descriptors) + aligned(Resource::Pages),
        }
    }

    /// Returns the sector of a cluster.
    pub(crate) fn cluster_sector(&self, resource: Resource, index: u32) -> u64 {
        match self.extent_of_cluster(index).filter(|_| resource == Resource::Blocks) {
            Some(extent) => extent.base + EXTENT_CLUSTERS_AT + u64::from(index - extent.first_cluster),
            None => self.clusters_at(resource) + u64::from(index),
        }
    }

    /// Returns the runs of consecutive cluster sectors of a resource: first cluster and count.
    pub(crate) fn cluster_runs(&self, resource: Resource) -> Vec<(u32, u32)> {
        let mut runs = vec![(0, self.clusters(resource))];
        if resource == Resource::Blocks {
            runs[0].1 = self.first_clusters();
            runs.extend(self.extents().iter().map(|extent| (extent.first_cluster, extent.clusters)));
        }
        runs
    }

    /// Returns the sector of a file descriptor.
    pub(crate) fn descriptor_sector(&self, descriptor: u32) -> u64 {
        let clusters = u64::from(self.first_clusters()).next_multiple_of(PAGE_SECTORS);
        self.clusters_at(Resource::Blocks) + clusters + u64::from(descriptor)
    }

    /// Returns the first sector of a page.
    pub(crate) fn page_sector(&self, page: u32) -> u64 {
        self.descriptor_sector(self.descriptors) + u64::from(page) * PAGE_SECTORS
    }

    /// Returns the first sector of the file blocks.
    pub(crate) fn blocks_at(&self) -> u64 {
        self.page_sector(self.pages).next_multiple_of(u64::from(self.block_sectors))
    }

    /// Returns the first sector of a file block.
    pub(crate) fn block_sector(&self, block: u32) -> u64 {
        let (first, base) = match self.extent_of_cluster(block / self.blocks_per_cluster) {
            Some(extent) => (extent.first_block, extent.base),
            None => (0, self.blocks_at()),
        };
        base + u64::from(block - first) * u64::from(self.block_sectors)
    }

    /// Returns the bytes of a file block.
    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.block_sectors) * SECTOR_BYTES as u64
    }
}
