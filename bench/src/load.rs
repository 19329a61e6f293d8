//! A load of requests that an engine executes, with latencies.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::print_stdout, reason = "a benchmark reads the clock")]

use engine::{BlockService, Op, OpError, Reply, Sink, Tag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Passes the tags of completed requests to the thread of the load.
struct Completions(Sender<Tag>);

impl Sink for Completions {
    fn complete(&self, tag: Tag, result: Result<Reply, OpError>) {
        result.expect("every request succeeds");
        // Requests may complete after the load has ended.
        let _ = self.0.send(tag);
    }
}

/// Requests per second and their latencies.
pub struct Outcome {
    /// Requests per second.
    pub per_second: f64,
    /// Ascending.
    pub latencies: Vec<Duration>,
}

impl Outcome {
    /// Returns the latency that `part` of a thousand requests do not exceed.
    pub fn latency(&self, part: usize) -> Duration {
        self.latencies[(self.latencies.len() - 1) * part / 1000]
    }

    /// Prints a row. A request has `bytes` bytes.
    pub fn print(&self, name: &str, bytes: u64) {
        let at = |part| self.latency(part);
        println!(
            "{name:<42} {:>9.0}/s {:>8.1} MiB/s  p50 {:>8.1?}  p99 {:>8.1?}  worst {:>8.1?}",
            self.per_second,
            self.per_second * bytes as f64 / MIB as f64,
            at(500),
            at(990),
            at(1000)
        );
    }
}

/// Keeps `depth` requests in progress until `is_over`. Waits for all replies.
pub fn run(engine: &dyn BlockService, depth: u64, is_over: &AtomicBool, mut next: impl FnMut() -> Op) -> Outcome {
    let (sender, receiver): (Sender<Tag>, Receiver<Tag>) = channel();
    let sink: Arc<dyn Sink> = Arc::new(Completions(sender));
    let begin = Instant::now();
    let mut starts = vec![begin; depth as usize];
    (0..depth).for_each(|tag| engine.submit(next(), tag, &sink));
    engine.kick();
    let (mut latencies, mut in_progress) = (Vec::new(), depth);
    let mut ended = begin;
    while in_progress > 0 {
        let first = receiver.recv().expect("a reply");
        for tag in std::iter::once(first).chain(receiver.try_iter().collect::<Vec<_>>()) {
            let now = Instant::now();
            if is_over.load(Ordering::Relaxed) {
                in_progress -= 1;
                // Time without a reply counts, but not the replies after the end.
                if latencies.is_empty() || ended == begin {
                    ended = now;
                }
                latencies.push(now - starts[tag as usize]);
                continue;
            }
            latencies.push(now - starts[tag as usize]);
            starts[tag as usize] = now;
            engine.submit(next(), tag, &sink);
        }
        engine.kick();
    }
    let per_second = (latencies.len() as u64 - depth) as f64 / (ended - begin).as_secs_f64();
    latencies.sort_unstable();
    Outcome { per_second, latencies }
}

/// As [`run`], for a time.
pub fn run_for(engine: &dyn BlockService, depth: u64, seconds: u64, next: impl FnMut() -> Op + Send) -> Outcome {
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        let load = scope.spawn(|| run(engine, depth, &is_over, next));
        sleep(Duration::from_secs(seconds));
        is_over.store(true, Ordering::Relaxed);
        load.join().expect("the load")
    })
}
