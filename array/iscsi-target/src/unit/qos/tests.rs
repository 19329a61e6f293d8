use super::*;
use proptest::prelude::*;

const A: NexusId = NexusId(1);
const B: NexusId = NexusId(2);

fn limits(iops: Option<u64>, bandwidth: Option<u64>) -> Queue<u32> {
    let mut queue = Queue::default();
    queue.set(Duration::ZERO, Qos { iops_limit: iops, bandwidth_limit: bandwidth });
    queue
}

fn write(bytes: u64) -> Cost {
    Cost { bytes, is_urgent: false }
}

const LOCK: Cost = Cost { bytes: 1024, is_urgent: true };

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Puts so many commands of a nexus in line, and says how many of them did not have to wait.
fn arrive(queue: &mut Queue<u32>, now: Duration, nexus: NexusId, cost: Cost, count: u32) -> u32 {
    (0..count).map(|n| u32::from(queue.ask(now, nexus, cost, nexus.0 as u32 * 1000 + n) == Admission::Go)).sum()
}

/// What goes from one time to another, served as often as the queue asks for.
fn released(queue: &mut Queue<u32>, from: Duration, to: Duration) -> Vec<u32> {
    let (mut admitted, mut now) = (Vec::new(), from);
    while let Some(next) = queue.release(now, &mut admitted).filter(|next| *next <= to) {
        now = next;
    }
    admitted.into_iter().map(|(_, command)| command).collect()
}

#[test]
fn without_limits_everything_goes() {
    let mut queue = limits(None, None);
    assert_eq!(arrive(&mut queue, Duration::ZERO, A, write(32 << 20), 1000), 1000);
    assert_eq!(released(&mut queue, ms(0), ms(1)), [0; 0]);
}

#[test]
fn commands_per_second_are_what_is_set() {
    let mut queue = limits(Some(1000), None);
    // The burst of 20 ms, and the one whose time begins with its end.
    assert_eq!(arrive(&mut queue, Duration::ZERO, A, write(4096), 500), 21);
    assert_eq!(released(&mut queue, ms(0), ms(100)).len(), 100);
    assert_eq!(queue.release(ms(100), &mut Vec::new()), Some(ms(101)));
    assert_eq!(released(&mut queue, ms(101), ms(200)).len(), 100);
}

#[test]
fn bytes_per_second_are_what_is_set_whatever_their_size() {
    for bytes in [4096, 64 << 10, 1 << 20] {
        let mut queue = limits(None, Some(100 << 20));
        let went = arrive(&mut queue, Duration::ZERO, A, write(bytes), 30_000);
        let later = released(&mut queue, ms(0), ms(1000)).len() as u64;
        let moved = (u64::from(went) + later) * bytes;
        assert!((100 << 20..=103 << 20).contains(&moved), "{moved} bytes in pieces of {bytes}");
    }
}

#[test]
fn nexuses_share_by_bytes_and_not_by_the_depth_of_their_queues() {
    let mut queue = limits(None, Some(1 << 20));
    arrive(&mut queue, Duration::ZERO, A, write(64 << 10), 128);
    arrive(&mut queue, Duration::ZERO, B, write(16 << 10), 128);
    let went = released(&mut queue, ms(0), ms(2000));
    let of_a = went.iter().filter(|command| **command < 2000).count() * 64;
    let of_b = went.iter().filter(|command| **command >= 2000).count() * 16;
    assert!(of_a.abs_diff(of_b) <= 64, "{of_a} KiB and {of_b} KiB");
}

#[test]
fn a_nexus_keeps_its_order_and_being_away_saves_nothing_up() {
    let mut queue = limits(Some(100), None);
    arrive(&mut queue, Duration::ZERO, A, write(512), 100);
    let went = released(&mut queue, ms(0), ms(500));
    assert!(went.is_sorted());
    arrive(&mut queue, ms(500), B, write(512), 100);
    let next = released(&mut queue, ms(500), ms(1000));
    let of_b = next.iter().filter(|command| **command >= 2000).count();
    assert!(of_b.abs_diff(next.len() - of_b) <= 1, "{of_b} of {}", next.len());
}

#[test]
fn a_lock_does_not_wait_behind_data() {
    let mut queue = limits(Some(100), Some(1 << 20));
    assert_eq!(queue.ask(Duration::ZERO, A, write(32 << 20), 1), Admission::Go);
    arrive(&mut queue, Duration::ZERO, A, write(32 << 20), 50);
    // Half a minute is owed now, and locks go nevertheless.
    for second in 1..30 {
        let now = Duration::from_secs(second);
        assert_eq!(queue.ask(now, A, LOCK, 7), Admission::Go, "second {second}");
    }
}

#[test]
fn locks_alone_get_half_of_the_limit_while_data_waits() {
    let mut queue = limits(Some(1000), None);
    arrive(&mut queue, Duration::ZERO, A, write(4096), 2000);
    arrive(&mut queue, Duration::ZERO, B, LOCK, 2000);
    let went = released(&mut queue, ms(0), ms(1000));
    let locks = went.iter().filter(|command| **command >= 2000).count();
    assert!((480..=560).contains(&went.len().abs_diff(locks)), "{locks} locks of {}", went.len());
}

#[test]
fn other_limits_hold_at_once() {
    let mut queue = limits(None, Some(1 << 20));
    assert_eq!(queue.ask(Duration::ZERO, A, write(32 << 20), 1), Admission::Go);
    let Admission::Wait { is_first: true, .. } = queue.ask(Duration::ZERO, A, write(4096), 2) else {
        panic!("it has to wait, and nobody waits yet");
    };
    assert_eq!(queue.release(ms(1), &mut Vec::new()), Some(ms(31_980)));
    queue.set(ms(1), Qos { iops_limit: None, bandwidth_limit: Some(1 << 30) });
    assert_eq!(released(&mut queue, ms(1), ms(20)), [2]);
    arrive(&mut queue, ms(20), A, write(1 << 30), 3);
    queue.set(ms(21), Qos::default());
    assert_eq!(released(&mut queue, ms(21), ms(21)), [1001, 1002]);
    assert!(queue.is_empty());
}

#[test]
fn what_was_cancelled_does_not_come_back() {
    let mut queue = limits(Some(1), None);
    let asked: Vec<_> = (0..5).map(|n| queue.ask(Duration::ZERO, A, write(512), n)).collect();
    let [Admission::Go, Admission::Wait { ticket, .. }, Admission::Wait { is_first: false, .. }, ..] = asked[..] else {
        panic!("{asked:?}");
    };
    assert!(queue.cancel(A, ticket));
    assert!(!queue.cancel(A, ticket));
    assert_eq!(released(&mut queue, ms(0), ms(60_000)), [2, 3, 4]);
}

proptest! {
    /// Over any time, no more goes than the limit and the burst let through, whatever comes; and everything goes at last.
    #[test]
    fn the_limit_holds(arrivals in proptest::collection::vec((0u64..2000, 0u64..3, 1u64..64, any::<bool>()), 1..80)) {
        let (iops, bandwidth) = (200, 256 << 10);
        let mut queue = limits(Some(iops), Some(bandwidth));
        let mut arrivals = arrivals;
        arrivals.sort_unstable();
        let (mut commands, mut bytes, mut largest) = (0, 0, 0);
        let mut went = |cost: Cost, now: Duration| {
            (commands, bytes, largest) = (commands + 1, bytes + cost.bytes, cost.bytes.max(largest));
            let seconds = now.as_secs_f64() + 2.0 * BURST.as_secs_f64();
            // Locks may take half the limits beyond what data have had.
            prop_assert!(f64::from(commands) <= 1.5 * iops as f64 * seconds + 4.0);
            prop_assert!(bytes as f64 <= 1.5 * bandwidth as f64 * seconds + 3.0 * largest as f64);
            Ok(())
        };
        let mut costs = Vec::new();
        for (at, nexus, kib, is_urgent) in arrivals {
            let (now, cost) = (ms(at), Cost { bytes: kib << 10, is_urgent });
            let mut admitted = Vec::new();
            queue.release(now, &mut admitted);
            for (_, index) in admitted {
                went(costs[index as usize], now)?;
            }
            costs.push(cost);
            if queue.ask(now, NexusId(nexus), cost, costs.len() as u32 - 1) == Admission::Go {
                went(cost, now)?;
            }
        }
        let mut now = ms(2000);
        while let Some(next) = queue.release(now, &mut Vec::new()) {
            prop_assert!(next > now);
            now = next;
        }
        prop_assert!(queue.is_empty());
    }
}
