//! Progress display of ESXi: one line that is overwritten.

use crate::out::{out, outln};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prints lines like `Clone: 37% done.`
pub(crate) struct Meter {
    verb: &'static str,
    total: u64,
    done: AtomicU64,
    shown: AtomicU64,
    /// True on a terminal. Elsewhere only the last line is printed.
    terminal: bool,
}

impl Meter {
    /// Creates a display for `total` bytes.
    pub(crate) fn new(verb: &'static str, total: u64) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { verb, total: total.max(1), done: AtomicU64::new(0), shown: AtomicU64::new(u64::MAX), terminal }
    }

    /// Counts `bytes` more bytes as done.
    pub(crate) fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let percent = (u128::from(done) * 100 / u128::from(self.total)).min(99) as u64;
        if self.terminal && self.shown.swap(percent, Ordering::Relaxed) != percent {
            out!("\r{}", line(self.verb, percent));
        }
    }

    /// Prints the last line, 100 %.
    pub(crate) fn end(&self) {
        let start = if self.terminal { "\r" } else { "" };
        outln!("{start}{}", line(self.verb, 100));
    }
}

fn line(verb: &str, percent: u64) -> String {
    format!("{verb}: {percent}% done.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_has_esxi_format() {
        assert_eq!(line("Clone", 100), "Clone: 100% done.");
        assert_eq!(line("Hole Punching", 19), "Hole Punching: 19% done.");
    }
}
