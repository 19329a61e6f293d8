//! Counters of the host's devices, and their change between two samples.

use super::world::{World, WorldRow};
use esxi_host::{DeviceRecord, EsxiHost, HostCounters, HostError};
use initiator::Url;
use multipath::CountersSnapshot;
use platform::clock;
use std::collections::BTreeMap;
use std::time::Instant;

/// One device between two samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) device: String,
    pub(crate) paths: u64,
    /// Processes that use the host now.
    pub(crate) worlds: u64,
    pub(crate) block_bytes: u32,
    pub(crate) queue_depth: u64,
    /// Since the host started.
    pub(crate) total: CountersSnapshot,
    /// Since the previous sample.
    pub(crate) delta: CountersSnapshot,
    /// Seconds between the two samples.
    pub(crate) seconds: f64,
}

impl Row {
    pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
        if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
    }

    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    pub(crate) fn mib_per_second(&self, bytes: u64) -> f64 {
        self.per_second(bytes) / f64::from(1 << 20)
    }

    /// Returns the mean in milliseconds of `count` durations that sum to `ns` nanoseconds.
    pub(crate) fn ms(ns: u64, count: u64) -> f64 {
        Self::ratio(ns, count) / 1e6
    }

    pub(crate) fn read_ms(&self) -> f64 {
        Self::ms(self.delta.read_ns, self.delta.reads)
    }

    pub(crate) fn write_ms(&self) -> f64 {
        Self::ms(self.delta.write_ns, self.delta.writes)
    }

    pub(crate) fn read_queue_ms(&self) -> f64 {
        Self::ms(self.delta.read_queue_ns, self.delta.reads)
    }

    pub(crate) fn write_queue_ms(&self) -> f64 {
        Self::ms(self.delta.write_queue_ns, self.delta.writes)
    }

    /// Returns the mean latency of reads and writes as seen by the guest.
    pub(crate) fn guest_ms(&self) -> f64 {
        Self::ms(self.delta.read_ns + self.delta.write_ns, self.delta.reads + self.delta.writes)
    }

    pub(crate) fn queue_ms(&self) -> f64 {
        Self::ms(self.delta.read_queue_ns + self.delta.write_queue_ns, self.delta.reads + self.delta.writes)
    }
}

/// A path between two samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathRow {
    /// Runtime name.
    pub(crate) name: String,
    /// Name of the device.
    pub(crate) device: String,
    /// Address and port of the target.
    pub(crate) portal: String,
    pub(crate) delta: CountersSnapshot,
    pub(crate) seconds: f64,
}

/// The counters of all devices, paths and processes at one time.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    at: Instant,
    numbers: BTreeMap<String, CountersSnapshot>,
    paths: BTreeMap<String, CountersSnapshot>,
    disks: BTreeMap<String, CountersSnapshot>,
    worlds: Vec<World>,
}

impl Sample {
    /// Reads the counters of a host.
    pub(crate) fn take(host: &EsxiHost) -> Result<Self, HostError> {
        let counters = host.all_counters()?;
        let worlds = host.world_ids()?.into_iter().filter_map(World::take).collect();
        let HostCounters { devices: numbers, paths, virtual_disks: disks } = counters;
        Ok(Self { at: clock::now(), numbers, paths, disks, worlds })
    }

    /// Returns the names of the devices that have counters.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &String> {
        self.numbers.keys()
    }

    /// Returns the rows of all claimed or counted devices since `earlier`, sorted by name.
    pub(crate) fn rows(&self, earlier: &Self, devices: &[DeviceRecord], worlds: u64) -> Vec<Row> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let mut names: Vec<&String> = devices.iter().map(|device| &device.name).chain(self.devices()).collect();
        names.sort();
        names.dedup();
        let row = |name: &String| {
            let record = devices.iter().find(|device| device.name == *name);
            let now = self.numbers.get(name).copied().unwrap_or_default();
            let before = earlier.numbers.get(name).copied().unwrap_or_default();
            Row {
                device: name.clone(),
                paths: record.map_or(0, |device| u64::from(device.adapters) * device.ports.len() as u64),
                worlds,
                block_bytes: record.map_or(512, |device| device.block_bytes),
                queue_depth: record.map_or(0, |device| device.queue_depth as u64),
                total: now,
                delta: now.since(&before),
                seconds,
            }
        };
        names.into_iter().map(row).collect()
    }

    /// Returns the paths of all claimed devices since `earlier`, in the order of their devices.
    pub(crate) fn path_rows(&self, earlier: &Self, devices: &[DeviceRecord], targets: &[String]) -> Vec<PathRow> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let row = |device: &DeviceRecord, (at, name): (usize, String)| {
            let now = self.paths.get(&name).copied().unwrap_or_default();
            let before = earlier.paths.get(&name).copied().unwrap_or_default();
            let port = device.ports.get(at % device.ports.len().max(1));
            let portal =
                port.and_then(|port| port.parse::<Url>().ok()).map_or_else(String::new, |url| url.portal.to_string());
            PathRow { name, device: device.name.clone(), portal, delta: now.since(&before), seconds }
        };
        let names = |device: &DeviceRecord| device.path_names(targets);
        let rows = |device| names(device).into_iter().enumerate().map(move |one| row(device, one));
        devices.iter().flat_map(rows).collect()
    }

    /// Returns the names of the virtual disks of running machines.
    pub(crate) fn virtual_disks(&self) -> impl Iterator<Item = &String> {
        self.disks.keys()
    }

    /// Returns the virtual disks of running machines since `earlier`, sorted by machine.
    pub(crate) fn disk_rows(&self, earlier: &Self) -> Vec<Row> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let row = |(name, now): (&String, &CountersSnapshot)| {
            let before = earlier.disks.get(name).copied().unwrap_or_default();
            Row { device: name.clone(), total: *now, delta: now.since(&before), seconds, ..Row::default() }
        };
        self.disks.iter().map(row).collect()
    }

    /// Returns the processes that use the host.
    pub(crate) fn world_rows(&self, earlier: &Self) -> Vec<WorldRow> {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let before = |world: &World| earlier.worlds.iter().find(|earlier| earlier.id == world.id);
        self.worlds.iter().map(|world| world.clone().since(before(world), seconds)).collect()
    }

    #[cfg(test)]
    pub(crate) fn of(at: Instant, numbers: BTreeMap<String, CountersSnapshot>) -> Self {
        Self { at, numbers, paths: BTreeMap::new(), disks: BTreeMap::new(), worlds: Vec::new() }
    }
}
