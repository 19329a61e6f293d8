//! An annotated timeline of the commands of one operation, from a record of them.

use crate::display;
use crate::results::{Timeline, TimelineRow};
use crate::trace::{TraceEntry, TraceKind};
use std::time::Duration;

/// Commands of this size and more carry data of disks; smaller ones are metadata.
const DATA_BYTES: u64 = 64 << 10;
/// The most rows of a timeline; the rows in the middle are left out.
const ROWS: usize = 60;

/// Purpose of a command in the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Swap,
    Lookup,
    Record,
    Moved,
    Copied,
    Zeroed,
    Unmapped,
    Managed,
}

impl Purpose {
    fn of(entry: &TraceEntry) -> Self {
        match entry.kind {
            TraceKind::Ats => Self::Swap,
            TraceKind::Read | TraceKind::Write | TraceKind::WriteZeros if entry.bytes >= DATA_BYTES => Self::Moved,
            TraceKind::Read => Self::Lookup,
            TraceKind::Write | TraceKind::WriteZeros => Self::Record,
            TraceKind::Xcopy => Self::Copied,
            TraceKind::WriteSame => Self::Zeroed,
            TraceKind::Unmap => Self::Unmapped,
            TraceKind::Other => Self::Managed,
        }
    }

    /// Returns the name of the command and its meaning.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Swap => (
                "COMPARE AND WRITE",
                "takes or releases a lock, or changes one sector of metadata, if no other host changed it",
            ),
            Self::Lookup => ("READ", "reads metadata: directories, file descriptors, block maps"),
            Self::Record => ("WRITE", "writes a journal record, or the text of a descriptor"),
            Self::Moved => ("READ and WRITE", "data crosses the wire twice: from the array to the host and back"),
            Self::Copied => ("EXTENDED COPY", "the array copies by reference; no data crosses the wire"),
            Self::Zeroed => ("WRITE SAME", "the array zeroes blocks; one block of zeros crosses the wire"),
            Self::Unmapped => ("UNMAP", "blocks return to the array"),
            Self::Managed => ("RESERVE, RELEASE or a reset", "locks of a host without COMPARE AND WRITE"),
        }
    }
}

/// Combines the records of several disks, each with its name, into one timeline. Commands in
/// sequence that do the same on the same disk are one row; data that is read and written at once is
/// one row for all disks.
pub(crate) fn timeline(title: &str, records: &[(&str, Vec<TraceEntry>)]) -> Timeline {
    let mut all: Vec<(&str, &TraceEntry)> =
        records.iter().flat_map(|(disk, entries)| entries.iter().map(move |entry| (*disk, entry))).collect();
    all.sort_by_key(|(_, entry)| entry.at);
    let mut groups: Vec<(Purpose, &str, TimelineRow)> = Vec::new();
    for (disk, entry) in all {
        let purpose = Purpose::of(entry);
        let disk = if purpose == Purpose::Moved { "both" } else { disk };
        let until = entry.at + entry.took;
        match groups.last_mut().filter(|(last, on, _)| *last == purpose && *on == disk) {
            Some((_, _, row)) => {
                row.commands += 1;
                row.bytes += entry.bytes;
                row.until = row.until.max(until.as_secs_f64());
            }
            None => groups.push((purpose, disk, row(purpose, disk, entry, until))),
        }
    }
    let rows: Vec<TimelineRow> = groups.into_iter().map(|(_, _, row)| row).collect();
    let left_out = rows.len().saturating_sub(ROWS);
    let head = ROWS / 2;
    let rows = match left_out {
        0 => rows,
        _ => rows[..head].iter().chain(&rows[head + left_out..]).cloned().collect(),
    };
    Timeline { title: title.to_owned(), rows, left_out, left_out_after: head }
}

fn row(purpose: Purpose, disk: &str, entry: &TraceEntry, until: Duration) -> TimelineRow {
    let (command, meaning) = purpose.words();
    TimelineRow {
        at: entry.at.as_secs_f64(),
        until: until.as_secs_f64(),
        disk: disk.to_owned(),
        command: command.to_owned(),
        commands: 1,
        bytes: entry.bytes,
        meaning: meaning.to_owned(),
    }
}

/// Formats a timeline as lines of text for the terminal.
pub fn text(timeline: &Timeline) -> String {
    let mut out = format!("{}\n", timeline.title);
    for (at, row) in timeline.rows.iter().enumerate() {
        if timeline.left_out > 0 && at == timeline.left_out_after {
            out += &format!("            … {} more rows\n", timeline.left_out);
        }
        out += &format!(
            "{:>10}  {:>9}  {:11}  {:>5} × {:27} {:>9}  {}\n",
            display::seconds(row.at),
            display::seconds(row.until - row.at),
            row.disk,
            row.commands,
            row.command,
            display::bytes(row.bytes),
            row.meaning
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: u64, kind: TraceKind, bytes: u64) -> TraceEntry {
        TraceEntry { at: Duration::from_millis(at), took: Duration::from_millis(2), kind, lba: 0, bytes }
    }

    #[test]
    fn equal_commands_in_sequence_are_one_row() {
        let source = vec![
            entry(0, TraceKind::Read, 4096),
            entry(5, TraceKind::Xcopy, 1 << 22),
            entry(6, TraceKind::Xcopy, 1 << 22),
        ];
        let destination =
            vec![entry(1, TraceKind::Ats, 512), entry(3, TraceKind::Ats, 512), entry(9, TraceKind::Ats, 512)];
        let timeline = timeline("t", &[("source", source), ("destination", destination)]);
        let rows: Vec<(&str, &str, u64)> =
            timeline.rows.iter().map(|row| (row.disk.as_str(), row.command.as_str(), row.commands)).collect();
        let expected = [
            ("source", "READ", 1),
            ("destination", "COMPARE AND WRITE", 2),
            ("source", "EXTENDED COPY", 2),
            ("destination", "COMPARE AND WRITE", 1),
        ];
        assert_eq!(rows, expected);
        assert_eq!((timeline.rows[1].at, timeline.rows[1].until, timeline.rows[2].bytes), (0.001, 0.005, 2 << 22));
        assert!(text(&timeline).contains("2 × EXTENDED COPY"), "{}", text(&timeline));
    }

    #[test]
    fn data_read_and_written_is_one_row() {
        let source = (0..9).map(|at| entry(2 * at, TraceKind::Read, 1 << 20)).collect();
        let destination = (0..9).map(|at| entry(2 * at + 1, TraceKind::Write, 1 << 20)).collect();
        let timeline = timeline("t", &[("source", source), ("destination", destination)]);
        assert_eq!(timeline.rows.len(), 1);
        assert_eq!((timeline.rows[0].commands, timeline.rows[0].bytes), (18, 18 << 20));
    }

    #[test]
    fn long_timeline_omits_its_middle() {
        let kinds = [TraceKind::Ats, TraceKind::Xcopy];
        let entries = (0..100).map(|at| entry(at, kinds[at as usize % 2], 512)).collect();
        let timeline = timeline("t", &[("source", entries)]);
        assert_eq!((timeline.rows.len(), timeline.left_out, timeline.left_out_after), (ROWS, 40, 30));
        assert!(text(&timeline).contains("… 40 more rows"));
        assert_eq!(timeline.rows[30].at, 0.070);
    }
}
