//! Summary of a vmkernel.log: UNMAP of datastores, failed commands, and lost connections.

use std::collections::BTreeMap;

/// The most lines of the summary that quote the log.
const QUOTED: usize = 40;
/// Words of lines that are quoted: heartbeats, paths and devices.
const EVENTS: [&str; 5] = ["HBX:", "StorageApdHandler", "NMP:", "Lost access", "Successfully restored access"];

/// UNMAP of one datastore.
#[derive(Debug, Default)]
struct Unmapped {
    iterations: u64,
    blocks: u64,
    first: String,
    last: String,
}

/// Returns the summary as sentences.
pub(super) fn summary(text: &str) -> Vec<String> {
    let mut unmapped: BTreeMap<&str, Unmapped> = BTreeMap::new();
    let mut failed: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    let (mut events, mut left_out) = (Vec::new(), 0);
    for line in text.lines() {
        let time = line.split(' ').next().unwrap_or_default();
        if let Some((blocks, volume)) = unmap(line) {
            let sum = unmapped.entry(volume).or_default();
            sum.iterations += 1;
            sum.blocks += blocks;
            if sum.first.is_empty() {
                time.clone_into(&mut sum.first);
            }
            time.clone_into(&mut sum.last);
        } else if let Some(command) = failed_command(line) {
            *failed.entry(command).or_default() += 1;
        } else if EVENTS.iter().any(|word| line.contains(word)) {
            if events.len() < QUOTED { events.push(line.to_owned()) } else { left_out += 1 }
        }
    }
    let unmapped = unmapped.into_iter().map(|(volume, sum)| {
        let Unmapped { iterations, blocks, first, last } = sum;
        format!("UNMAP of volume {volume}: {blocks} blocks in {iterations} iterations, from {first} to {last}.")
    });
    let failed = failed
        .into_iter()
        .map(|((device, command, status), count)| format!("{count} failed commands {command} to {device}: {status}."));
    let rest = (left_out > 0).then(|| format!("… and {left_out} more lines about heartbeats, paths and devices."));
    unmapped.chain(failed).chain(events).chain(rest).collect()
}

/// Parses `Unmap: Async Unmapped N blocks from volume UUID`.
fn unmap(line: &str) -> Option<(u64, &str)> {
    let (_, rest) = line.split_once("Unmapped ")?;
    let (blocks, volume) = rest.split_once(" blocks from volume ")?;
    Some((blocks.trim().parse().ok()?, volume.trim()))
}

/// Parses `… Cmd 0x89 (…) … to dev "naa.…" failed H:0x0 D:0x2 P:0x0 …` into device, operation code,
/// and status with sense data.
fn failed_command(line: &str) -> Option<(String, String, String)> {
    let (_, rest) = line.split_once("Cmd 0x").or_else(|| line.split_once("Cmd(0x"))?;
    // With parentheses the address of the command comes first: `Cmd(0x412e…) 0x89, …`.
    let code = match line.contains("Cmd(0x") {
        true => rest.split_once(") 0x")?.1,
        false => rest,
    };
    let code: String = code.chars().take_while(char::is_ascii_hexdigit).collect();
    let (_, rest) = line.split_once("to dev \"")?;
    let (device, rest) = rest.split_once('"')?;
    let (_, status) = rest.split_once("failed ")?;
    Some((device.to_owned(), format!("0x{code}"), status.trim().trim_end_matches('.').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
2026-11-23T09:00:00.100Z cpu0:33)Unmap: Async Unmapped 200 blocks from volume 5a1-b
2026-11-23T09:00:01.100Z cpu0:33)Unmap: Async Unmapped 150 blocks from volume 5a1-b
2026-11-23T09:00:02.000Z cpu1:1)ScsiDeviceIO: 2613: Cmd(0x412e803ce1c0) 0x89, CmdSN 0x2 from world 1 to dev \"naa.6\" failed H:0x0 D:0x2 P:0x0 Valid sense data: 0xe 0x1d 0x0.
2026-11-23T09:00:03.000Z cpu1:1)ScsiDeviceIO: 2613: Cmd(0x412e803ce1c1) 0x89, CmdSN 0x3 from world 1 to dev \"naa.6\" failed H:0x0 D:0x2 P:0x0 Valid sense data: 0xe 0x1d 0x0.
2026-11-23T09:00:04.000Z cpu1:1)HBX: 2802: 'ds1': HB at offset 3 - Waiting for timed out HB
2026-11-23T09:00:05.000Z cpu1:1)Net: irrelevant
";

    #[test]
    fn unmap_iterations_of_a_volume_are_added() {
        let first = &summary(LOG)[0];
        assert!(
            first.starts_with("UNMAP of volume 5a1-b: 350 blocks in 2 iterations, from 2026-11-23T09:00:00"),
            "{first}"
        );
    }

    #[test]
    fn equal_failures_are_counted_with_their_sense_data() {
        let expected = "2 failed commands 0x89 to naa.6: H:0x0 D:0x2 P:0x0 Valid sense data: 0xe 0x1d 0x0.";
        assert_eq!(summary(LOG)[1], expected);
    }

    #[test]
    fn events_are_quoted_and_bounded() {
        let lines = summary(LOG);
        assert!(lines[2].contains("HBX: 2802") && lines.len() == 3, "{lines:?}");
        let many = "t cpu0:1)NMP: path lost\n".repeat(QUOTED + 5);
        assert_eq!(summary(&many).last().unwrap(), "… and 5 more lines about heartbeats, paths and devices.");
    }
}
