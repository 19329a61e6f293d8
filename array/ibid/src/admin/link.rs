//! The `ibid array` commands about connections to other arrays.

use crate::access::{self, Access};
use crate::cli::LinkCommand;
use crate::output::{either, facts, json, parse_size, print, table, time};
use crate::problem::Problem;
use api::{
    ArrayConnection, ArrayConnectionPatch, ArrayConnectionPost, ArrayConnectionTest, ArrayConnectionTestPost,
    RoundTrips, SimulatedDistance, SimulatedDistancePatch,
};
use client::Client;
use std::io::Read;
use types::format_capacity;

/// Longest connection key on standard input, in bytes.
const MAX_KEY_BYTES: u64 = 1024;

/// Runs an `ibid array` command about other arrays.
pub(crate) fn link(access: &Access, as_json: bool, command: LinkCommand) -> Result<(), Problem> {
    match command {
        LinkCommand::ConnectionKey => connection_key(&access::client(access)?, as_json),
        LinkCommand::Connect { name, address, key } => {
            let post = ArrayConnectionPost {
                connection_key: read_key(key)?,
                management_address: address,
                ..ArrayConnectionPost::default()
            };
            let made = access::client(access)?.connect_array(name.as_deref(), &post)?;
            either(as_json, &made, || format!("connected to {} ({})\n", made.name, made.id))
        }
        LinkCommand::Connections { names } => {
            let found = access::client(access)?.array_connections(&names)?;
            either(as_json, &found, || lines(&found))
        }
        LinkCommand::Disconnect { name } => disconnect(&access::client(access)?, as_json, &name),
        LinkCommand::LinkTest { name, seconds } => {
            let post = ArrayConnectionTestPost { duration: Some(seconds * 1000) };
            let test = access::client(access)?.test_array_connection(&name, &post)?;
            either(as_json, &test, || measured(&test))
        }
        LinkCommand::Distance { name, rtt, jitter, rate, cut, off } => {
            let rate = match rate.as_deref() {
                Some("none") => Some(0),
                rate => rate.map(parse_size).transpose()?,
            };
            let patch = SimulatedDistancePatch {
                rtt_usec: rtt.as_deref().map(parse_micros).transpose()?,
                jitter_usec: jitter.as_deref().map(parse_micros).transpose()?,
                bytes_per_second: rate,
                cut: cut.map(|cut| cut.name().to_owned()),
            };
            let none = SimulatedDistancePatch {
                rtt_usec: Some(0),
                jitter_usec: Some(0),
                bytes_per_second: Some(0),
                cut: Some("none".to_owned()),
            };
            if !off && patch == SimulatedDistancePatch::default() {
                return Err(Problem::new("nothing to change")
                    .hint("give --rtt, --jitter, --rate or --cut, or --off to end the simulation"));
            }
            let patch = ArrayConnectionPatch {
                simulated_distance: Some(if off { none } else { patch }),
                ..ArrayConnectionPatch::default()
            };
            let changed = access::client(access)?.change_array_connection(&name, &patch)?;
            either(as_json, &changed, || match &changed.simulated_distance {
                Some(distance) => format!("{}: SIMULATED: {}\n", changed.name, describe(distance)),
                None => format!("{}: no distance is simulated\n", changed.name),
            })
        }
    }
}

fn connection_key(client: &Client, as_json: bool) -> Result<(), Problem> {
    let key = client.new_connection_key()?;
    if as_json {
        return json(&key);
    }
    print(&format!("{}\n", key.connection_key))?;
    crate::output::progress(&format!("valid until {}, for one attempt", time(key.expires)));
    Ok(())
}

fn read_key(key: String) -> Result<String, Problem> {
    if key != "-" {
        return Ok(key);
    }
    let mut text = String::new();
    std::io::stdin().lock().take(MAX_KEY_BYTES).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn disconnect(client: &Client, as_json: bool, name: &str) -> Result<(), Problem> {
    let before = client.array_connections(&[name.to_owned()])?;
    let was_up = before.iter().all(|link| link.status != "connecting");
    client.disconnect_array(name)?;
    if as_json {
        return json(&before);
    }
    print(&format!("disconnected from {name}\n"))?;
    if !was_up {
        crate::output::progress(&format!("the link was down: run `ibid array disconnect` on {name} as well"));
    }
    Ok(())
}

/// Parses a time with `us` or `ms`.
fn parse_micros(text: &str) -> Result<u64, Problem> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let scale = match text[split..].trim() {
        "us" | "µs" => Some(1.0),
        "ms" => Some(1000.0),
        _ => None,
    };
    let micros = text[..split].parse::<f64>().ok().zip(scale).map(|(number, scale)| number * scale);
    // An hour is far beyond the limit, and far below the end of the type.
    let micros = micros.filter(|micros| (0.0..3.6e9).contains(micros)).map(|micros| micros.round() as u64);
    micros.ok_or_else(|| Problem::new(format!("'{text}' is not a time")).hint("write it such as 4ms or 250us"))
}

fn millis(usec: u64) -> String {
    format!("{:.2} ms", usec as f64 / 1000.0)
}

fn describe(distance: &SimulatedDistance) -> String {
    let mut parts = vec![format!("rtt +{}", millis(distance.rtt_usec))];
    if distance.jitter_usec > 0 {
        parts.push(format!("jitter {}", millis(distance.jitter_usec)));
    }
    parts.extend(distance.bytes_per_second.map(|rate| format!("rate {}/s", format_capacity(rate))));
    if distance.cut != "none" {
        parts.push(format!("cut {}", distance.cut));
    }
    parts.join(", ")
}

fn lines(links: &[ArrayConnection]) -> String {
    let row = |link: &ArrayConnection| {
        let mark = if link.simulated_distance.is_some() { " !" } else { "" };
        vec![
            link.name.clone(),
            link.status.clone(),
            link.rtt.map_or_else(|| "-".to_owned(), |rtt| millis(rtt.median_usec)) + mark,
            link.replication_addresses.first().cloned().unwrap_or_else(|| "-".to_owned()),
            if link.management_address.is_some() { "this array" } else { "other array" }.to_owned(),
            link.version.clone().unwrap_or_else(|| "-".to_owned()),
            time(link.since),
        ]
    };
    let head = ["NAME", "STATUS", "RTT", "PEER", "CONNECTED BY", "VERSION", "SINCE"];
    let mut text = table(&head, &[2], links.iter().map(row).collect());
    for link in links {
        if let Some(distance) = &link.simulated_distance {
            text += &format!("! SIMULATED distance to {}: {}\n", link.name, describe(distance));
        }
        if let Some(problem) = link.problem.as_ref().filter(|_| link.status != "connected") {
            text += &format!("{} is not connected: {problem}\n", link.name);
        }
    }
    text
}

fn trips(rtt: &RoundTrips) -> String {
    format!("min {}, median {}, max {}", millis(rtt.min_usec), millis(rtt.median_usec), millis(rtt.max_usec))
}

fn measured(test: &ArrayConnectionTest) -> String {
    let simulated = if test.is_simulated { "yes: the distance is not real" } else { "no" };
    facts(&[
        ("array", test.name.clone()),
        ("simulated", simulated.to_owned()),
        ("rtt", trips(&test.rtt)),
        ("rtt under load", trips(&test.rtt_under_load)),
        ("heartbeats", format!("{} sent, {} without an answer", test.heartbeats, test.unanswered)),
        ("to it", format!("{}/s", format_capacity(test.sent_bytes_per_second))),
        ("from it", format!("{}/s", format_capacity(test.received_bytes_per_second))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse_micros("4ms").ok(), Some(4000));
        assert_eq!(parse_micros("0.25 ms").ok(), Some(250));
        assert_eq!(parse_micros("70us").ok(), Some(70));
        for text in ["4", "ms", "4s", "-1ms", "1e9ms", "4ms5", "99999999ms"] {
            assert!(parse_micros(text).is_err(), "{text}");
        }
    }

    #[test]
    fn simulated_distance_is_described() {
        let distance = SimulatedDistance {
            rtt_usec: 4000,
            jitter_usec: 500,
            bytes_per_second: Some(100 << 20),
            cut: "in".to_owned(),
        };
        assert_eq!(describe(&distance), "rtt +4.00 ms, jitter 0.50 ms, rate 100MiB/s, cut in");
    }
}
