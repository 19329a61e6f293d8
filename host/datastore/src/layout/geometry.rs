//! Division of a partition. It is fixed at creation and follows from a few numbers in the
//! superblock.

use super::{FS_BLOCK_SECTORS, MAX_HOSTS, PAGE_SECTORS};

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
}

impl Geometry {
    /// Plans a new datastore of `sectors` sectors; `None` if it is too small or too large.
    pub(crate) fn plan(sectors: u64) -> Option<Self> {
        let whole = sectors / FS_BLOCK_SECTORS;
        let descriptors = (whole / 16).next_power_of_two().clamp(256, 65536) as u32;
        let pages = (whole / 508 + u64::from(descriptors)).next_multiple_of(u64::from(PAGES_PER_CLUSTER));
        let plan = Self {
            sectors,
            journal_sectors: JOURNAL_SECTORS[usize::from(whole >= LARGE_BLOCKS)],
            descriptors,
            pages: u32::try_from(pages).ok()?,
            blocks: 0,
            blocks_per_cluster: (whole / 64).next_power_of_two().clamp(32, u64::from(MAX_PER_CLUSTER)) as u32,
        };
        // The block clusters precede the blocks, so first assume the maximum number of blocks.
        let most = Self { blocks: u32::try_from(whole.min(MAX_BLOCKS)).ok()?, ..plan };
        let blocks = sectors.checked_sub(most.blocks_at())? / FS_BLOCK_SECTORS;
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
            && (1..=MAX_PER_CLUSTER).contains(&self.blocks_per_cluster)
            && u64::from(self.blocks) <= MAX_BLOCKS
            && self.block_sector(self.blocks) <= self.sectors
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
            Resource::Blocks => self.blocks.div_ceil(self.blocks_per_cluster),
        }
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
        let all = match resource {
            Resource::Descriptors => self.descriptors,
            Resource::Pages => self.pages,
            Resource::Blocks => self.blocks,
        };
        let per = self.per_cluster(resource);
        all.saturating_sub(index.saturating_mul(per)).min(per)
    }

    /// Returns the first cluster sector of a resource.
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
        self.clusters_at(resource) + u64::from(index)
    }

    /// Returns the sector of a file descriptor.
    pub(crate) fn descriptor_sector(&self, descriptor: u32) -> u64 {
        let clusters = u64::from(self.clusters(Resource::Blocks)).next_multiple_of(PAGE_SECTORS);
        self.clusters_at(Resource::Blocks) + clusters + u64::from(descriptor)
    }

    /// Returns the first sector of a page.
    pub(crate) fn page_sector(&self, page: u32) -> u64 {
        self.descriptor_sector(self.descriptors) + u64::from(page) * PAGE_SECTORS
    }

    /// Returns the first sector of the file blocks.
    pub(crate) fn blocks_at(&self) -> u64 {
        self.page_sector(self.pages).next_multiple_of(FS_BLOCK_SECTORS)
    }

    /// Returns the first sector of a file block.
    pub(crate) fn block_sector(&self, block: u32) -> u64 {
        self.blocks_at() + u64::from(block) * FS_BLOCK_SECTORS
    }
}
