//! Creates an empty array on a drive.

use super::Core;
use crate::machine::error::CreateError;
use crate::machine::options::Options;
use crate::machine::read::read_superblocks;
use ondisk::{ArrayGeometry, LogPosition, Manifest, Superblock};
use platform::{Disk, DiskError, Durability};
use types::Lsn;
use wal::{Chain, Replay};

impl Core {
    /// Creates an empty array with this id on a drive.
    ///
    /// # Errors
    ///
    /// The drive already holds an array, has too little space, or fails.
    pub fn create(disk: &dyn Disk, geometry: &ArrayGeometry, array: [u8; 16]) -> Result<(), CreateError> {
        if Superblock::choose(&read_superblocks(disk)?).is_ok() {
            return Err(CreateError::Exists);
        }
        disk.allocate(0, geometry.segment_start(0))?;
        clear_log(disk, geometry)?;
        let chain = Chain { array, epoch: 1, sequence: 1, lsn: Lsn(1), previous: 0 };
        let log = LogPosition {
            head: 0,
            sequence: chain.sequence,
            lsn: chain.lsn.0,
            epoch: chain.epoch,
            previous: chain.previous,
        };
        let manifest =
            Manifest { segments: vec![None; geometry.segments() as usize], next_usage: 1, ..Manifest::default() };
        let superblock = Superblock {
            array,
            sequence: 0,
            geometry: *geometry,
            log,
            has_streams: false,
            has_patches: false,
            has_interior_patches: false,
            manifest: Vec::new(),
        };
        let mut core = Self::assemble(&superblock, manifest, Options::for_geometry(geometry));
        core.start_log(Replay::new(chain, geometry.log_bytes, 0));
        core.request_checkpoint();
        while core.checkpointer.completed() == 0 {
            core.tick();
            if !core.execute_actions(disk)? || core.stopped.is_some() {
                let failure = core.space.pool.allocation_failure();
                return Err(failure.cloned().map_or(CreateError::NoSpace, CreateError::Disk));
            }
        }
        while core.execute_actions(disk)? {}
        Ok(())
    }
}

/// Writes zeros over the log. The file system then has the range allocated and written, so flushes
/// of the log change none of its metadata.
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
