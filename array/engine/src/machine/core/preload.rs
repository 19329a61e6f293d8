//! Loads the pages that records of the log need, many at a time, before they are replayed.

use super::Core;
use crate::machine::pool::Pool;
use crate::machine::read::{read_map_page, read_page_at};
use blockmap::{Absent, Page, Slot};
use bytes::Bytes;
use ondisk::{ArrayGeometry, PageLocation};
use platform::Disk;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use wal::LogOp;

/// Operations that are looked at together.
pub(super) const OPS_PER_BATCH: usize = 1024;
/// Bytes of data that they hold at most.
pub(super) const BYTES_PER_BATCH: usize = 32 << 20;
/// Most reads at a time.
const READERS: usize = 128;
/// Pages that one round loads at most: 32 MiB.
const PAGES_PER_ROUND: usize = 8192;
/// Each round loads the next level of the map, or the slots of pages that the last one has loaded.
const ROUNDS: usize = 16;

/// The place of an absent page.
enum Stored {
    Map(Slot),
    Slots { location: PageLocation, mirror: Option<u32> },
}

/// A page that was read.
enum Found {
    Map(Box<Page>),
    Slots(Bytes),
}

impl Core {
    /// Loads the pages that the next operations of the log need. Pages that are known only after an
    /// earlier operation was applied, and pages that cannot be read, stay absent.
    pub(super) fn preload(&mut self, disk: &dyn Disk, ops: &[&LogOp]) {
        let readers = disk.parallel_reads().clamp(1, READERS);
        let mut ops: Vec<&LogOp> = ops.iter().copied().filter(|op| self.state.check_record(op).is_ok()).collect();
        for _ in 0..ROUNDS {
            let mut missing = Vec::new();
            ops.retain(|op| {
                let needed = self.state.missing_for_record(op);
                missing.extend_from_slice(&needed);
                !needed.is_empty()
            });
            missing.sort_unstable();
            missing.dedup();
            missing.truncate(PAGES_PER_ROUND);
            let stored: Vec<(Absent, Stored)> =
                missing.into_iter().filter_map(|absent| Some((absent, self.stored(absent)?))).collect();
            let found = read_together(disk, &self.state.geometry, &self.space.pool, &stored, readers);
            let mut is_any_loaded = false;
            for ((absent, _), found) in stored.iter().zip(found) {
                is_any_loaded |= match (*absent, found) {
                    (Absent::Page(id), Some(Found::Map(page))) => self.state.map.pages.insert_stored(id, *page),
                    (Absent::Slots(page), Some(Found::Slots(bytes))) => {
                        self.state.load_slot_page(&self.space.pool, page, &bytes)
                    }
                    _ => false,
                };
            }
            if !is_any_loaded {
                break;
            }
        }
    }

    /// Returns the place of an absent page. `None` if it has none, or is in memory.
    fn stored(&self, absent: Absent) -> Option<Stored> {
        match absent {
            Absent::Page(id) if self.state.map.pages.contains(id) => None,
            Absent::Page(id) => self.state.map.slots.get(id).map(Stored::Map),
            Absent::Slots(page) => {
                let location = *self.checkpointer.slot_directory.get(page as usize)?;
                Some(Stored::Slots { location, mirror: self.space.pool.mirror(location.segment) })
            }
        }
    }
}

/// Reads pages, with several threads if the drive profits. The result has the order of `stored`.
fn read_together(
    disk: &dyn Disk,
    geometry: &ArrayGeometry,
    pool: &Pool,
    stored: &[(Absent, Stored)],
    readers: usize,
) -> Vec<Option<Found>> {
    let read = |stored: &Stored| match stored {
        Stored::Map(slot) => read_map_page(disk, geometry, pool, slot).map(|page| Found::Map(Box::new(page))),
        Stored::Slots { location, mirror } => read_page_at(disk, geometry, *location, *mirror).map(Found::Slots),
    };
    if readers == 1 {
        return stored.iter().map(|(_, stored)| read(stored)).collect();
    }
    let next = AtomicUsize::new(0);
    let read_some = || {
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, stored)) = stored.get(index) else { return found };
            found.push((index, read(stored)));
        }
    };
    let mut all: Vec<Option<Found>> = Vec::new();
    all.resize_with(stored.len(), || None);
    thread::scope(|scope| {
        // The system may refuse threads.
        let helper = |_| thread::Builder::new().spawn_scoped(scope, read_some).ok();
        let helpers: Vec<_> = (1..readers.min(stored.len())).map_while(helper).collect();
        let mut place = |found: Vec<(usize, Option<Found>)>| {
            found.into_iter().for_each(|(index, found)| all[index] = found);
        };
        place(read_some());
        helpers.into_iter().for_each(|helper| place(helper.join().unwrap_or_default()));
    });
    all
}
