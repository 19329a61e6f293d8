//! Simulated worlds.
#![cfg(feature = "simulation")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use platform::simulation::{self, SiteClock, World, WorldOptions};
use platform::tasks::{self, Runtime};
use platform::threads::{Condvar, Mutex, MutexGuard, RwLock, mpsc, spawn};
use platform::{clock, planted, random};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn options(seed: u64) -> WorldOptions {
    WorldOptions { seed, sites: 2, yields: 3, longest: 1000 * SECOND, most_steps: 1 << 20, planted: None }
}

/// Threads add their numbers to a list. Returns the list, and the steps of the world.
fn order_of(seed: u64) -> (Vec<u64>, (u64, u64)) {
    let (list, world) = World::run(options(seed), || {
        let list = Arc::<Mutex<Vec<u64>>>::default();
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let list = list.clone();
                let run = move || {
                    for _ in 0..8 {
                        list.lock().push(number);
                        clock::sleep(Duration::from_millis(simulation::below(3)));
                    }
                };
                spawn("adds", run).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let list = list.lock();
        list.clone()
    })
    .unwrap();
    (list, world.steps())
}

#[test]
fn seed_determines_the_order_of_threads() {
    assert_eq!(order_of(1), order_of(1));
    let orders: std::collections::BTreeSet<_> = (0..20).map(|seed| order_of(seed).0).collect();
    assert!(orders.len() > 15, "{} orders", orders.len());
}

#[test]
fn time_jumps_when_all_threads_wait() {
    let run = || {
        let (since, instant) = (clock::lease_time(), clock::now());
        clock::sleep(100 * SECOND);
        (clock::lease_time() - since, clock::since(instant))
    };
    let began = clock::now();
    let ((leased, passed), _) = World::run(options(1), run).unwrap();
    assert!(leased >= 100 * SECOND && leased < 101 * SECOND && passed >= 100 * SECOND);
    assert!(clock::since(began) < 20 * SECOND);
}

#[test]
fn notifications_and_messages_wake_threads() {
    let run = || {
        let pair = Arc::new((Mutex::new(0), Condvar::new()));
        let (sender, receiver) = mpsc::channel();
        let other = pair.clone();
        let thread = spawn("waits", move || {
            let mut number = other.0.lock();
            while *number < 3 {
                other.1.wait(&mut number);
            }
            drop(number);
            sender.send(7).unwrap();
        })
        .unwrap();
        for _ in 0..3 {
            *pair.0.lock() += 1;
            pair.1.notify_all();
            clock::sleep(SECOND);
        }
        let message = receiver.recv();
        thread.join().unwrap();
        let mut guard = pair.0.lock();
        let is_timeout = pair.1.wait_for(&mut guard, SECOND).timed_out();
        MutexGuard::unlocked(&mut guard, || assert!(pair.0.try_lock().is_some()));
        (message, receiver.recv_timeout(SECOND), is_timeout, pair.0.try_lock().is_some())
    };
    let (found, _) = World::run(options(2), run).unwrap();
    assert_eq!(found, (Ok(7), Err(mpsc::RecvTimeoutError::Disconnected), true, false));
}

#[test]
fn lock_that_is_held_over_a_sleep_is_waited_for() {
    let run = || {
        let lock = Arc::new(RwLock::new(1));
        let other = lock.clone();
        let thread = spawn("writes", move || {
            let mut value = other.write();
            clock::sleep(SECOND);
            *value = 2;
        })
        .unwrap();
        clock::sleep(Duration::from_millis(1));
        let value = *lock.read();
        thread.join().unwrap();
        value
    };
    assert_eq!(World::run(options(3), run).unwrap().0, 2);
}

#[test]
fn stopped_site_does_nothing_for_a_time() {
    let run = || {
        let (sender, receiver) = mpsc::channel();
        let thread = spawn("beats", move || {
            World::enter_site(1);
            for _ in 0..10 {
                clock::sleep(SECOND);
                sender.send(clock::lease_time()).unwrap();
            }
        })
        .unwrap();
        let world = World::current().unwrap();
        world.set_clock(1, SiteClock { rate: 1_040_000, began: 50 * SECOND, calendar_shift: -5 });
        clock::sleep(Duration::from_millis(2500));
        world.stop_site(1, 20 * SECOND);
        thread.join().unwrap();
        std::iter::from_fn(move || receiver.try_recv().ok()).collect::<Vec<_>>()
    };
    let (times, _) = World::run(options(4), run).unwrap();
    assert!(times[1] < 53 * SECOND && times[1] > 52 * SECOND, "{times:?}");
    assert!(times[2] > 50 * SECOND + 20 * SECOND * 103 / 100, "{times:?}");
}

#[test]
fn tasks_wait_for_time_and_messages() {
    let run = || {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let (done, is_done) = mpsc::channel();
        let runtime = Runtime::simulated();
        runtime.spawn(async move {
            let mut sum = 0;
            while let Some(number) = receiver.recv().await {
                sum += number;
            }
            tasks::sleep(SECOND).await;
            done.send(sum).unwrap();
        });
        runtime.spawn_blocking(move || {
            for number in 1..5 {
                clock::sleep(SECOND);
                sender.send(number).unwrap();
            }
        });
        let sum = is_done.recv().unwrap();
        clock::sleep(SECOND);
        (sum, simulation::time())
    };
    let ((sum, time), _) = World::run(options(5), run).unwrap();
    assert!(sum == 10 && time > 6 * SECOND && time < 7 * SECOND, "{time:?}");
}

#[test]
fn failures_of_a_world_are_reported() {
    let failure = |seed, run: fn()| World::run(options(seed), run).map(|_| ()).unwrap_err().0;
    let deadlock = failure(1, || Condvar::new().wait(&mut Mutex::new(()).lock()));
    assert!(deadlock.starts_with("all threads wait for ever"), "{deadlock}");
    let endless = failure(2, || {
        loop {
            clock::sleep(SECOND);
        }
    });
    assert!(endless.starts_with("time is over"), "{endless}");
    let violation = failure(3, || {
        spawn("finds", || World::current().unwrap().fail("it is wrong")).unwrap().join().unwrap();
    });
    assert_eq!(violation, "it is wrong");
    let left = failure(4, || simulation::start("stays", || clock::sleep(100 * SECOND)));
    assert!(left.starts_with("threads are left") && left.contains("stays"), "{left}");
}

#[test]
fn outside_of_worlds_all_is_as_ever() {
    assert!(!simulation::is_inside() && !planted::is_planted("any"));
    assert_ne!(random::bytes::<16>().unwrap(), random::bytes::<16>().unwrap());
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = pair.clone();
    let thread = spawn("sets", move || {
        *other.0.lock() = true;
        other.1.notify_one();
    })
    .unwrap();
    let mut is_set = pair.0.lock();
    while !*is_set {
        pair.1.wait(&mut is_set);
    }
    drop(is_set);
    thread.join().unwrap();
    let planted = WorldOptions { planted: Some("rule".to_owned()), ..options(1) };
    let run = || (planted::is_planted("rule"), planted::is_planted("other"), random::bytes::<12>().unwrap());
    let twice = [0, 1].map(|_| World::run(planted.clone(), run).unwrap().0);
    assert!(twice[0] == twice[1] && twice[0].0 && !twice[0].1);
}
