//! Waits for work that the array does by itself, and shows its progress.

use crate::problem::Problem;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_millis(500);
/// Exit code after Ctrl-C, as shells report it.
const INTERRUPTED: u8 = 130;

/// One reading of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It is complete.
    Done,
    /// It continues.
    Continues {
        /// The progress, for people.
        line: String,
        /// Without a terminal, a line is printed only if this changed.
        step: String,
    },
}

/// Reads until the work is complete. Ctrl-C ends the wait, not the work: `running` names that.
pub(super) fn wait(running: &str, mut read: impl FnMut() -> Result<Reading, Problem>) -> Result<(), Problem> {
    let mut pause = Pause::new()?;
    let mut line = Line::default();
    while let Reading::Continues { line: text, step } = read()? {
        line.show(&text, step);
        if pause.is_interrupted() {
            line.end();
            return Err(Problem::new(format!("not waited for: {running}"))
                .hint("the array continues; `ibid pod list --replication` shows the progress")
                .exit_code(INTERRUPTED));
        }
    }
    line.end();
    Ok(())
}

/// Pauses that Ctrl-C ends.
struct Pause {
    runtime: Runtime,
    interrupt: Signal,
}

impl Pause {
    fn new() -> Result<Self, Problem> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let interrupt = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
        Ok(Self { runtime, interrupt })
    }

    fn is_interrupted(&mut self) -> bool {
        let Self { runtime, interrupt } = self;
        runtime.block_on(async { tokio::time::timeout(INTERVAL, interrupt.recv()).await.is_ok() })
    }
}

/// The line of progress on standard error. A terminal shows it in place of the last one.
#[derive(Default)]
struct Line {
    step: String,
    is_drawn: bool,
}

impl Line {
    fn show(&mut self, text: &str, step: String) {
        let mut stderr = io::stderr().lock();
        // Progress that cannot be shown changes no result.
        if stderr.is_terminal() {
            // A line that wraps could not be drawn again.
            let columns = ratatui::crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
            let text: String = text.chars().take(columns.saturating_sub(1)).collect();
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
            self.is_drawn = true;
        } else if self.step != step {
            let _ = writeln!(stderr, "{text}");
        }
        self.step = step;
    }

    fn end(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = writeln!(io::stderr().lock());
        }
    }
}
