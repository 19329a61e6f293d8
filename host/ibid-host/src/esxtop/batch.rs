//! Batch mode of esxtop: a CSV file in perfmon's format, one line per sample.

use super::fields::{Column, Selection};
use super::panel::{DISK_COUNTERS, PanelCounter, SESSION_COUNTERS, session};
use super::sample::{PathRow, Row};

/// The columns of a capture, fixed at the start so that all lines have the same number of cells.
#[derive(Debug)]
pub(crate) struct Capture {
    host: String,
    devices: Vec<String>,
    columns: Vec<&'static Column>,
    disks: Vec<String>,
    /// Sessions by the names of their paths.
    sessions: Vec<String>,
}

/// The rows of a sample.
#[derive(Debug, Default)]
pub(crate) struct CaptureRows {
    pub(crate) devices: Vec<Row>,
    pub(crate) disks: Vec<Row>,
    pub(crate) paths: Vec<PathRow>,
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

impl Capture {
    pub(crate) fn new(host: &str, devices: Vec<String>, selection: &Selection) -> Self {
        let columns = selection.columns().filter(|column| column.counter.is_some()).collect();
        Self { host: host.to_owned(), devices, columns, disks: Vec::new(), sessions: Vec::new() }
    }

    /// Adds virtual disks, and sessions by the names of their paths.
    pub(crate) fn with(self, disks: Vec<String>, sessions: Vec<String>) -> Self {
        Self { disks, sessions, ..self }
    }

    /// Returns the header line. The `(UTC)(0)` in it states that times are in UTC.
    pub(crate) fn header(&self) -> String {
        let mut cells = vec![quoted("(PDH-CSV 4.0) (UTC)(0)")];
        for device in &self.devices {
            for counter in self.columns.iter().filter_map(|column| column.counter) {
                cells.push(quoted(&format!("\\\\{}\\Physical Disk SCSI Device({device})\\{counter}", self.host)));
            }
        }
        let named = |instance: String, counters: &[PanelCounter]| {
            let cell = |(_, name, _): &PanelCounter| quoted(&format!("\\\\{}\\{instance}\\{name}", self.host));
            counters.iter().map(cell).collect::<Vec<_>>()
        };
        cells.extend(self.disks.iter().flat_map(|disk| named(format!("Virtual Disk({disk})"), &DISK_COUNTERS)));
        cells.extend(
            (1..).zip(&self.sessions).flat_map(|(port, path): (u32, _)| {
                named(format!("Network Port(iSCSI:{port}:{path})"), &SESSION_COUNTERS)
            }),
        );
        cells.join(",") + "\n"
    }

    /// Returns the line of a sample taken at `time` (`MM/DD/YYYY HH:MM:SS`). Devices that appeared
    /// after the header are left out.
    pub(crate) fn line(&self, time: &str, rows: &CaptureRows) -> String {
        let nothing = Row::default();
        let mut cells = vec![quoted(time)];
        for device in &self.devices {
            let row = rows.devices.iter().find(|row| row.device == *device).unwrap_or(&nothing);
            cells.extend(self.columns.iter().map(|column| quoted(&column.bare(row))));
        }
        let sessions: Vec<Row> = rows.paths.iter().map(session).collect();
        let groups: [(&[String], &[Row], &[PanelCounter]); 2] =
            [(&self.disks, &rows.disks, &DISK_COUNTERS), (&self.sessions, &sessions, &SESSION_COUNTERS)];
        for (names, rows, counters) in groups {
            for name in names {
                let row = rows.iter().find(|row| row.device == *name).unwrap_or(&nothing);
                cells.extend(counters.iter().map(|(_, _, value)| quoted(&format!("{:.2}", value(row)))));
            }
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
