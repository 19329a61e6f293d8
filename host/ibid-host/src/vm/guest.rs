//! `vm guest`: the I/O of a guest on a virtual disk, by hand.

use super::machines::find;
use crate::cli;
use crate::failure::Failure;
use crate::interrupt::until_stopped;
use crate::out::outln;
use crate::vmfs::{Volumes, failed};
use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use futures_util::{StreamExt, TryStreamExt, stream};
use platform::clock;
use std::time::{Duration, Instant};
use testing::SplitMix64;
use virtual_disk::{BootWorkload, RunningMachine, VirtualDisk};

/// Bytes of one request of `fill`, `write` and `read`.
const STEP_BYTES: u64 = 1 << 20;
/// Concurrent requests of `fill`, `write` and `read`.
const STEP_DEPTH: usize = 8;

/// Options of `vm guest`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GuestArgs {
    /// Name of the virtual machine; it is powered on for the duration
    name: String,
    #[command(subcommand)]
    verb: GuestVerb,
    /// Disk, in the order of creation
    #[arg(long, global = true, default_value_t = 0)]
    disk: usize,
}

#[derive(Subcommand, Clone, Debug)]
enum GuestVerb {
    /// Write the whole disk with data derived from a seed
    Fill {
        /// Seed of the data
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Write a range with data derived from a seed
    Write(RangeArgs),
    /// Read a range and compare it with what `fill` or `write` wrote
    Read(RangeArgs),
    /// Free a range of a thin disk, as a guest's file system does
    Trim {
        /// First byte
        #[arg(long, value_parser = cli::size, default_value = "0")]
        offset: u64,
        /// Number of bytes [default: to the end]
        #[arg(long, value_parser = cli::size)]
        size: Option<u64>,
    },
    /// Run a load for some time
    Load {
        /// Kind of load
        #[arg(long, value_enum, default_value = "oltp")]
        profile: Profile,
        /// Seconds
        #[arg(long, default_value_t = 10)]
        secs: u64,
        /// Concurrent requests
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
        depth: u16,
    },
}

#[derive(Args, Clone, Debug)]
struct RangeArgs {
    /// First byte
    #[arg(long, value_parser = cli::size, default_value = "0")]
    offset: u64,
    /// Number of bytes [default: to the end]
    #[arg(long, value_parser = cli::size)]
    size: Option<u64>,
    /// Seed of the data
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// 8 KiB, 70 % reads, random
    Oltp,
    /// 256 KiB writes in sequence
    Stream,
    /// Boots, one after another
    Boot,
}

/// Runs the verb on a powered-on machine.
pub(super) async fn guest(volumes: &mut Volumes, args: &GuestArgs) -> Result<(), Failure> {
    let start = async {
        let machine = find(volumes, &args.name).await?;
        machine.power_on().await.map_err(failed(&args.name))
    };
    let running = until_stopped(Box::pin(start)).await?;
    let done = until_stopped(Box::pin(act(&running, args))).await;
    running.power_off().await.map_err(failed(&args.name))?;
    done
}

async fn act(running: &RunningMachine, args: &GuestArgs) -> Result<(), Failure> {
    let Some(disk) = running.disks().get(args.disk) else {
        let message = format!("'{}' has {} disks", args.name, running.disks().len());
        return Err(Failure::usage(message, "use a smaller --disk"));
    };
    let begun = clock::now();
    match &args.verb {
        GuestVerb::Fill { seed } => {
            let all = RangeArgs { offset: 0, size: None, seed: *seed };
            write(disk, &all).await?;
            report("Written", disk.bytes(), begun);
        }
        GuestVerb::Write(range) => report("Written", write(disk, range).await?, begun),
        GuestVerb::Read(range) => report("Read and compared", read(disk, range).await?, begun),
        GuestVerb::Trim { offset, size } => {
            let bytes = size.unwrap_or(disk.bytes().saturating_sub(*offset));
            let blocks = disk.unmap(*offset, bytes).await.map_err(failed("trim"))?;
            outln!("Freed: {blocks} blocks of 1 MiB");
        }
        GuestVerb::Load { profile, secs, depth } => {
            let end = begun + Duration::from_secs(*secs);
            let requests = load(running, disk, *profile, (end, usize::from(*depth))).await?;
            let seconds = clock::now().duration_since(begun).as_secs_f64();
            outln!("Completed: {requests} requests in {seconds:.1} s, {:.0} IOPS", requests as f64 / seconds);
        }
    }
    Ok(())
}

fn report(verb: &str, bytes: u64, begun: Instant) {
    let seconds = clock::now().duration_since(begun).as_secs_f64().max(0.001);
    let mib = bytes as f64 / f64::from(1 << 20);
    outln!("{verb}: {mib:.0} MiB in {seconds:.1} s, {:.0} MiB/s", mib / seconds);
}

/// Returns the data of a range, which depends on the seed and the offset. Both are multiples of
/// 512.
fn data(seed: u64, offset: u64, bytes: u64) -> Bytes {
    let sectors = (offset / 512..(offset + bytes) / 512).map(|sector| {
        let mut random = SplitMix64::new(seed.rotate_left(32) ^ sector);
        (0..64).flat_map(move |_| random.next_u64().to_le_bytes())
    });
    sectors.flatten().collect::<Vec<u8>>().into()
}

/// Splits a range into requests.
fn requests(disk: &VirtualDisk, range: &RangeArgs) -> impl Iterator<Item = (u64, u64)> + use<> {
    let end = range.size.map_or(disk.bytes(), |size| range.offset.saturating_add(size));
    let first = range.offset;
    (first..end).step_by(STEP_BYTES as usize).map(move |at| (at, STEP_BYTES.min(end - at)))
}

async fn write(disk: &VirtualDisk, range: &RangeArgs) -> Result<u64, Failure> {
    let written = stream::iter(requests(disk, range)).map(|(at, bytes)| async move {
        disk.write(at, data(range.seed, at, bytes)).await.map_err(failed("write"))?;
        Ok::<u64, Failure>(bytes)
    });
    written.buffer_unordered(STEP_DEPTH).try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await
}

async fn read(disk: &VirtualDisk, range: &RangeArgs) -> Result<u64, Failure> {
    let compared = stream::iter(requests(disk, range)).map(|(at, bytes)| async move {
        let found = disk.read(at, bytes).await.map_err(failed("read"))?;
        let expected = data(range.seed, at, bytes);
        match found.iter().zip(&expected).position(|(one, other)| one != other) {
            Some(first) => {
                Err(Failure::Wrong(format!("byte {} differs from the data of seed {}", at + first as u64, range.seed)))
            }
            None => Ok(bytes),
        }
    });
    compared.buffer_unordered(STEP_DEPTH).try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await
}

/// Runs a load until `end` with `depth` concurrent requests; returns the number of requests.
async fn load(
    running: &RunningMachine,
    disk: &VirtualDisk,
    profile: Profile,
    (end, depth): (Instant, usize),
) -> Result<u64, Failure> {
    if profile == Profile::Boot {
        let mut requests = 0;
        for seed in 1.. {
            if clock::now() >= end {
                break;
            }
            let boot = BootWorkload { seed, depth, ..BootWorkload::default() };
            running.boot(&boot).await.map_err(failed("boot"))?;
            requests += u64::from(boot.reads + boot.writes);
        }
        return Ok(requests);
    }
    let mut random = SplitMix64::new(1);
    let numbers = stream::iter(0u64..).map(|number| (number, random.next_u64()));
    let numbers = numbers.take_while(|_| std::future::ready(clock::now() < end));
    let request = |(number, chance): (u64, u64)| async move {
        let bytes = if profile == Profile::Oltp { 8 << 10 } else { 256 << 10 };
        let places = (disk.bytes() / bytes).max(1);
        let (at, is_read) = match profile {
            Profile::Oltp => ((chance >> 8) % places * bytes, chance % 10 < 7),
            _ => (number % places * bytes, false),
        };
        let bytes = bytes.min(disk.bytes() - at);
        if is_read {
            disk.read(at, bytes).await.map_err(failed("read"))?;
        } else {
            disk.write(at, data(number, at, bytes)).await.map_err(failed("write"))?;
        }
        Ok::<(), Failure>(())
    };
    numbers.map(request).buffer_unordered(depth).try_fold(0, |sum, ()| async move { Ok(sum + 1) }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_depends_on_seed_and_offset_only() {
        let all = data(7, 0, 8192);
        assert_eq!(all[4096..], data(7, 4096, 4096)[..]);
        assert_ne!(all[..512], all[512..1024]);
        assert_ne!(all, data(8, 0, 8192));
    }
}
