//! Hosts at two arrays write and read while arrays stop, sessions break, the link is cut and the
//! mediator is away. Every answered change is read again, at either array.
//!
//! `IBID_POD_ROUNDS` and `IBID_POD_SEED` make it longer or different.

use crate::common::{Pair, volume};
use bytes::Bytes;
use engine::{Op, OpError, Reply};
use link::{Cut, Distance};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use testing::Rng;
use types::Lba;

/// Hosts, each with a block of its own.
const HOSTS: u64 = 6;
/// Time between two faults, for the arrays to agree and to bring each other into step.
const CALM: Duration = Duration::from_millis(4000);

/// Counts of a campaign.
#[derive(Default)]
struct Totals {
    written: AtomicU64,
    refused: AtomicU64,
    reads: AtomicU64,
    /// Longest time without a change that was answered, in milliseconds.
    longest_ms: AtomicU64,
}

fn block(number: u64) -> Bytes {
    number.to_le_bytes().repeat(512).into()
}

fn number_of(data: &Bytes) -> u64 {
    let number = u64::from_le_bytes(data[..8].try_into().unwrap());
    assert_eq!(*data, block(number), "a block is that of one write");
    number
}

/// One host: writes rising numbers to its block, and reads them.
async fn host(pair: Arc<Pair>, lba: u64, seed: u64, stop: Arc<AtomicBool>, totals: Arc<Totals>) {
    let mut rng = Rng::new(seed);
    // The last number that was answered, and the highest one that was tried since.
    let (mut answered, mut tried) = (0, 0);
    let mut since = platform::clock::now();
    while !stop.load(Ordering::Relaxed) {
        let site = &pair.sites[rng.index(2)];
        if rng.percent(60) {
            tried += 1;
            let op = Op::Write { volume: volume(), lba: Lba(lba), data: block(tried), fua: false };
            match site.try_run(op).await {
                Some(Ok(Reply::Done)) => {
                    answered = tried;
                    totals.written.fetch_add(1, Ordering::Relaxed);
                    let pause = u64::try_from(since.elapsed().as_millis()).unwrap();
                    totals.longest_ms.fetch_max(pause, Ordering::Relaxed);
                    since = platform::clock::now();
                }
                Some(Err(OpError::Unavailable(_) | OpError::Transition(_) | OpError::Busy(_))) | None => {
                    totals.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Some(other) => panic!("{other:?}"),
            }
        } else if let Some(Ok(data)) = site.try_read(lba, 8).await {
            let number = number_of(&data);
            assert!((answered..=tried).contains(&number), "{number} is read, {answered} was answered, {tried} tried");
            totals.reads.fetch_add(1, Ordering::Relaxed);
            // An unanswered write that was read has happened.
            answered = number;
        }
        if rng.percent(20) {
            tokio::time::sleep(Duration::from_millis(rng.below(8))).await;
        }
    }
}

/// Makes one fault, and ends it.
async fn fault(pair: &Arc<Pair>, rng: &mut Rng) -> &'static str {
    let (at, lasts) = (rng.index(2), Duration::from_millis(rng.below(4000)));
    match rng.below(6) {
        0 | 1 => {
            pair.sites[at].kill().await;
            tokio::time::sleep(lasts).await;
            pair.restart(at).await;
            "an array stops"
        }
        2 => {
            pair.break_session();
            "the session breaks"
        }
        3 | 4 => {
            let cut = [Cut::Both, Cut::In, Cut::Out][rng.index(3)];
            pair.set_distance(at, Distance { cut, ..Distance::default() });
            tokio::time::sleep(lasts).await;
            pair.set_distance(at, Distance::default());
            "the link is cut"
        }
        _ => {
            pair.stop_mediator().await;
            if rng.percent(50) {
                tokio::time::sleep(lasts).await;
            }
            pair.start_mediator().await;
            "the mediator is away"
        }
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread")]
async fn answered_changes_survive_every_fault() {
    let (seed, rounds) = (from_environment("IBID_POD_SEED", 20_261_127), from_environment("IBID_POD_ROUNDS", 4));
    let mut pair = Pair::new().await;
    pair.use_mediator().await;
    pair.stretch().await;
    pair.wait_in_step().await;
    let (pair, mut rng) = (Arc::new(pair), Rng::new(seed));
    let (stop, totals) = (Arc::<AtomicBool>::default(), Arc::<Totals>::default());
    let hosts: Vec<_> = (0..HOSTS)
        .map(|number| {
            let (pair, stop, totals) = (pair.clone(), stop.clone(), totals.clone());
            tokio::spawn(host(pair, number * 2048 + 8, seed + number, stop, totals))
        })
        .collect();
    for round in 0..rounds {
        let name = fault(&pair, &mut rng).await;
        tokio::time::sleep(CALM).await;
        assert!(!hosts.iter().any(tokio::task::JoinHandle::is_finished), "seed {seed}, round {round}, {name}");
        // Both return by themselves.
        pair.wait_in_step().await;
    }
    stop.store(true, Ordering::Relaxed);
    for host in hosts {
        host.await.expect("a host that finds nothing wrong");
    }
    pair.wait_in_step().await;
    pair.assert_equal().await;
    let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    println!(
        "seed {seed}: {rounds} faults, {} changes answered, {} refused, {} reads, longest pause {} ms",
        figure(&totals.written),
        figure(&totals.refused),
        figure(&totals.reads),
        figure(&totals.longest_ms)
    );
    assert!(figure(&totals.written) > 100 * rounds);
}
