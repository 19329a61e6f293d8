//! A CSV file of `esxtop -b`, in perfmon's format: a header with a counter per column, and a line
//! per sample.

/// The object of the counters that are read: `\\HOST\Physical Disk SCSI Device(NAME)\COUNTER`.
const OBJECT: &str = "\\Physical Disk SCSI Device(";

/// The values of one counter of one device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CounterSeries {
    pub(super) device: String,
    /// Name as in the file.
    pub(super) counter: String,
    /// A value per sample; 0 if the cell is not a number.
    pub(super) values: Vec<f64>,
}

/// The disk counters of a capture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Capture {
    /// Name in the report.
    pub(super) name: String,
    /// The host of the capture.
    pub(super) host: String,
    /// Seconds of each sample since the first.
    pub(super) seconds: Vec<f64>,
    pub(super) counters: Vec<CounterSeries>,
}

impl Capture {
    /// Returns the devices in the order of the file.
    pub(super) fn devices(&self) -> Vec<&str> {
        let mut devices: Vec<&str> = Vec::new();
        for counter in &self.counters {
            if !devices.contains(&counter.device.as_str()) {
                devices.push(&counter.device);
            }
        }
        devices
    }

    /// Returns the `most` devices with the most commands, in the order of the file.
    pub(super) fn busiest(&self, most: usize) -> Vec<&str> {
        let commands = |device: &str| -> f64 {
            let own = self.counters.iter().filter(|c| c.device == device && c.counter == "Commands/sec");
            own.flat_map(|counter| &counter.values).sum()
        };
        let mut order = self.devices();
        order.sort_by(|a, b| commands(b).total_cmp(&commands(a)));
        order.truncate(most);
        self.devices().into_iter().filter(|device| order.contains(device)).collect()
    }
}

/// Parses a capture. Columns of other objects are skipped. A line that ends early, as the last line
/// of an interrupted capture does, is left out.
pub(super) fn parse(name: &str, text: &str) -> Capture {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let header = cells(lines.next().unwrap_or_default());
    let mut host = String::new();
    let mut columns: Vec<(usize, CounterSeries)> = Vec::new();
    for (column, cell) in header.iter().enumerate() {
        let Some((before, rest)) = cell.split_once(OBJECT) else { continue };
        // A device name has no parenthesis; counters may.
        let Some((device, counter)) = rest.split_once(")\\") else { continue };
        before.trim_start_matches('\\').clone_into(&mut host);
        let [device, counter] = [device, counter].map(str::to_owned);
        columns.push((column, CounterSeries { device, counter, values: Vec::new() }));
    }
    let (mut seconds, mut first) = (Vec::new(), None);
    for line in lines {
        let row = cells(line);
        let Some(time) = row.first().and_then(|time| unix_seconds(time)).filter(|_| row.len() >= header.len()) else {
            continue;
        };
        seconds.push(time - *first.get_or_insert(time));
        for (column, series) in &mut columns {
            series.values.push(row.get(*column).and_then(|cell| cell.trim().parse().ok()).unwrap_or(0.0));
        }
    }
    Capture { name: name.to_owned(), host, seconds, counters: columns.into_iter().map(|(_, series)| series).collect() }
}

/// Splits a line of CSV (RFC 4180) into its cells. Cells of perfmon contain no line breaks.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

/// Converts `MM/DD/YYYY HH:MM:SS` to seconds since 1970.
fn unix_seconds(text: &str) -> Option<f64> {
    let (date, time) = text.trim().split_once(' ')?;
    let numbers = |text: &str, separator: char| -> Option<Vec<f64>> {
        text.split(separator).map(|part| part.parse::<f64>().ok()).collect()
    };
    let (date, time) = (numbers(date, '/')?, numbers(time, ':')?);
    let ([month, day, year], [hour, minute, second]) = (date.as_slice(), time.as_slice()) else { return None };
    // Days of the proleptic Gregorian calendar; the year begins in March.
    let (year, month) = if *month <= 2.0 { (year - 1.0, month + 9.0) } else { (*year, month - 3.0) };
    let leap = (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days = 365.0 * year + leap + ((153.0 * month + 2.0) / 5.0).floor() + day - 1.0 - 719_468.0;
    Some(86_400.0 * days + 3600.0 * hour + 60.0 * minute + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_cells_keep_commas_and_quotes() {
        assert_eq!(cells("\"a,b\",\"say \"\"c\"\"\",d"), ["a,b", "say \"c\"", "d"]);
        assert_eq!(cells(""), [""]);
    }

    #[test]
    fn times_are_seconds_since_1970() {
        assert_eq!(unix_seconds("01/01/1970 00:00:01"), Some(1.0));
        assert_eq!(unix_seconds("02/29/2000 00:00:00"), Some(951_782_400.0));
        assert_eq!(unix_seconds("11/22/2026 00:01:00"), Some(1_795_305_660.0));
        assert_eq!(unix_seconds("yesterday"), None);
    }

    #[test]
    fn incomplete_last_line_is_left_out() {
        let text = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\h\\Physical Disk SCSI Device(naa.1)\\Reads/sec\"\n\
                    \"11/22/2026 00:01:00\",\"1.50\"\n\"11/22/2026 00:01:05\",\"x\"\n\"11/22/2026 00:01:10\"\n";
        let capture = parse("a", text);
        assert_eq!((capture.host.as_str(), &capture.seconds), ("h", &vec![0.0, 5.0]));
        assert_eq!(capture.counters[0].values, [1.5, 0.0]);
    }

    #[test]
    fn busiest_devices_have_the_most_commands() {
        let counter = |device: &str, values: &[f64]| CounterSeries {
            device: device.to_owned(),
            counter: "Commands/sec".to_owned(),
            values: values.to_vec(),
        };
        let counters =
            vec![counter("naa.1", &[1.0, 9.0]), counter("naa.2", &[0.0, 0.0]), counter("naa.3", &[20.0, 0.0])];
        let capture = Capture { name: String::new(), host: String::new(), seconds: vec![0.0, 5.0], counters };
        assert_eq!(capture.busiest(2), ["naa.1", "naa.3"]);
    }
}
