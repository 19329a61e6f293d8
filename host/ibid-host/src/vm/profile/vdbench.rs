//! vdbench parameter files: workload definitions (`wd=`) and run definitions (`rd=`). Storage
//! definitions (`sd=`) name devices; the device is the disk of the guest.

use super::job::{Job, Pattern, Profile};
use super::sizes::{block, number, size, time};

/// Most definitions of a file.
const MAX_LINES: usize = 1000;
/// Parameters of a storage definition, and of a run, that do not change the load.
const IGNORED: &[&str] = &["sd", "lun", "openflags", "interval", "warmup", "journal", "validate", "align", "pause"];

/// The parameters of one line.
type Parameters<'a> = Vec<(&'a str, &'a str)>;

/// Parses a parameter file.
pub(super) fn parse(text: &str) -> Result<Profile, String> {
    let mut profile = Profile::default();
    let mut workloads: Vec<Job> = Vec::new();
    let mut threads = 1;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['*', '#', '/']) {
            continue;
        }
        if index >= MAX_LINES {
            return Err(format!("more than {MAX_LINES} lines"));
        }
        let at = |message: String| format!("line {}: {message}", index + 1);
        let parameters = parameters(line).map_err(at)?;
        let ignored = match parameters.first() {
            Some(("sd", _)) => storage(&parameters, &mut threads).map_err(at)?,
            Some(("wd", _)) => {
                let (job, ignored) = workload(&parameters).map_err(at)?;
                workloads.push(job);
                ignored
            }
            Some(("rd", _)) => {
                let (phase, ignored) = run(&parameters, &workloads, threads).map_err(at)?;
                profile.phases.push(phase);
                ignored
            }
            other => return Err(at(format!("'{}' is not sd, wd or rd", other.map_or("", |(key, _)| key)))),
        };
        for key in ignored {
            if !profile.ignored.contains(&key) {
                profile.ignored.push(key);
            }
        }
    }
    if profile.phases.is_empty() { Err("no run definition (rd=)".to_owned()) } else { Ok(profile) }
}

/// Splits a line at the commas outside parentheses.
fn parameters(line: &str) -> Result<Parameters<'_>, String> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, letter) in line.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    let pair = |part: &&'_ str| part.trim().is_empty();
    let parts = parts.into_iter().filter(|part| !pair(part));
    parts.map(|part| part.split_once('=').ok_or_else(|| format!("'{part}' is not KEY=VALUE"))).map(trimmed).collect()
}

fn trimmed<'a>(pair: Result<(&'a str, &'a str), String>) -> Result<(&'a str, &'a str), String> {
    pair.map(|(key, value)| (key.trim(), value.trim()))
}

/// Returns the items of `(a,b)` or of a single value.
fn list(value: &str) -> impl Iterator<Item = &str> {
    value.trim_start_matches('(').trim_end_matches(')').split(',').map(str::trim)
}

fn ignored(key: &str) -> Result<String, String> {
    if IGNORED.contains(&key) { Ok(key.to_owned()) } else { Err(format!("parameter '{key}' is not supported")) }
}

fn storage(parameters: &Parameters<'_>, threads: &mut usize) -> Result<Vec<String>, String> {
    let mut unused = Vec::new();
    for (key, value) in &parameters[1..] {
        match *key {
            "threads" => *threads = number(value, 1, 1024)? as usize,
            "size" => unused.push("size".to_owned()),
            key => unused.push(ignored(key)?),
        }
    }
    Ok(unused)
}

fn workload(parameters: &Parameters<'_>) -> Result<(Job, Vec<String>), String> {
    // vdbench's workloads are random reads of 4 KiB unless they say otherwise.
    let mut job = Job { pattern: Pattern::Random(100), ..Job::default() };
    let mut unused = Vec::new();
    for (key, value) in parameters {
        match *key {
            "wd" => (*value).clone_into(&mut job.name),
            "xfersize" => job.blocks = sizes(value)?,
            "rdpct" => job.reads = number(value, 0, 100)? as u8,
            "seekpct" => {
                job.pattern = match *value {
                    "seq" | "sequential" | "eof" | "seqnz" => Pattern::Sequential,
                    "random" | "rand" => Pattern::Random(100),
                    percent => match number(percent, 0, 100)? as u8 {
                        0 => Pattern::Sequential,
                        percent => Pattern::Random(percent),
                    },
                }
            }
            "range" => {
                let ends = list(value).map(size).collect::<Result<Vec<_>, _>>()?;
                let [first, end] = ends[..] else { return Err(format!("'{value}' is not (FIRST,END)")) };
                (job.offset, job.size) = (first, Some(end.saturating_sub(first)));
            }
            key => unused.push(ignored(key)?),
        }
    }
    Ok((job, unused))
}

/// Parses a size, or sizes with their percentages: `(4k,60,64k,40)`.
fn sizes(value: &str) -> Result<Vec<(u64, u64)>, String> {
    let items: Vec<&str> = list(value).collect();
    match items.as_slice() {
        [one] => Ok(vec![(block(one)?, 1)]),
        items if items.len().is_multiple_of(2) => {
            items.chunks(2).map(|pair| Ok((block(pair[0])?, number(pair[1], 1, 100)?))).collect()
        }
        _ => Err(format!("'{value}' is not a size or (SIZE,PERCENT,…)")),
    }
}

fn run(parameters: &Parameters<'_>, workloads: &[Job], threads: usize) -> Result<(Vec<Job>, Vec<String>), String> {
    let (mut unused, mut chosen) = (Vec::new(), Vec::new());
    let (mut rate, mut elapsed, mut threads) = (None, None, threads);
    for (key, value) in parameters {
        match *key {
            "rd" => {}
            "wd" => {
                for name in list(value) {
                    let fits = |job: &&Job| match name.strip_suffix('*') {
                        Some(start) => job.name.starts_with(start),
                        None => job.name == name,
                    };
                    let found: Vec<Job> = workloads.iter().filter(fits).cloned().collect();
                    if found.is_empty() {
                        return Err(format!("no workload definition '{name}'"));
                    }
                    chosen.extend(found);
                }
            }
            "iorate" if *value == "max" => rate = None,
            "iorate" => rate = Some(number(value, 1, 10_000_000)?),
            "elapsed" => elapsed = Some(time(value)?),
            "threads" | "forthreads" => threads = number(list(value).next().unwrap_or(""), 1, 1024)? as usize,
            key => unused.push(ignored(key)?),
        }
    }
    if chosen.is_empty() {
        return Err("the run has no workload (wd=)".to_owned());
    }
    let Some(elapsed) = elapsed else { return Err("the run has no time (elapsed=)".to_owned()) };
    let count = chosen.len() as u64;
    for job in &mut chosen {
        (job.runtime, job.depth) = (Some(elapsed), threads);
        job.rate = rate.map(|rate| rate.div_ceil(count));
    }
    Ok((chosen, unused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const FILE: &str = "* the guide's load\nsd=sd1,lun=/dev/sdb,openflags=o_direct,threads=8\n\
                        wd=wd1,sd=sd1,xfersize=32k,rdpct=20,seekpct=90\n\
                        wd=wd2,sd=sd1,xfersize=(4k,60,64k,40),seekpct=seq\n\
                        rd=run1,wd=wd*,iorate=5000,elapsed=30,interval=1\n\
                        rd=run2,wd=wd1,iorate=max,elapsed=2m,threads=4\n";

    #[test]
    fn runs_use_their_workloads() {
        let profile = parse(FILE).unwrap();
        assert_eq!(profile.ignored, ["lun", "openflags", "sd", "interval"]);
        let [first, second] = &profile.phases[..] else { panic!("two runs") };
        assert_eq!((first[0].reads, first[0].pattern, first[0].depth), (20, Pattern::Random(90), 8));
        assert_eq!((first[0].rate, first[0].runtime), (Some(2500), Some(Duration::from_secs(30))));
        assert_eq!((&first[1].blocks[..], first[1].pattern), (&[(4096, 60), (65_536, 40)][..], Pattern::Sequential));
        assert_eq!((second.len(), second[0].depth, second[0].rate), (1, 4, None));
    }

    #[test]
    fn wrong_definitions_are_named() {
        for (text, message) in [
            ("xx=1\n", "line 1: 'xx' is not sd, wd or rd"),
            ("wd=a,curve=1\n", "line 1: parameter 'curve' is not supported"),
            ("rd=a,wd=b,elapsed=1\n", "line 1: no workload definition 'b'"),
            ("wd=a\nrd=a,wd=a\n", "line 2: the run has no time (elapsed=)"),
            ("wd=a,xfersize=(4k,60,8k)\n", "line 1: '(4k,60,8k)' is not a size or (SIZE,PERCENT,…)"),
        ] {
            assert_eq!(parse(text).unwrap_err(), message);
        }
    }
}
