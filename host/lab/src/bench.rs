//! The context of an experiment: target, scale, number of repetitions, and progress display.

use crate::error::LabError;
use crate::pair::LabPair;
use crate::target::LabTarget;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use virtual_disk::{MoverSettings, Outstanding};

/// Sizes of disks and data in the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabScale {
    /// Small sizes: all experiments take minutes on a small machine.
    Small,
    /// The sizes of the published experiments.
    Paper,
}

impl LabScale {
    /// Returns the value for this scale.
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

/// Context that all experiments run in.
pub struct LabBench {
    /// The target and its disks.
    pub target: LabTarget,
    /// Sizes of the experiments.
    pub scale: LabScale,
    /// Repetitions of each measurement, at least 1.
    pub repetitions: u32,
    /// Concurrent commands of one operation, the same in all experiments.
    pub outstanding: Outstanding,
    /// The most bytes that an experiment may store on the target.
    pub space_limit: Option<u64>,
    /// True to record the commands of one operation of experiments that can explain themselves.
    pub explain: bool,
    /// The program `ibid` and the directory for its data, if the lab starts arrays.
    pub(crate) own: Option<(PathBuf, Option<PathBuf>)>,
    pair: OnceCell<LabPair>,
    /// Progress of the running experiment.
    bar: ProgressBar,
    /// Makes the names of created disks unique.
    serial: Cell<u32>,
}

impl LabBench {
    /// Creates a context; `quiet` hides the progress bar.
    pub fn new(target: LabTarget, scale: LabScale, repetitions: u32, outstanding: Outstanding, quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let template = "{prefix:>4} {bar:28} {pos:>3}/{len:3} {elapsed_precise} {wide_msg}";
        // The template is a constant; if it were invalid, the default style would do.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self {
            target,
            scale,
            repetitions: repetitions.max(1),
            outstanding,
            space_limit: None,
            explain: false,
            own: None,
            pair: OnceCell::new(),
            bar,
            serial: Cell::new(0),
        }
    }

    /// Returns the data mover's settings that experiments start from: ESXi's defaults.
    pub(crate) fn mover(&self) -> MoverSettings {
        MoverSettings { outstanding: self.outstanding, ..MoverSettings::default() }
    }

    /// Starts two arrays unless they run.
    ///
    /// # Errors
    ///
    /// [`LabError::NotPossible`] with a target that the lab has not started.
    pub(crate) async fn start_pair(&self) -> Result<(), LabError> {
        let Some((program, scratch)) = &self.own else {
            return Err(LabError::NotPossible("needs two arrays, which the lab starts without --target".to_owned()));
        };
        if self.pair.get().is_none() {
            self.say("starting two arrays and a mediator");
            let start = LabPair::start(program, scratch.as_deref(), self.scale.pick("64GiB", "256GiB"));
            let pair = Box::pin(start).await?;
            // It was empty, and nothing else sets it.
            let _ = self.pair.set(pair);
        }
        Ok(())
    }

    /// Ends the two arrays, if they run.
    pub(crate) fn end_pair(&mut self) {
        self.pair.take();
    }

    /// Returns the two arrays.
    pub(crate) fn pair(&self) -> Result<&LabPair, LabError> {
        self.pair.get().ok_or_else(|| LabError::Wrong("the two arrays do not run".to_owned()))
    }

    /// Returns the process ids of the programs that the lab has started.
    pub(crate) fn programs(&self) -> Vec<u32> {
        let pair = self.pair.get().map(LabPair::programs).unwrap_or_default();
        self.target.array_process().into_iter().chain(pair).collect()
    }

    /// Shows that an experiment starts.
    pub(crate) fn begin(&self, id: &str) {
        self.bar.reset();
        self.bar.set_length(0);
        self.bar.set_prefix(id.to_owned());
        self.bar.set_message("preparing");
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    /// Shows that an experiment ended; `line` stays on the screen.
    pub(crate) fn end(&self, line: &str) {
        self.bar.disable_steady_tick();
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Adds `steps` to the number of planned steps.
    pub(crate) fn plan(&self, steps: usize) {
        self.bar.inc_length(steps as u64);
    }

    /// Shows that a planned step starts.
    pub(crate) fn step(&self, what: impl Into<String>) {
        self.bar.inc(1);
        self.bar.set_message(what.into());
    }

    /// Shows what an unplanned step does.
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// Returns a number that is unique in this run.
    pub(crate) fn serial(&self) -> u32 {
        self.serial.set(self.serial.get() + 1);
        self.serial.get()
    }

    /// Returns the bytes that may be stored on disk number `at`: 90 % of it, within the limit.
    pub(crate) fn capacity(&self, at: usize) -> Result<u64, LabError> {
        Ok((self.target.disk(at)?.bytes / 10 * 9).min(self.space_limit.unwrap_or(u64::MAX)))
    }

    /// Returns those of `sizes`, in bytes, that fit on disk number `at`.
    pub(crate) fn fitting(&self, at: usize, sizes: &[u64]) -> Result<Vec<u64>, LabError> {
        let room = self.capacity(at)?;
        Ok(sizes.iter().copied().filter(|size| *size <= room).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_display_round_trips() {
        for scale in [LabScale::Small, LabScale::Paper] {
            assert_eq!(scale.to_string().parse(), Ok(scale));
        }
        assert!("large".parse::<LabScale>().unwrap_err().contains("small or paper"));
    }
}
