//! fio job files: `[global]` and job sections of `key=value`.

use super::job::{Job, Pattern, Profile};
use super::sizes::{block, number, size, time};

/// Most jobs of a file.
const MAX_JOBS: usize = 64;
/// Parameters that select fio's engine, output or target. The target is the disk of the guest, and
/// requests are always direct and asynchronous.
const IGNORED: &[&str] = &[
    "allow_mounted_write",
    "buffered",
    "cpus_allowed",
    "description",
    "direct",
    "do_verify",
    "end_fsync",
    "fallocate",
    "filename",
    "fsync_on_close",
    "group_reporting",
    "invalidate",
    "ioengine",
    "log_avg_msec",
    "name",
    "norandommap",
    "per_job_logs",
    "randrepeat",
    "randseed",
    "refill_buffers",
    "sync",
    "thread",
    "time_based",
    "verify_fatal",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
];

/// A job with the parameters that concern several jobs.
#[derive(Clone, Default)]
struct Section {
    job: Job,
    copies: usize,
    /// The job starts after all previous ones have ended.
    stonewall: bool,
    time_based: bool,
    random: bool,
    mix: Option<u8>,
    direction: Direction,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Direction {
    #[default]
    Read,
    Write,
    Trim,
    Mixed,
}

/// Parses a job file.
pub(super) fn parse(text: &str) -> Result<Profile, String> {
    let mut profile = Profile::default();
    let mut global = Section { copies: 1, ..Section::default() };
    let mut current: Option<Section> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            add(&mut profile, current.take())?;
            if name != "global" {
                let mut section = global.clone();
                section.job.name = name.to_owned();
                current = Some(section);
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let (key, value) = (key.trim(), value.trim());
        let section = current.as_mut().unwrap_or(&mut global);
        match section.set(key, value) {
            Ok(true) => {}
            Ok(false) if IGNORED.contains(&key) => {
                if !profile.ignored.iter().any(|known| known == key) {
                    profile.ignored.push(key.to_owned());
                }
            }
            Ok(false) => return Err(format!("line {}: parameter '{key}' is not supported", index + 1)),
            Err(message) => return Err(format!("line {}: {message}", index + 1)),
        }
    }
    add(&mut profile, current)?;
    if profile.phases.is_empty() { Err("no job section".to_owned()) } else { Ok(profile) }
}

/// Adds the copies of a section to the last phase, or to a new one.
fn add(profile: &mut Profile, section: Option<Section>) -> Result<(), String> {
    let Some(section) = section else { return Ok(()) };
    let job = section.finish()?;
    if section.stonewall || profile.phases.is_empty() {
        profile.phases.push(Vec::new());
    }
    if let Some(phase) = profile.phases.last_mut() {
        phase.extend(std::iter::repeat_n(job, section.copies));
        if phase.len() > MAX_JOBS {
            return Err(format!("more than {MAX_JOBS} jobs"));
        }
    }
    Ok(())
}

impl Section {
    /// Sets a parameter; returns false if it has no effect on the load.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let job = &mut self.job;
        match key {
            "rw" | "readwrite" => (self.random, self.direction) = direction(value)?,
            "rwmixread" => self.mix = Some(percent(value)?),
            "rwmixwrite" => self.mix = Some(100 - percent(value)?),
            "bs" | "blocksize" => job.blocks = vec![(block(value)?, 1)],
            "bssplit" => job.blocks = split(value)?,
            "iodepth" => job.depth = number(value, 1, 1024)? as usize,
            "numjobs" => self.copies = number(value, 1, MAX_JOBS as u64)? as usize,
            "size" => job.size = Some(size(value)?),
            "io_size" | "io_limit" => job.io_size = Some(size(value)?),
            "offset" => job.offset = size(value)?,
            "runtime" | "timeout" => job.runtime = Some(time(value)?),
            "rate_iops" => job.rate = Some(number(value, 1, 10_000_000)?),
            "verify" => job.verify = value != "0",
            "stonewall" | "wait_for_previous" => self.stonewall = value != "0",
            "time_based" => {
                self.time_based = value != "0";
                return Ok(true);
            }
            "percentage_random" => {
                job.pattern = Pattern::Random(percent(value)?);
                self.random = true;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the job. As with fio, a job without a time limit ends after the size of its range.
    fn finish(&self) -> Result<Job, String> {
        let mut job = self.job.clone();
        if self.random && job.pattern == Pattern::Sequential {
            job.pattern = Pattern::Random(100);
        }
        job.reads = match self.direction {
            Direction::Read => 100,
            Direction::Write | Direction::Trim => 0,
            Direction::Mixed => self.mix.unwrap_or(50),
        };
        job.trims = self.direction == Direction::Trim;
        if self.time_based {
            if job.runtime.is_none() {
                return Err(format!("job '{}' has time_based, but no runtime", job.name));
            }
            job.io_size = None;
        } else {
            job.io_size = job.io_size.or(job.size);
        }
        Ok(job)
    }
}

fn percent(text: &str) -> Result<u8, String> {
    Ok(number(text, 0, 100)? as u8)
}

fn direction(text: &str) -> Result<(bool, Direction), String> {
    Ok(match text {
        "read" => (false, Direction::Read),
        "write" => (false, Direction::Write),
        "trim" => (false, Direction::Trim),
        "rw" | "readwrite" => (false, Direction::Mixed),
        "randread" => (true, Direction::Read),
        "randwrite" => (true, Direction::Write),
        "randtrim" => (true, Direction::Trim),
        "randrw" => (true, Direction::Mixed),
        _ => return Err(format!("'{text}' is not a kind of load")),
    })
}

/// Parses `4k/60:64k/40`.
fn split(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let part = |part: &str| {
        let (bytes, weight) = part.split_once('/').ok_or_else(|| format!("'{part}' is not SIZE/PERCENT"))?;
        Ok((block(bytes)?, number(weight, 1, 100)?))
    };
    text.split(':').map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn jobs_inherit_global_parameters() {
        let profile = parse(
            "; a database\n[global]\nioengine=libaio\ndirect=1\nbs=8k\niodepth=16\nruntime=30\ntime_based\nsize=1g\n\
             [log]\nrw=write\nbs=64k\n[data]\nrw=randrw\nrwmixread=70\nnumjobs=2\n[check]\nstonewall\nrw=randread\n",
        )
        .unwrap();
        assert_eq!(profile.ignored, ["ioengine", "direct"]);
        assert_eq!(profile.phases.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1]);
        let log = &profile.phases[0][0];
        assert_eq!(
            (log.name.as_str(), log.reads, log.blocks[0].0, log.pattern),
            ("log", 0, 65_536, Pattern::Sequential)
        );
        let data = &profile.phases[0][2];
        assert_eq!((data.reads, data.depth, data.pattern), (70, 16, Pattern::Random(100)));
        assert_eq!((data.runtime, data.io_size), (Some(Duration::from_secs(30)), None));
        assert_eq!((profile.phases[1][0].reads, profile.phases[1][0].blocks[0].0), (100, 8192));
    }

    #[test]
    fn job_without_time_ends_after_its_size() {
        let profile = parse("[a]\nrw=randwrite\nsize=64m\nbssplit=4k/60:64k/40\nverify=crc32c\n").unwrap();
        let job = &profile.phases[0][0];
        assert_eq!((job.io_size, job.verify), (Some(64 << 20), true));
        assert_eq!(job.blocks, [(4096, 60), (65_536, 40)]);
    }

    #[test]
    fn unsupported_parameters_are_named() {
        assert_eq!(parse("[a]\nzonemode=zbd\n").unwrap_err(), "line 2: parameter 'zonemode' is not supported");
        assert_eq!(parse("[a]\nrw=upwards\n").unwrap_err(), "line 2: 'upwards' is not a kind of load");
        assert_eq!(parse("[a]\nbs=100\n").unwrap_err(), "line 2: block size '100' is not a multiple of 512 up to 4M");
        assert!(parse("[a]\ntime_based\n").unwrap_err().contains("no runtime"));
        assert_eq!(parse("[global]\nrw=read\n").unwrap_err(), "no job section");
    }
}
