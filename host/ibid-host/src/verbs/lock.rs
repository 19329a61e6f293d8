//! `ibid-host lock`: many hosts lock files of one datastore at the same time.
//! A lock is taken by COMPARE AND WRITE on the file's own block, or by RESERVE of the whole logical
//! unit, as hosts did before COMPARE AND WRITE existed.

use super::outcome::print_json;
use crate::cli::{ConnectionArgs, Region, size};
use crate::failure::Failure;
use crate::meter::{Latency, Meter, round};
use crate::out::outln;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use initiator::{CommandRefusal, LogicalUnit, RunError, Session, Url};
use platform::clock;
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Lock method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// COMPARE AND WRITE of the lock's block
    Caw,
    /// RESERVE, READ, WRITE and RELEASE of the unit
    Reserve,
}

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct LockArgs {
    /// Unit (iscsi://host[:port]/iqn/lun); blocks from --off are overwritten
    pub(crate) url: Url,
    /// Lock method
    #[arg(long, value_enum, default_value_t = Method::Caw)]
    pub(crate) method: Method,
    /// Number of hosts, each with its own session and lock
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) hosts: u16,
    /// Duration in seconds
    #[arg(long, default_value_t = 5.0)]
    pub(crate) secs: f64,
    /// Start of the lock blocks, in bytes
    #[arg(long, default_value = "0", value_parser = size)]
    pub(crate) off: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    verb: &'static str,
    method: &'static str,
    hosts: u16,
    secs: f64,
    /// Times that a lock was taken and released.
    locks: u64,
    locks_s: f64,
    /// Reservation conflicts; each caused a retry.
    conflicts: u64,
    lat_us: Latency,
}

/// A host with its session, its lock block, and the block's content when free and when held.
struct Host {
    session: Session,
    unit: LogicalUnit,
    lba: u64,
    free: Bytes,
    held: Bytes,
    conflicts: u64,
    waits: Vec<Duration>,
}

impl Host {
    /// Takes and releases the lock with two COMPARE AND WRITE commands on the lock block.
    async fn by_compare_and_write(&mut self) -> Result<(), RunError> {
        for (from, to) in [(&self.free, &self.held), (&self.held, &self.free)] {
            let data = [from.as_ref(), to.as_ref()].concat();
            self.session.run(self.unit.compare_and_write(self.lba, data.into(), false)).await?;
        }
        Ok(())
    }

    /// Takes and releases the lock under reservations, which exclude all other hosts from the unit.
    async fn by_reservation(&mut self) -> Result<(), RunError> {
        for data in [self.held.clone(), self.free.clone()] {
            while let Err(error) = self.session.run(self.unit.reserve()).await {
                if !matches!(&error, RunError::Refused(refusal) if refusal.is_conflict()) {
                    return Err(error);
                }
                self.conflicts += 1;
            }
            self.session.run(self.unit.read(self.lba, 1, false)).await?;
            self.session.run(self.unit.write(self.lba, data, false)).await?;
            self.session.run(self.unit.release()).await?;
        }
        Ok(())
    }

    async fn work(mut self, method: Method, end: Instant) -> Result<Self, Failure> {
        loop {
            let started = clock::now();
            if started >= end {
                return Ok(self);
            }
            let turn = match method {
                Method::Caw => self.by_compare_and_write().await,
                Method::Reserve => self.by_reservation().await,
            };
            turn.map_err(Failure::command(format!("lock at LBA {}", self.lba)))?;
            self.waits.push(clock::now() - started);
        }
    }
}

/// Runs the verb.
pub(crate) async fn run(args: &LockArgs) -> Result<(), Failure> {
    if !(args.secs > 0.0 && args.secs <= 86_400.0) {
        return Err(Failure::usage("--secs is out of range", "use more than 0 and at most 86400 seconds"));
    }
    let mut hosts = Vec::new();
    for number in 0..args.hosts {
        hosts.push(open(args, number).await?);
    }
    let end = clock::now() + Duration::from_secs_f64(args.secs);
    let mut tasks = JoinSet::new();
    hosts.into_iter().for_each(|host| {
        tasks.spawn(host.work(args.method, end));
    });
    let mut meter = Meter::new().map_err(|error| Failure::Wrong(error.to_string()))?;
    let mut conflicts = 0;
    while let Some(joined) = tasks.join_next().await {
        let host = joined.map_err(|error| Failure::Wrong(error.to_string()))??;
        conflicts += host.conflicts;
        host.waits.into_iter().for_each(|wait| meter.record(wait));
        // The measurement is complete, so a failed logout is ignored.
        let _ = host.session.logout().await;
    }
    print(args, &meter, conflicts)
}

async fn open(args: &LockArgs, number: u16) -> Result<Host, Failure> {
    let (mut session, unit) = args.connection.open(&args.url).await?;
    let block = unit.block_bytes as usize;
    // The lock blocks are adjacent, like the heartbeats of VMFS.
    let lba = Region::of(&unit, args.off, None)?.lba + u64::from(number);
    let (free, held) = (vec![0; block], vec![number as u8 + 1; block]);
    let write = unit.write(lba, free.clone().into(), false);
    session.run(write).await.map_err(Failure::command(format!("WRITE at LBA {lba}")))?;
    if args.method == Method::Caw {
        let probe = unit.compare_and_write(lba, [free.as_slice(), &free].concat().into(), false);
        match session.run(probe).await {
            Err(RunError::Refused(refusal @ CommandRefusal::Check(_))) if refusal.is_unknown_command() => {
                return Err(Failure::usage("target does not support COMPARE AND WRITE", "use --method reserve"));
            }
            result => result.map_err(Failure::command("COMPARE AND WRITE"))?,
        };
    }
    Ok(Host { session, unit, lba, free: free.into(), held: held.into(), conflicts: 0, waits: Vec::new() })
}

fn print(args: &LockArgs, meter: &Meter, conflicts: u64) -> Result<(), Failure> {
    let method = if args.method == Method::Caw { "caw" } else { "reserve" };
    let (locks, lat_us) = (meter.count(), meter.latency());
    let locks_s = round(locks as f64 / args.secs);
    let report = Report { verb: "lock", method, hosts: args.hosts, secs: args.secs, locks, locks_s, conflicts, lat_us };
    if args.json {
        return print_json(&report);
    }
    outln!(
        "lock by {method}: {} hosts, {locks} locks in {} s, {locks_s} /s, {conflicts} conflicts, p99 {} us",
        args.hosts,
        args.secs,
        lat_us.p99
    );
    Ok(())
}
