use super::*;
use proptest::prelude::*;
use std::time::Duration;
use tokio::time::timeout;

/// Returns whether the lock is available without waiting.
async fn free(locks: &RangeLocks, range: Range<u64>, mode: Mode) -> bool {
    timeout(Duration::ZERO, locks.lock(range, mode)).await.is_ok()
}

#[tokio::test]
async fn exclusive_lock_waits_for_shared_locks() {
    let locks = RangeLocks::default();
    let writer = locks.lock(0..10, Mode::Shared).await;
    assert!(free(&locks, 5..15, Mode::Shared).await);
    assert!(!free(&locks, 9..20, Mode::Exclusive).await);
    assert!(free(&locks, 10..20, Mode::Exclusive).await, "the ranges do not overlap");
    drop(writer);
    assert!(free(&locks, 9..20, Mode::Exclusive).await);
}

#[tokio::test]
async fn shared_lock_waits_behind_an_exclusive_request() {
    let locks = RangeLocks::default();
    let first = locks.lock(0..10, Mode::Shared).await;
    let copier = locks.lock(0..10, Mode::Exclusive);
    tokio::pin!(copier);
    assert!(timeout(Duration::ZERO, &mut copier).await.is_err());
    assert!(!free(&locks, 0..10, Mode::Shared).await);
    drop(first);
    let held = copier.await;
    assert!(!free(&locks, 0..10, Mode::Shared).await);
    drop(held);
    assert!(free(&locks, 0..10, Mode::Shared).await);
}

#[tokio::test]
async fn cancelled_lock_request_blocks_no_other() {
    let locks = RangeLocks::default();
    let held = locks.lock(0..10, Mode::Shared).await;
    assert!(!free(&locks, 0..10, Mode::Exclusive).await);
    assert!(free(&locks, 0..10, Mode::Shared).await, "the exclusive request was dropped");
    drop(held);
    assert!(locks.table().requests.is_empty());
}

proptest! {
    #[test]
    fn conflicting_locks_exclude_and_none_starves(
        steps in proptest::collection::vec((0u64..40, 1u64..12, any::<bool>(), 0usize..6), 1..80),
    ) {
        let mut table = Table::default();
        for (start, length, exclusive, end) in steps {
            let mode = if exclusive { Mode::Exclusive } else { Mode::Shared };
            table.add_request(start..start + length, mode);
            // Sometimes the oldest holders release their locks.
            for _ in 0..end / 2 {
                let oldest = table.requests.iter().find(|request| request.granted).map(|request| request.id);
                if let Some(id) = oldest {
                    table.end(id);
                }
            }
            let held: Vec<_> = table.requests.iter().filter(|request| request.granted).collect();
            for (i, a) in held.iter().enumerate() {
                prop_assert!(held[i + 1..].iter().all(|b| !a.conflicts(b)));
            }
            // The first request is always granted: none is before it.
            prop_assert!(table.requests.first().is_none_or(|request| request.granted));
        }
    }
}

#[tokio::test]
async fn try_lock_does_not_wait_and_leaves_no_request() {
    let locks = RangeLocks::default();
    let held = locks.lock(0..10, Mode::Exclusive).await;
    assert!(locks.try_lock(5..15, Mode::Shared).is_none());
    assert!(free(&locks, 10..20, Mode::Exclusive).await, "the refused request is gone");
    let waiting = locks.lock(5..15, Mode::Exclusive);
    tokio::pin!(waiting);
    assert!(timeout(Duration::ZERO, &mut waiting).await.is_err());
    assert!(locks.try_lock(12..13, Mode::Shared).is_none(), "an earlier request waits for it");
    drop(held);
    drop(waiting.await);
    assert!(locks.try_lock(0..20, Mode::Exclusive).is_some());
}
