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
    pool.retry_allocation();
    assert_ne!(pool.allocate(1), Some(first));
}
