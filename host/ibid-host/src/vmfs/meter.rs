//! ESXi's way to show how far work is: one line that is written over.

use crate::out::{out, outln};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// `Clone: 37% done.`
pub(crate) struct Meter {
    verb: &'static str,
    total: u64,
    done: AtomicU64,
    shown: AtomicU64,
    /// Only a terminal can be written over; elsewhere the last line is all.
    terminal: bool,
}

impl Meter {
    /// Nothing of `total` bytes is done.
    pub(crate) fn new(verb: &'static str, total: u64) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { verb, total: total.max(1), done: AtomicU64::new(0), shown: AtomicU64::new(u64::MAX), terminal }
    }

    /// So many more bytes are done.
    pub(crate) fn advance(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let percent = (u128::from(done) * 100 / u128::from(self.total)).min(99) as u64;
        if self.terminal && self.shown.swap(percent, Ordering::Relaxed) != percent {
            out!("\r{}", line(self.verb, percent));
        }
    }

    /// All is done.
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
    fn the_line_is_esxis() {
        assert_eq!(line("Clone", 100), "Clone: 100% done.");
        assert_eq!(line("Hole Punching", 19), "Hole Punching: 19% done.");
    }
}
