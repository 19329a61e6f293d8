//! Breaking dead hosts: detects a dead host and finishes its change before its locks become free.
//!
//! There are four steps. The slot is marked as being broken. The device aborts all queued commands,
//! of any host. The content of the journal is applied. The slot becomes free with a new generation,
//! so locks of the old generation are stale.
//!
//! Each change is an ATS of the dead host's slot or of a sector locked by it. If the breaking host
//! dies, another one breaks the same slot after the lease. So the breaking host stops `fence` after
//! its first step, well before that.

use crate::heartbeat::{read_slot, swap_slot};
use crate::io::{Io, Swap};
use crate::layout::heartbeat::{Slot, SlotState};
use crate::layout::journal::{Part, Record};
use crate::layout::lock::{LockOwner, lock_of};
use crate::layout::superblock::Superblock;
use crate::layout::{Image, image_of};
use crate::owner_watch::OwnerWatch;
use crate::{DatastoreError, Result};
use futures_util::future::try_join_all;

/// Owner recorded when a slot is broken by a host without a slot: one that mounts while all slots
/// are in use.
pub(crate) const UNMOUNTED_BREAKER: LockOwner = LockOwner { slot: u16::MAX, incarnation: 0, uuid: [0; 16] };

/// Returns whether the mount `owner` has ended and its changes are finished. Breaks its slot if the
/// heartbeat is older than the lease, or if its process ended longer ago than any of its I/O lasts.
pub(crate) async fn break_if_dead(
    io: &Io,
    superblock: &Superblock,
    watch: &OwnerWatch,
    me: LockOwner,
    owner: LockOwner,
) -> Result<bool> {
    let slot = read_slot(io, owner.slot, superblock.uuid).await?;
    if slot.owner() != owner || slot.state == SlotState::Free {
        return Ok(true);
    }
    if !watch.time_left(&slot, io.runtime.now(), &io.timing).is_zero() {
        return Ok(false);
    }
    break_slot(io, superblock, &slot, me).await
}

/// Breaks a host whose slot was unchanged for the lease. Returns false if the slot has changed.
pub(crate) async fn break_slot(io: &Io, superblock: &Superblock, seen: &Slot, me: LockOwner) -> Result<bool> {
    let io = io.until(io.runtime.now() + io.timing.fence);
    let breaking = Slot { state: SlotState::Breaking(me), counter: seen.counter + 1, ..seen.clone() };
    if swap_slot(&io, superblock.uuid, seen, &breaking).await? != Swap::Done {
        return Ok(false);
    }
    if !io.disabled.task_set_clear {
        io.clear().await?;
    }
    if !io.disabled.journal_replay {
        replay(&io, superblock, seen.owner()).await?;
    }
    let free = Slot { state: SlotState::Free, generation: seen.generation + 1, ..breaking.clone() };
    Ok(swap_slot(&io, superblock.uuid, &breaking, &free).await? == Swap::Done)
}

/// Applies the journal of a dead mount.
async fn replay(io: &Io, superblock: &Superblock, owner: LockOwner) -> Result<()> {
    let geometry = &superblock.geometry;
    let journal = io.read(geometry.journal_at(owner.slot), u64::from(geometry.journal_sectors)).await?;
    match Record::decode(&journal, superblock.uuid) {
        Some(record) if (record.slot, record.incarnation) == (owner.slot, owner.incarnation) => {
            apply(io, superblock, &record, owner).await
        }
        _ => Ok(()),
    }
}

/// Applies the parts of a record that are not applied yet: their guard is still locked by `owner`
/// and has the recorded generation. Pages are written before their guards.
pub(crate) async fn apply(io: &Io, superblock: &Superblock, record: &Record, owner: LockOwner) -> Result<()> {
    let mut waiting: Vec<Option<Image>> = Vec::with_capacity(record.parts.len());
    for part in &record.parts {
        waiting.push(match part {
            Part::Page { .. } => None,
            Part::Guard { sector, generation, .. } => {
                let image = io.read_image(*sector).await?;
                let lock = lock_of(&image, superblock.uuid);
                let lock = lock.ok_or(DatastoreError::Damaged { what: "lock", sector: *sector })?;
                (lock.owner() == Some(owner) && lock.generation() == *generation).then_some(image)
            }
        });
    }
    for part in &record.parts {
        if let Part::Page { sector, guard, image } = part
            && waiting.get(usize::from(*guard)).is_some_and(Option::is_some)
        {
            io.write(*sector, image.clone()).await?;
        }
    }
    let swaps = record.parts.iter().zip(&waiting).filter_map(|(part, old)| match (part, old) {
        (Part::Guard { sector, image: Some(new), .. }, Some(old)) => Some((*sector, *old, image_of(new))),
        _ => None,
    });
    let swap = |(sector, old, new): (u64, Image, Image)| async move { io.swap(sector, &old, &new, false).await };
    // A lost swap was done by another host that breaks the same host, or by the dead host itself.
    try_join_all(swaps.map(swap)).await.map(|_| ())
}
