//! Properties and load of the machine, because other processes affect the measurements.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// Maximum size of a file in /proc.
const PROC_BYTES: u64 = 1 << 20;

/// Properties of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Processors that this process may use.
    pub cpus: usize,
    /// Name of the processor; empty if unknown.
    pub processor: String,
    /// Kernel release.
    pub kernel: String,
    /// Main memory in bytes; 0 if unknown.
    pub memory: u64,
}

impl MachineInfo {
    /// Reads the properties from /proc.
    pub fn current() -> Self {
        let processor = field(&proc("cpuinfo"), "model name").unwrap_or_default();
        let memory = field(&proc("meminfo"), "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            processor,
            kernel: proc("sys/kernel/osrelease").trim().to_owned(),
            memory: memory.unwrap_or(0) * 1024,
        }
    }
}

/// Load of the machine during an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// One-minute load average at the start.
    pub before: f64,
    /// One-minute load average at the end.
    pub after: f64,
    /// Percentage of processor time that was not idle, including the lab and its target.
    pub busy: f64,
    /// Percentage of processor time that the hypervisor took (steal).
    pub steal: f64,
    /// Percentage of processor time that other programs and the hypervisor took. If the lab started
    /// the array, during the experiment; otherwise in a second of silence before and after it,
    /// because the target may run on this machine.
    pub foreign: f64,
}

/// Foreign load above which no goal is judged, in percent of all processor time.
pub const FOREIGN_LIMIT: f64 = 10.0;

impl MachineLoad {
    /// Returns true if other programs took more than [`FOREIGN_LIMIT`]: no goal can be judged.
    pub fn is_noisy(&self) -> bool {
        self.foreign > FOREIGN_LIMIT
    }
}

/// A load measurement in progress.
#[derive(Clone, Debug)]
pub struct LoadMeter {
    average: f64,
    ticks: Ticks,
    /// Processor time of the lab and of the programs that it started, in ticks.
    own: u64,
    /// Process ids of these programs.
    programs: Vec<u32>,
}

impl LoadMeter {
    /// Starts the measurement.
    /// `programs` are the process ids of the arrays and mediators that the lab has started.
    pub fn begin(programs: Vec<u32>) -> Self {
        let average = average(&proc("loadavg"));
        Self { average, ticks: Ticks::parse(&proc("stat")), own: own_ticks(&programs), programs }
    }

    /// Returns the load since the start.
    pub fn end(&self) -> MachineLoad {
        load(self, average(&proc("loadavg")), Ticks::parse(&proc("stat")), own_ticks(&self.programs))
    }
}

/// Returns the processor time of this process, its ended children and these programs, in ticks.
fn own_ticks(programs: &[u32]) -> u64 {
    let programs = programs.iter().map(|id| process_cpu_ticks(&proc(&format!("{id}/stat")), 2));
    process_cpu_ticks(&proc("self/stat"), 4) + programs.sum::<u64>()
}

fn load(begin: &LoadMeter, after: f64, ticks: Ticks, own: u64) -> MachineLoad {
    let all = ticks.all.saturating_sub(begin.ticks.all);
    let percent = |now: u64, then: u64| 100.0 * now.saturating_sub(then) as f64 / all.max(1) as f64;
    let busy = if all == 0 { 0.0 } else { 100.0 - percent(ticks.idle, begin.ticks.idle) };
    let programs = ticks.programs.saturating_sub(begin.ticks.programs);
    let steal = percent(ticks.steal, begin.ticks.steal);
    let foreign = percent(programs, own.saturating_sub(begin.own)) + steal;
    MachineLoad { before: begin.average, after, busy, steal, foreign }
}

/// Time of all processors since boot, in kernel ticks (proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    all: u64,
    idle: u64,
    steal: u64,
    /// Time of programs, without interrupts.
    programs: u64,
}

impl Ticks {
    fn parse(stat: &str) -> Self {
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // Fields: user nice system idle iowait irq softirq steal. The guest times after them are
        // already part of user.
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        Self { all: (0..8).map(at).sum(), idle: at(3) + at(4), steal: at(7), programs: (0..3).map(at).sum() }
    }
}

/// Returns the processor time of this process in seconds; 0 if unknown.
pub fn process_cpu_seconds() -> f64 {
    // These ticks are 1/100 s on every architecture (proc_pid_stat(5), USER_HZ).
    process_cpu_ticks(&proc("self/stat"), 2) as f64 / 100.0
}

/// Returns the sum of the first `fields` of utime, stime, cutime and cstime, which begin at field
/// 14. Field 2 is the program name in parentheses, which may
/// itself contain parentheses.
fn process_cpu_ticks(stat: &str, fields: usize) -> u64 {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(fields).filter_map(|word| word.parse::<u64>().ok()).sum()
}

fn average(loadavg: &str) -> f64 {
    loadavg.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned()))
}

/// Reads a file in /proc; empty if there is none.
fn proc(name: &str) -> String {
    platform::files::read_text(&Path::new("/proc").join(name), PROC_BYTES).ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_iowait_are_not_busy() {
        let before = Ticks::parse("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n");
        assert_eq!(before, Ticks { all: 1000, idle: 800, steal: 0, programs: 200 });
        let after = Ticks::parse("cpu  140 0 130 900 100 0 0 30 0 0\n");
        let seen = load(&LoadMeter { average: 0.5, ticks: before, own: 10, programs: Vec::new() }, 1.5, after, 50);
        assert_eq!(after.all - before.all, 300);
        assert!((seen.busy - 100.0 / 3.0).abs() < 1e-9 && (seen.steal - 10.0).abs() < 1e-9, "{seen:?}");
        assert_eq!((seen.before, seen.after), (0.5, 1.5));
        // Programs took 70 ticks, of them 40 the lab; the hypervisor took 30.
        assert!((seen.foreign - 20.0).abs() < 1e-9 && seen.is_noisy(), "{seen:?}");
    }

    #[test]
    fn missing_proc_files_give_zero_load() {
        assert_eq!(Ticks::parse(""), Ticks::default());
        assert_eq!(average(""), 0.0);
        assert_eq!(
            load(
                &LoadMeter { average: 0.0, ticks: Ticks::default(), own: 0, programs: Vec::new() },
                0.0,
                Ticks::default(),
                0
            )
            .busy,
            0.0
        );
    }

    #[test]
    fn program_name_with_parentheses_is_skipped() {
        let stat = "42 (a) b) c) S 1 42 42 0 -1 4194304 100 0 0 0 120 30 0 0 20 0 1 0 100 0 0";
        assert_eq!((process_cpu_ticks(stat, 2), process_cpu_ticks(stat, 4)), (150, 150));
        assert_eq!(process_cpu_ticks("", 2), 0);
    }

    #[test]
    fn proc_fields_are_found_by_name() {
        assert_eq!(field("MemFree: 1 kB\nMemTotal:   42 kB\n", "MemTotal").as_deref(), Some("42 kB"));
        assert_eq!(field("model name\t: Z80\n", "model name").as_deref(), Some("Z80"));
    }
}
