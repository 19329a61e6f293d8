//! Runs the jobs of a load on a virtual disk.

use super::data::{data, verify};
use super::profile::{Job, Pattern};
use crate::failure::Failure;
use crate::vmfs::failed;
use futures_util::{StreamExt, TryStreamExt, future, stream};
use platform::clock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use testing::SplitMix64;
use virtual_disk::{VirtualDisk, VirtualDiskError};

/// The seed of all written data: jobs may overwrite each other's blocks.
const SEED: u64 = 1;
/// Written ranges that one job remembers for its verification.
const MAX_VERIFIED: usize = 1 << 20;

/// A request of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoadRequest {
    kind: Kind,
    at: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Trim,
}

/// The result of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct JobResult {
    pub(super) name: String,
    pub(super) reads: u64,
    /// Writes and trims.
    pub(super) writes: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Sum of the times of all requests.
    busy: Duration,
    /// Bytes that were read and compared at the end.
    pub(super) verified: u64,
}

impl JobResult {
    pub(super) fn requests(&self) -> u64 {
        self.reads + self.writes
    }

    /// Returns the line of the job.
    pub(super) fn line(&self) -> String {
        let seconds = self.seconds.max(0.001);
        let mean = self.busy.as_secs_f64() * 1000.0 / self.requests().max(1) as f64;
        let mut line = format!(
            "{}: {} reads, {} writes in {:.1} s, {:.0} IOPS, {:.1} MiB/s, {mean:.2} ms",
            self.name,
            self.reads,
            self.writes,
            self.seconds,
            self.requests() as f64 / seconds,
            self.bytes as f64 / f64::from(1 << 20) / seconds,
        );
        if self.verified > 0 {
            line += &format!(", {} MiB verified", self.verified >> 20);
        }
        line
    }
}

/// The positions and sizes of a job's requests.
struct Plan<'a> {
    job: &'a Job,
    begin: u64,
    end: u64,
    next: u64,
    random: SplitMix64,
    left: u64,
}

impl<'a> Plan<'a> {
    /// Creates the plan for a disk of `bytes` bytes.
    fn new(job: &'a Job, bytes: u64, seed: u64) -> Result<Self, Failure> {
        let end = job.size.map_or(bytes, |size| job.offset.saturating_add(size).min(bytes));
        let (begin, end) = (job.offset.next_multiple_of(512), end / 512 * 512);
        let largest = job.blocks.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
        if begin.saturating_add(largest) > end {
            let message = format!("job '{}' has requests larger than its part of the disk", job.name);
            return Err(Failure::usage(message, "use smaller requests, or a larger size"));
        }
        // Without a time and a number of bytes, a job covers its range once.
        let left = job.io_size.unwrap_or(if job.runtime.is_none() { end - begin } else { u64::MAX });
        Ok(Self { job, begin, end, next: begin, random: SplitMix64::new(seed), left })
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit.max(1)
    }

    fn block(&mut self) -> u64 {
        let total = self.job.blocks.iter().map(|(_, weight)| *weight).sum();
        let mut chosen = self.below(total);
        for (bytes, weight) in &self.job.blocks {
            if chosen < *weight {
                return *bytes;
            }
            chosen -= weight;
        }
        self.job.blocks.first().map_or(512, |(bytes, _)| *bytes)
    }
}

impl Iterator for Plan<'_> {
    type Item = LoadRequest;

    fn next(&mut self) -> Option<LoadRequest> {
        if self.left == 0 {
            return None;
        }
        let bytes = self.block();
        let percent = match self.job.pattern {
            Pattern::Sequential => 0,
            Pattern::Random(percent) => u64::from(percent),
        };
        let at = if self.below(100) < percent {
            self.begin + self.below((self.end - self.begin) / bytes) * bytes
        } else if self.next + bytes <= self.end {
            self.next
        } else {
            self.begin
        };
        self.next = at + bytes;
        self.left = self.left.saturating_sub(bytes);
        let kind = match (self.below(100) < u64::from(self.job.reads), self.job.trims) {
            (true, _) => Kind::Read,
            (false, false) => Kind::Write,
            (false, true) => Kind::Trim,
        };
        Some(LoadRequest { kind, at, bytes })
    }
}

/// Runs jobs at the same time.
pub(super) async fn run(disk: &VirtualDisk, jobs: &[Job]) -> Result<Vec<JobResult>, Failure> {
    let started = jobs.iter().enumerate().map(|(index, job)| run_job(disk, job, index as u64 + 1));
    future::try_join_all(started).await
}

async fn run_job(disk: &VirtualDisk, job: &Job, seed: u64) -> Result<JobResult, Failure> {
    let plan = Plan::new(job, disk.bytes(), seed)?;
    let begun = clock::now();
    let end = job.runtime.map(|time| begun + time);
    let result = RefCell::new(JobResult { name: job.name.clone(), ..JobResult::default() });
    let written = RefCell::new(BTreeMap::new());
    let requests = stream::iter(plan.enumerate())
        .take_while(|_| future::ready(end.is_none_or(|end| clock::now() < end)))
        .then(|(number, request)| pace(job, begun, number, request));
    let done = requests.map(|request| {
        let (result, written) = (&result, &written);
        async move {
            let started = clock::now();
            perform(disk, request).await?;
            let mut result = result.borrow_mut();
            result.busy += clock::now().duration_since(started);
            result.bytes += request.bytes;
            *(if request.kind == Kind::Read { &mut result.reads } else { &mut result.writes }) += 1;
            if job.verify && request.kind == Kind::Write {
                let mut written = written.borrow_mut();
                let longest: &mut u64 = written.entry(request.at).or_default();
                *longest = request.bytes.max(*longest);
                if written.len() > MAX_VERIFIED {
                    let message = format!("job '{}' writes more than {MAX_VERIFIED} places to verify", job.name);
                    return Err(Failure::usage(message, "use a smaller size or larger requests"));
                }
            }
            Ok::<(), Failure>(())
        }
    });
    done.buffer_unordered(job.depth).try_collect::<()>().await?;
    let mut result = result.into_inner();
    result.seconds = clock::now().duration_since(begun).as_secs_f64();
    for (at, bytes) in written.into_inner() {
        result.verified += verify(disk, at..at + bytes, SEED).await?;
    }
    Ok(result)
}

/// Waits until a request may begin at the rate of its job.
async fn pace(job: &Job, begun: Instant, number: usize, request: LoadRequest) -> LoadRequest {
    if let Some(rate) = job.rate {
        let due = begun + Duration::from_secs_f64(number as f64 / rate as f64);
        tokio::time::sleep(due.saturating_duration_since(clock::now())).await;
    }
    request
}

async fn perform(disk: &VirtualDisk, request: LoadRequest) -> Result<(), Failure> {
    let LoadRequest { kind, at, bytes } = request;
    match kind {
        Kind::Read => disk.read(at, bytes).await.map(drop).map_err(failed("read")),
        Kind::Write => disk.write(at, data(SEED, at, bytes)).await.map_err(failed("write")),
        // A thick disk keeps its blocks; the command is a hint.
        Kind::Trim => match disk.unmap(at, bytes).await {
            Ok(_) | Err(VirtualDiskError::NotThin) => Ok(()),
            Err(error) => Err(failed("trim")(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(job: &Job) -> Vec<LoadRequest> {
        Plan::new(job, 1 << 20, 7).unwrap().collect()
    }

    #[test]
    fn sequential_job_covers_its_range_once() {
        let job = Job { offset: 4096, size: Some(64 << 10), blocks: vec![(8192, 1)], ..Job::default() };
        let found = plan(&job);
        assert_eq!(found.len(), 8);
        assert!(found.iter().enumerate().all(|(i, r)| r.at == 4096 + i as u64 * 8192 && r.kind == Kind::Read));
        let twice = Job { io_size: Some(128 << 10), ..job };
        let found = plan(&twice);
        assert_eq!((found.len(), found[8].at), (16, 4096), "it begins again");
    }

    #[test]
    fn random_job_mixes_sizes_and_kinds() {
        let blocks = vec![(4096, 75), (16_384, 25)];
        let job = Job { pattern: Pattern::Random(100), reads: 70, blocks, io_size: Some(64 << 20), ..Job::default() };
        let found = plan(&job);
        let share = |fits: &dyn Fn(&LoadRequest) -> bool| found.iter().filter(|r| fits(r)).count() * 100 / found.len();
        assert!((65..=75).contains(&share(&|r| r.kind == Kind::Read)));
        assert!((70..=80).contains(&share(&|r| r.bytes == 4096)));
        assert!(found.iter().all(|r| r.at + r.bytes <= 1 << 20 && r.at % r.bytes == 0));
        assert!(share(&|r| r.at < 512 << 10) > 40);
    }

    #[test]
    fn job_larger_than_the_disk_is_refused() {
        let job = Job { blocks: vec![(2 << 20, 1)], ..Job::default() };
        assert!(Plan::new(&job, 1 << 20, 1).is_err());
        let outside = Job { offset: 1 << 30, ..Job::default() };
        assert!(Plan::new(&outside, 1 << 20, 1).is_err());
    }
}
