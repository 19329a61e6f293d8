//! A run as files: `report.json` with everything, `samples.csv` with one line for each number, and `report.html`, which
//! carries its styles, its script and uPlot with it.

mod csv;
mod html;
mod section;
mod verdict;

use crate::results::LabReport;
use platform::files::{self, Access};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a report was not written.
#[derive(Debug, Error)]
#[error("{path}: {error}")]
pub struct WriteError {
    path: String,
    error: io::Error,
}

/// The page that people read.
pub const PAGE: &str = "report.html";
/// The names of the files of a report.
pub const FILES: [&str; 3] = ["report.json", "samples.csv", PAGE];

/// The contents of [`FILES`], in that order.
pub fn render(report: &LabReport) -> [String; 3] {
    // The types hold nothing that JSON cannot: no maps with keys that are no text.
    let json = serde_json::to_string_pretty(report).unwrap_or_default();
    [json, csv::render(report), html::render(report)]
}

/// Writes the files into `directory`, which is made where there is none; each takes the place of an older one. Returns the
/// path of the HTML file.
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
