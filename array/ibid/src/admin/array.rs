//! `ibid array` and `ibid token`.

use crate::access::{self, Access};
use crate::cli::ArrayCommand;
use crate::output::{duration, either, facts, json, list, parse_duration, parse_size, print, ratio, time};
use crate::problem::Problem;
use api::{Array, ArrayPatch, ArraySpace, DriveWrites, EradicationPatch, Recompression, ScrubConfig, ScrubConfigPatch};
use client::{Client, Monitored};
use platform::files;
use types::format_capacity;

/// Runs an `ibid array` command.
pub(crate) fn array(access: &Access, as_json: bool, command: ArrayCommand) -> Result<(), Problem> {
    // Sizes and times are parsed before the array is called.
    let patch = match command {
        ArrayCommand::Link(command) => return super::link::link(access, as_json, command),
        ArrayCommand::Show => return show(&access::client(access)?, as_json),
        ArrayCommand::Space { refresh } => {
            let space = access::client(access)?.array_space(refresh)?;
            return either(as_json, &space, || space_of(&space));
        }
        ArrayCommand::Monitor(args) => {
            return super::monitor::monitor(&access::client(access)?, as_json, Monitored::Array, &[], &args);
        }
        ArrayCommand::Set { name, eradication_delay, threshold, scrub_interval, scrub_pace } => {
            let scrub = ScrubConfigPatch {
                interval: scrub_interval.as_deref().map(interval).transpose()?,
                bytes_per_second: scrub_pace.as_deref().map(parse_size).transpose()?,
            };
            let eradication_delay = eradication_delay.as_deref().map(parse_duration).transpose()?;
            ArrayPatch {
                eradication_config: eradication_delay
                    .map(|delay| EradicationPatch { eradication_delay: Some(delay), ..EradicationPatch::default() }),
                name,
                scrub_config: Some(scrub).filter(|scrub| *scrub != ScrubConfigPatch::default()),
                threshold_percent: threshold.as_deref().map(super::percent).transpose()?,
                ..ArrayPatch::default()
            }
        }
        ArrayCommand::Grow { capacity } => {
            ArrayPatch { capacity: Some(parse_size(&capacity)?), ..ArrayPatch::default() }
        }
    };
    if patch == ArrayPatch::default() {
        return Err(
            Problem::new("nothing to change").hint("give at least one setting; `ibid array set --help` lists them")
        );
    }
    let client = access::client(access)?;
    let array = client.change_array(&patch)?;
    either(as_json, &array, || settings(&array))
}

fn settings(array: &Array) -> String {
    facts(&[
        ("name", array.name.clone()),
        ("capacity", format_capacity(array.capacity)),
        ("eradication", format!("{} after destruction", duration(array.eradication_config.eradication_delay))),
        ("threshold", super::threshold(array.threshold_percent)),
        ("scrub", schedule(&array.scrub_config)),
    ])
}

/// Parses a duration, or `none`, which a request expresses as 0.
fn interval(text: &str) -> Result<u64, Problem> {
    if text == "none" {
        return Ok(0);
    }
    match parse_duration(text)? {
        0 => Err(Problem::new(format!("'{text}' is not an interval")).hint("write 1h to 366d, or none")),
        interval => Ok(interval),
    }
}

/// Describes the schedule of scrubs.
fn schedule(scrub: &ScrubConfig) -> String {
    let pace = format!("at most {}/s", format_capacity(scrub.bytes_per_second));
    match scrub.interval {
        Some(interval) => format!("every {}, {pace}", duration(interval)),
        None => format!("not scheduled, {pace}"),
    }
}

fn show(client: &Client, as_json: bool) -> Result<(), Problem> {
    let (array, ports) = (client.array()?, client.ports()?);
    if as_json {
        return json(&serde_json::json!({"array": array, "ports": ports}));
    }
    let space = &array.space;
    let portals: Vec<String> = ports.iter().filter_map(|port| port.portal.clone()).collect();
    let iqn = ports.iter().find_map(|port| port.iqn.clone()).unwrap_or_default();
    print(&facts(&[
        ("name", array.name.clone()),
        ("id", array.id.clone()),
        ("version", format!("{} {}", array.os, array.program_version)),
        ("status", status(&array.status)),
        ("target", iqn),
        ("portals", list(&portals)),
        ("eradication", format!("{} after destruction", duration(array.eradication_config.eradication_delay))),
        ("threshold", super::threshold(array.threshold_percent)),
        ("scrub", schedule(&array.scrub_config)),
        ("capacity", format_capacity(array.capacity)),
        ("used", format_capacity(space.total_physical.unwrap_or_default())),
        ("provisioned", format_capacity(space.total_provisioned)),
        ("written", format_capacity(space.r#virtual.unwrap_or_default())),
        ("reduction", format!("{} data, {} total", ratio(space.data_reduction), ratio(space.total_reduction))),
        ("encryption", encryption(&array.encryption)),
        ("recompressed", recompressed(&array.recompression)),
        ("amplification", amplification(&array.drive_writes)),
    ]))
}

fn encryption(encryption: &api::Encryption) -> String {
    let data = &encryption.data_at_rest;
    if data.enabled { data.algorithm.clone() } else { "none".to_owned() }
}

/// Describes the data that was compressed again since the start.
fn recompressed(recompression: &Recompression) -> String {
    match recompression.before {
        0 => "-".to_owned(),
        before => format!("{} to {}", format_capacity(before), format_capacity(recompression.after)),
    }
}

/// Describes the bytes written to the drive for each byte that hosts have written.
fn amplification(writes: &DriveWrites) -> String {
    let Some(total) = writes.amplification(writes.total) else { return "-".to_owned() };
    let parts = [
        ("log", writes.log),
        ("data", writes.data),
        ("moved", writes.moved),
        ("leaves", writes.leaves),
        ("interior pages", writes.interior_pages),
        ("slot pages", writes.slot_pages),
        ("directory", writes.directory),
        ("patches", writes.patches),
        ("summaries", writes.summaries),
        ("manifest", writes.manifest),
        ("superblock", writes.superblock),
    ];
    let part = |(name, bytes): (&str, u64)| format!("{name} {:.2}", writes.amplification(bytes).unwrap_or_default());
    format!("{total:.2} written per host byte: {}", parts.map(part).join(", "))
}

fn status(status: &str) -> String {
    match status {
        "" | "ok" => "ok".to_owned(),
        other => format!("{other}; run `ibid alert list`"),
    }
}

fn space_of(array: &ArraySpace) -> String {
    let space = &array.space;
    let used = space.total_physical.unwrap_or_default();
    let share = |bytes: u64| {
        let percent = bytes as f64 * 100.0 / array.capacity.max(1) as f64;
        format!("{:>10}  {percent:5.1} %", format_capacity(bytes))
    };
    facts(&[
        ("capacity", share(array.capacity)),
        ("used", share(used)),
        ("  unique", share(space.unique.unwrap_or_default())),
        ("  shared", share(space.shared.unwrap_or_default())),
        ("  snapshots", share(space.snapshots)),
        ("  system", share(space.system.unwrap_or_default())),
        ("free", share(array.capacity.saturating_sub(used))),
        ("provisioned", format!("{:>10}", format_capacity(space.total_provisioned))),
        ("written", format!("{:>10}", format_capacity(space.r#virtual.unwrap_or_default()))),
        ("data reduction", format!("{:>10}", ratio(space.data_reduction))),
        ("total reduction", format!("{:>10}", ratio(space.total_reduction))),
        ("counted", space.as_of.map_or_else(|| "not yet".to_owned(), time)),
    ])
}

/// Runs `ibid token`.
pub(crate) fn token(access: &Access, as_json: bool, is_new: bool) -> Result<(), Problem> {
    let token = if is_new { renew(access)? } else { current(access)? };
    either(as_json, &serde_json::json!({"token": token}), || format!("{token}\n"))
}

fn current(access: &Access) -> Result<String, Problem> {
    match &access.data {
        Some(directory) => access::admin_token(directory),
        None => Err(Problem::new("the array stores only a hash of its token")
            .hint("use --data DIR on the array's machine to read the token, or --new to replace it")),
    }
}

fn renew(access: &Access) -> Result<String, Problem> {
    let token = access::client(access)?.new_token(rest::ADMIN)?;
    // Otherwise the file would keep a token that is no longer valid.
    if let Some(directory) = access.data.as_ref().filter(|_| access.options.url.is_none()) {
        let path = directory.join(rest::ADMIN_TOKEN_FILE);
        files::replace(&path, format!("{token}\n").as_bytes(), files::Access::Owner).map_err(|error| {
            Problem::new(format!("the new token {token} is valid but was not saved: {}: {error}", path.display()))
                .hint("write the token to this file")
        })?;
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recompression_is_shown_as_before_and_after() {
        assert_eq!(recompressed(&Recompression::default()), "-");
        assert_eq!(recompressed(&Recompression { before: 3 << 30, after: 5 << 29 }), "3GiB to 2.50GiB");
    }
}
