//! `ibid pod top`: rates, latency and room of pods on two arrays.

use crate::output::{json, print, table};
use crate::problem::Problem;
use api::{Performance, PodReplication};
use client::{Client, Monitored};
use platform::clock;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::text::Text;
use std::io::{self, IsTerminal};
use std::time::Duration;
use types::format_capacity;

/// Longest time until a key acts.
const TICK: Duration = Duration::from_millis(100);

/// A pod, and what its hosts do.
type Reading = Vec<(PodReplication, Option<Performance>)>;

fn read(client: &Client, pods: &[String]) -> Result<Reading, Problem> {
    let found = client.pod_replication(pods)?;
    let names: Vec<String> = found.iter().map(|pod| pod.name.clone()).collect();
    let work = if names.is_empty() { Vec::new() } else { client.performance(Monitored::Pods, &names, None)? };
    let of = |pod: &PodReplication| work.iter().find(|work| work.name == pod.name).cloned();
    Ok(found
        .into_iter()
        .map(|pod| {
            let work = of(&pod);
            (pod, work)
        })
        .collect())
}

fn millis(usec: Option<u64>) -> String {
    usec.map_or_else(|| "-".to_owned(), |usec| format!("{:.2}", usec as f64 / 1000.0))
}

fn rows(reading: &Reading) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), format_capacity);
    let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let row = |(pod, work): &(PodReplication, Option<Performance>)| {
        let sequencer = pod.arrays.iter().find(|array| array.is_sequencer).map_or("-", |array| &array.name);
        let work = work.as_ref();
        vec![
            pod.name.clone(),
            pod.state.clone(),
            sequencer.to_owned(),
            count(work.map(|work| work.reads_per_sec)),
            count(work.map(|work| work.writes_per_sec)),
            bytes(work.map(|work| work.read_bytes_per_sec)),
            bytes(work.map(|work| work.write_bytes_per_sec)),
            millis(work.map(|work| work.usec_per_write_op)),
            millis(pod.usec_until_durable),
            millis(pod.usec_until_reported),
            millis(pod.rtt_usec),
            count(pod.unheard_records),
            bytes(pod.room_bytes),
            pod.waiting_commands.to_string(),
            bytes(pod.behind_bytes),
        ]
    };
    let head = [
        "POD",
        "STATE",
        "ORDERS",
        "READ/S",
        "WRITE/S",
        "READ B/S",
        "WRITE B/S",
        "WRITE ms",
        "HERE ms",
        "THERE ms",
        "RTT ms",
        "UNHEARD",
        "ROOM",
        "WAITING",
        "BEHIND",
    ];
    let numbers: Vec<usize> = (3..head.len()).collect();
    if reading.is_empty() {
        return "No pod is on two arrays.\n".to_owned();
    }
    table(&head, &numbers, reading.iter().map(row).collect())
}

/// Runs the display, or prints one reading.
pub(super) fn top(
    client: &Client,
    as_json: bool,
    pods: &[String],
    once: bool,
    interval: Duration,
) -> Result<(), Problem> {
    if as_json {
        let reading = read(client, pods)?;
        return json(
            &reading.iter().map(|(pod, work)| serde_json::json!({"pod": pod, "hosts": work})).collect::<Vec<_>>(),
        );
    }
    if once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return print(&rows(&read(client, pods)?));
    }
    // Restores the terminal when a thread panics, too.
    let mut terminal = ratatui::try_init()?;
    let shown = show(client, pods, interval, &mut terminal);
    ratatui::try_restore()?;
    shown
}

fn show(
    client: &Client,
    pods: &[String],
    interval: Duration,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<(), Problem> {
    loop {
        let text = match read(client, pods) {
            Ok(reading) => rows(&reading),
            Err(error) => format!("{}\n", error.text()),
        };
        let text = format!(
            "{text}\nHERE, THERE: until a change is durable at this array, and reported by the other    q ends\n"
        );
        terminal.draw(|frame| frame.render_widget(Text::raw(text.as_str()), frame.area()))?;
        let until = clock::now() + interval;
        while clock::now() < until {
            if event::poll(TICK)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if is_interrupt || key.code == KeyCode::Char('q') {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::PodReplicationArray;

    #[test]
    fn reading_has_a_line_for_each_pod() {
        let array =
            PodReplicationArray { name: "alpha".to_owned(), is_sequencer: true, ..PodReplicationArray::default() };
        let pod = PodReplication {
            name: "dc1".to_owned(),
            state: "sync".to_owned(),
            arrays: vec![array],
            rtt_usec: Some(4100),
            unheard_records: Some(3),
            room_bytes: Some(64 << 20),
            usec_until_durable: Some(250),
            usec_until_reported: Some(4400),
            ..PodReplication::default()
        };
        let text = rows(&vec![(pod, None)]);
        let words: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        let expected =
            ["dc1", "sync", "alpha", "-", "-", "-", "-", "-", "0.25", "4.40", "4.10", "3", "64MiB", "0", "-"];
        assert_eq!(words, expected);
        assert_eq!(rows(&vec![]), "No pod is on two arrays.\n");
    }
}
