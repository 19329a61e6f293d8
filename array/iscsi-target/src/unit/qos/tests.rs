use super::*;
use crate::nexus::ids::NexusId;
use proptest::prelude::*;
use types::ObjectId;

const A: Flow = flow(1);
const B: Flow = flow(2);

const fn flow(nexus: u64) -> Flow {
    Flow { volume: ObjectId(7), nexus: NexusId(nexus) }
}

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

/// Requests `count` commands of a flow. Returns how many of them may start at once.
fn arrive(queue: &mut Queue<u32>, now: Duration, flow: Flow, cost: Cost, count: u32) -> u32 {
    (0..count).map(|n| u32::from(queue.request(now, flow, cost, flow.nexus.0 as u32 * 1000 + n) == Admission::Go)).sum()
}

/// Returns the commands released from `from` to `to`, with a call whenever the queue asks for one.
fn released(queue: &mut Queue<u32>, from: Duration, to: Duration) -> Vec<u32> {
    let (mut admitted, mut now) = (Vec::new(), from);
    while let Some(next) = queue.release(now, &mut admitted).filter(|next| *next <= to) {
        now = next;
    }
    admitted.into_iter().map(|(_, command)| command).collect()
}

#[test]
fn commands_without_limits_never_wait() {
    let mut queue = limits(None, None);
    assert_eq!(arrive(&mut queue, Duration::ZERO, A, write(32 << 20), 1000), 1000);
    assert_eq!(released(&mut queue, ms(0), ms(1)), [0; 0]);
}

#[test]
fn iops_limit_sets_commands_per_second() {
    let mut queue = limits(Some(1000), None);
    // The burst of 20 ms, and the command that starts exactly at its end.
    assert_eq!(arrive(&mut queue, Duration::ZERO, A, write(4096), 500), 21);
    assert_eq!(released(&mut queue, ms(0), ms(100)).len(), 100);
    assert_eq!(queue.release(ms(100), &mut Vec::new()), Some(ms(101)));
    assert_eq!(released(&mut queue, ms(101), ms(200)).len(), 100);
}

#[test]
fn bandwidth_limit_holds_for_all_transfer_sizes() {
    for bytes in [4096, 64 << 10, 1 << 20] {
        let mut queue = limits(None, Some(100 << 20));
        let went = arrive(&mut queue, Duration::ZERO, A, write(bytes), 30_000);
        let later = released(&mut queue, ms(0), ms(1000)).len() as u64;
        let moved = (u64::from(went) + later) * bytes;
        assert!((100 << 20..=103 << 20).contains(&moved), "{moved} bytes in transfers of {bytes}");
    }
}

#[test]
fn nexuses_share_by_bytes_not_by_queue_depth() {
    let mut queue = limits(None, Some(1 << 20));
    arrive(&mut queue, Duration::ZERO, A, write(64 << 10), 128);
    arrive(&mut queue, Duration::ZERO, B, write(16 << 10), 128);
    let went = released(&mut queue, ms(0), ms(2000));
    let of_a = went.iter().filter(|command| **command < 2000).count() * 64;
    let of_b = went.iter().filter(|command| **command >= 2000).count() * 16;
    assert!(of_a.abs_diff(of_b) <= 64, "{of_a} KiB and {of_b} KiB");
}

#[test]
fn volumes_of_a_group_share_its_limit() {
    let mut queue = limits(Some(1000), None);
    let other = Flow { volume: ObjectId(8), ..B };
    let mut went = arrive(&mut queue, Duration::ZERO, A, write(4096), 1000);
    went += arrive(&mut queue, Duration::ZERO, other, write(4096), 1000);
    let later = released(&mut queue, ms(0), ms(1000));
    // Both together stay within the limit and the burst, and neither gets more than the other.
    assert_eq!(went as usize + later.len(), 1021);
    let of_other = later.iter().filter(|command| **command >= 2000).count();
    assert!(of_other.abs_diff(later.len() - of_other) <= 1, "{of_other} of {}", later.len());
    // Two flows of one session are two volumes.
    let second = Flow { volume: ObjectId(9), ..A };
    let Admission::Wait { ticket, .. } = queue.request(ms(1000), second, write(4096), 3) else { panic!("no debt") };
    assert!(!queue.cancel(A, ticket) && queue.cancel(second, ticket));
}

#[test]
fn nexus_keeps_order_and_idle_time_earns_no_credit() {
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
fn locks_bypass_throttled_data() {
    let mut queue = limits(Some(100), Some(1 << 20));
    assert_eq!(queue.request(Duration::ZERO, A, write(32 << 20), 1), Admission::Go);
    arrive(&mut queue, Duration::ZERO, A, write(32 << 20), 50);
    // The volume owes 30 seconds now, but locks still start at once.
    for second in 1..30 {
        let now = Duration::from_secs(second);
        assert_eq!(queue.request(now, A, LOCK, 7), Admission::Go, "second {second}");
    }
}

#[test]
fn locks_get_half_of_the_limit_while_data_waits() {
    let mut queue = limits(Some(1000), None);
    arrive(&mut queue, Duration::ZERO, A, write(4096), 2000);
    arrive(&mut queue, Duration::ZERO, B, LOCK, 2000);
    let went = released(&mut queue, ms(0), ms(1000));
    let locks = went.iter().filter(|command| **command >= 2000).count();
    assert!((480..=560).contains(&went.len().abs_diff(locks)), "{locks} locks of {}", went.len());
}

#[test]
fn changed_limits_apply_at_once() {
    let mut queue = limits(None, Some(1 << 20));
    assert_eq!(queue.request(Duration::ZERO, A, write(32 << 20), 1), Admission::Go);
    let Admission::Wait { is_first: true, .. } = queue.request(Duration::ZERO, A, write(4096), 2) else {
        panic!("the command must wait, as the first one");
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
fn cancelled_command_is_never_released() {
    let mut queue = limits(Some(1), None);
    let asked: Vec<_> = (0..5).map(|n| queue.request(Duration::ZERO, A, write(512), n)).collect();
    let [Admission::Go, Admission::Wait { ticket, .. }, Admission::Wait { is_first: false, .. }, ..] = asked[..] else {
        panic!("{asked:?}");
    };
    assert!(queue.cancel(A, ticket));
    assert!(!queue.cancel(A, ticket));
    assert_eq!(released(&mut queue, ms(0), ms(60_000)), [2, 3, 4]);
}

proptest! {
    /// For random arrivals, no period exceeds the limits plus the burst, and every command is
    /// released in the end.
    #[test]
    fn qos_limits_hold_for_random_arrivals(arrivals in proptest::collection::vec((0u64..2000, 0u64..3, 1u64..64, any::<bool>()), 1..80)) {
        let (iops, bandwidth) = (200, 256 << 10);
        let mut queue = limits(Some(iops), Some(bandwidth));
        let mut arrivals = arrivals;
        arrivals.sort_unstable();
        let (mut commands, mut bytes, mut largest) = (0, 0, 0);
        let mut went = |cost: Cost, now: Duration| {
            (commands, bytes, largest) = (commands + 1, bytes + cost.bytes, cost.bytes.max(largest));
            let seconds = now.as_secs_f64() + 2.0 * BURST.as_secs_f64();
            // Locks may use half of the limits in addition to the data.
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
            if queue.request(now, flow(nexus), cost, costs.len() as u32 - 1) == Admission::Go {
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
