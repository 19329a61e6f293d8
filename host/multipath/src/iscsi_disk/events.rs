//! The events of a device for the host's log: failed commands, dead paths, all paths down.

use initiator::Completion;
use parking_lot::Mutex;
use platform::clock;
use rustc_hash::FxHashMap;
use scsi::{Sense, Status};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Kinds of failures that are counted for one device; a new kind starts the count of all again.
const MAX_KINDS: usize = 256;
/// The first repetition of a failure that is reported; then twice as many, and so on.
const FIRST_REPEAT: u64 = 10;

/// Receives the events of a device, for a log.
pub trait DeviceLog: Send + Sync + fmt::Debug {
    /// Records an event. It is called between commands and must not block.
    fn record(&self, event: &DeviceEvent);
}

/// An event of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// A command failed on a path.
    CommandFailed(FailedCommand),
    /// The latest failure occurred this many times.
    Repeated(u64),
    /// A path lost its session, or could not establish one.
    PathDead {
        /// Index of the path.
        path: usize,
    },
    /// A dead path has a session again.
    PathAlive {
        /// Index of the path.
        path: usize,
    },
    /// A command waits because no path is left.
    AllPathsDown,
    /// No path returned within `/Misc/APDTimeout`.
    AllPathsDownTimeout(Duration),
    /// A command found a path again.
    PathsRestored,
}

/// A command that failed on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedCommand {
    /// Operation code.
    pub opcode: u8,
    /// Number of the command among the failed ones of this device.
    pub number: u64,
    /// Index of the path.
    pub path: usize,
    /// The failure.
    pub fault: CommandFault,
    /// Whether the host sends the command again.
    pub retried: bool,
}

/// How a command failed on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandFault {
    /// CHECK CONDITION with this sense data: key, code and qualifier.
    Check(u8, u8, u8),
    /// Another status.
    Status(u8),
    /// The target could not execute the command.
    TargetFailure,
    /// The session ended, or the command was aborted.
    PathLost,
}

impl CommandFault {
    /// Returns the failure of an answered command; `None` for success.
    pub(super) fn of(completion: &Completion) -> Option<Self> {
        match (completion.status, completion.sense) {
            (Some(Status::Good | Status::ConditionMet), _) => None,
            (Some(Status::CheckCondition), Some(sense)) => Some(Self::check(sense)),
            (Some(status), _) => Some(Self::Status(status as u8)),
            (None, _) => Some(Self::TargetFailure),
        }
    }

    fn check(sense: Sense) -> Self {
        Self::Check(sense.key as u8, sense.asc.code(), sense.asc.qualifier())
    }
}

/// Reports the events of one device, repeated failures rarely.
#[derive(Debug)]
pub(super) struct EventReporter {
    log: Option<Arc<dyn DeviceLog>>,
    failed: AtomicU64,
    repeats: Mutex<FxHashMap<(u8, CommandFault), u64>>,
    is_down: AtomicBool,
    /// Since when all paths are down, and whether the timeout was reported.
    down: Mutex<Option<(Instant, bool)>>,
}

impl EventReporter {
    pub(super) fn new(log: Option<Arc<dyn DeviceLog>>) -> Self {
        Self {
            log,
            failed: AtomicU64::new(0),
            repeats: Mutex::default(),
            is_down: AtomicBool::new(false),
            down: Mutex::default(),
        }
    }

    fn record(&self, event: &DeviceEvent) {
        if let Some(log) = &self.log {
            log.record(event);
        }
    }

    /// Reports a failure: the first of its kind, and rare ones of its repetitions.
    pub(super) fn command_failed(&self, opcode: u8, path: usize, fault: CommandFault, retried: bool) {
        let number = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
        let count = {
            let mut repeats = self.repeats.lock();
            if repeats.len() == MAX_KINDS && !repeats.contains_key(&(opcode, fault)) {
                repeats.clear();
            }
            let count = repeats.entry((opcode, fault)).or_default();
            *count += 1;
            *count
        };
        if count == 1 {
            self.record(&DeviceEvent::CommandFailed(FailedCommand { opcode, number, path, fault, retried }));
        } else if count.is_multiple_of(FIRST_REPEAT) && (count / FIRST_REPEAT).is_power_of_two() {
            self.record(&DeviceEvent::Repeated(count));
        }
    }

    pub(super) fn path_changed(&self, path: usize, is_alive: bool) {
        self.record(&if is_alive { DeviceEvent::PathAlive { path } } else { DeviceEvent::PathDead { path } });
    }

    /// Reports that a command found no path, and once the timeout.
    pub(super) fn paths_down(&self, timeout: Duration) {
        let now = clock::now_with_sleep();
        let mut down = self.down.lock();
        match &mut *down {
            None => {
                *down = Some((now, false));
                self.is_down.store(true, Ordering::Release);
                self.record(&DeviceEvent::AllPathsDown);
            }
            Some((since, reported)) if !*reported && now.duration_since(*since) >= timeout => {
                *reported = true;
                self.record(&DeviceEvent::AllPathsDownTimeout(timeout));
            }
            Some(_) => {}
        }
    }

    /// Reports that a command found a path after none was left.
    pub(super) fn path_found(&self) {
        // This is called for every command; usually no path was down.
        if self.is_down.load(Ordering::Acquire) && self.down.lock().take().is_some() {
            self.is_down.store(false, Ordering::Release);
            self.record(&DeviceEvent::PathsRestored);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scsi::{SenseKey, asc};

    #[derive(Debug, Default)]
    struct Recorded(Mutex<Vec<DeviceEvent>>);

    impl DeviceLog for Recorded {
        fn record(&self, event: &DeviceEvent) {
            self.0.lock().push(event.clone());
        }
    }

    fn reporter() -> (Arc<Recorded>, EventReporter) {
        let recorded = Arc::new(Recorded::default());
        (recorded.clone(), EventReporter::new(Some(recorded)))
    }

    #[test]
    fn repeated_failures_are_reported_rarely() {
        let (recorded, reporter) = reporter();
        let fault = CommandFault::check(Sense::new(SenseKey::Miscompare, asc::MISCOMPARE_DURING_VERIFY_OPERATION));
        assert_eq!(fault, CommandFault::Check(0xe, 0x1d, 0));
        for _ in 0..45 {
            reporter.command_failed(0x89, 3, fault, false);
        }
        reporter.command_failed(0x2a, 3, fault, true);
        let command = |opcode, number, retried| {
            DeviceEvent::CommandFailed(FailedCommand { opcode, number, path: 3, fault, retried })
        };
        let expected = [
            command(0x89, 1, false),
            DeviceEvent::Repeated(10),
            DeviceEvent::Repeated(20),
            DeviceEvent::Repeated(40),
            command(0x2a, 46, true),
        ];
        assert_eq!(*recorded.0.lock(), expected);
    }

    #[test]
    fn all_paths_down_is_reported_until_a_path_is_found() {
        let (recorded, reporter) = reporter();
        reporter.path_found();
        reporter.paths_down(Duration::from_secs(140));
        reporter.paths_down(Duration::from_secs(140));
        reporter.paths_down(Duration::ZERO);
        reporter.paths_down(Duration::ZERO);
        reporter.path_found();
        reporter.path_found();
        let expected =
            [DeviceEvent::AllPathsDown, DeviceEvent::AllPathsDownTimeout(Duration::ZERO), DeviceEvent::PathsRestored];
        assert_eq!(*recorded.0.lock(), expected);
    }
}
