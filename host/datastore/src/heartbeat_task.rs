//! The background task of a mount: renews the heartbeat and observes the other hosts.

use crate::heartbeat::read_slots;
use crate::mounted::Mounted;
use crate::process::MountEvent;
use crate::transaction::Transaction;
use crate::{DatastoreError, Result};
use std::sync::{Arc, Weak};

/// Renews the heartbeat until the mount ends, and reads the other slots each time.
pub(crate) async fn run_heartbeat(mounted: Weak<Mounted>) {
    let (mut failed, mut was_lost) = (false, false);
    loop {
        let Some(strong) = mounted.upgrade() else { return };
        let interval = strong.io.timing.interval;
        // After a failed or late heartbeat the next one follows soon: several attempts fit into the
        // lease.
        let wait = strong.io.runtime.sleep(if failed { interval / 6 } else { interval });
        drop(strong);
        wait.await;
        let Some(strong) = mounted.upgrade() else { return };
        if strong.io.lease.has_ended() {
            return;
        }
        let renewed = renew_and_watch(&strong).await;
        let is_lost = strong.io.check().is_err();
        failed = renewed.is_err() || is_lost;
        if renewed == Err(DatastoreError::LeaseLost) && strong.io.lease.has_ended() {
            strong.owners.notify(&MountEvent::LeaseBroken);
        } else if is_lost != was_lost && !strong.io.lease.has_ended() {
            was_lost = is_lost;
            strong.owners.notify(if is_lost { &MountEvent::AccessLost } else { &MountEvent::AccessRestored });
        }
    }
}

async fn renew_and_watch(mounted: &Arc<Mounted>) -> Result<()> {
    mounted.heartbeat.renew(&mounted.io, mounted.superblock.uuid).await?;
    mounted.io.check()?;
    // This read must not wait for the lease, which only this task renews.
    let io = mounted.io.until(mounted.io.runtime.now() + mounted.io.timing.interval);
    let slots = read_slots(&io, mounted.superblock.uuid).await?;
    let now = mounted.io.runtime.now();
    for slot in slots.iter().flatten() {
        mounted.owners.observe(slot, now, &mounted.io.timing);
    }
    // Releases locks that an operation could not release because the device was unreachable. Runs
    // beside the heartbeat.
    if mounted.state.try_lock().is_ok_and(|state| state.is_unsettled()) {
        let mounted = Arc::clone(mounted);
        let runtime = Arc::clone(&mounted.io.runtime);
        runtime.spawn(Box::pin(async move {
            // A failure is retried after the next heartbeat.
            let _ = Transaction::begin(&mounted).await;
        }));
    }
    Ok(())
}
