//! Closed loops of one kind of command to raw regions of a disk: what the primitives cost without a
//! datastore's metadata.

use crate::bench::LabBench;
use crate::error::LabError;
use crate::pattern::{Pattern, Reducibility};
use crate::store::LabDatastore;
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use multipath::{AtsOutcome, CopyRun, DeviceError, DiskOptions, IscsiDisk, SharedDisk};
use platform::clock;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Seed of the source data; the data of writes has the next one.
pub(crate) const SEED: u64 = 20;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Size of the datastore that marks the disk as in use. The regions follow it.
const MARK_BYTES: u64 = 2 * GIB;
/// Bytes of one range of an UNMAP.
pub(crate) const UNMAP_RANGE: u64 = MIB;
/// Bytes of a command that fills a region before UNMAP, and the number of them open.
const FILL_BYTES: u64 = 16 * MIB;
const FILL_OPEN: usize = 64;
/// The most rounds of filling and UNMAP in one sample.
const UNMAP_ROUNDS: u32 = 8;

/// A command, with its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RawCommand {
    /// COMPARE AND WRITE of one sector; each slot has its own.
    Ats,
    /// COMPARE AND WRITE of one sector, the same for all slots. A slot that loses reads the sector
    /// and tries again.
    ContendedAts,
    /// EXTENDED COPY. `shift` is added to the destination.
    Xcopy {
        /// Bytes per command.
        bytes: u64,
        /// Distance of the destination from the alignment of the source.
        shift: u64,
    },
    /// WRITE SAME of zeros.
    WriteSame(u64),
    /// UNMAP with this number of ranges, of space that EXTENDED COPY filled.
    Unmap(u64),
    /// READ.
    Read(u64),
    /// WRITE.
    Write(u64),
}

/// Completed commands of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawResult {
    /// Successful commands.
    pub(crate) commands: u64,
    /// COMPARE AND WRITE that another slot had overtaken.
    pub(crate) miscompares: u64,
    /// Bytes described or transferred.
    pub(crate) bytes: u64,
    /// Duration of the loop.
    pub(crate) time: Duration,
}

impl RawResult {
    /// Returns the successful commands per second.
    pub(crate) fn rate(&self) -> f64 {
        self.commands as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// Returns the MiB per second.
    pub(crate) fn mib_s(&self) -> f64 {
        self.bytes as f64 / MIB as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// A disk with regions for raw commands, beside a mounted datastore that keeps other labs away.
pub(crate) struct RawDisk {
    mark: LabDatastore,
    disk: Arc<IscsiDisk>,
    /// Data of virtual machines: the source of copies and reads.
    data: Range<u64>,
    /// Destination of copies and writes.
    copies: Range<u64>,
    /// Region for WRITE SAME.
    zeros: Range<u64>,
}

impl RawDisk {
    /// Formats disk 0 and writes the source data.
    pub(crate) async fn prepare(bench: &LabBench) -> Result<Self, LabError> {
        let bytes = bench.target.disk(0)?.bytes / 10 * 9;
        let [data, copies] = bench.scale.pick([GIB / 2, 4 * GIB], [2 * GIB, 32 * GIB]);
        let start = MARK_BYTES + GIB / 4;
        if bytes < start + data + copies {
            return Err(LabError::NotPossible("the disk is too small for raw regions".to_owned()));
        }
        let mark = LabDatastore::format(bench, 0, "esx01", Some(MARK_BYTES)).await?;
        let disk = bench.target.open(0, "esx01", &multipath::Statistics::default()).await?;
        let block = u64::from(disk.identity().block_bytes);
        let region = |from: u64, to: u64| from / block..to / block;
        let rest = start + data + copies;
        let most = rest.saturating_add(bench.space_limit.map_or(u64::MAX, |limit| limit.saturating_sub(data + copies)));
        let end = bytes.min(most);
        // A small disk has no space of its own for zeros.
        let zeros = if end > rest + GIB { region(rest, end) } else { region(start + data, rest) };
        let raw = Self { mark, data: region(start, start + data), copies: region(start + data, rest), zeros, disk };
        raw.write_data().await?;
        Ok(raw)
    }

    async fn write_data(&self) -> Result<(), LabError> {
        let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED);
        let block = self.block();
        let count = (self.data.end - self.data.start) * block / MIB;
        let writes = (0..count).map(|piece| {
            let data = pattern.data(piece * MIB, MIB as usize);
            self.disk.write(self.data.start + piece * MIB / block, data)
        });
        Ok(stream::iter(writes).buffer_unordered(8).try_collect().await?)
    }

    /// Opens the disk again with a simulated distance.
    pub(crate) async fn at_distance(&mut self, bench: &LabBench, distance: Duration) -> Result<(), LabError> {
        let near = bench.target.open_with(0, "esx01", DiskOptions { distance, ..DiskOptions::default() }).await?;
        std::mem::replace(&mut self.disk, near).close().await;
        Ok(())
    }

    /// Closes the disk and unmounts the datastore.
    pub(crate) async fn close(self) -> Result<(), LabError> {
        self.disk.close().await;
        self.mark.unmount().await
    }

    fn block(&self) -> u64 {
        u64::from(self.disk.identity().block_bytes)
    }

    /// Runs a loop with `outstanding` slots for `time`. `None` if the target refuses the command.
    pub(crate) async fn measure(
        &self,
        command: RawCommand,
        outstanding: u16,
        time: Duration,
    ) -> Result<Option<RawResult>, LabError> {
        let result = match command {
            RawCommand::Unmap(ranges) => self.unmap(ranges, outstanding, time).await,
            _ => self.repeat(command, outstanding, time).await,
        };
        match result {
            Ok(result) => Ok(Some(result)),
            Err(error) if error.is_refusal() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn repeat(&self, command: RawCommand, slots: u16, time: Duration) -> Result<RawResult, DeviceError> {
        let (begun, next) = (clock::now(), Cell::new(0));
        let next = &next;
        let pattern = Pattern::new(Reducibility::VIRTUAL_MACHINE, SEED + 1);
        let payload = pattern.data(0, usize::try_from(command.transferred()).unwrap_or(0));
        let payload = &payload;
        let slot = |slot: u64| async move {
            let (mut seen, mut sector) = (RawResult::default(), None);
            while clock::now().duration_since(begun) < time {
                let number = next.get();
                next.set(number + 1);
                if matches!(command, RawCommand::Ats | RawCommand::ContendedAts) {
                    let lba = self.copies.start + if command == RawCommand::Ats { slot } else { 0 };
                    self.swap(lba, (slot, number), &mut sector, &mut seen).await?;
                } else {
                    seen.bytes += self.send(command, number, payload).await?;
                    seen.commands += 1;
                }
            }
            Ok::<RawResult, DeviceError>(seen)
        };
        let parts = try_join_all((0..u64::from(slots)).map(slot)).await?;
        let sum = parts.iter().fold(RawResult::default(), |a, b| RawResult {
            commands: a.commands + b.commands,
            miscompares: a.miscompares + b.miscompares,
            bytes: a.bytes + b.bytes,
            time: a.time,
        });
        Ok(RawResult { time: clock::now().duration_since(begun), ..sum })
    }

    /// Swaps a sector for one that no other swap writes. After a miscompare, the next call reads
    /// the sector first.
    async fn swap(
        &self,
        lba: u64,
        (slot, number): (u64, u64),
        known: &mut Option<Bytes>,
        seen: &mut RawResult,
    ) -> Result<(), DeviceError> {
        let now = match known.take() {
            Some(sector) => sector,
            None => self.disk.read(lba, 1).await?,
        };
        let mut new = vec![0; now.len()];
        new.iter_mut().zip([slot, number + 1].iter().flat_map(|n| n.to_be_bytes())).for_each(|(to, from)| *to = from);
        let new = Bytes::from(new);
        match self.disk.compare_and_write(lba, now, new.clone()).await? {
            AtsOutcome::Written => {
                seen.commands += 1;
                seen.bytes += new.len() as u64;
                *known = Some(new);
            }
            AtsOutcome::Miscompare { .. } => seen.miscompares += 1,
        }
        Ok(())
    }

    /// Sends command number `number`. Returns its bytes.
    async fn send(&self, command: RawCommand, number: u64, payload: &Bytes) -> Result<u64, DeviceError> {
        let block = self.block();
        match command {
            RawCommand::Xcopy { bytes, shift } => {
                let blocks = bytes / block;
                // The last place is left out, so that a shifted copy stays in its region.
                let destination = place(&self.copies, number, blocks, 1).0 + shift / block;
                // Each pass copies other data to a place, because an array may notice equal data.
                let pass = place(&self.copies, number, blocks, 1).1;
                let source = place(&self.data, number + pass, blocks, 0).0;
                self.disk.copy(self.disk.as_ref(), vec![CopyRun { source, destination, blocks }]).await?;
                Ok(bytes)
            }
            RawCommand::WriteSame(bytes) => {
                let zeros = Bytes::from(vec![0; usize::try_from(block).unwrap_or(0)]);
                let lba = place(&self.zeros, number, bytes / block, 0).0;
                self.disk.write_same(lba, bytes / block, zeros).await?;
                Ok(bytes)
            }
            RawCommand::Read(bytes) => {
                let lba = place(&self.data, number, bytes / block, 0).0;
                self.disk.read(lba, u32::try_from(bytes / block).unwrap_or(0)).await?;
                Ok(bytes)
            }
            RawCommand::Write(bytes) => {
                let lba = place(&self.copies, number, bytes / block, 0).0;
                self.disk.write(lba, stamped(payload, number)).await?;
                Ok(bytes)
            }
            RawCommand::Ats | RawCommand::ContendedAts | RawCommand::Unmap(_) => Ok(0),
        }
    }

    /// Fills the region by copies and unmaps all of it, until the UNMAPs alone have taken `time`.
    async fn unmap(&self, ranges: u64, slots: u16, time: Duration) -> Result<RawResult, DeviceError> {
        let block = self.block();
        let (range, mut seen) = (UNMAP_RANGE / block, RawResult::default());
        let per_command = range * ranges;
        let count = (self.copies.end - self.copies.start) / per_command;
        for round in 0..UNMAP_ROUNDS {
            self.fill(u64::from(round)).await?;
            let begun = clock::now();
            let unmaps = (0..count).map(|number| {
                let first = self.copies.start + number * per_command;
                self.disk.unmap((0..ranges).map(|at| (first + at * range, range)).collect())
            });
            stream::iter(unmaps).buffer_unordered(slots.into()).try_collect::<()>().await?;
            seen.time += clock::now().duration_since(begun);
            seen.commands += count;
            seen.bytes += count * per_command * block;
            if seen.time >= time {
                break;
            }
        }
        Ok(seen)
    }

    async fn fill(&self, round: u64) -> Result<(), DeviceError> {
        let (block, command) = (self.block(), RawCommand::Xcopy { bytes: FILL_BYTES, shift: 0 });
        let places = (self.copies.end - self.copies.start) * block / FILL_BYTES - 1;
        let none = Bytes::new();
        let copies = (0..places).map(|number| self.send(command, round * places + number, &none));
        let result = stream::iter(copies).buffer_unordered(FILL_OPEN).map_ok(drop).try_collect::<()>().await;
        // A target without EXTENDED COPY is measured with what the region holds.
        result.or_else(|error| if error.is_refusal() { Ok(()) } else { Err(error) })
    }
}

impl RawCommand {
    /// Returns the bytes of data that a WRITE carries.
    fn transferred(self) -> u64 {
        if let Self::Write(bytes) = self { bytes } else { 0 }
    }
}

/// Returns the first block of place number `number` of a region that is cut into places of `blocks`
/// blocks, and the number of passes before it. `spare` places at the end are left out.
fn place(region: &Range<u64>, number: u64, blocks: u64, spare: u64) -> (u64, u64) {
    let places = ((region.end - region.start) / blocks.max(1)).saturating_sub(spare).max(1);
    (region.start + number % places * blocks, number / places)
}

/// Every sixth block of written data is new; the others repeat, as in the data of virtual machines.
const NEW_BLOCK: usize = 6;

/// Returns data whose every sixth block differs between commands.
fn stamped(payload: &Bytes, number: u64) -> Bytes {
    let mut data = payload.to_vec();
    for (at, block) in data.chunks_mut(4096).enumerate().step_by(NEW_BLOCK) {
        let stamp = (number << 20 | at as u64).to_be_bytes();
        block.iter_mut().zip(stamp).for_each(|(to, from)| *to = from);
    }
    data.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_wrap_around_and_stay_in_the_region() {
        let region = 100..164;
        let starts: Vec<(u64, u64)> = (0..5).map(|number| place(&region, number, 16, 1)).collect();
        assert_eq!(starts, [(100, 0), (116, 0), (132, 0), (100, 1), (116, 1)]);
        assert_eq!(place(&region, 7, 128, 1), (100, 7), "a command larger than the region");
    }

    #[test]
    fn stamped_data_is_new_in_every_sixth_block() {
        let payload = Bytes::from(vec![0; 7 * 4096]);
        let (one, two) = (stamped(&payload, 1), stamped(&payload, 2));
        let differs: Vec<bool> = one.chunks(4096).zip(two.chunks(4096)).map(|(one, two)| one != two).collect();
        assert_eq!(differs, [true, false, false, false, false, false, true]);
    }

    #[test]
    fn rates_are_per_second_of_the_loop() {
        let result = RawResult { commands: 10, miscompares: 1, bytes: 20 << 20, time: Duration::from_secs(2) };
        assert_eq!((result.rate(), result.mib_s()), (5.0, 10.0));
    }
}
