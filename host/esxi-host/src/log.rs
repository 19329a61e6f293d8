//! The host's vmkernel.log.

use parking_lot::Mutex;
use platform::{AppendFile, clock, files};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// A log over this size is rotated: the old file is kept beside the new one.
const MAX_LOG_BYTES: u64 = 4 << 20;
/// Lines kept in memory.
const RECENT_LINES: usize = 1000;

/// The log of one host.
#[derive(Debug, Default)]
pub(crate) struct Log {
    path: Option<PathBuf>,
    /// The file and its length, after the first line was written.
    file: Mutex<Option<(AppendFile, u64)>>,
    recent: Mutex<VecDeque<String>>,
}

impl Log {
    pub(crate) fn new(directory: Option<&Path>) -> Self {
        Self { path: directory.map(|directory| directory.join("vmkernel.log")), ..Self::default() }
    }

    /// Appends a line with time and process id.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let line = format!("{} cpu0:{}){text}", timestamp(clock::unix_millis()), std::process::id());
        if let Some(path) = &self.path {
            self.append(path, format!("{line}\n").as_bytes())?;
        }
        let mut recent = self.recent.lock();
        if recent.len() == RECENT_LINES {
            recent.pop_front();
        }
        recent.push_back(line);
        Ok(())
    }

    fn append(&self, path: &Path, line: &[u8]) -> io::Result<()> {
        let mut open = self.file.lock();
        let (mut file, length) = match open.take() {
            Some((file, length)) if length < MAX_LOG_BYTES => (file, length),
            _ => start(path)?,
        };
        file.append(line)?;
        *open = Some((file, length + line.len() as u64));
        Ok(())
    }

    /// Returns the last lines; those of all processes if there is a file.
    pub(crate) fn recent(&self) -> io::Result<Vec<String>> {
        let Some(path) = &self.path else { return Ok(self.recent.lock().iter().cloned().collect()) };
        // Each process completes the line that exceeded the limit.
        let text = files::read_text(path, 2 * MAX_LOG_BYTES)?.unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(RECENT_LINES).collect();
        Ok(lines.into_iter().rev().map(str::to_owned).collect())
    }
}

/// Opens the log at its end, or rotates it if it is too long.
fn start(path: &Path) -> io::Result<(AppendFile, u64)> {
    match AppendFile::open(path, MAX_LOG_BYTES) {
        Ok((file, content)) => Ok((file, content.len() as u64)),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            files::rename(path, &path.with_file_name("vmkernel.0.log"))?;
            Ok((AppendFile::open(path, MAX_LOG_BYTES)?.0, 0))
        }
        Err(error) => Err(error),
    }
}

/// Formats milliseconds since 1970 like ESXi: `2026-11-22T00:30:05.123Z`.
pub fn timestamp(unix_millis: u64) -> String {
    let (seconds, millis) = (unix_millis / 1000, unix_millis % 1000);
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Returns year, month and day of a number of days since 1970 (Howard Hinnant's algorithm, for days
/// after the year 0).
pub(crate) fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    #[test]
    fn timestamps_match_the_calendar() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_007, "2000-02-29T12:34:56.007Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_795_305_600_000, "2026-11-22T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(millis), text);
        }
    }

    #[test]
    fn recent_log_includes_other_processes() {
        let directory = TemporaryDirectory::new(None, "log").unwrap();
        Log::new(Some(directory.path())).line("first").unwrap();
        let log = Log::new(Some(directory.path()));
        (0..RECENT_LINES - 1).for_each(|_| log.line("more").unwrap());
        let recent = log.recent().unwrap();
        assert!(recent[0].ends_with(")first") && recent.len() == RECENT_LINES);
        log.line("last").unwrap();
        let recent = log.recent().unwrap();
        assert!(recent[0].ends_with(")more") && recent[RECENT_LINES - 1].ends_with(")last"));
    }

    #[test]
    fn long_log_is_rotated() {
        let directory = TemporaryDirectory::new(None, "log").unwrap();
        let directory = directory.path();
        let log = Log::new(Some(directory));
        let long = "x".repeat(1 << 20);
        (0..5).for_each(|_| log.line(&long).unwrap());
        log.line("the last").unwrap();
        let now = files::read_text(&directory.join("vmkernel.log"), MAX_LOG_BYTES).unwrap().unwrap();
        assert!(now.ends_with("the last\n") && now.len() < (2 << 20), "{}", now.len());
        assert!(files::exists(&directory.join("vmkernel.0.log")).unwrap());
        let last = log.recent().unwrap().pop().unwrap();
        assert!(last.ends_with(&format!("cpu0:{})the last", std::process::id())));
    }
}
