//! What an experiment is given: the target's disks, how large to go, how often, and where to say how far it is.

use crate::error::LabError;
use crate::site::LabTarget;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How large everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabScale {
    /// Fits a small machine: all experiments in minutes.
    Small,
    /// The documents' sizes.
    Paper,
}

impl LabScale {
    /// The value for this scale.
    pub fn pick<T>(self, small: T, paper: T) -> T {
        match self {
            Self::Small => small,
            Self::Paper => paper,
        }
    }
}

impl FromStr for LabScale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "small" => Ok(Self::Small),
            "paper" => Ok(Self::Paper),
            _ => Err(format!("'{text}' is not a scale; use small or paper")),
        }
    }
}

impl fmt::Display for LabScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("small", "paper"))
    }
}

/// The bench that experiments are done on.
pub struct LabBench {
    /// The target and its disks.
    pub target: LabTarget,
    /// How large everything is.
    pub scale: LabScale,
    /// How often everything is repeated, at least once.
    pub repetitions: u32,
    /// What the experiment that runs is called.
    bar: ProgressBar,
    /// Distinguishes the names of what experiments make.
    serial: Cell<u32>,
}

impl LabBench {
    /// A bench; `quiet` draws no progress bar.
    pub fn new(target: LabTarget, scale: LabScale, repetitions: u32, quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let template = "{prefix:>4} {bar:28} {pos:>3}/{len:3} {elapsed_precise} {wide_msg}";
        // The template is a constant; were it wrong, the default style is as good.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { target, scale, repetitions: repetitions.max(1), bar, serial: Cell::new(0) }
    }

    /// An experiment begins.
    pub(crate) fn begin(&self, id: &str) {
        self.bar.reset();
        self.bar.set_length(0);
        self.bar.set_prefix(id.to_owned());
        self.bar.set_message("preparing");
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    /// An experiment has ended: `line` stays on the screen in the place of the bar.
    pub(crate) fn end(&self, line: &str) {
        self.bar.disable_steady_tick();
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// No more experiments.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// So many more steps will be done.
    pub(crate) fn plan(&self, steps: usize) {
        self.bar.inc_length(steps as u64);
    }

    /// One of the planned steps begins.
    pub(crate) fn step(&self, what: impl Into<String>) {
        self.bar.inc(1);
        self.bar.set_message(what.into());
    }

    /// Something that was not planned, and takes a while.
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// A number that no other call returns.
    pub(crate) fn serial(&self) -> u32 {
        self.serial.set(self.serial.get() + 1);
        self.serial.get()
    }

    /// The first `most` sizes, in bytes, that fit on the `at`th disk with a tenth to spare.
    pub(crate) fn fitting(&self, at: usize, sizes: &[u64]) -> Result<Vec<u64>, LabError> {
        let room = self.target.disk(at)?.bytes / 10 * 9;
        Ok(sizes.iter().copied().filter(|size| *size <= room).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_read_as_it_is_written() {
        for scale in [LabScale::Small, LabScale::Paper] {
            assert_eq!(scale.to_string().parse(), Ok(scale));
        }
        assert!("large".parse::<LabScale>().unwrap_err().contains("small or paper"));
    }
}
