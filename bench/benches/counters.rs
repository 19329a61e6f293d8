//! Cost of counting one answered command: alone, and while another processor counts commands of the
//! same host and volume.

use criterion::Criterion;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use telemetry::{ActivityCounters, CommandClass, CommandEvent};

fn event(micros: u64) -> CommandEvent {
    let took = Duration::from_micros(micros % 1000);
    CommandEvent { class: CommandClass::Read, is_good: true, bytes: 4096, took, limited: Duration::ZERO }
}

/// Counts commands with latencies from 0 to 1 ms.
fn count(criterion: &mut Criterion, name: &str, counters: &ActivityCounters) {
    let mut micros = 0;
    criterion.bench_function(name, |bencher| {
        bencher.iter(|| {
            micros += 7;
            counters.record(black_box(event(micros)));
        });
    });
}

fn main() {
    let mut criterion = Criterion::default().measurement_time(Duration::from_secs(2)).configure_from_args();
    let counters = Arc::<ActivityCounters>::default();
    count(&mut criterion, "count-command", &counters);
    let is_over = Arc::<AtomicBool>::default();
    let other = std::thread::spawn({
        let (counters, is_over) = (counters.clone(), is_over.clone());
        move || {
            let mut micros = 0;
            while !is_over.load(Ordering::Relaxed) {
                micros += 11;
                counters.record(event(micros));
            }
        }
    });
    count(&mut criterion, "count-command-contended", &counters);
    is_over.store(true, Ordering::Relaxed);
    let _ = other.join();
}
