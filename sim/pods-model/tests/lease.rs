//! The times of leases, with clocks that run at different rates.
//!
//! The model of the protocol has no clock: it lets SOLO begin when the peer's lease has ended. Here
//! the times of `docs/pods-protocol.md` must make that true.

use testing::Rng;

/// Times in microseconds of the clock that measures them.
const HEARTBEAT: f64 = 200_000.0;
const LEASE: f64 = 2_000_000.0;
const GRANTOR_WAIT: f64 = 2_100_000.0;

/// Plays one cut of the link. Returns the time from the end of the holder's lease to the moment at
/// which the grantor may answer alone, in microseconds of real time. Below zero, a stale read is
/// possible.
fn margin(rng: &mut Rng, rate: f64, restarts: Option<bool>) -> f64 {
    let uniform =
        |rng: &mut Rng, low: f64, high: f64| low + (high - low) * rng.below(1 << 30) as f64 / (1u64 << 30) as f64;
    // The holder's clock is the measure; the grantor's runs faster or slower.
    let grantor = 1.0 + uniform(rng, -rate, rate);
    let cut = uniform(rng, 5e6, 6e6);
    let (mut lease_end, mut last_grant) = (0.0f64, 0.0f64);
    let mut sent = uniform(rng, 0.0, HEARTBEAT);
    while sent < cut {
        let granted = sent + uniform(rng, 100.0, 150_000.0);
        if granted < cut {
            last_grant = last_grant.max(granted);
            if granted + uniform(rng, 100.0, 150_000.0) < cut {
                lease_end = lease_end.max(sent + LEASE);
            }
        }
        sent += HEARTBEAT;
    }
    match restarts {
        None => last_grant + GRANTOR_WAIT / grantor - lease_end,
        // The grantor's process restarts 300 ms after the cut and does not know its grants.
        Some(waits) => cut + 300_000.0 + if waits { GRANTOR_WAIT / grantor } else { 0.0 } - lease_end,
    }
}

fn least_margin(rate: f64, restarts: Option<bool>) -> f64 {
    let mut rng = Rng::new(1);
    (0..20_000).map(|_| margin(&mut rng, rate, restarts)).fold(f64::INFINITY, f64::min)
}

#[test]
fn leases_end_in_time_with_clocks_5_percent_apart() {
    assert!(least_margin(0.05, None) > 0.0);
    assert!(least_margin(0.05, Some(true)) > 0.0);
}

#[test]
fn clocks_10_percent_apart_allow_a_stale_read() {
    assert!(least_margin(0.1, None) < 0.0);
}

#[test]
fn a_restart_that_does_not_wait_allows_a_stale_read() {
    assert!(least_margin(0.0, Some(false)) < 0.0);
}
