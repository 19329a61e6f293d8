//! The order and the limits of reads.

use super::read_queue::{Caller, Kind, Limit, ReadQueue};

const LIMIT: Limit = Limit { reads: 2, bytes: 100 };

fn begin(queue: &ReadQueue<u32>) -> Option<u32> {
    queue.state.lock().begin().map(|begun| begun.read)
}

#[test]
fn reads_for_hosts_begin_beside_background_reads() {
    let queue = ReadQueue::new(LIMIT, LIMIT, 0);
    for read in 0..4 {
        queue.push(Kind::Background, 10, read, Caller::Other);
    }
    assert_eq!([begin(&queue), begin(&queue), begin(&queue)], [Some(0), Some(1), None]);
    for read in 4..8 {
        queue.push(Kind::Host, 10, read, Caller::Other);
    }
    assert_eq!([begin(&queue), begin(&queue), begin(&queue)], [Some(4), Some(5), None]);
    assert_eq!(queue.host_reads(), 4);
    queue.end(Kind::Background, 10);
    assert_eq!([begin(&queue), begin(&queue)], [Some(2), None]);
    queue.end(Kind::Host, 10);
    queue.end(Kind::Background, 10);
    assert_eq!([begin(&queue), begin(&queue), begin(&queue)], [Some(6), Some(3), None], "hosts first");
}

#[test]
fn bytes_under_way_are_bounded() {
    let queue = ReadQueue::new(LIMIT, LIMIT, 0);
    [(60, 1), (60, 2), (1000, 3), (10, 4)].into_iter().for_each(|(bytes, read)| {
        queue.push(Kind::Host, bytes, read, Caller::Other);
    });
    assert_eq!([begin(&queue), begin(&queue)], [Some(1), None]);
    queue.end(Kind::Host, 60);
    assert_eq!([begin(&queue), begin(&queue)], [Some(2), None]);
    queue.end(Kind::Host, 60);
    assert_eq!([begin(&queue), begin(&queue)], [Some(3), None], "a long read runs alone");
    queue.end(Kind::Host, 1000);
    assert_eq!([begin(&queue), begin(&queue)], [Some(4), None]);
}

#[test]
fn threads_are_started_on_demand_up_to_the_limits() {
    let queue = ReadQueue::new(LIMIT, LIMIT, 1);
    let push = |kind, read| queue.push(kind, 1, read, Caller::Other);
    assert!([1, 2].into_iter().all(|read| push(Kind::Host, read)));
    assert!(push(Kind::Background, 3) && !push(Kind::Background, 4), "four threads");
    queue.not_started();
    queue.close();
    assert!(!queue.push(Kind::Host, 1, 5, Caller::Other), "closed");
}
