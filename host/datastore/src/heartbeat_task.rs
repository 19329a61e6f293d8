//! The background task of a mount: renews the heartbeat and observes the other hosts.

use crate::Result;
use crate::heartbeat::read_slots;
use crate::mounted::Mounted;
use crate::transaction::Transaction;
use std::sync::{Arc, Weak};

/// Renews the heartbeat until the mount ends, and reads the other slots each time.
pub(crate) async fn run_heartbeat(mounted: Weak<Mounted>) {
    let mut failed = false;
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
        failed = renew_and_watch(&strong).await.is_err() || strong.io.check().is_err();
    }
}

async fn renew_and_watch(mounted: &Arc<Mounted>) -> Result<()> {
    mounted.heartbeat.renew(&mounted.io, mounted.superblock.uuid).await?;
    let slots = read_slots(&mounted.io, mounted.superblock.uuid).await?;
    let now = mounted.io.runtime.now();
    {
        let mut watch = mounted.watch.lock();
        for slot in slots.iter().flatten() {
            watch.observe(slot, now);
        }
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
