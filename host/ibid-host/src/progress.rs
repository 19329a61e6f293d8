//! A bar on stderr for long work; nothing where stderr is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Draws how far a number of bytes is done.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for `bytes`, named `title`. Hidden when `quiet`.
    pub(crate) fn new(title: &'static str, bytes: u64, quiet: bool) -> Self {
        if quiet {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(bytes).with_message(title);
        let template = "{msg:12} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
        // The template is a constant; were it wrong, the default style is as good.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// So many more bytes are done.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
