//! The counters of all processes of a host, for devices and for paths. Each process writes its own
//! periodically, and adds them to the host's total when it ends. The next reader adds those of a
//! dead process.

use crate::error::HostError;
use crate::files;
use multipath::CountersSnapshot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The counters of devices or paths by name.
pub(crate) type Numbers = BTreeMap<String, CountersSnapshot>;

/// All counters of a process, or of all ended ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostNumbers {
    /// By device name.
    pub(crate) devices: Numbers,
    /// By runtime name of the path. Files of earlier versions have none.
    #[serde(default)]
    pub(crate) paths: Numbers,
    /// By machine and virtual disk, as `web01:scsi0:0`; of running machines only.
    #[serde(default)]
    pub(crate) disks: Numbers,
}

const TOTAL: &str = "total.json";

/// The counters of one process.
#[derive(Debug)]
pub(crate) struct Published {
    directory: PathBuf,
    own: String,
}

impl HostNumbers {
    /// Adds the counters of another process.
    pub(crate) fn add(&mut self, more: &Self) {
        add(&mut self.devices, &more.devices);
        add(&mut self.paths, &more.paths);
        add(&mut self.disks, &more.disks);
    }
}

/// Adds the counters of a process to a sum.
fn add(sum: &mut Numbers, more: &Numbers) {
    for (name, numbers) in more {
        let before = sum.entry(name.clone()).or_default();
        *before = before.plus(numbers);
    }
}

/// Clears the gauges and the virtual disks of a process that has ended: it has no open commands and
/// runs no machine.
fn at_rest(mut numbers: HostNumbers) -> HostNumbers {
    for counters in numbers.devices.values_mut() {
        (counters.active, counters.queued) = (0, 0);
    }
    numbers.disks.clear();
    numbers
}

impl Published {
    /// Creates the counters of this process for the host in `directory`. `number` distinguishes
    /// hosts of one process.
    pub(crate) fn new(directory: &Path, number: u64) -> Result<Self, HostError> {
        let directory = directory.join("stats");
        platform::files::create_directory(&directory).map_err(files::failed(&directory))?;
        Ok(Self { directory, own: format!("{}-{number:x}.json", std::process::id()) })
    }

    fn own_path(&self) -> PathBuf {
        self.directory.join(&self.own)
    }

    /// Writes the counters of this process.
    pub(crate) fn publish(&self, numbers: &HostNumbers) -> Result<(), HostError> {
        files::store_volatile(&self.own_path(), numbers)
    }

    /// Adds the counters of this process to the total and removes its file.
    pub(crate) fn finish(&self, numbers: HostNumbers) -> Result<(), HostError> {
        let _lock = files::lock(&self.directory)?;
        self.add_to_total(&at_rest(numbers))?;
        platform::files::remove(&self.own_path()).map_err(files::failed(&self.own_path()))
    }

    fn total(&self) -> Result<HostNumbers, HostError> {
        Ok(files::load(&self.directory.join(TOTAL))?.unwrap_or_default())
    }

    fn add_to_total(&self, numbers: &HostNumbers) -> Result<(), HostError> {
        let mut total = self.total()?;
        total.add(numbers);
        files::store(&self.directory.join(TOTAL), &total)
    }

    /// Returns the ids of other running processes.
    pub(crate) fn living(&self) -> Result<Vec<u32>, HostError> {
        let names = platform::files::names(&self.directory).map_err(files::failed(&self.directory))?;
        let others = names.iter().filter(|name| **name != self.own);
        Ok(others.filter_map(|name| process_of(name)).filter(|process| is_alive(*process)).collect())
    }

    /// Returns the counters of all other processes, including ended ones.
    pub(crate) fn others(&self) -> Result<HostNumbers, HostError> {
        let _lock = files::lock(&self.directory)?;
        let mut living = HostNumbers::default();
        for name in platform::files::names(&self.directory).map_err(files::failed(&self.directory))? {
            let Some(process) = process_of(&name).filter(|_| name != self.own) else { continue };
            let path = self.directory.join(&name);
            let Some(numbers) = files::load::<HostNumbers>(&path)? else { continue };
            if is_alive(process) {
                living.add(&numbers);
            } else {
                self.add_to_total(&at_rest(numbers))?;
                platform::files::remove(&path).map_err(files::failed(&path))?;
            }
        }
        let mut all = self.total()?;
        all.add(&living);
        Ok(all)
    }
}

/// Returns the process id in the name of a counters file.
fn process_of(name: &str) -> Option<u32> {
    name.strip_suffix(".json")?.split_once('-')?.0.parse().ok()
}

/// Returns whether the process is running. Without /proc, every process counts as running.
fn is_alive(process: u32) -> bool {
    let exists = |path: String| platform::files::exists(Path::new(&path)).unwrap_or(true);
    exists(format!("/proc/{process}")) || !exists("/proc/self".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::TemporaryDirectory;

    fn numbers(reads: u64, active: u64) -> HostNumbers {
        let counters = CountersSnapshot { reads, active, ..CountersSnapshot::default() };
        let path = CountersSnapshot { reads, ..CountersSnapshot::default() };
        HostNumbers {
            devices: [("naa.1".to_owned(), counters)].into(),
            paths: [("vmhba64:C0:T0:L1".to_owned(), path)].into(),
            disks: Numbers::new(),
        }
    }

    #[test]
    fn counters_of_processes_add_up_once() {
        let directory = TemporaryDirectory::new(None, "stats").unwrap();
        let one = Published::new(directory.path(), 1).unwrap();
        let two = Published::new(directory.path(), 2).unwrap();
        one.publish(&numbers(3, 2)).unwrap();
        two.publish(&numbers(4, 1)).unwrap();
        let reader = Published::new(directory.path(), 3).unwrap();
        assert_eq!(reader.others().unwrap(), numbers(7, 3));
        assert_eq!(one.others().unwrap(), numbers(4, 1));
        assert_eq!((one.living().unwrap().len(), reader.living().unwrap()), (1, vec![std::process::id(); 2]));
        one.finish(numbers(5, 2)).unwrap();
        assert_eq!(reader.others().unwrap(), numbers(9, 1));
        two.finish(numbers(4, 0)).unwrap();
        assert_eq!(reader.others().unwrap(), numbers(9, 0));
    }

    #[test]
    fn virtual_disks_are_those_of_living_processes() {
        let directory = TemporaryDirectory::new(None, "stats").unwrap();
        let one = Published::new(directory.path(), 1).unwrap();
        let with_disk = |reads| HostNumbers { disks: numbers(reads, 0).devices, ..numbers(reads, 0) };
        one.publish(&with_disk(3)).unwrap();
        let reader = Published::new(directory.path(), 2).unwrap();
        assert_eq!(reader.others().unwrap(), with_disk(3));
        one.finish(with_disk(4)).unwrap();
        assert_eq!(reader.others().unwrap(), numbers(4, 0));
    }

    #[test]
    fn file_without_paths_is_read() {
        let old = serde_json::to_string(&numbers(3, 1)).unwrap();
        let old = format!("{{\"devices\":{}}}", &old[old.find("{\"naa").unwrap()..old.find(",\"paths").unwrap()]);
        let read: HostNumbers = serde_json::from_str(&old).unwrap();
        assert_eq!((read.devices, read.paths), (numbers(3, 1).devices, Numbers::new()));
    }

    #[test]
    fn dead_process_is_added_to_the_total_once() {
        let directory = TemporaryDirectory::new(None, "stats").unwrap();
        // No process has this id: Linux's maximum is 2^22.
        let dead = Published { own: "4294967294-0.json".into(), ..Published::new(directory.path(), 0).unwrap() };
        dead.publish(&numbers(3, 9)).unwrap();
        let reader = Published::new(directory.path(), 1).unwrap();
        assert_eq!(reader.others().unwrap(), numbers(3, 0));
        assert_eq!(reader.others().unwrap(), numbers(3, 0));
        assert!(!platform::files::exists(&dead.own_path()).unwrap());
    }
}
