//! Batch mode of esxtop: a CSV file in perfmon's format, one line per sample.

use super::fields::{Column, Selection};
use super::sample::Row;

/// The columns of a capture, fixed at the start so that all lines have the same number of cells.
#[derive(Debug)]
pub(crate) struct Capture {
    host: String,
    devices: Vec<String>,
    columns: Vec<&'static Column>,
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

impl Capture {
    pub(crate) fn new(host: &str, devices: Vec<String>, selection: &Selection) -> Self {
        let columns = selection.columns().filter(|column| column.counter.is_some()).collect();
        Self { host: host.to_owned(), devices, columns }
    }

    /// Returns the header line. The `(UTC)(0)` in it states that times are in UTC.
    pub(crate) fn header(&self) -> String {
        let mut cells = vec![quoted("(PDH-CSV 4.0) (UTC)(0)")];
        for device in &self.devices {
            for counter in self.columns.iter().filter_map(|column| column.counter) {
                cells.push(quoted(&format!("\\\\{}\\Physical Disk SCSI Device({device})\\{counter}", self.host)));
            }
        }
        cells.join(",") + "\n"
    }

    /// Returns the line of a sample taken at `time` (`MM/DD/YYYY HH:MM:SS`). Devices that appeared
    /// after the header are left out.
    pub(crate) fn line(&self, time: &str, rows: &[Row]) -> String {
        let nothing = Row::default();
        let mut cells = vec![quoted(time)];
        for device in &self.devices {
            let row = rows.iter().find(|row| row.device == *device).unwrap_or(&nothing);
            cells.extend(self.columns.iter().map(|column| quoted(&column.bare(row))));
        }
        cells.join(",") + "\n"
    }
}

/// Converts an ESXi time (`2026-11-22T00:30:05.123Z`) to perfmon's format.
pub(crate) fn perfmon_time(timestamp: &str) -> String {
    let (date, time) = timestamp.split_once('T').unwrap_or((timestamp, ""));
    let (year, month_day) = date.split_once('-').unwrap_or((date, ""));
    let time = time.split('.').next().unwrap_or_default();
    format!("{}/{year} {time}", month_day.replace('-', "/"))
}
