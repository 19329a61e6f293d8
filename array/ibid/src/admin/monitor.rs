//! `ibid array|host|volume monitor` and `ibid host paths`.

use crate::cli::MonitorArgs;
use crate::output::{either, json, parse_duration, print, table, time};
use crate::problem::Problem;
use api::{IscsiSession, Performance, Port};
use client::{Client, Monitored};
use platform::clock;
use std::collections::BTreeMap;
use std::time::Duration;

/// Points in time that a history prints at most.
const MAX_ROWS: u64 = 60;

/// Prints the performance of objects, once or repeatedly, now or in the past.
pub(super) fn monitor(
    client: &Client,
    as_json: bool,
    of: Monitored,
    names: &[String],
    args: &MonitorArgs,
) -> Result<(), Problem> {
    if let Some(past) = &args.historical {
        let past = parse_duration(past)?;
        let start = clock::unix_millis().saturating_sub(past);
        let figures = client.performance(of, names, Some((start, past / MAX_ROWS)))?;
        return either(as_json, &figures, || rows(&figures));
    }
    let mut left = args.repeat;
    loop {
        let figures = client.performance(of, names, None)?;
        either(as_json, &figures, || rows(&figures))?;
        left = left.saturating_sub(1);
        if left == 0 && args.repeat != 0 {
            return Ok(());
        }
        clock::sleep(Duration::from_secs(args.interval));
    }
}

fn rows(figures: &[Performance]) -> String {
    let row = |figures: &Performance| {
        let mut row = vec![figures.name.clone()];
        row.push(time(figures.time));
        row.extend([
            figures.reads_per_sec.to_string(),
            figures.writes_per_sec.to_string(),
            figures.others_per_sec.to_string(),
            rate(figures.read_bytes_per_sec),
            rate(figures.write_bytes_per_sec),
            latency(figures.reads_per_sec, figures.usec_per_read_op),
            latency(figures.reads_per_sec, figures.usec_p99_per_read_op),
            latency(figures.writes_per_sec, figures.usec_per_write_op),
            latency(figures.writes_per_sec, figures.usec_p99_per_write_op),
        ]);
        row
    };
    let mut head = vec!["NAME", "TIME"];
    head.extend(["R/S", "W/S", "OTHER/S", "READ/S", "WRITTEN/S", "R MEAN", "R P99", "W MEAN", "W P99"]);
    let right: Vec<usize> = (head.len() - 9..head.len()).collect();
    table(&head, &right, figures.iter().map(row).collect())
}

/// Formats bytes per second.
pub(crate) fn rate(bytes: u64) -> String {
    if bytes == 0 { "0".to_owned() } else { types::format_capacity(bytes) }
}

/// Formats a latency in microseconds. Without commands it is unknown.
pub(crate) fn latency(commands: u64, micros: u64) -> String {
    match micros {
        0 if commands == 0 => "-".to_owned(),
        0..1000 => format!("{micros} µs"),
        1000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// Prints, for each host, over which portals it is logged in and how fast it is.
pub(super) fn paths(client: &Client, as_json: bool, names: &[String]) -> Result<(), Problem> {
    let ports = client.ports()?;
    let figures = client.performance(Monitored::Hosts, names, None)?;
    let sessions = client.iscsi_sessions(names)?;
    if as_json {
        return json(&serde_json::json!({"hosts": figures, "sessions": sessions, "ports": ports}));
    }
    let mut by_host: BTreeMap<&str, Vec<&IscsiSession>> = BTreeMap::new();
    for session in &sessions {
        by_host.entry(session.host.name.as_deref().unwrap_or("-")).or_default().push(session);
    }
    let none = Vec::new();
    let summary = figures.iter().map(|host| {
        let sessions = by_host.get(host.name.as_str()).unwrap_or(&none);
        vec![
            host.name.clone(),
            reached(sessions, &ports),
            sessions.len().to_string(),
            (host.reads_per_sec + host.writes_per_sec + host.others_per_sec).to_string(),
            rate(host.read_bytes_per_sec + host.write_bytes_per_sec),
            latency(host.reads_per_sec, host.usec_per_read_op),
            latency(host.writes_per_sec, host.usec_per_write_op),
        ]
    });
    let head = ["HOST", "PORTALS", "SESSIONS", "OPS/S", "BYTES/S", "READ MEAN", "WRITE MEAN"];
    print(&table(&head, &[2, 3, 4, 5, 6], summary.collect()))?;
    if sessions.is_empty() {
        return Ok(());
    }
    let rows = sessions.iter().map(|session| {
        vec![
            session.host.name.clone().unwrap_or_else(|| "-".to_owned()),
            session.target_portal.clone(),
            session.initiator_portal.clone(),
            time(session.since),
            session.initiator.clone(),
        ]
    });
    print(&format!("\n{}", table(&["HOST", "PORTAL", "FROM", "SINCE", "INITIATOR"], &[], rows.collect())))
}

/// Describes how many portals of the array the sessions use: `2 of 2`. A portal that listens on all
/// addresses counts once.
fn reached(sessions: &[&IscsiSession], ports: &[Port]) -> String {
    let listens = |portal: &str, session: &IscsiSession| {
        let (Ok(portal), Ok(used)) = (portal.parse::<std::net::SocketAddr>(), session.target_portal.parse()) else {
            return false;
        };
        portal == used || (portal.ip().is_unspecified() && portal.port() == used.port())
    };
    let portals: Vec<&str> = ports.iter().filter_map(|port| port.portal.as_deref()).collect();
    let used = portals.iter().filter(|portal| sessions.iter().any(|session| listens(portal, session))).count();
    format!("{used} of {}", portals.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_rates_and_latencies() {
        let busy = Performance {
            name: "vm1".to_owned(),
            time: 0,
            reads_per_sec: 1200,
            read_bytes_per_sec: 1200 * 4096,
            usec_per_read_op: 850,
            usec_p99_per_read_op: 12_400,
            ..Performance::default()
        };
        let text = rows(&[busy]);
        assert_eq!(
            text,
            "NAME  TIME                   R/S  W/S  OTHER/S   READ/S  WRITTEN/S  R MEAN    R P99  W MEAN  W P99\n\
             vm1   1970-01-01T00:00:00Z  1200    0        0  4.69MiB          0  850 µs  12.4 ms       -      -\n"
        );
    }

    #[test]
    fn portals_are_counted_once() {
        let port = |portal: &str| Port { portal: Some(portal.to_owned()), ..Port::default() };
        let session = |portal: &str| IscsiSession { target_portal: portal.to_owned(), ..IscsiSession::default() };
        let ports = [port("0.0.0.0:3260"), port("192.0.2.2:3261")];
        let (a, b, c) = (session("192.0.2.1:3260"), session("192.0.2.9:3260"), session("192.0.2.2:3261"));
        assert_eq!(reached(&[&a, &b], &ports), "1 of 2");
        assert_eq!(reached(&[&a, &b, &c], &ports), "2 of 2");
        assert_eq!(reached(&[], &ports), "0 of 2");
    }
}
