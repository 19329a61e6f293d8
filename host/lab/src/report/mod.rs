//! Writes the report of a run: `report.json`, `samples.csv` and `report.html`.
//! The HTML file includes its styles, its script and uPlot.

pub mod compare;
mod csv;
mod html;
mod section;
mod verdict;

use crate::published;
use crate::results::{LabReport, SCHEMA};
use platform::files::{self, Access};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A report file could not be written.
#[derive(Debug, Error)]
#[error("{path}: {error}")]
pub struct WriteError {
    path: String,
    error: io::Error,
}

/// Name of the HTML file.
pub const PAGE: &str = "report.html";
/// Names of the files of a report.
pub const FILES: [&str; 3] = ["report.json", "samples.csv", PAGE];

/// Returns the contents of [`FILES`], in that order.
pub fn render(report: &LabReport) -> [String; 3] {
    // Serialization cannot fail: all map keys are strings.
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    [json, csv::render(report), html::render(report)]
}

/// Largest JSON report that is read.
const READ_BYTES: u64 = 256 << 20;

/// Reads a JSON report that a lab of this schema wrote.
///
/// # Errors
///
/// Returns the reason as text.
pub fn read(path: &Path) -> Result<LabReport, String> {
    let text = files::read_text(path, READ_BYTES).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = text.ok_or_else(|| format!("{}: no such file", path.display()))?;
    let mut report: LabReport = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if report.schema != SCHEMA {
        return Err(format!("{}: schema {}, this lab reads {SCHEMA}", path.display(), report.schema));
    }
    for outcome in &mut report.outcomes {
        outcome.published = published::about(&outcome.id);
    }
    Ok(report)
}

/// Creates `directory` if needed and checks that files can be written to it.
pub fn try_directory(directory: &Path) -> Result<(), WriteError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| WriteError { path, error }
    };
    files::create_directory(directory).map_err(failed(directory))?;
    let probe = directory.join(".lab-probe");
    files::replace(&probe, b"", Access::Everyone).map_err(failed(&probe))?;
    files::remove(&probe).map_err(failed(&probe))
}

/// Writes the files into `directory`, which is created if needed. Existing files are replaced.
/// Returns the path of the HTML file.
pub fn write(report: &LabReport, directory: &Path) -> Result<PathBuf, WriteError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| WriteError { path, error }
    };
    files::create_directory(directory).map_err(failed(directory))?;
    for (name, content) in FILES.iter().zip(render(report)) {
        let path = directory.join(name);
        files::replace(&path, content.as_bytes(), Access::Everyone).map_err(failed(&path))?;
    }
    Ok(directory.join(PAGE))
}

#[cfg(test)]
pub(crate) mod tests;
