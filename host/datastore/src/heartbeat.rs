//! Keeps the host's own heartbeat, and reads those of other hosts.

use crate::io::{Io, Swap};
use crate::layout::geometry::HEARTBEATS_AT;
use crate::layout::heartbeat::{Slot, SlotState};
use crate::layout::lock::LockOwner;
use crate::layout::{Image, MAX_HOSTS, SECTOR_BYTES, image_of};
use crate::options::MountOptions;
use crate::{DatastoreError, Result, VolumeUuid};
use bytes::Bytes;
use multipath::DeviceError;
use std::time::Duration;

/// Reads all slots. A damaged slot is `None`.
pub(crate) async fn read_slots(io: &Io, volume: VolumeUuid) -> Result<Vec<Option<Slot>>> {
    let sectors = io.read(HEARTBEATS_AT, MAX_HOSTS as u64).await?;
    let decode = |(index, sector): (usize, &[u8])| Slot::decode(&image_of(sector), index as u16, volume);
    Ok(sectors.chunks_exact(SECTOR_BYTES).enumerate().map(decode).collect())
}

/// Reads one slot.
pub(crate) async fn read_slot(io: &Io, index: u16, volume: VolumeUuid) -> Result<Slot> {
    let sector = sector_of(index);
    let image = io.read_image(sector).await?;
    Slot::decode(&image, index, volume).ok_or(DatastoreError::Damaged { what: "heartbeat slot", sector })
}

/// Returns the sector of a slot.
pub(crate) fn sector_of(index: u16) -> u64 {
    HEARTBEATS_AT + u64::from(index)
}

/// Changes a slot if it is unchanged.
pub(crate) async fn swap_slot(io: &Io, volume: VolumeUuid, old: &Slot, new: &Slot) -> Result<Swap> {
    io.swap(sector_of(old.index), &old.encode(volume), &new.encode(volume), true).await
}

/// The heartbeat of a mount.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// State after the last heartbeat known to be done.
    state: tokio::sync::Mutex<HeartbeatState>,
    owner: LockOwner,
    by_ats: bool,
}

/// The slot of this host, and the state of the next heartbeat.
#[derive(Debug)]
struct HeartbeatState {
    slot: Slot,
    /// Time of the first attempt at the next heartbeat. Its outcome is unknown, so other hosts may
    /// have seen it since then.
    first_sent: Option<Duration>,
    /// Time since when every attempt has failed with a reservation conflict.
    blocked_since: Option<Duration>,
}

impl Heartbeat {
    /// Claims a free slot and starts the lease.
    pub(crate) async fn claim(
        io: &Io,
        volume: VolumeUuid,
        options: &MountOptions,
        free: &Slot,
    ) -> Result<Option<Self>> {
        let uuid = options.process.as_ref().map_or_else(|| random_uuid(io), |process| process.uuid());
        let slot = Slot {
            index: free.index,
            state: SlotState::Alive,
            uuid,
            name: options.host.clone(),
            generation: free.generation + 1,
            counter: 0,
        };
        let sent = io.runtime.now();
        match swap_slot(io, volume, free, &slot).await? {
            Swap::Lost(_) => Ok(None),
            Swap::Done => {
                io.lease.extend(sent + io.timing.fence);
                let by_ats = options.ats && options.ats_heartbeat;
                let owner = slot.owner();
                Ok(Some(Self {
                    owner,
                    state: tokio::sync::Mutex::new(HeartbeatState { slot, first_sent: None, blocked_since: None }),
                    by_ats,
                }))
            }
        }
    }

    /// Returns the lock owner of this mount.
    pub(crate) fn owner(&self) -> LockOwner {
        self.owner
    }

    /// Renews the heartbeat once.
    ///
    /// The lease starts at the first attempt, because no host can have seen the heartbeat earlier.
    /// A retry after a lost answer is the same heartbeat, however late.
    pub(crate) async fn renew(&self, io: &Io, volume: VolumeUuid) -> Result<()> {
        let mut state = self.state.lock().await;
        let old = state.slot.clone();
        let new = Slot { counter: old.counter + 1, ..old.clone() };
        let begun = io.runtime.now();
        let sent = *state.first_sent.get_or_insert(begun);
        let mut backoff = io.backoff();
        let swap = loop {
            let swap = if self.by_ats {
                swap_unleased(io, volume, &old, &new).await
            } else {
                write_slot(io, volume, &old, &new).await
            };
            let Err(DatastoreError::Disk(DeviceError::ReservationConflict)) = swap else {
                state.blocked_since = None;
                break swap?;
            };
            let now = io.runtime.now();
            // Breaks an old reservation. Its holder may be dead, or may not know of it because the
            // answer was lost. There may be no other host whose lease permits breaking it.
            if now > *state.blocked_since.get_or_insert(now) + io.timing.reservation_timeout() {
                state.blocked_since = None;
                io.disk.reset().await?;
            }
            if now >= begun + io.timing.interval {
                return Err(DeviceError::ReservationConflict.into());
            }
            // Other hosts reserve the unit for short times in a row; the heartbeat must get in
            // between.
            backoff.pause().await;
        };
        match swap {
            Swap::Done => {
                (state.slot, state.first_sent) = (new, None);
                io.lease.extend(sent + io.timing.fence);
                Ok(())
            }
            Swap::Lost(_) => {
                io.lease.end();
                Err(DatastoreError::LeaseLost)
            }
        }
    }

    /// Releases the slot with a new generation, so remaining locks become stale.
    pub(crate) async fn release(&self, io: &Io, volume: VolumeUuid) -> Result<()> {
        let mut state = self.state.lock().await;
        let old = state.slot.clone();
        let new = Slot { state: SlotState::Free, generation: old.generation + 1, ..old.clone() };
        let left = swap_slot(io, volume, &old, &new).await;
        state.slot = new;
        io.lease.end();
        left.map(|_| ())
    }
}

fn random_uuid(io: &Io) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&io.runtime.random().to_le_bytes());
    uuid[8..].copy_from_slice(&io.runtime.random().to_le_bytes());
    uuid
}

/// Swaps the host's slot once, regardless of the lease. A host whose lease has expired may continue
/// if its slot is unchanged.
async fn swap_unleased(io: &Io, volume: VolumeUuid, old: &Slot, new: &Slot) -> Result<Swap> {
    let lba = io.partition + sector_of(old.index);
    let (before, after) = (old.encode(volume), new.encode(volume));
    let (compare, write) = (Bytes::copy_from_slice(&before), Bytes::copy_from_slice(&after));
    match io.disk.compare_and_write(lba, compare, write).await {
        Ok(_) => {}
        Err(DeviceError::Unsupported(_)) => return write_slot(io, volume, old, new).await,
        Err(error) if crate::io::is_transient(&error) => {}
        Err(error) => return Err(error.into()),
    }
    classify(image_of(&io.disk.read(lba, 1).await?), &before, &after)
}

/// Renews the heartbeat by a plain write, with reads before and after.
async fn write_slot(io: &Io, volume: VolumeUuid, old: &Slot, new: &Slot) -> Result<Swap> {
    let lba = io.partition + sector_of(old.index);
    let (before, after) = (old.encode(volume), new.encode(volume));
    let found = image_of(&io.disk.read(lba, 1).await?);
    if found != before && found != after {
        return Ok(Swap::Lost(Box::new(found)));
    }
    io.disk.write(lba, Bytes::copy_from_slice(&after)).await?;
    classify(image_of(&io.disk.read(lba, 1).await?), &before, &after)
}

/// Derives the outcome of a heartbeat from the content of the slot.
fn classify(found: Image, before: &Image, after: &Image) -> Result<Swap> {
    if found == *after {
        Ok(Swap::Done)
    } else if found == *before {
        Err(DatastoreError::Disk(DeviceError::TimedOut))
    } else {
        Ok(Swap::Lost(Box::new(found)))
    }
}
