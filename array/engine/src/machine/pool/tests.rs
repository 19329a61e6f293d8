use super::*;

/// Tries each segment that lacks space once, as ticks and slow ticks do. Returns how many there
/// were.
fn refuse_all(pool: &mut Pool) -> usize {
    let mut refused = 0;
    while pool.is_growth_expected() {
        let segment = pool.allocate(u64::MAX).expect("a segment without space");
        assert_eq!(pool.allocated(segment, Err(DiskError::Full)), Ok(()));
        pool.retry_allocation();
        refused += 1;
        assert!(refused <= pool.segments().len(), "requests wait for retries without end");
    }
    refused
}

#[test]
fn growth_is_expected_until_all_segments_are_refused() {
    let mut pool = Pool::restore(vec![Segment::FREE; 4], 0);
    assert_eq!(refuse_all(&mut pool), 4);
    assert!(pool.may_allocate(), "the file system may have space again");
    let segment = pool.allocate(u64::MAX).expect("a retry");
    assert!(pool.may_grow() && !pool.is_growth_expected(), "no request waits for the retry");
    pool.allocated(segment, Ok(())).expect("space");
    assert!(pool.is_growth_expected(), "the file system has space again");
    assert_eq!(refuse_all(&mut pool), 3);
    pool.grow(6);
    pool.start_using_growth();
    assert!(pool.is_growth_expected(), "the pool has new segments");
}

#[test]
fn segment_with_space_is_found_after_a_refusal() {
    let mut pool = Pool::restore(vec![Segment::FREE; 2], 0);
    let first = pool.allocate(1).expect("a segment");
    pool.allocated(first, Err(DiskError::Full)).expect("a full file system");
    let second = pool.allocate(1).expect("another segment, at once");
    assert_ne!(second, first);
    assert_eq!(pool.free_at_restart(), 0, "segments that may lack space");
    pool.allocated(second, Err(DiskError::Full)).expect("a full file system");
    assert!(!pool.may_allocate() && !pool.may_grow(), "a pause after each was refused");
}

/// A pool of `free` free segments with space.
fn ready_pool(free: usize) -> Pool {
    let mut pool = Pool::restore(vec![Segment::FREE; free], 0);
    while let Some(segment) = pool.allocate(u64::MAX) {
        pool.allocated(segment, Ok(())).expect("space");
    }
    pool
}

#[test]
fn segments_that_stay_free_are_released() {
    let mut pool = ready_pool(10);
    (0..8).for_each(|_| pool.plan_discards(4));
    assert_eq!(pool.discard(), None, "they have become ready in this period");
    (0..8).for_each(|_| pool.plan_discards(4));
    let mut seen = Vec::new();
    while let Some(segment) = pool.discard() {
        seen.push(segment);
        assert!(pool.may_grow() && pool.free() == 10, "a segment in flight is free");
        pool.discarded(segment);
    }
    assert_eq!((seen.len(), pool.ready(), pool.free()), (6, 4, 10));
    assert!(pool.allocate(5).is_some_and(|segment| seen.contains(&segment)), "it may be used again");
}

#[test]
fn segments_in_use_again_are_not_released() {
    let mut pool = ready_pool(10);
    (0..8).for_each(|_| pool.plan_discards(4));
    let fills: Vec<_> = (0..7).filter_map(|_| pool.open(Kind::Data, 0)).collect();
    fills.into_iter().for_each(|fill| pool.seal(fill));
    pool.mark_dying();
    pool.checkpointed();
    assert_eq!(pool.ready(), 10);
    (0..8).for_each(|_| pool.plan_discards(4));
    assert_eq!(pool.discard(), None, "most of them were filled in this period");
}

#[test]
fn space_from_before_the_start_is_released() {
    let mut pool = Pool::restore(vec![Segment::FREE; 3], 0);
    assert!(!pool.is_discard_due());
    (0..8).for_each(|_| pool.plan_discards(9));
    let released: Vec<u32> = std::iter::from_fn(|| pool.discard()).collect();
    assert_eq!((released.len(), pool.free(), pool.may_allocate()), (3, 3, false));
    released.into_iter().for_each(|segment| pool.discarded(segment));
    (0..8).for_each(|_| pool.plan_discards(9));
    assert!(pool.may_allocate() && pool.discard().is_none(), "once is enough");
}
