//! Readings of an array: the calls of one screen, made by a thread of their own.

use super::choice::Screen;
use api::{OffloadPerformance, Performance};
use client::{Client, ClientError, Monitored};
use platform::clock;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// Length of the curve of the screen of the array (ms), and the time between its points.
const CURVE: (u64, u64) = (10 * 60 * 1000, 2000);

/// The classes of VAAI commands, with their names in the API.
pub(super) const PRIMITIVES: [(&str, &str); 4] =
    [("compare_and_write", "ATS"), ("extended_copy", "XCOPY"), ("write_same", "WRITE SAME"), ("unmap", "UNMAP")];

/// VAAI commands of one host on one volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Offload {
    pub(super) total: OffloadPerformance,
    /// Commands and bytes per second since the reading before; `None` in the first one.
    pub(super) rate: Option<(f64, f64)>,
}

/// The figures of an array at one time.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    pub(super) screen: Screen,
    pub(super) array: Performance,
    /// The last minutes of the array, for its screen only.
    pub(super) curve: Vec<Performance>,
    /// The objects of the screen that hosts used in the last interval, or all ports.
    pub(super) rows: Vec<Performance>,
    pub(super) offloads: Vec<Offload>,
}

/// Makes readings.
pub(super) struct Reader {
    client: Client,
    before: Option<(Instant, HashMap<[String; 3], (u64, u64)>)>,
}

impl Reader {
    pub(super) fn new(client: Client) -> Self {
        Self { client, before: None }
    }

    /// Reads what a screen shows.
    pub(super) fn read(&mut self, screen: Screen) -> Result<Reading, ClientError> {
        let array = self.client.performance(Monitored::Array, &[], None)?.into_iter().next().unwrap_or_default();
        let rows = match screen {
            Screen::Array | Screen::Vaai => Vec::new(),
            Screen::Volumes => self.client.active(Monitored::Volumes)?,
            Screen::Hosts => self.client.active(Monitored::Hosts)?,
            Screen::Connections => self.client.active_connections()?.into_iter().map(|both| both.performance).collect(),
            Screen::Ports => self.client.performance(Monitored::Ports, &[], None)?,
        };
        let curve = match screen {
            Screen::Array => {
                let start = array.time.saturating_sub(CURVE.0);
                self.client.performance(Monitored::Array, &[], Some((start, CURVE.1)))?
            }
            _ => Vec::new(),
        };
        let offloads = self.client.offloads()?;
        Ok(Reading { screen, array, curve, rows, offloads: self.rates(offloads, clock::now()) })
    }

    /// Compares the counters with those of the reading before.
    fn rates(&mut self, totals: Vec<OffloadPerformance>, now: Instant) -> Vec<Offload> {
        let key = |total: &OffloadPerformance| [&total.initiator, &total.name, &total.primitive].map(ToOwned::to_owned);
        let counts = totals.iter().map(|total| (key(total), (total.commands, total.bytes))).collect();
        let before = self.before.replace((now, counts));
        let rate = |total: &OffloadPerformance| {
            let (then, counts) = before.as_ref()?;
            let seconds = now.saturating_duration_since(*then).as_secs_f64().max(0.001);
            // Counters that are new, or begin again with the array, count from zero.
            let (commands, bytes) = counts.get(&key(total)).copied().unwrap_or_default();
            let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now) as f64 / seconds;
            Some((since(total.commands, commands), since(total.bytes, bytes)))
        };
        totals.iter().map(|total| Offload { rate: rate(total), total: total.clone() }).collect()
    }
}

/// Answers each request for a screen with a reading, until the sender of requests is dropped.
pub(super) fn serve(mut reader: Reader, requests: &Receiver<Screen>, readings: &Sender<Result<Reading, ClientError>>) {
    while let Ok(screen) = requests.recv() {
        if readings.send(reader.read(screen)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn rates_are_since_the_reading_before() {
        let mut reader = Reader::new(Client::local(Path::new("/nonexistent"), "token"));
        let total = |commands, bytes| OffloadPerformance {
            name: "v".to_owned(),
            primitive: "unmap".to_owned(),
            commands,
            bytes,
            ..OffloadPerformance::default()
        };
        let start = clock::now();
        assert_eq!(reader.rates(vec![total(10, 4096)], start)[0].rate, None);
        let later = start + Duration::from_secs(2);
        assert_eq!(reader.rates(vec![total(14, 8192)], later)[0].rate, Some((2.0, 2048.0)));
        // The array has started again.
        let last = later + Duration::from_secs(1);
        assert_eq!(reader.rates(vec![total(3, 512)], last)[0].rate, Some((3.0, 512.0)));
    }
}
