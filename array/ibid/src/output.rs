//! Standard output: tables for people, JSON for programs.

use crate::problem::Problem;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use types::parse_capacity;

pub(crate) use types::utc_time as time;

/// Writes text. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), Problem> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a line of progress to standard error.
pub(crate) fn progress(line: &str) {
    // Progress that cannot be shown changes no result.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a value as JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<(), Problem> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes the value as JSON if `as_json`, otherwise the text.
pub(crate) fn either<T: Serialize>(as_json: bool, value: &T, text: impl FnOnce() -> String) -> Result<(), Problem> {
    if as_json { json(value) } else { print(&text()) }
}

/// Form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// A table.
    Text,
    /// The objects as JSON.
    Json,
    /// All their fields as CSV.
    Csv,
}

impl ListForm {
    /// Returns the form that the options ask for.
    pub(crate) fn new(as_json: bool, as_csv: bool) -> Self {
        match (as_json, as_csv) {
            (true, _) => Self::Json,
            (false, true) => Self::Csv,
            (false, false) => Self::Text,
        }
    }
}

/// Writes a list.
pub(crate) fn list_as<T: Serialize>(
    form: ListForm,
    objects: &[T],
    text: impl FnOnce() -> String,
) -> Result<(), Problem> {
    match form {
        ListForm::Text => print(&text()),
        ListForm::Json => json(&objects),
        ListForm::Csv => print(&csv(&serde_json::to_value(objects)?)),
    }
}

/// Formats a list of objects as CSV (RFC 4180, with line feeds): a line with the names of the
/// fields, then one line for each object. `name` is first. A field within a field is named `a.b`;
/// the entries of a list are separated by semicolons; null is empty.
fn csv(objects: &Value) -> String {
    let rows: Vec<BTreeMap<String, String>> = objects.as_array().into_iter().flatten().map(cells).collect();
    let mut head: BTreeSet<&str> = rows.iter().flat_map(|row| row.keys().map(String::as_str)).collect();
    let first = head.take("name");
    let head: Vec<&str> = first.into_iter().chain(head).collect();
    let cell = |row: &BTreeMap<String, String>, name: &str| quoted(row.get(name).map_or("", String::as_str));
    let mut text = String::new();
    if !head.is_empty() {
        text = head.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",") + "\n";
    }
    for row in &rows {
        text.push_str(&(head.iter().map(|name| cell(row, name)).collect::<Vec<_>>().join(",") + "\n"));
    }
    text
}

fn cells(object: &Value) -> BTreeMap<String, String> {
    let mut cells = BTreeMap::new();
    add_cells("", object, &mut cells);
    cells
}

fn add_cells(name: &str, value: &Value, cells: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field.clone() } else { format!("{name}.{field}") };
                add_cells(&name, value, cells);
            }
        }
        other => drop(cells.insert(name.to_owned(), plain(other))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(entries) => entries.iter().map(plain).collect::<Vec<_>>().join(";"),
        other => other.to_string(),
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

/// Formats a table; the columns `right` are aligned right. It has no lines or colours, because
/// scripts read it as well.
pub(crate) fn table(head: &[&str], right: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head.iter().copied()).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Formats names and values, one pair per line, with aligned values.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts.iter().map(|(name, value)| format!("{name:width$}  {value}").trim_end().to_owned() + "\n").collect()
}

/// Formats a list on one line, or a dash if it is empty.
pub(crate) fn list(entries: &[String]) -> String {
    if entries.is_empty() { "-".to_owned() } else { entries.join(",") }
}

/// Parses a size in bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, Problem> {
    parse_capacity(text).map_err(|_| {
        Problem::new(format!("'{text}' is not a size"))
            .hint("write a number with K, M, G, T or P, such as 64G or 1.5TiB")
    })
}

/// Parses `90s`, `30min`, `24h` or `7d` into milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<u64, Problem> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let scale = match text[split..].trim() {
        "s" => Some(1000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000u64),
        _ => None,
    };
    let number = text[..split].parse::<u64>().ok();
    let product = number.zip(scale).and_then(|(number, scale)| number.checked_mul(scale));
    product.ok_or_else(|| {
        Problem::new(format!("'{text}' is not a duration")).hint("write a duration such as 90s, 30min, 24h or 7d")
    })
}

/// Formats a ratio as `4.2:1`.
pub(crate) fn ratio(ratio: f64) -> String {
    format!("{ratio:.1}:1")
}

/// Formats a duration in its two largest units, rounded up.
pub(crate) fn duration(milliseconds: u64) -> String {
    if milliseconds < 60_000 {
        return format!("{}s", milliseconds.div_ceil(1000));
    }
    let minutes = milliseconds.div_ceil(60_000);
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes}min"),
        (0, hours, minutes) => format!("{hours}h {minutes}min"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_shows_the_two_largest_units() {
        assert_eq!(duration(86_400_000), "1d 0h");
        assert_eq!(duration(86_399_999), "1d 0h");
        assert_eq!(duration(5_400_000), "1h 30min");
        assert_eq!(duration(1), "1s");
        assert_eq!(duration(60_001), "2min");
    }

    #[test]
    fn parse_duration_accepts_common_spellings() {
        for (text, milliseconds) in
            [("90s", 90_000), ("30min", 1_800_000), ("5m", 300_000), ("24 h", 86_400_000), ("7d", 604_800_000)]
        {
            assert_eq!(parse_duration(text).unwrap(), milliseconds, "{text}");
        }
        for bad in ["", "7", "d", "-1d", "1w", "1.5h", "99999999999999999999d", "300000000000000d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn csv_has_all_fields_and_quotes_where_needed() {
        let objects = serde_json::json!([
            {"id": 7, "name": "a,b", "space": {"used": null, "free": 1.5}, "iqns": ["x", "y"]},
            {"id": 8, "name": "say \"hi\"", "more": true},
        ]);
        let expected = "name,id,iqns,more,space.free,space.used\n\"a,b\",7,x;y,,1.5,\n\"say \"\"hi\"\"\",8,,true,,\n";
        assert_eq!(csv(&objects), expected);
        assert_eq!(csv(&serde_json::json!([])), "");
    }

    #[test]
    fn tables_and_facts_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["long".into(), "22".into()]];
        assert_eq!(table(&["NAME", "N"], &[1], rows), "NAME   N\na      1\nlong  22\n");
        assert_eq!(facts(&[("a", "1".into()), ("long", String::new())]), "a     1\nlong\n");
    }
}
