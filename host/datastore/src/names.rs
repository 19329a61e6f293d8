//! Resolves paths, and changes directories.

use crate::layout::descriptor::{Descriptor, FileKind, ROOT_DIRECTORY};
use crate::layout::geometry::Resource;
use crate::layout::lock::{Guarded, Kind};
use crate::layout::page::Entry;
use crate::mounted::Mounted;
use crate::path;
use crate::transaction::{Hold, Transaction};
use crate::tree::{Directory, FileId, Node, read_descriptor, sector_of};
use crate::{DatastoreError, Result};
use std::sync::Arc;

/// Attempts to read a changing directory before locking it.
const READ_TRIES: u32 = 8;

/// Resolves a path to a file or directory.
pub(crate) async fn find(mounted: &Arc<Mounted>, path: &str) -> Result<(FileId, FileKind)> {
    find_names(mounted, &path::names(path)?).await
}

async fn find_names(mounted: &Arc<Mounted>, names: &[&str]) -> Result<(FileId, FileKind)> {
    let mut here = (root(mounted).await?, FileKind::Directory);
    for name in names {
        if here.1 != FileKind::Directory {
            return Err(DatastoreError::NotADirectory);
        }
        let directory = read_directory(mounted, here.0).await?;
        let entry = directory.find(name).ok_or(DatastoreError::NotFound)?;
        here = (FileId { descriptor: entry.descriptor, id: entry.file_id }, entry.kind);
    }
    Ok(here)
}

/// Reads a directory without a lock: its descriptor is unlocked and unchanged before and after. A
/// directory that stays locked is read under its lock, so that the lock of a dead host is broken.
pub(crate) async fn read_directory(mounted: &Arc<Mounted>, file: FileId) -> Result<Directory> {
    let mut backoff = mounted.io.backoff();
    for _ in 0..READ_TRIES {
        let before = directory_descriptor(mounted, file).await?;
        if before.lock().owner().is_none() {
            let directory = Directory::read(&mounted.io, &mounted.superblock, file.descriptor, &before).await;
            if directory_descriptor(mounted, file).await? == before {
                return directory;
            }
        }
        backoff.pause().await;
    }
    let work = move |mounted: Arc<Mounted>| async move {
        let read = || async {
            let mut transaction = Transaction::begin(&mounted).await?;
            let read = lock_directory(&mut transaction, file).await;
            transaction.finish(read).await
        };
        mounted.retry_while_busy(read).await
    };
    mounted.run_detached(work).await.map(|(_, directory)| directory)
}

async fn directory_descriptor(mounted: &Mounted, file: FileId) -> Result<Descriptor> {
    let descriptor = read_descriptor(&mounted.io, &mounted.superblock, file.descriptor).await?;
    match descriptor.kind() {
        Some(FileKind::Directory) if descriptor.file_id.get() == file.id => Ok(descriptor),
        Some(FileKind::File) if descriptor.file_id.get() == file.id => Err(DatastoreError::NotADirectory),
        _ => Err(DatastoreError::NotFound),
    }
}

/// Creates a file or directory. A new file stays locked by this mount.
pub(crate) async fn make(mounted: &Arc<Mounted>, path: &str, kind: FileKind) -> Result<FileId> {
    let (parents, name) = path::split(path)?;
    let (parent, _) = find_names(mounted, &parents).await?;
    let mut transaction = Transaction::begin(mounted).await?;
    let made = make_in(&mut transaction, parent, name, kind).await;
    transaction.finish(made).await
}

async fn make_in(transaction: &mut Transaction, parent: FileId, name: &str, kind: FileKind) -> Result<FileId> {
    let (mut node, mut directory) = lock_directory(transaction, parent).await?;
    if directory.find(name).is_some() {
        return Err(DatastoreError::Exists);
    }
    let index = transaction.take_all(Resource::Descriptors, 1).await?[0];
    let sector = sector_of(&transaction.mounted.superblock, index)?;
    let guard = transaction.lock(sector).await?;
    let mut descriptor: Descriptor = transaction.view(guard, Kind::Descriptor, index)?;
    if descriptor.kind().is_some() {
        return Err(DatastoreError::Damaged { what: "descriptor that should be free", sector });
    }
    descriptor.begin(kind, parent.descriptor, transaction.mounted.io.runtime.unix_millis());
    transaction.set(guard, &descriptor);
    transaction.keep(guard, kind == FileKind::File);
    let file = FileId { descriptor: index, id: descriptor.file_id.get() };
    let entry = Entry { descriptor: index, file_id: file.id, kind, name: name.to_owned() };
    node.add(transaction, &mut directory, entry).await?;
    Ok(file)
}

/// Removes an empty directory, or a file without blocks that a handle of this mount has open for
/// writing. The handle's lock ends with the file.
pub(crate) async fn remove(mounted: &Arc<Mounted>, path: &str, file: FileId) -> Result<()> {
    let (parents, name) = path::split(path)?;
    let (parent, _) = find_names(mounted, &parents).await?;
    let mut transaction = Transaction::begin(mounted).await?;
    let removed = remove_in(&mut transaction, parent, name, file).await;
    transaction.finish(removed).await
}

async fn remove_in(transaction: &mut Transaction, parent: FileId, name: &str, file: FileId) -> Result<()> {
    let (mut node, mut directory) = lock_directory(transaction, parent).await?;
    let entry = directory.find(name).ok_or(DatastoreError::NotFound)?;
    if (entry.descriptor, entry.file_id) != (file.descriptor, file.id) {
        return Err(DatastoreError::NotFound);
    }
    let sector = sector_of(&transaction.mounted.superblock, file.descriptor)?;
    let guard = transaction.lock(sector).await?;
    transaction.keep(guard, false);
    let mut victim = Node::of(transaction, guard, file)?;
    if victim.descriptor.kind() == Some(FileKind::Directory) {
        let content = victim.directory(transaction).await?;
        if !content.is_empty() {
            return Err(DatastoreError::NotEmpty);
        }
        let mut map = content.map;
        let end = map.end();
        transaction.free_items(Resource::Pages, &map.punch(0..end)).await?;
        victim.store(transaction, &mut map).await?;
    } else if victim.descriptor.leaves.get() > 0 {
        // A task wrote to the file through its handle after it was emptied.
        return Err(transaction.mounted.locked_by(transaction.mounted.owner()).await);
    }
    victim.descriptor.end();
    victim.put(transaction);
    transaction.free_items(Resource::Descriptors, &[(file.descriptor, 1)]).await?;
    node.remove(transaction, &mut directory, name)
}

/// Renames an entry.
pub(crate) async fn rename(mounted: &Arc<Mounted>, from: &str, to: &str) -> Result<()> {
    let ((from_parents, from_name), (to_parents, to_name)) = (path::split(from)?, path::split(to)?);
    let (source, _) = find_names(mounted, &from_parents).await?;
    let (target, _) = find_names(mounted, &to_parents).await?;
    let mut transaction = Transaction::begin(mounted).await?;
    let renamed = if source == target {
        rename_within(&mut transaction, source, from_name, to_name).await
    } else {
        rename_across(&mut transaction, (source, from_name), (target, to_name)).await
    };
    transaction.finish(renamed).await
}

async fn rename_within(transaction: &mut Transaction, parent: FileId, from: &str, to: &str) -> Result<()> {
    let (mut node, mut directory) = lock_directory(transaction, parent).await?;
    let entry = directory.find(from).cloned().ok_or(DatastoreError::NotFound)?;
    if from == to {
        return Ok(());
    }
    if directory.find(to).is_some() {
        return Err(DatastoreError::Exists);
    }
    node.remove(transaction, &mut directory, from)?;
    node.add(transaction, &mut directory, Entry { name: to.to_owned(), ..entry }).await
}

async fn rename_across(transaction: &mut Transaction, from: (FileId, &str), to: (FileId, &str)) -> Result<()> {
    let (mut source, mut left) = lock_directory(transaction, from.0).await?;
    let (mut target, mut entered) = lock_directory(transaction, to.0).await?;
    let entry = left.find(from.1).cloned().ok_or(DatastoreError::NotFound)?;
    if entered.find(to.1).is_some() {
        return Err(DatastoreError::Exists);
    }
    // Two hosts that move directories into each other would create a cycle without a parent.
    if entry.kind == FileKind::Directory {
        return Err(DatastoreError::IsADirectory);
    }
    let file = FileId { descriptor: entry.descriptor, id: entry.file_id };
    let sector = sector_of(&transaction.mounted.superblock, file.descriptor)?;
    let guard = transaction.lock_file(sector, Hold::Transaction).await?;
    let mut moved = Node::of(transaction, guard, file)?;
    moved.descriptor.parent = to.0.descriptor.into();
    moved.put(transaction);
    source.remove(transaction, &mut left, from.1)?;
    target.add(transaction, &mut entered, Entry { name: to.1.to_owned(), ..entry }).await
}

/// Returns the root directory.
async fn root(mounted: &Mounted) -> Result<FileId> {
    let descriptor = read_descriptor(&mounted.io, &mounted.superblock, ROOT_DIRECTORY).await?;
    Ok(FileId { descriptor: ROOT_DIRECTORY, id: descriptor.file_id.get() })
}

/// Locks a file or directory for a change of metadata.
async fn lock_node(transaction: &mut Transaction, file: FileId) -> Result<Node> {
    let sector = sector_of(&transaction.mounted.superblock, file.descriptor)?;
    let guard = transaction.lock(sector).await?;
    Node::of(transaction, guard, file)
}

/// Locks a directory and reads its entries.
async fn lock_directory(transaction: &mut Transaction, file: FileId) -> Result<(Node, Directory)> {
    let node = lock_node(transaction, file).await?;
    let directory = node.directory(transaction).await?;
    Ok((node, directory))
}
