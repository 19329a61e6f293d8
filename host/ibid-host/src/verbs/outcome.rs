//! The result of a verb: bytes, commands and time.

use crate::failure::Failure;
use crate::meter::round;
use crate::out::outln;
use platform::clock;
use serde::Serialize;
use std::time::Instant;
use types::format_capacity;

/// The result of a verb.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    verb: &'static str,
    method: &'static str,
    bytes: u64,
    commands: u64,
    secs: f64,
    mib_s: f64,
    /// Bytes from the start of the range that were written before the target was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    full_at: Option<u64>,
}

/// Counters and start time of a verb that runs.
#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    pub(super) commands: u64,
    pub(super) bytes: u64,
}

impl Tally {
    /// Starts the clock.
    pub(super) fn begin() -> Self {
        Self { started: clock::now(), commands: 0, bytes: 0 }
    }

    /// Counts a command that processed `bytes`.
    pub(super) fn add(&mut self, bytes: u64) {
        self.commands += 1;
        self.bytes += bytes;
    }

    /// Stops the clock and returns the result.
    pub(super) fn end(&self, verb: &'static str, method: &'static str) -> Outcome {
        // The minimum of one microsecond keeps the rate finite.
        let secs = (clock::now() - self.started).as_secs_f64().max(1e-6);
        let mib_s = round(self.bytes as f64 / f64::from(1 << 20) / secs);
        let secs = (secs * 1e6).round() / 1e6;
        Outcome { verb, method, bytes: self.bytes, commands: self.commands, secs, mib_s, full_at: None }
    }
}

impl Outcome {
    /// Sets the offset at which the target was full.
    pub(super) fn full_at(self, full_at: Option<u64>) -> Self {
        Self { full_at, ..self }
    }

    /// Prints the result.
    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return print_json(self);
        }
        let Self { verb, method, bytes, commands, secs, mib_s, full_at } = self;
        let full = full_at.map_or_else(String::new, |at| format!("; full at {}", format_capacity(at)));
        outln!(
            "{verb} by {method}: {} in {secs:.3} s, {mib_s} MiB/s, {commands} commands{full}",
            format_capacity(*bytes)
        );
        Ok(())
    }
}

/// Prints one JSON object.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    outln!("{}", serde_json::to_string(value).map_err(|error| Failure::Wrong(error.to_string()))?);
    Ok(())
}
