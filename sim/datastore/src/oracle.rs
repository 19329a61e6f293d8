//! The oracle: tracks the owners of files and the acknowledged data, and detects violations.

use datastore::Datastore;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Id of a host process: one incarnation of a host.
pub(crate) type ProcessId = u32;

/// State of one shared file.
#[derive(Default)]
struct Shared {
    /// Process that opened it last.
    last: ProcessId,
    /// Process that has it open, and its mount.
    holder: Option<(ProcessId, Datastore)>,
    /// Stamp last acknowledged, or read by the exclusive owner.
    stamp: u64,
    /// Later stamps that were sent, with unknown outcome.
    in_doubt_stamps: Vec<u64>,
}

#[derive(Default)]
struct State {
    files: Vec<Shared>,
    /// File by the sector of its data.
    places: BTreeMap<u64, usize>,
    /// Whether each name must exist. Names in doubt are absent.
    names: BTreeMap<String, bool>,
    violation: Option<String>,
    stamps: u64,
}

impl State {
    /// Returns whether a process still has the file that it opened. Records a violation if it lost
    /// the file while its lease is valid.
    fn still_owns(&mut self, file: usize, process: ProcessId, mount: &Datastore) -> bool {
        let last = self.files[file].last;
        if last != process && mount.is_alive() {
            let violation = format!(
                "two owners: process {last} opened file {file} while process {process} has a valid lease on it"
            );
            self.violation.get_or_insert(violation);
        }
        last == process
    }
}

/// Tracks the state of a run and records violations.
#[derive(Default)]
pub(crate) struct Oracle(Mutex<State>);

impl Oracle {
    /// Records a violation. Only the first one counts.
    pub(crate) fn record_violation(&self, violation: String) {
        self.0.lock().violation.get_or_insert(violation);
    }

    /// Returns the first violation.
    pub(crate) fn violation(&self) -> Option<String> {
        self.0.lock().violation.clone()
    }

    /// Adds a shared file with the sector of its data.
    pub(crate) fn add_file(&self, lba: u64) {
        let mut state = self.0.lock();
        let file = state.files.len();
        state.places.insert(lba, file);
        state.files.push(Shared::default());
    }

    /// Returns the sector of the data of a shared file.
    pub(crate) fn lba(&self, file: usize) -> Option<u64> {
        self.0.lock().places.iter().find(|(_, found)| **found == file).map(|(lba, _)| *lba)
    }

    /// Records that a process has opened a file for writing. A previous owner must not have a valid
    /// lease.
    pub(crate) fn acquired(&self, file: usize, process: ProcessId, datastore: &Datastore) {
        let mut state = self.0.lock();
        let shared = &mut state.files[file];
        let other = shared.holder.replace((process, datastore.clone()));
        shared.last = process;
        if let Some((other, mount)) = other
            && other != process
            && mount.is_alive()
        {
            let violation = format!(
                "two owners: process {process} opened file {file} while process {other} has a valid lease on it"
            );
            state.violation.get_or_insert(violation);
        }
    }

    /// Records that a process is about to close a file.
    pub(crate) fn releasing(&self, file: usize, process: ProcessId) {
        let mut state = self.0.lock();
        let shared = &mut state.files[file];
        if shared.holder.as_ref().is_some_and(|(holder, _)| *holder == process) {
            shared.holder = None;
        }
    }

    /// Records that a process was killed: it holds nothing any more.
    pub(crate) fn killed(&self, process: ProcessId) {
        let mut state = self.0.lock();
        let of_dead = |shared: &&mut Shared| shared.holder.as_ref().is_some_and(|(holder, _)| *holder == process);
        let mounts: Vec<_> = state.files.iter_mut().filter(of_dead).map(|shared| shared.holder.take()).collect();
        drop(state);
        drop(mounts);
    }

    /// Records that data was written to a sector of the disk.
    pub(crate) fn written(&self, process: ProcessId, lba: u64) {
        let mut state = self.0.lock();
        let Some(file) = state.places.get(&lba).copied() else { return };
        let last = state.files[file].last;
        if last != process && last != 0 {
            let violation =
                format!("late write: process {process} wrote to file {file} after process {last} had opened it");
            state.violation.get_or_insert(violation);
        }
    }

    /// Checks the stamp that a process found in a file after it opened it exclusively. Ignores the
    /// stamp if the process was paused after the read and has lost the file since.
    pub(crate) fn found(&self, file: usize, process: ProcessId, mount: &Datastore, stamp: u64) {
        let mut state = self.0.lock();
        if !state.still_owns(file, process, mount) {
            return;
        }
        let shared = &mut state.files[file];
        let expected = stamp == shared.stamp || shared.in_doubt_stamps.contains(&stamp);
        let wanted = shared.stamp;
        shared.stamp = stamp;
        shared.in_doubt_stamps.clear();
        if !expected {
            let violation = format!("lost write: file {file} holds stamp {stamp}, but stamp {wanted} was acknowledged");
            state.violation.get_or_insert(violation);
        }
    }

    /// Returns a new stamp for a write. A process that has lost the file writes in vain.
    pub(crate) fn sending(&self, file: usize, process: ProcessId, mount: &Datastore) -> u64 {
        let mut state = self.0.lock();
        state.stamps += 1;
        let stamp = state.stamps;
        if state.still_owns(file, process, mount) {
            state.files[file].in_doubt_stamps.push(stamp);
        }
        stamp
    }

    /// Records that a stamp was acknowledged. Ignored if the process has lost the file since.
    pub(crate) fn acknowledged(&self, file: usize, process: ProcessId, mount: &Datastore, stamp: u64) {
        let mut state = self.0.lock();
        if state.still_owns(file, process, mount) {
            let shared = &mut state.files[file];
            shared.stamp = stamp;
            shared.in_doubt_stamps.clear();
        }
    }

    /// Records that the outcome of a change of a name is unknown.
    pub(crate) fn name_in_doubt(&self, name: &str) {
        self.0.lock().names.remove(name);
    }

    /// Returns whether it is unknown if a name exists.
    pub(crate) fn is_in_doubt(&self, name: &str) -> bool {
        !self.0.lock().names.contains_key(name)
    }

    /// Records that a name exists or not, after an acknowledged change.
    pub(crate) fn name_is(&self, name: &str, there: bool) {
        self.0.lock().names.insert(name.to_owned(), there);
    }

    /// Compares the names with the final content of a directory.
    pub(crate) fn check_names(&self, found: &[String]) {
        let names = self.0.lock().names.clone();
        for (name, there) in names {
            if found.contains(&name) != there {
                let verb = if there { "is missing" } else { "exists" };
                self.record_violation(format!("lost change: '{name}' {verb}, although the change was acknowledged"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datastore::{FormatOptions, Mode, MountOptions, Runtime, TokioRuntime};
    use multipath::{MemoryArray, SharedDisk};
    use std::sync::Arc;

    async fn mounted(disk: &Arc<dyn SharedDisk>, name: &str) -> Datastore {
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
        Datastore::mount(Arc::clone(disk), &MountOptions::new(name), runtime).await.unwrap()
    }

    async fn formatted() -> Arc<dyn SharedDisk> {
        let array = MemoryArray::new("iqn.2026-11.test:oracle");
        let disk: Arc<dyn SharedDisk> = Arc::new(array.open(&array.create(1 << 20), "one").unwrap());
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
        Datastore::format(&disk, &FormatOptions::new("simulated", Mode::V6), &runtime).await.unwrap();
        disk
    }

    #[tokio::test]
    async fn stamps_of_a_former_owner_are_ignored() {
        let disk = formatted().await;
        let (gone, alive) = (mounted(&disk, "one").await, mounted(&disk, "two").await);
        gone.unmount().await.unwrap();
        let oracle = Oracle::default();
        oracle.add_file(8);
        oracle.acquired(0, 1, &gone);
        let first = oracle.sending(0, 1, &gone);
        oracle.acknowledged(0, 1, &gone, first);
        oracle.acquired(0, 2, &alive);
        oracle.found(0, 2, &alive, first);
        let second = oracle.sending(0, 2, &alive);
        oracle.acknowledged(0, 2, &alive, second);
        oracle.found(0, 1, &gone, first);
        let vain = oracle.sending(0, 1, &gone);
        oracle.acknowledged(0, 1, &gone, first);
        oracle.found(0, 2, &alive, second);
        assert_eq!(oracle.violation(), None);
        oracle.found(0, 2, &alive, vain);
        assert!(oracle.violation().unwrap().starts_with("lost write: file 0 holds stamp 3"));
    }

    #[tokio::test]
    async fn former_owner_with_a_valid_lease_is_a_violation() {
        let disk = formatted().await;
        let (one, two) = (mounted(&disk, "one").await, mounted(&disk, "two").await);
        let tells: [fn(&Oracle, &Datastore); 3] = [
            |oracle, mount| oracle.found(0, 1, mount, 0),
            |oracle, mount| {
                oracle.sending(0, 1, mount);
            },
            |oracle, mount| oracle.acknowledged(0, 1, mount, 0),
        ];
        for on_progress in tells {
            let oracle = Oracle::default();
            oracle.add_file(8);
            oracle.acquired(0, 1, &one);
            oracle.releasing(0, 1);
            oracle.acquired(0, 2, &two);
            assert_eq!(oracle.violation(), None);
            on_progress(&oracle, &one);
            assert!(oracle.violation().unwrap().starts_with("two owners"));
        }
    }
}
