//! Descriptors with their maps and directories with their entries, on disk and within a
//! transaction.

use crate::io::Io;
use crate::layout::descriptor::{Descriptor, FileKind};
use crate::layout::geometry::Resource;
use crate::layout::lock::{Guarded, Kind};
use crate::layout::page::{self, ENTRIES, Entry, PageId};
use crate::layout::superblock::Superblock;
use crate::layout::{PAGE_BYTES, PAGE_SECTORS};
use crate::map::Map;
use crate::transaction::{GuardId, Transaction};
use crate::{DatastoreError, Result};
use bytes::Bytes;

/// Maximum pages per read.
const PAGES_AT_ONCE: usize = 256;

/// Identity of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    /// Descriptor number.
    pub(crate) descriptor: u32,
    /// Identity among all files that have used the descriptor.
    pub(crate) id: u64,
}

/// Reads a descriptor.
pub(crate) async fn read_descriptor(io: &Io, superblock: &Superblock, index: u32) -> Result<Descriptor> {
    let sector = sector_of(superblock, index)?;
    let image = io.read_image(sector).await?;
    let descriptor = Descriptor::decode(&image, Kind::Descriptor, index, superblock.uuid);
    descriptor.ok_or(DatastoreError::Damaged { what: "file descriptor", sector })
}

/// Returns the sector of a descriptor.
pub(crate) fn sector_of(superblock: &Superblock, index: u32) -> Result<u64> {
    let sector = superblock.geometry.descriptor_sector(index);
    if index < superblock.geometry.descriptors {
        Ok(sector)
    } else {
        Err(DatastoreError::Damaged { what: "pointer", sector })
    }
}

/// Reads pages in the order of `pages`; adjacent ones with one command.
async fn read_pages(io: &Io, superblock: &Superblock, pages: &[u32]) -> Result<Vec<Bytes>> {
    let geometry = &superblock.geometry;
    let mut read = Vec::with_capacity(pages.len());
    let mut rest = pages;
    while let Some(first) = rest.first().copied() {
        let follows = |(at, page): &(usize, &u32)| **page == first.saturating_add(*at as u32);
        let count = rest.iter().enumerate().take(PAGES_AT_ONCE).take_while(follows).count();
        let sector = geometry.page_sector(first);
        if u64::from(first) + count as u64 > u64::from(geometry.pages) {
            return Err(DatastoreError::Damaged { what: "pointer to a page", sector });
        }
        let bytes = io.read(sector, count as u64 * PAGE_SECTORS).await?;
        read.extend((0..count).map(|at| bytes.slice(at * PAGE_BYTES..(at + 1) * PAGE_BYTES)));
        rest = &rest[count..];
    }
    Ok(read)
}

/// Reads the map of a file or directory.
pub(crate) async fn read_map(io: &Io, superblock: &Superblock, index: u32, descriptor: &Descriptor) -> Result<Map> {
    let (mut map, mut pages) = Map::from_descriptor(descriptor)?;
    for level in (1..=map.height()).rev() {
        let numbers: Vec<u32> = pages.iter().map(|(_, page)| *page).collect();
        let mut next = Vec::new();
        for ((place, number), bytes) in pages.iter().zip(read_pages(io, superblock, &numbers).await?) {
            let id = PageId { descriptor: index, file_id: descriptor.file_id.get(), level, index: *place };
            let pointers = page::decode_pointers(&bytes, id, superblock.uuid);
            let sector = superblock.geometry.page_sector(*number);
            let pointers = pointers.ok_or(DatastoreError::Damaged { what: "page of pointers", sector })?;
            next.extend(map.read(level - 1, place.saturating_mul(page::POINTERS as u32), &pointers));
        }
        pages = next;
    }
    Ok(map)
}

/// A directory.
pub(crate) struct Directory {
    pub(crate) map: Map,
    /// The entries of each page.
    pub(crate) pages: Vec<Vec<Entry>>,
}

impl Directory {
    /// Reads the directory of a descriptor.
    pub(crate) async fn read(io: &Io, superblock: &Superblock, index: u32, descriptor: &Descriptor) -> Result<Self> {
        let map = read_map(io, superblock, index, descriptor).await?;
        let runs = map.within(0..map.end());
        let numbers: Vec<u32> = runs.iter().flat_map(|(_, run)| run.target..run.target + run.length).collect();
        let mut pages = Vec::with_capacity(numbers.len());
        for (place, bytes) in read_pages(io, superblock, &numbers).await?.iter().enumerate() {
            let id = PageId { descriptor: index, file_id: descriptor.file_id.get(), level: 0, index: place as u32 };
            let entries = page::decode_entries(bytes, id, superblock.uuid);
            let sector = superblock.geometry.page_sector(numbers[place]);
            pages.push(entries.ok_or(DatastoreError::Damaged { what: "page of a directory", sector })?);
        }
        Ok(Self { map, pages })
    }

    /// Returns the entry with a name.
    pub(crate) fn find(&self, name: &str) -> Option<&Entry> {
        self.pages.iter().flatten().find(|entry| entry.name == name)
    }

    /// Returns whether there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.iter().all(Vec::is_empty)
    }
}

/// A file or directory locked by a transaction.
pub(crate) struct Node {
    pub(crate) index: u32,
    pub(crate) guard: GuardId,
    pub(crate) descriptor: Descriptor,
}

impl Node {
    /// Decodes the descriptor locked as `guard`.
    ///
    /// # Errors
    /// [`DatastoreError::NotFound`] if it is no longer this file.
    pub(crate) fn of(transaction: &Transaction, guard: GuardId, file: FileId) -> Result<Self> {
        let descriptor: Descriptor = transaction.view(guard, Kind::Descriptor, file.descriptor)?;
        if descriptor.kind().is_none() || descriptor.file_id.get() != file.id {
            return Err(DatastoreError::NotFound);
        }
        Ok(Self { index: file.descriptor, guard, descriptor })
    }

    fn page_id(&self, level: u8, index: u32) -> PageId {
        PageId { descriptor: self.index, file_id: self.descriptor.file_id.get(), level, index }
    }

    /// Stores a changed map and the descriptor.
    pub(crate) async fn store(&mut self, transaction: &mut Transaction, map: &mut Map) -> Result<()> {
        let missing = map.missing_pages();
        let mut spare = if missing > 0 { transaction.take_all(Resource::Pages, missing).await? } else { Vec::new() };
        // From the front, so that neighbours in the file become neighbours on disk.
        spare.reverse();
        map.assign_pages(&mut spare)?;
        let (changed, freed) = map.take_changes();
        let geometry = *transaction.mounted.geometry();
        let volume = transaction.mounted.superblock.uuid;
        for (level, place, number) in changed {
            let page = page::encode_pointers(self.page_id(level, place), volume, &map.pointers(level, place));
            transaction.set_page(geometry.page_sector(number), self.guard, &page);
        }
        let freed: Vec<(u32, u32)> = freed.into_iter().map(|page| (page, 1)).collect();
        transaction.free_items(Resource::Pages, &freed).await?;
        let before = self.descriptor.clone();
        self.descriptor.height = map.height();
        self.descriptor.leaves = map.leaves().into();
        self.descriptor.pages = (map.pages().count() as u32).into();
        for (place, root) in self.descriptor.roots.iter_mut().zip(map.roots()) {
            *place = root.into();
        }
        if before != self.descriptor {
            self.put(transaction);
        }
        Ok(())
    }

    /// Stores the descriptor.
    pub(crate) fn put(&self, transaction: &mut Transaction) {
        transaction.set(self.guard, &self.descriptor);
    }

    /// Reads the entries of the directory.
    pub(crate) async fn directory(&self, transaction: &Transaction) -> Result<Directory> {
        if self.descriptor.kind() != Some(FileKind::Directory) {
            return Err(DatastoreError::NotADirectory);
        }
        let mounted = &transaction.mounted;
        Directory::read(&mounted.io, &mounted.superblock, self.index, &self.descriptor).await
    }

    /// Adds an entry.
    pub(crate) async fn add(
        &mut self,
        transaction: &mut Transaction,
        directory: &mut Directory,
        entry: Entry,
    ) -> Result<()> {
        let place = match directory.pages.iter().position(|page| page.len() < ENTRIES) {
            Some(place) => place,
            None => {
                let place = directory.pages.len() as u32;
                let page = transaction.take_all(Resource::Pages, 1).await?;
                directory.map.grow_to(place)?;
                directory.map.fill(place..place + 1, &[(page[0], 1)], false);
                directory.pages.push(Vec::new());
                place as usize
            }
        };
        directory.pages[place].push(entry);
        self.descriptor.modified = transaction.mounted.io.runtime.unix_millis().into();
        self.store(transaction, &mut directory.map).await?;
        self.put(transaction);
        self.store_page(transaction, directory, place)
    }

    /// Removes an existing entry.
    pub(crate) fn remove(
        &mut self,
        transaction: &mut Transaction,
        directory: &mut Directory,
        name: &str,
    ) -> Result<()> {
        let place = directory.pages.iter().position(|page| page.iter().any(|entry| entry.name == name));
        let place = place.ok_or(DatastoreError::NotFound)?;
        directory.pages[place].retain(|entry| entry.name != name);
        self.descriptor.modified = transaction.mounted.io.runtime.unix_millis().into();
        self.put(transaction);
        self.store_page(transaction, directory, place)
    }

    fn store_page(&self, transaction: &mut Transaction, directory: &Directory, place: usize) -> Result<()> {
        let volume = transaction.mounted.superblock.uuid;
        let run = directory.map.at(place as u32).ok_or(DatastoreError::NotFound)?;
        let sector = transaction.mounted.geometry().page_sector(run.target);
        let page = page::encode_entries(self.page_id(0, place as u32), volume, &directory.pages[place]);
        transaction.set_page(sector, self.guard, &page);
        Ok(())
    }
}
