//! Clocks. Most code takes the time as a parameter, so that a test controls it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the time of a clock that never goes back. It is the clock of tokio's timers: in a test
/// that pauses tokio's time, it jumps with them.
pub fn now() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(now) = crate::simulation::instant() {
        return now;
    }
    #[allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]
    tokio::time::Instant::now().into_std()
}

/// The clocks are read one after the other; a larger difference between them is sleep.
const AWAKE: Duration = Duration::from_millis(500);

/// Returns the time of [`now`] plus all time for which the machine was suspended (CLOCK_BOOTTIME).
/// For leases, which expire while their holder sleeps; tokio's timers do not count that time.
pub fn now_with_sleep() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(now) = crate::simulation::instant() {
        return now;
    }
    static ASLEEP: AtomicU64 = AtomicU64::new(0);
    let told = Duration::from_millis(ASLEEP.load(Ordering::Relaxed));
    let asleep = raw(libc::CLOCK_BOOTTIME).saturating_sub(raw(libc::CLOCK_MONOTONIC));
    // The thread may be preempted between the two readings. Only a longer difference counts as
    // sleep, so that this clock never goes back.
    let asleep = if asleep > told + AWAKE {
        let millis = u64::try_from(asleep.as_millis()).unwrap_or(u64::MAX);
        ASLEEP.fetch_max(millis, Ordering::Relaxed);
        asleep
    } else {
        told
    };
    let now = now();
    now.checked_add(Duration::from_millis(asleep.as_millis() as u64)).unwrap_or(now)
}

/// Returns the time of a clock for leases between machines: CLOCK_MONOTONIC_RAW, which no time
/// service speeds up or slows down, plus the time for which the machine was suspended. It never
/// goes back. Only differences have a meaning.
pub fn lease_time() -> Duration {
    #[cfg(feature = "simulation")]
    if let Some(now) = crate::simulation::lease_time() {
        return now;
    }
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let asleep = raw(libc::CLOCK_BOOTTIME).saturating_sub(raw(libc::CLOCK_MONOTONIC));
    // The readings are made one after the other, so a preempted thread may see more sleep than
    // there was. Then the clock is early, and stays so until the others catch up.
    let nanos = u64::try_from((raw(libc::CLOCK_MONOTONIC_RAW) + asleep).as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(LATEST.fetch_max(nanos, Ordering::Relaxed).max(nanos))
}

/// Returns the processor time that the process has used, in all threads that it has had.
pub fn process_cpu_time() -> Duration {
    raw(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the processor time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    raw(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[allow(unsafe_code, reason = "rustix is built without its clocks")]
fn raw(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write, for as long as it lasts.
    let outcome = unsafe { libc::clock_gettime(clock, &raw mut time) };
    match outcome {
        0 => Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)),
        _ => Duration::ZERO,
    }
}

/// Returns milliseconds since 1970, for output only, never for measuring.
pub fn unix_millis() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(now) = crate::simulation::unix_millis() {
        return now;
    }
    #[allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Lets the timed waits of the calling thread end as exactly as the system can. By default it joins
/// those that end within 50 microseconds.
pub fn sharpen_waits() {
    // A hint: without it, waits end later.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Blocks the thread for a duration. Must not run on the threads of an async runtime.
pub fn sleep(duration: Duration) {
    #[cfg(feature = "simulation")]
    if crate::simulation::sleep(duration) {
        return;
    }
    #[allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]
    std::thread::sleep(duration);
}

/// Returns the time that has passed since an earlier time of [`now`].
pub fn since(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
}
