//! Snapshots of machines, and linked clones: disks of changes above frozen disks. The machine's
//! `.vmsd` lists its snapshots.
//!
//! A disk of changes has the blocks that were written since; it gets a block with the content of
//! its parent before the first write to it.

use super::VirtualMachine;
use crate::descriptor::{Descriptor, MAX_DESCRIPTOR_BYTES};
use crate::disk::{Progress, VirtualDisk, parent_path};
use crate::error::{Result, VirtualDiskError};
use datastore::{Datastore, FileKind};
use std::fmt::Write as _;

/// Maximum number of snapshots of a machine, as on ESXi.
const MAX_SNAPSHOTS: usize = 32;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Name for display.
    pub name: String,
    /// Names of the frozen disks, in the order of the SCSI targets.
    pub disks: Vec<String>,
}

fn refused(text: impl Into<String>) -> VirtualDiskError {
    VirtualDiskError::Snapshots(text.into())
}

impl VirtualMachine {
    fn vmsd_path(&self) -> String {
        self.path(&format!("{}.vmsd", self.name))
    }

    /// Returns the snapshots, the oldest first.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        if !self.store.exists(&self.vmsd_path()).await? {
            return Ok(Vec::new());
        }
        let text = self.store.read_text(&self.vmsd_path()).await?;
        let value = |key: &str| {
            let mut assigned = text.lines().filter_map(|line| line.split_once('='));
            assigned.find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().trim_matches('"').to_owned())
        };
        let count = value("snapshot.numSnapshots").and_then(|count| count.parse().ok()).unwrap_or(0);
        let snapshot = |number: usize| Snapshot {
            name: value(&format!("snapshot{number}.displayName")).unwrap_or_default(),
            disks: (0..16).map_while(|disk| value(&format!("snapshot{number}.disk{disk}.fileName"))).collect(),
        };
        Ok((0..count).take(MAX_SNAPSHOTS).map(snapshot).collect())
    }

    async fn write_snapshots(&self, snapshots: &[Snapshot]) -> Result<()> {
        let count = snapshots.len();
        let mut text =
            format!(".encoding = \"UTF-8\"\nsnapshot.lastUID = \"{count}\"\nsnapshot.current = \"{count}\"\n");
        for (number, snapshot) in snapshots.iter().enumerate() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "snapshot{number}.uid = \"{}\"", number + 1);
            let _ = writeln!(text, "snapshot{number}.displayName = \"{}\"", snapshot.name);
            let _ = writeln!(text, "snapshot{number}.numDisks = \"{}\"", snapshot.disks.len());
            for (disk, file) in snapshot.disks.iter().enumerate() {
                let _ = writeln!(text, "snapshot{number}.disk{disk}.fileName = \"{file}\"");
                let _ = writeln!(text, "snapshot{number}.disk{disk}.node = \"scsi0:{disk}\"");
            }
        }
        let _ = writeln!(text, "snapshot.numSnapshots = \"{count}\"");
        self.store.write_text(&self.vmsd_path(), &text).await
    }

    /// Fails if linked clones need disks of this machine.
    pub(crate) async fn refuse_dependents(&self) -> Result<()> {
        match dependents(self).await?.first() {
            None => Ok(()),
            Some(clone) => {
                Err(refused(format!("the linked clone '{clone}' needs disks of this machine; destroy it first")))
            }
        }
    }

    /// Runs a change of the powered-off machine, which cannot be powered on during it.
    async fn change_off<T>(&self, change: impl Future<Output = Result<T>>) -> Result<T> {
        let lock = self.lock().await?;
        let delay = self.datastore().delay_unmount();
        let changed = change.await;
        drop(delay);
        self.datastore().remove_open(&self.lock_path(), lock).await?;
        changed
    }

    /// Takes a snapshot of the powered-off machine: its disks are frozen, and changes go to new
    /// disks.
    pub async fn take_snapshot(&mut self, name: &str) -> Result<()> {
        if name.is_empty() || name.contains(['"', '\n', '=']) || name.len() > 80 {
            return Err(refused("a snapshot's name has 1 to 80 characters without quotes and '='"));
        }
        let mut snapshots = self.snapshots().await?;
        if snapshots.len() >= MAX_SNAPSHOTS {
            return Err(refused(format!("the machine has {MAX_SNAPSHOTS} snapshots; remove them first")));
        }
        let frozen = self.vmx.disks.clone();
        snapshots.push(Snapshot { name: name.to_owned(), disks: frozen.clone() });
        self.change_off(async {
            let after = self.above(&frozen).await?;
            after.store.write_text(&after.vmx_path(), &after.vmx.to_string()).await?;
            after.write_snapshots(&snapshots).await?;
            Ok(after)
        })
        .await
        .map(|after| *self = after)
    }

    /// Returns this machine with empty disks of changes to these, which it creates.
    async fn above(&self, parents: &[String]) -> Result<Self> {
        let names: Vec<String> = self.datastore().list(&self.name).await?.into_iter().map(|entry| entry.name).collect();
        let is_free = |number: &usize| !names.iter().any(|name| name.contains(&delta_suffix(*number)));
        let number = (1..).find(is_free).unwrap_or_default();
        let mut after = self.clone();
        after.vmx.disks.clear();
        for (index, parent) in parents.iter().enumerate() {
            let name = self.disk_name(index);
            let name = format!("{}{}.vmdk", name.trim_end_matches(".vmdk"), delta_suffix(number));
            after.make_delta(&name, parent).await?;
            after.vmx.disks.push(name);
        }
        Ok(after)
    }

    /// Creates an empty disk of changes to `parent`, as named in a descriptor.
    async fn make_delta(&self, disk: &str, parent: &str) -> Result<()> {
        let path = self.path(disk);
        let bytes = self.descriptor(&parent_path(&path, parent)).await?.bytes();
        VirtualDisk::create_delta(self.datastore(), &path, (parent, bytes), self.settings).await
    }

    async fn descriptor(&self, path: &str) -> Result<Descriptor> {
        self.store.read_descriptor(path).await
    }

    /// Returns the names of a disk and of its parents in the machine's directory.
    async fn chain(&self, disk: &str) -> Result<Vec<String>> {
        let mut chain = vec![disk.to_owned()];
        while let Some(last) = chain.last()
            && let Some(parent) = self.descriptor(&self.path(last)).await?.parent
            && !parent.starts_with('/')
            && chain.len() <= MAX_SNAPSHOTS
        {
            chain.push(parent);
        }
        Ok(chain)
    }

    /// Discards all changes since the newest snapshot.
    pub async fn revert(&mut self) -> Result<()> {
        let newest = self.snapshots().await?.pop().ok_or_else(|| refused("the machine has no snapshot"))?;
        let discarded = self.vmx.disks.clone();
        self.change_off(async {
            let after = self.above(&newest.disks).await?;
            after.store.write_text(&after.vmx_path(), &after.vmx.to_string()).await?;
            for disk in discarded.iter().filter(|disk| !newest.disks.contains(disk)) {
                VirtualDisk::delete(self.datastore(), &self.path(disk)).await?;
            }
            Ok(after)
        })
        .await
        .map(|after| *self = after)
    }

    /// Removes all snapshots: writes the changes to the disks that were frozen first.
    ///
    /// # Errors
    /// [`VirtualDiskError::Snapshots`] if there are none, or if linked clones need them.
    pub async fn remove_snapshots(&mut self, progress: Progress<'_>) -> Result<()> {
        self.refuse_dependents().await?;
        let mut chains = Vec::new();
        for disk in &self.vmx.disks {
            chains.push(self.chain(disk).await?);
        }
        if chains.iter().all(|chain| chain.len() == 1) && !self.has_snapshots().await? {
            return Err(refused("the machine has no snapshot"));
        }
        let mut after = self.clone();
        after.vmx.disks = chains.iter().filter_map(|chain| chain.last().cloned()).collect();
        self.change_off(async {
            // First the list, because merging changes the contents of the frozen disks. An
            // interrupted removal can be repeated: the changes stay until all are merged.
            after.write_snapshots(&[]).await?;
            for (chain, base) in chains.iter().zip(&after.vmx.disks) {
                for disk in chain.iter().rev().skip(1) {
                    let paths = (&*self.path(disk), &*self.path(base));
                    VirtualDisk::merge(self.datastore(), paths, self.settings, progress).await?;
                }
            }
            after.store.write_text(&after.vmx_path(), &after.vmx.to_string()).await?;
            for chain in &chains {
                for disk in &chain[..chain.len() - 1] {
                    VirtualDisk::delete(self.datastore(), &self.path(disk)).await?;
                }
            }
            Ok(())
        })
        .await?;
        *self = after;
        Ok(())
    }

    /// Creates a machine on the same datastore whose disks are changes to those of the newest
    /// snapshot, or to those of a template.
    pub async fn link(&self, name: &str) -> Result<Self> {
        let snapshot = self.snapshots().await?.pop();
        let frozen = match snapshot {
            Some(snapshot) => snapshot.disks,
            None if self.vmx.template => self.vmx.disks.clone(),
            None => return Err(refused("a linked clone needs a snapshot of the machine, or a template")),
        };
        let mut copy = self.copy_named(self.datastore(), name).await?;
        let made = async {
            for (index, parent) in frozen.iter().enumerate() {
                let disk = copy.disk_name(index);
                let parent = format!("/{}", parent_path(&self.vmx_path(), parent));
                copy.make_delta(&disk, &parent).await?;
                copy.vmx.disks.push(disk);
            }
            copy.write_new().await
        };
        match made.await {
            Ok(()) => {
                copy.keep();
                Ok(copy)
            }
            Err(error) => {
                copy.discard().await;
                Err(error)
            }
        }
    }
}

/// Returns the end of the names of disks of changes, before their extensions.
fn delta_suffix(number: usize) -> String {
    format!("-{number:06}")
}

/// Returns the machines on the datastore with disks of changes to disks of a machine.
async fn dependents(machine: &VirtualMachine) -> Result<Vec<String>> {
    let (datastore, own) = (machine.datastore(), format!("/{}/", machine.name));
    let mut found = Vec::new();
    for directory in datastore.list("/").await? {
        if directory.kind == FileKind::Directory
            && directory.name != machine.name
            && has_parent(datastore, machine, &directory.name, &own).await?
        {
            found.push(directory.name);
        }
    }
    Ok(found)
}

/// Returns whether a file is small enough for a descriptor. Hosted sparse files, which another host
/// may have open, are larger.
async fn has_size(machine: &VirtualMachine, path: &str) -> Result<bool> {
    match machine.store.size(path).await {
        Err(VirtualDiskError::Datastore(datastore::DatastoreError::NotFound)) => Ok(false),
        size => Ok(size? <= MAX_DESCRIPTOR_BYTES as u64),
    }
}

/// Returns whether a disk in a directory has a parent below `own`.
async fn has_parent(datastore: &Datastore, machine: &VirtualMachine, directory: &str, own: &str) -> Result<bool> {
    let gone = |error: VirtualDiskError| match error {
        // Another host is changing the directory, or the file is no descriptor.
        VirtualDiskError::Datastore(datastore::DatastoreError::NotFound) | VirtualDiskError::NotText(_) => {
            Ok(String::new())
        }
        error => Err(error),
    };
    for entry in datastore.list(directory).await? {
        let is_descriptor = entry.name.ends_with(".vmdk")
            && !["-flat.vmdk", "-delta.vmdk", "-rdm.vmdk"].iter().any(|end| entry.name.ends_with(end));
        if is_descriptor && has_size(machine, &format!("{directory}/{}", entry.name)).await? {
            let text = machine.store.read_text(&format!("{directory}/{}", entry.name)).await.or_else(gone)?;
            if Descriptor::parse(&text).is_ok_and(|d| d.parent.is_some_and(|parent| parent.starts_with(own))) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
