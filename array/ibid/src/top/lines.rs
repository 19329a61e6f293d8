//! The text of `ibid top`: lines of a given width, for the display and for a pipe.

use super::choice::Screen;
use super::reading::{Offload, PRIMITIVES, Reading};
use crate::admin::{latency, rate};
use api::Performance;

/// Width of the names where all columns fit.
const NAME: usize = 24;

/// A column of figures: title, width, and text of a row.
type Column<T> = (&'static str, usize, fn(&T) -> String);

/// Columns in order of their importance; a narrow display shows the first ones.
const COLUMNS: [Column<Performance>; 12] = [
    ("R/S", 7, |row| row.reads_per_sec.to_string()),
    ("W/S", 7, |row| row.writes_per_sec.to_string()),
    ("READ/S", 9, |row| rate(row.read_bytes_per_sec)),
    ("WRITTEN/S", 9, |row| rate(row.write_bytes_per_sec)),
    ("R MEAN", 8, |row| latency(row.reads_per_sec, row.usec_per_read_op)),
    ("W MEAN", 8, |row| latency(row.writes_per_sec, row.usec_per_write_op)),
    ("OTHER/S", 7, |row| row.others_per_sec.to_string()),
    ("R P99", 8, |row| latency(row.reads_per_sec, row.usec_p99_per_read_op)),
    ("W P99", 8, |row| latency(row.writes_per_sec, row.usec_p99_per_write_op)),
    ("QUEUE", 5, |row| row.queue_depth.to_string()),
    ("QOS R", 8, |row| latency(row.reads_per_sec, row.qos_rate_limit_usec_per_read_op)),
    ("QOS W", 8, |row| latency(row.writes_per_sec, row.qos_rate_limit_usec_per_write_op)),
];

const OFFLOADS: [Column<Offload>; 6] = [
    ("PRIMITIVE", 10, |row| primitive(&row.total.primitive).to_owned()),
    ("/S", 7, |row| row.rate.map_or_else(|| "-".to_owned(), |(commands, _)| whole(commands))),
    ("BYTES/S", 9, |row| row.rate.map_or_else(|| "-".to_owned(), |(_, bytes)| rate(bytes.round() as u64))),
    ("TOTAL", 8, |row| row.total.commands.to_string()),
    ("MEAN", 8, |row| latency(row.total.commands, row.total.usec_per_op)),
    ("FAILED", 6, |row| row.total.errors.to_string()),
];

/// A table: its head and its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) head: String,
    pub(super) rows: Vec<String>,
    /// The text if there is no row.
    pub(super) none: &'static str,
}

/// Returns the table of a screen.
pub(super) fn table(reading: &Reading, screen: Screen, width: usize) -> Lines {
    match screen {
        Screen::Array => array(&reading.array),
        Screen::Vaai => {
            let name = |row: &Offload| {
                let host = row.total.host.name.as_deref().unwrap_or(&row.total.initiator);
                format!("{host}/{}", row.total.name)
            };
            let none = "No host has used an offload since the array started.";
            columns("HOST/VOLUME", &reading.offloads, name, &OFFLOADS, width, none)
        }
        _ => {
            let (title, none) = match screen {
                Screen::Hosts => ("HOST", "No host is active."),
                Screen::Connections => ("HOST/VOLUME", "No host is active."),
                Screen::Ports => ("PORT", "The array has no port."),
                _ => ("VOLUME", "No volume is active."),
            };
            columns(title, &reading.rows, |row| row.name.clone(), &COLUMNS, width, none)
        }
    }
}

/// Formats rows with as many columns as fit. Longer names are cut.
fn columns<T>(
    title: &str,
    rows: &[T],
    name: impl Fn(&T) -> String,
    columns: &[Column<T>],
    width: usize,
    none: &'static str,
) -> Lines {
    let mut left = width.saturating_sub(NAME);
    let fitting = columns.iter().take_while(|(_, width, _)| {
        let fits = left > *width;
        left = left.saturating_sub(width + 1);
        fits
    });
    let fitting: Vec<_> = fitting.collect();
    // The names get the space that no column fills.
    let used: usize = fitting.iter().map(|(_, width, _)| width + 1).sum();
    let name_width = width.saturating_sub(used);
    let line = |name: &str, cell: &dyn Fn(&Column<T>) -> String| {
        let mut line = cut(name, name_width);
        for column in &fitting {
            line += &format!(" {:>width$}", cell(column), width = column.1);
        }
        line
    };
    let head = line(title, &|column| column.0.to_owned());
    let rows = rows.iter().map(|row| line(&name(row), &|column| (column.2)(row))).collect();
    Lines { head, rows, none }
}

/// Pads a text to a width, or cuts it.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).take(width).collect(),
        false => format!("{text:width$}"),
    }
}

/// Returns the figures of the array by direction.
fn array(figures: &Performance) -> Lines {
    let row = |name: &str, cells: [String; 7]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>9}")).collect();
        format!("{name:8}{cells}")
    };
    let head = row("", ["/S", "BYTES/S", "SIZE", "MEAN", "P50", "P99", "QOS WAIT"].map(ToOwned::to_owned));
    let (reads, writes, others) = (figures.reads_per_sec, figures.writes_per_sec, figures.others_per_sec);
    let rows = vec![
        row(
            "reads",
            [
                reads.to_string(),
                rate(figures.read_bytes_per_sec),
                rate(figures.bytes_per_read),
                latency(reads, figures.usec_per_read_op),
                latency(reads, figures.usec_p50_per_read_op),
                latency(reads, figures.usec_p99_per_read_op),
                latency(reads, figures.qos_rate_limit_usec_per_read_op),
            ],
        ),
        row(
            "writes",
            [
                writes.to_string(),
                rate(figures.write_bytes_per_sec),
                rate(figures.bytes_per_write),
                latency(writes, figures.usec_per_write_op),
                latency(writes, figures.usec_p50_per_write_op),
                latency(writes, figures.usec_p99_per_write_op),
                latency(writes, figures.qos_rate_limit_usec_per_write_op),
            ],
        ),
        row(
            "others",
            [
                others.to_string(),
                "-".to_owned(),
                "-".to_owned(),
                latency(others, figures.usec_per_other_op),
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
            ],
        ),
        row(
            "queue",
            [
                figures.queue_depth.to_string(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ],
        )
        .trim_end()
        .to_owned(),
    ];
    Lines { head, rows, none: "" }
}

/// Returns the line with the sums of the array.
pub(super) fn sums(array: &Performance) -> String {
    format!(
        "reads {}/s, {}/s, {}   writes {}/s, {}/s, {}   others {}/s",
        array.reads_per_sec,
        rate(array.read_bytes_per_sec),
        latency(array.reads_per_sec, array.usec_per_read_op),
        array.writes_per_sec,
        rate(array.write_bytes_per_sec),
        latency(array.writes_per_sec, array.usec_per_write_op),
        array.others_per_sec,
    )
}

/// Returns the line with the sums of the VAAI commands: rates, with bytes if they fit, or totals if
/// there are no rates yet.
pub(super) fn vaai(offloads: &[Offload], width: usize) -> String {
    let of = |class: &'static str| offloads.iter().filter(move |row| row.total.primitive == class);
    if !offloads.is_empty() && offloads.iter().all(|row| row.rate.is_none()) {
        let total = |class: &'static str| of(class).map(|row| row.total.commands).sum::<u64>();
        let parts = PRIMITIVES.map(|(class, title)| format!("{title} {}", total(class)));
        return format!("VAAI since the start: {}", parts.join("  "));
    }
    let line = |has_bytes: bool| {
        let part = |(class, title): (&'static str, &str)| {
            let rates = of(class).filter_map(|row| row.rate);
            // The sum of no floats is -0.
            let (commands, bytes) = rates.fold((0.0, 0.0), |sum, rate| (sum.0 + rate.0, sum.1 + rate.1));
            match has_bytes && class != "compare_and_write" {
                true => format!("{title} {}/s, {}/s", whole(commands), rate(bytes.round() as u64)),
                false => format!("{title} {}/s", whole(commands)),
            }
        };
        format!("VAAI: {}", PRIMITIVES.map(part).join("  "))
    };
    Some(line(true)).filter(|line| line.chars().count() <= width).unwrap_or_else(|| line(false))
}

fn primitive(class: &str) -> &str {
    PRIMITIVES.iter().find(|(name, _)| *name == class).map_or(class, |(_, title)| title)
}

/// Formats a rate; a small one has a decimal, so that it is not taken for none.
fn whole(rate: f64) -> String {
    if rate > 0.0 && rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::OffloadPerformance;

    fn busy() -> Performance {
        Performance {
            name: "vm1".to_owned(),
            reads_per_sec: 1200,
            read_bytes_per_sec: 1200 * 4096,
            usec_per_read_op: 850,
            queue_depth: 3,
            ..Performance::default()
        }
    }

    #[test]
    fn eighty_columns_have_the_important_figures() {
        let reading = Reading { rows: vec![busy()], ..Reading::default() };
        let lines = table(&reading, Screen::Volumes, 80);
        assert_eq!(lines.head, "VOLUME                         R/S     W/S    READ/S WRITTEN/S   R MEAN   W MEAN");
        assert_eq!(lines.rows, ["vm1                           1200       0   4.69MiB         0   850 µs        -"]);
    }

    #[test]
    fn lines_fit_every_width() {
        let mut row = busy();
        row.name = "n".repeat(63);
        let offload = Offload {
            total: OffloadPerformance { name: row.name.clone(), primitive: "unmap".to_owned(), ..Default::default() },
            rate: Some((0.5, 2048.0)),
        };
        let reading = Reading { rows: vec![row], offloads: vec![offload], ..Reading::default() };
        for width in 1..220 {
            for screen in [Screen::Volumes, Screen::Connections, Screen::Ports, Screen::Vaai] {
                let lines = table(&reading, screen, width);
                for line in [&lines.head, &lines.rows[0]] {
                    assert_eq!(line.chars().count(), width.max(line.chars().count().min(width)), "{screen:?} {width}");
                }
            }
        }
        assert!(table(&reading, Screen::Volumes, 220).head.contains("QOS W"));
        assert!(table(&reading, Screen::Volumes, 80).rows[0].contains("nn… "));
        assert!(table(&reading, Screen::Array, 80).rows.iter().all(|line| line.len() <= 80));
    }

    #[test]
    fn offloads_are_summed_by_primitive() {
        let row = |class: &str, rate| Offload {
            total: OffloadPerformance { primitive: class.to_owned(), commands: 7, ..Default::default() },
            rate,
        };
        let first = [row("unmap", None)];
        assert_eq!(vaai(&first, 80), "VAAI since the start: ATS 0  XCOPY 0  WRITE SAME 0  UNMAP 7");
        let later = [
            row("compare_and_write", Some((12.0, 6144.0))),
            row("unmap", Some((0.5, 1024.0))),
            row("unmap", Some((0.25, 1024.0))),
        ];
        assert_eq!(vaai(&later, 80), "VAAI: ATS 12/s  XCOPY 0/s, 0/s  WRITE SAME 0/s, 0/s  UNMAP 0.8/s, 2KiB/s");
        assert_eq!(vaai(&later, 70), "VAAI: ATS 12/s  XCOPY 0/s  WRITE SAME 0/s  UNMAP 0.8/s");
        assert_eq!(vaai(&[], 40), "VAAI: ATS 0/s  XCOPY 0/s  WRITE SAME 0/s  UNMAP 0/s");
    }
}
