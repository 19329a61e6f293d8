//! The columns of the disk device screen, in the groups by which esxtop switches them on and off.

use super::sample::Row;

/// The width of the first column: a NAA name.
const DEVICE_WIDTH: usize = 36;

/// What a cell shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// Words, to the left.
    Text(fn(&Row) -> String),
    /// A number that esxtop shows as a whole one: counts since the host began.
    Count(fn(&Row) -> u64),
    /// A rate or a time, with two digits behind the point.
    Number(fn(&Row) -> f64),
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its heading on the screen.
    pub(crate) heading: &'static str,
    /// Its name in a CSV file; none for what perfmon has no counters of.
    pub(crate) counter: Option<&'static str>,
    width: usize,
    value: Value,
}

/// A group of columns, which one key switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// The key, `A` to `P`.
    pub(crate) key: char,
    /// Its name and meaning as the field screen lists it.
    pub(crate) description: &'static str,
    /// Whether it is shown at first.
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

/// All groups, in esxtop's order. The names of the counters are perfmon's, and for offloads the headings themselves.
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
    // A 64-bit host copies nothing for want of address bits, and our commands are cut before they are counted.
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
            // ESXi's heading; its full name would be ZAVG/suc.
            number("AVG/suc", "AVG/suc", 8, |row| Row::ms(row.delta.zero.done_ns, row.delta.zero.done)),
            number("ZAVG/f", "ZAVG/f", 8, |row| Row::ms(row.delta.zero.failed_ns, row.delta.zero.failed)),
        ],
    ),
];

impl Column {
    /// The heading, as wide as the column: words to the left, numbers to the right.
    pub(crate) fn heading(&self) -> String {
        self.align(self.heading)
    }

    /// A cell, as wide as the column.
    pub(crate) fn cell(&self, row: &Row) -> String {
        self.align(&self.bare(row))
    }

    /// A cell without padding, as in a CSV file.
    pub(crate) fn bare(&self, row: &Row) -> String {
        match self.value {
            Value::Text(value) => value(row),
            Value::Count(value) => value(row).to_string(),
            // A time is never below zero, but the difference of two rounded ones may be.
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

/// Which groups are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection(Vec<bool>);

impl Default for Selection {
    fn default() -> Self {
        Self(FIELDS.iter().map(|field| field.default).collect())
    }
}

impl Selection {
    /// All groups.
    pub(crate) fn all() -> Self {
        Self(vec![true; FIELDS.len()])
    }

    /// Switches the group with this key; false where there is none.
    pub(crate) fn toggle(&mut self, key: char) -> bool {
        let Some(at) = FIELDS.iter().position(|field| field.key == key.to_ascii_uppercase()) else { return false };
        self.0[at] = !self.0[at];
        true
    }

    /// Whether the group at this place is shown.
    pub(crate) fn shows(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(false)
    }

    /// The columns that are shown.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'static Column> + '_ {
        let shown = FIELDS.iter().enumerate().filter(|(at, _)| self.shows(*at));
        shown.flat_map(|(_, field)| field.columns)
    }

    /// The keys in order, in capitals where the group is shown: esxtop's notation.
    pub(crate) fn notation(&self) -> String {
        let key = |(at, field): (usize, &Field)| {
            if self.shows(at) { field.key } else { field.key.to_ascii_lowercase() }
        };
        FIELDS.iter().enumerate().map(key).collect()
    }

    /// The selection that this notation stands for; none where it is not one.
    pub(crate) fn from_notation(text: &str) -> Option<Self> {
        let keys: Vec<char> = text.trim().chars().collect();
        let fits = keys.len() == FIELDS.len()
            && keys.iter().zip(FIELDS).all(|(key, field)| key.eq_ignore_ascii_case(&field.key));
        fits.then(|| Self(keys.iter().map(char::is_ascii_uppercase).collect()))
    }
}
