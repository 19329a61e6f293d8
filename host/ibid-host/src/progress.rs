//! A progress bar on stderr; hidden if stderr is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Progress of a number of bytes.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar for `bytes` with a title; `quiet` hides it.
    pub(crate) fn new(title: &'static str, bytes: u64, quiet: bool) -> Self {
        if quiet {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(bytes).with_message(title);
        let template = "{msg:12} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        // The template is a constant; if it were invalid, the default style would do.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// Counts `bytes` more bytes as done.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
