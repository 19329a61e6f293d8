//! Columns of the disk device screen, in the field groups that esxtop shows and hides.

use super::sample::Row;

/// Width of the first column, which holds a NAA name.
const DEVICE_WIDTH: usize = 36;

/// How a cell is computed and formatted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// Text, left-aligned.
    Text(fn(&Row) -> String),
    /// An integer: a total since the host started.
    Count(fn(&Row) -> u64),
    /// A rate or a time, with two decimals.
    Number(fn(&Row) -> f64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Heading on the screen.
    pub(crate) heading: &'static str,
    /// Counter name in a CSV file; `None` if perfmon has no such counter.
    pub(crate) counter: Option<&'static str>,
    width: usize,
    value: Value,
}

/// A group of columns that one key shows or hides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The key, `A` to `P`.
    pub(crate) key: char,
    /// Text of the group on the field screen.
    pub(crate) description: &'static str,
    /// True if the group is shown by default.
    default: bool,
    pub(crate) columns: &'static [Column],
}

const fn text(heading: &'static str, width: usize, value: fn(&Row) -> String) -> Column {
    Column { heading, counter: None, width, value: Value::Text(value) }
}

const fn count(heading: &'static str, counter: &'static str, width: usize, value: fn(&Row) -> u64) -> Column {
    Column { heading, counter: Some(counter), width, value: Value::Count(value) }
}

const fn number(heading: &'static str, counter: &'static str, width: usize, value: fn(&Row) -> f64) -> Column {
    Column { heading, counter: Some(counter), width, value: Value::Number(value) }
}

const fn field(key: char, description: &'static str, default: bool, columns: &'static [Column]) -> Field {
    Field { key, description, default, columns }
}

/// All groups in esxtop's order. Counter names are perfmon's; for offloads they equal the headings.
pub(crate) const FIELDS: &[Field] = &[
    field('A', "DEVICE = Device Name", true, &[text("DEVICE", DEVICE_WIDTH, |row| row.device.clone())]),
    field('B', "ID = Path/World/Partition Id", true, &[text("PATH/WORLD/PARTITION", 20, |_| "-".to_owned())]),
    field(
        'C',
        "NUM = Num of Objects",
        false,
        &[
            text("NPTH", 4, |row| row.paths.to_string()),
            text("NWD", 3, |row| row.worlds.to_string()),
            text("NPN", 3, |_| "-".to_owned()),
        ],
    ),
    field('D', "SHARES = Shares", false, &[text("SHARES", 6, |_| "-".to_owned())]),
    field('E', "BLKSZ = Block Size (bytes)", false, &[text("BLKSZ", 5, |row| row.block_bytes.to_string())]),
    field(
        'F',
        "QSTATS = Queue Stats",
        true,
        &[
            count("DQLEN", "Device Q Depth", 5, |row| row.queue_depth),
            text("WQLEN", 5, |_| "-".to_owned()),
            count("ACTV", "Active Commands", 4, |row| row.total.active),
            count("QUED", "Queued Commands", 4, |row| row.total.queued),
            number("%USD", "% Used", 6, |row| 100.0 * Row::ratio(row.total.active, row.queue_depth)),
            number("LOAD", "Load", 5, |row| Row::ratio(row.total.active + row.total.queued, row.queue_depth)),
        ],
    ),
    field(
        'G',
        "IOSTATS = I/O Stats",
        true,
        &[
            number("CMDS/s", "Commands/sec", 8, |row| row.per_second(row.delta.commands())),
            number("READS/s", "Reads/sec", 8, |row| row.per_second(row.delta.reads)),
            number("WRITES/s", "Writes/sec", 8, |row| row.per_second(row.delta.writes)),
            number("MBREAD/s", "MBytes Read/sec", 8, |row| row.mib_per_second(row.delta.read_bytes)),
            number("MBWRTN/s", "MBytes Written/sec", 8, |row| row.mib_per_second(row.delta.write_bytes)),
        ],
    ),
    field(
        'H',
        "RESVSTATS = Reserve Stats",
        false,
        &[
            number("RESV/s", "Reserves/sec", 8, |row| row.per_second(row.delta.reservations)),
            number("CONS/s", "Conflicts/sec", 8, |row| row.per_second(row.delta.conflicts)),
        ],
    ),
    field(
        'I',
        "LATSTATS/cmd = Overall Latency Stats (ms)",
        true,
        &[
            number("DAVG/cmd", "Average Driver MilliSec/Command", 8, |row| row.guest_ms() - row.queue_ms()),
            number("KAVG/cmd", "Average Kernel MilliSec/Command", 8, Row::queue_ms),
            number("GAVG/cmd", "Average Guest MilliSec/Command", 8, Row::guest_ms),
            number("QAVG/cmd", "Average Queue MilliSec/Command", 8, Row::queue_ms),
        ],
    ),
    field(
        'J',
        "LATSTATS/rd = Read Latency Stats (ms)",
        false,
        &[
            number("DAVG/rd", "Average Driver MilliSec/Read", 8, |row| row.read_ms() - row.read_queue_ms()),
            number("KAVG/rd", "Average Kernel MilliSec/Read", 8, Row::read_queue_ms),
            number("GAVG/rd", "Average Guest MilliSec/Read", 8, Row::read_ms),
            number("QAVG/rd", "Average Queue MilliSec/Read", 8, Row::read_queue_ms),
        ],
    ),
    field(
        'K',
        "LATSTATS/wr = Write Latency Stats (ms)",
        false,
        &[
            number("DAVG/wr", "Average Driver MilliSec/Write", 8, |row| row.write_ms() - row.write_queue_ms()),
            number("KAVG/wr", "Average Kernel MilliSec/Write", 8, Row::write_queue_ms),
            number("GAVG/wr", "Average Guest MilliSec/Write", 8, Row::write_ms),
            number("QAVG/wr", "Average Queue MilliSec/Write", 8, Row::write_queue_ms),
        ],
    ),
    field(
        'L',
        "ERRSTATS/s = Error Stats",
        false,
        &[
            number("FCMDS/s", "Failed Commands/sec", 8, |row| row.per_second(row.delta.errors)),
            number("ABRTS/s", "Aborts/sec", 8, |row| row.per_second(row.delta.aborts)),
        ],
    ),
    // Always 0: a 64-bit host needs no PAE copies, and large commands are split before they are
    // counted.
    field('M', "PAESTATS/s = PAE Stats", false, &[text("PAECMD/s", 8, |_| "0.00".to_owned())]),
    field('N', "SPLTSTATS/s = SPLIT Stats", false, &[text("SPLTCMD/s", 9, |_| "0.00".to_owned())]),
    field(
        'O',
        "VAAISTATS= VAAI Stats",
        false,
        &[
            count("CLONE_RD", "CLONE_RD", 8, |row| row.total.clone_read.done),
            count("CLONE_WR", "CLONE_WR", 8, |row| row.total.clone_write.done),
            count("CLONE_F", "CLONE_F", 8, |row| row.total.clone_read.failed),
            number("MBC_RD/s", "MBC_RD/s", 8, |row| row.mib_per_second(row.delta.clone_read.bytes)),
            number("MBC_WR/s", "MBC_WR/s", 8, |row| row.mib_per_second(row.delta.clone_write.bytes)),
            count("ATS", "ATS", 8, |row| row.total.ats.done),
            count("ATSF", "ATSF", 4, |row| row.total.ats.failed),
            count("ZERO", "ZERO", 8, |row| row.total.zero.done),
            count("ZERO_F", "ZERO_F", 8, |row| row.total.zero.failed),
            number("MBZERO/s", "MBZERO/s", 8, |row| row.mib_per_second(row.delta.zero.bytes)),
            count("DELETE", "DELETE", 8, |row| row.total.delete.done),
            count("DELETE_F", "DELETE_F", 8, |row| row.total.delete.failed),
            number("MBDEL/s", "MBDEL/s", 8, |row| row.mib_per_second(row.delta.delete.bytes)),
        ],
    ),
    field(
        'P',
        "VAAILATSTATS/cmd = VAAI Latency Stats (ms)",
        false,
        &[
            number("CAVG/suc", "CAVG/suc", 8, |row| Row::ms(row.delta.clone_read.done_ns, row.delta.clone_read.done)),
            number("CAVG/f", "CAVG/f", 8, |row| Row::ms(row.delta.clone_read.failed_ns, row.delta.clone_read.failed)),
            number("AAVG/suc", "AAVG/suc", 8, |row| Row::ms(row.delta.ats.done_ns, row.delta.ats.done)),
            number("AAVG/f", "AAVG/f", 8, |row| Row::ms(row.delta.ats.failed_ns, row.delta.ats.failed)),
            // ESXi's heading; the systematic name would be ZAVG/suc.
            number("AVG/suc", "AVG/suc", 8, |row| Row::ms(row.delta.zero.done_ns, row.delta.zero.done)),
            number("ZAVG/f", "ZAVG/f", 8, |row| Row::ms(row.delta.zero.failed_ns, row.delta.zero.failed)),
        ],
    ),
];

impl Column {
    /// Returns the heading padded to the width of the column.
    pub(crate) fn heading(&self) -> String {
        self.align(self.heading)
    }

    /// Returns the cell padded to the width of the column.
    pub(crate) fn cell(&self, row: &Row) -> String {
        self.align(&self.bare(row))
    }

    /// Returns the cell without padding, as in a CSV file.
    pub(crate) fn bare(&self, row: &Row) -> String {
        match self.value {
            Value::Text(value) => value(row),
            Value::Count(value) => value(row).to_string(),
            // The difference of two rounded times may be slightly negative.
            Value::Number(value) => format!("{:.2}", value(row).max(0.0)),
        }
    }

    fn align(&self, text: &str) -> String {
        let width = self.width;
        match self.value {
            Value::Text(_) if width > 5 => format!("{text:width$.width$}"),
            _ => format!("{text:>width$}"),
        }
    }
}

/// The field groups that are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection(Vec<bool>);

impl Default for Selection {
    fn default() -> Self {
        Self(FIELDS.iter().map(|field| field.default).collect())
    }
}

impl Selection {
    /// Selects all groups.
    pub(crate) fn all() -> Self {
        Self(vec![true; FIELDS.len()])
    }

    /// Toggles the group of `key`; returns false if there is none.
    pub(crate) fn toggle(&mut self, key: char) -> bool {
        let Some(at) = FIELDS.iter().position(|field| field.key == key.to_ascii_uppercase()) else { return false };
        self.0[at] = !self.0[at];
        true
    }

    /// Returns whether the group at index `at` is shown.
    pub(crate) fn shows(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(false)
    }

    /// Returns the columns of all shown groups.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'static Column> + '_ {
        let shown = FIELDS.iter().enumerate().filter(|(at, _)| self.shows(*at));
        shown.flat_map(|(_, field)| field.columns)
    }

    /// Returns esxtop's notation: all keys in order, upper case for shown groups.
    pub(crate) fn notation(&self) -> String {
        let key = |(at, field): (usize, &Field)| {
            if self.shows(at) { field.key } else { field.key.to_ascii_lowercase() }
        };
        FIELDS.iter().enumerate().map(key).collect()
    }

    /// Parses esxtop's notation.
    pub(crate) fn from_notation(text: &str) -> Option<Self> {
        let keys: Vec<char> = text.trim().chars().collect();
        let fits = keys.len() == FIELDS.len()
            && keys.iter().zip(FIELDS).all(|(key, field)| key.eq_ignore_ascii_case(&field.key));
        fits.then(|| Self(keys.iter().map(char::is_ascii_uppercase).collect()))
    }
}
