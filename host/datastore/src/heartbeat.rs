//! Staying alive for others to see, and seeing who does not.

use crate::io::{Io, Swap};
use crate::layout::geometry::HEARTBEATS_AT;
use crate::layout::heartbeat::{Slot, SlotState};
use crate::layout::lock::LockOwner;
use crate::layout::{Image, MAX_HOSTS, SECTOR_BYTES, image_of};
use crate::mounted::Mounted;
use crate::options::MountOptions;
use crate::transaction::Transaction;
use crate::{DatastoreError, Result, VolumeUuid};
use bytes::Bytes;
use multipath::DeviceError;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Since when each slot has looked as it does, by this host's clock.
#[derive(Debug)]
pub(crate) struct Watch([Option<(u64, u64, Duration)>; MAX_HOSTS]);

impl Default for Watch {
    fn default() -> Self {
        Self([None; MAX_HOSTS])
    }
}

impl Watch {
    /// Notes how a slot looked at a time when it had been read; tells for how long it has looked so.
    pub(crate) fn note(&mut self, slot: &Slot, now: Duration) -> Duration {
        let Some(place) = self.0.get_mut(usize::from(slot.index)) else { return Duration::ZERO };
        match place {
            Some((generation, beats, since)) if (*generation, *beats) == (slot.generation, slot.beats) => {
                now.saturating_sub(*since)
            }
            _ => {
                *place = Some((slot.generation, slot.beats, now));
                Duration::ZERO
            }
        }
    }
}

/// Reads all slots. A slot that is damaged is `None`.
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

/// Sector of a slot.
pub(crate) fn sector_of(index: u16) -> u64 {
    HEARTBEATS_AT + u64::from(index)
}

/// Changes a slot if it still looks as it did.
pub(crate) async fn swap_slot(io: &Io, volume: VolumeUuid, old: &Slot, new: &Slot) -> Result<Swap> {
    io.swap(sector_of(old.index), &old.encode(volume), &new.encode(volume), true).await
}

/// The heartbeat of a mount.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// What the slot held after the last beat that is known to have succeeded.
    slot: tokio::sync::Mutex<Beaten>,
    owner: LockOwner,
    by_ats: bool,
}

/// A slot, and what keeps it from being beaten.
#[derive(Debug)]
struct Beaten {
    slot: Slot,
    /// When the next beat was first sent, if it was and its end is not known: others may have seen it since then.
    sent: Option<Duration>,
    /// Since when every try has met a reservation.
    kept_off: Option<Duration>,
}

impl Heartbeat {
    /// Takes a free slot and starts the lease.
    pub(crate) async fn claim(
        io: &Io,
        volume: VolumeUuid,
        options: &MountOptions,
        free: &Slot,
    ) -> Result<Option<Self>> {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&io.runtime.random().to_le_bytes());
        uuid[8..].copy_from_slice(&io.runtime.random().to_le_bytes());
        let slot = Slot {
            index: free.index,
            state: SlotState::Alive,
            uuid,
            name: options.host.clone(),
            generation: free.generation + 1,
            beats: 0,
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
                    slot: tokio::sync::Mutex::new(Beaten { slot, sent: None, kept_off: None }),
                    by_ats,
                }))
            }
        }
    }

    /// The life that beats.
    pub(crate) fn owner(&self) -> LockOwner {
        self.owner
    }

    /// Beats once. The lease counts from before the beat was first sent: nobody saw it earlier than that. One whose answer was lost is
    /// the same beat when it is tried again, however long after.
    pub(crate) async fn beat(&self, io: &Io, volume: VolumeUuid) -> Result<()> {
        let mut beaten = self.slot.lock().await;
        let old = beaten.slot.clone();
        let new = Slot { beats: old.beats + 1, ..old.clone() };
        let begun = io.runtime.now();
        let sent = *beaten.sent.get_or_insert(begun);
        let mut backoff = io.backoff();
        let swap = loop {
            let swap = if self.by_ats {
                swap_unleased(io, volume, &old, &new).await
            } else {
                write_slot(io, volume, &old, &new).await
            };
            let Err(DatastoreError::Disk(DeviceError::ReservationConflict)) = swap else {
                beaten.kept_off = None;
                break swap?;
            };
            let now = io.runtime.now();
            // Whoever holds it may be dead, or alive and not know of it, since the answer was lost; and nobody else may be left whose
            // lease lets him take it away.
            if now > *beaten.kept_off.get_or_insert(now) + io.timing.reservation_patience() {
                beaten.kept_off = None;
                io.disk.reset().await?;
            }
            if now >= begun + io.timing.interval {
                return Err(DeviceError::ReservationConflict.into());
            }
            // Others reserve the unit for moments, again and again: a beat must get in between.
            backoff.pause().await;
        };
        match swap {
            Swap::Done => {
                (beaten.slot, beaten.sent) = (new, None);
                io.lease.extend(sent + io.timing.fence);
                Ok(())
            }
            Swap::Lost(_) => {
                io.lease.end();
                Err(DatastoreError::LeaseLost)
            }
        }
    }

    /// Leaves the slot, with a new generation: what is still locked is nobody's.
    pub(crate) async fn leave(&self, io: &Io, volume: VolumeUuid) -> Result<()> {
        let mut beaten = self.slot.lock().await;
        let old = beaten.slot.clone();
        let new = Slot { state: SlotState::Free, generation: old.generation + 1, ..old.clone() };
        let left = swap_slot(io, volume, &old, &new).await;
        beaten.slot = new;
        io.lease.end();
        left.map(|_| ())
    }
}

/// A swap of the own slot, once, without regard to the lease: a host whose lease has lapsed lives again when its slot is
/// still as it left it.
async fn swap_unleased(io: &Io, volume: VolumeUuid, old: &Slot, new: &Slot) -> Result<Swap> {
    let lba = io.partition + sector_of(old.index);
    let (before, after) = (old.encode(volume), new.encode(volume));
    let (compare, write) = (Bytes::copy_from_slice(&before), Bytes::copy_from_slice(&after));
    match io.disk.compare_and_write(lba, compare, write).await {
        Ok(_) => {}
        Err(DeviceError::Unsupported(_)) => return write_slot(io, volume, old, new).await,
        Err(error) if crate::io::is_passing(&error) => {}
        Err(error) => return Err(error.into()),
    }
    judge(image_of(&io.disk.read(lba, 1).await?), &before, &after)
}

/// A beat by a plain write, read before and after.
async fn write_slot(io: &Io, volume: VolumeUuid, old: &Slot, new: &Slot) -> Result<Swap> {
    let lba = io.partition + sector_of(old.index);
    let (before, after) = (old.encode(volume), new.encode(volume));
    let found = image_of(&io.disk.read(lba, 1).await?);
    if found != before && found != after {
        return Ok(Swap::Lost(Box::new(found)));
    }
    io.disk.write(lba, Bytes::copy_from_slice(&after)).await?;
    judge(image_of(&io.disk.read(lba, 1).await?), &before, &after)
}

/// What became of a beat, by what the slot holds now.
fn judge(found: Image, before: &Image, after: &Image) -> Result<Swap> {
    if found == *after {
        Ok(Swap::Done)
    } else if found == *before {
        Err(DatastoreError::Disk(DeviceError::TimedOut))
    } else {
        Ok(Swap::Lost(Box::new(found)))
    }
}

/// Beats until the mount ends, and looks at the other slots after every beat.
pub(crate) async fn keep_beating(mounted: Weak<Mounted>) {
    let mut failed = false;
    loop {
        let Some(strong) = mounted.upgrade() else { return };
        let interval = strong.io.timing.interval;
        // A beat that failed, or came too late, is followed by another soon: several fit in before the lease ends.
        let wait = strong.io.runtime.sleep(if failed { interval / 6 } else { interval });
        drop(strong);
        wait.await;
        let Some(strong) = mounted.upgrade() else { return };
        if strong.io.lease.is_over() {
            return;
        }
        failed = beat_and_look(&strong).await.is_err() || strong.io.check().is_err();
    }
}

async fn beat_and_look(mounted: &Arc<Mounted>) -> Result<()> {
    mounted.heartbeat.beat(&mounted.io, mounted.superblock.uuid).await?;
    let slots = read_slots(&mounted.io, mounted.superblock.uuid).await?;
    let now = mounted.io.runtime.now();
    {
        let mut watch = mounted.watch.lock();
        for slot in slots.iter().flatten() {
            watch.note(slot, now);
        }
    }
    // What an operation had to leave locked when the disk was out of reach is given back beside the beats.
    if mounted.serial.try_lock().is_ok_and(|serial| serial.is_unsettled()) {
        let mounted = Arc::clone(mounted);
        let runtime = Arc::clone(&mounted.io.runtime);
        runtime.spawn(Box::pin(async move {
            // It is tried again after the next beat.
            let _ = Transaction::begin(&mounted).await;
        }));
    }
    Ok(())
}
