//! The mark pass: every reference below every root is followed and counted, and the counts of the slots are compared.
//!
//! Level by level from the top, each page once, in the order in which the pages stand on the drive. It takes six bytes a slot.

use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::manifest::Volume;
use crate::pages::{self, Entry, MapPage, PageSlot, PageSlots};
use blockmap::{MAX_HEIGHT, Ref, RefTarget, SlotId, height_for, span};
use rustc_hash::FxHashMap;
use types::{LBA_BYTES, LBAS_PER_BLOCK, MAX_VOLUME_BYTES};

/// In the tag of a slot, beside its generation: it is in use.
const IN_USE: u16 = 1 << 15;
/// It is stored where metadata are.
const IS_PAGE: u16 = 1 << 14;
/// The tag of a slot whose page of the table cannot be read: one that is not in use stands nowhere.
const UNKNOWN: u16 = IS_PAGE;
/// Pages that are read at a time.
const BATCH: usize = 256;
/// Wrong counts that are told one by one.
const MOST_COUNTS: u64 = 100;

/// What the mark pass found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkTotals {
    /// Pages of the map.
    pub pages: u64,
    /// Slots of data in use.
    pub blocks: u64,
    /// References to them.
    pub references: u64,
}

/// What the first reference to a page says of it. All others have to say the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Said {
    /// `None` where nobody says it: pages that wait to be dropped.
    level: Option<u8>,
    /// Blocks of 4 KiB that are not HOLE.
    mapped: Option<u64>,
}

const NOTHING: Said = Said { level: None, mapped: None };

/// Pages to be read, those of each level for itself, and those of which nobody knows the level.
#[derive(Default)]
struct Todo {
    levels: [Vec<SlotId>; MAX_HEIGHT as usize + 1],
    drops: Vec<SlotId>,
}

struct Walk<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    findings: &'c FsckFindings,
    /// What each slot counts, less the references that were found: 0 at the end.
    left: Vec<u32>,
    tags: Vec<u16>,
    pages: PageSlots,
    /// What is said of each page by those that name it.
    said: FxHashMap<u64, Said>,
    todo: Todo,
    marked: MarkTotals,
    /// Something could not be read, so that references are missing.
    is_partial: bool,
}

/// Counts every reference anew.
pub(crate) fn check(checkpoint: &Checkpoint<'_>, findings: &FsckFindings) -> MarkTotals {
    let slots = checkpoint.slots() as usize;
    let mut walk = Walk {
        checkpoint,
        findings,
        left: vec![0; slots],
        tags: vec![UNKNOWN; slots],
        pages: PageSlots::default(),
        said: FxHashMap::default(),
        todo: Todo::default(),
        marked: MarkTotals::default(),
        is_partial: checkpoint.slot_pages.iter().any(Option::is_none),
    };
    walk.take_slots();
    walk.take_roots();
    for level in (0..=MAX_HEIGHT).rev() {
        walk.read_all(|todo| &mut todo.levels[usize::from(level)]);
    }
    for name in checkpoint.manifest.drops.clone() {
        walk.mark(Ref::page(name), NOTHING, &|| "the queue of pages to be dropped".to_owned());
    }
    walk.read_all(|todo| &mut todo.drops);
    walk.compare();
    walk.marked
}

impl Walk<'_, '_> {
    fn take_slots(&mut self) {
        let (left, tags, pages) = (&mut self.left, &mut self.tags, &mut self.pages);
        let (checkpoint, marked, is_partial) = (self.checkpoint, &mut self.marked, &mut self.is_partial);
        checkpoint.each_slot(
            |number, slot| {
                let is_page = slot.place.is_some_and(|place| checkpoint.is_metadata(place.segment));
                left[number as usize] = slot.count;
                tags[number as usize] =
                    slot.generation | if slot.count > 0 { IN_USE } else { 0 } | if is_page { IS_PAGE } else { 0 };
                marked.blocks += u64::from(slot.count > 0 && !is_page);
                if let (Some(place), true) = (slot.place, is_page) {
                    pages.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
                }
            },
            // The pass over what is stored tells of it.
            |_| *is_partial = true,
        );
    }

    fn take_roots(&mut self) {
        for (id, volume) in &self.checkpoint.manifest.volumes {
            let Volume { blocks, root } = *volume;
            let name = format!("volume {}", id.0);
            let complain = |what: &str| {
                Finding::new(Severity::Damage, Structure::Volume, name.clone())
                    .what(what)
                    .meaning("The array does not start with such a volume.")
                    .advice("Restore the array from a copy.")
            };
            let is_size = blocks > 0
                && blocks.is_multiple_of(LBAS_PER_BLOCK)
                && blocks <= MAX_VOLUME_BYTES / LBA_BYTES
                && height_for(blocks / LBAS_PER_BLOCK) <= root.height;
            if !is_size {
                self.findings.add(complain("its size is none that a volume can have, or does not fit its tree"));
            }
            match root.reference.target() {
                RefTarget::Data(_) => self.findings.add(complain("its root is a block of data")),
                RefTarget::Page(_) => {
                    let said = Said { level: Some(root.height), mapped: Some(root.mapped) };
                    self.mark(root.reference, said, &|| format!("the root of {name}"));
                }
                _ if !is_plain(root.reference, root.mapped, span(root.height)) => {
                    self.findings.add(complain("what it says to be mapped is not what there is"));
                }
                _ => {}
            }
        }
    }

    /// Counts one reference, which stands in `holder` and says this of a page.
    fn mark(&mut self, reference: Ref, said: Said, holder: &dyn Fn() -> String) {
        let (name, is_page) = match reference.target() {
            RefTarget::Data(name) => (name, false),
            RefTarget::Page(name) => (name, true),
            _ => return,
        };
        let complain = |what: &str| {
            Finding::new(Severity::Damage, Structure::MapPage, format!("a reference in {}", holder()))
                .what(format!("it names {} {name:?}, {what}", if is_page { "page" } else { "block" }))
                .meaning("Reading there is answered with a medium error; other data are never given.")
                .advice("Write the range again, or restore the volume.")
        };
        let tag = self.tags.get(name.slot as usize).copied();
        if tag == Some(UNKNOWN) {
            return;
        }
        let Some(tag) = tag.filter(|tag| tag & IN_USE != 0 && tag & blockmap::GENERATION_MASK == name.generation)
        else {
            return self.findings.add(complain("which is not in use under that name"));
        };
        if (tag & IS_PAGE != 0) != is_page {
            return self.findings.add(complain("which is stored where such things are not"));
        }
        let left = &mut self.left[name.slot as usize];
        *left = left.wrapping_sub(1);
        self.marked.references += u64::from(!is_page);
        if !is_page {
            return;
        }
        match self.said.get(&name.slot) {
            Some(other) if said != NOTHING && *other != said => {
                self.findings.add(complain("of which another reference says something else"));
            }
            Some(_) => {}
            None => {
                self.said.insert(name.slot, said);
                match said.level {
                    Some(level) => self.todo.levels[usize::from(level)].push(name),
                    None => self.todo.drops.push(name),
                }
            }
        }
    }

    /// Reads what is to be read, and what comes to it meanwhile.
    fn read_all(&mut self, queue: impl Fn(&mut Todo) -> &mut Vec<SlotId>) {
        loop {
            let mut names = std::mem::take(queue(&mut self.todo));
            if names.is_empty() {
                return;
            }
            names.sort_unstable_by_key(|name| self.pages.get(&name.slot).map(|slot| slot.place));
            for batch in names.chunks(BATCH) {
                for (name, page) in self.read_batch(batch) {
                    match page {
                        Ok(page) => self.enter(name, &page),
                        Err(what) => self.cannot_enter(name, what),
                    }
                }
            }
        }
    }

    /// Two threads read: one waits for the drive while the other checks.
    fn read_batch(&self, batch: &[SlotId]) -> Vec<(SlotId, Result<MapPage, &'static str>)> {
        let read = |names: &[SlotId]| -> Vec<_> {
            names.iter().map(|name| (*name, pages::read(self.checkpoint, &self.pages, *name))).collect()
        };
        if batch.len() < BATCH / 4 {
            return read(batch);
        }
        let (first, second) = batch.split_at(batch.len() / 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| read(second));
            let mut all = read(first);
            all.extend(other.join().unwrap_or_default());
            all
        })
    }

    fn enter(&mut self, name: SlotId, page: &MapPage) {
        let level = page.level;
        let holder = || format!("map page {name:?} of level {level}");
        let said = self.said.get(&name.slot).copied().unwrap_or(NOTHING);
        if said.level.is_some_and(|said| said != level) {
            return self.cannot_enter(name, "it is of another level than those say that name it");
        }
        self.marked.pages += 1;
        let mapped = page.entries.iter().fold(0_u64, |sum, entry| sum.wrapping_add(entry.mapped));
        if said.mapped.is_some_and(|said| said != mapped) {
            let what = format!("{mapped} blocks are mapped below it, and who names it says another number");
            self.findings.add(wrong_mapped(holder(), what));
        }
        for (index, Entry { reference, mapped }) in page.entries.iter().enumerate() {
            let is_page = matches!(reference.target(), RefTarget::Page(_));
            if level > 0 && !is_page && !is_plain(*reference, *mapped, blockmap::entry_span(level)) {
                let what = format!("entry {index} says that {mapped} blocks are mapped, and holds {reference:?}");
                self.findings.add(wrong_mapped(holder(), what));
            }
            let below = Said { level: Some(level.saturating_sub(1)), mapped: Some(*mapped) };
            self.mark(*reference, if said == NOTHING { NOTHING } else { below }, &holder);
        }
    }

    fn cannot_enter(&mut self, name: SlotId, what: &str) {
        self.is_partial = true;
        let level = self.said.get(&name.slot).and_then(|said| said.level).unwrap_or(0);
        let blocks = span(level) * LBAS_PER_BLOCK * LBA_BYTES;
        let finding = Finding::new(Severity::Damage, Structure::MapPage, format!("map page {name:?} of level {level}"))
            .what(what)
            .meaning(format!(
                "The {} that it maps cannot be read, and what it referenced cannot be counted.",
                types::format_capacity(blocks)
            ))
            .advice("Restore the volumes that hold it, or write the range again as a whole.");
        let slot = self.pages.get(&name.slot);
        let place = slot.map(pages::at).filter(|at| self.checkpoint.drive.holds(at, true));
        self.findings.add(match place {
            Some(at) => finding.at(self.checkpoint.drive.offset(&at), u64::from(at.bytes)),
            None => finding,
        });
    }

    /// Tells of every slot whose count is not what was found.
    fn compare(&self) {
        if self.left.iter().all(|left| *left == 0) {
            return;
        }
        let (mut told, mut untold) = (0, 0_u64);
        let each = |number: u64, slot: blockmap::Slot| {
            let found = slot.count.wrapping_sub(self.left[number as usize]);
            // Where something could not be read, references are missing that are there.
            if found == slot.count || (self.is_partial && found < slot.count) {
                return;
            }
            if told == MOST_COUNTS {
                untold += 1;
                return;
            }
            told += 1;
            let meaning = if found > slot.count {
                "When one of the references goes, the place would be given to other data although the rest still name it."
            } else {
                "Its space never comes back. Nothing is lost."
            };
            let finding = Finding::new(Severity::Damage, Structure::Count, format!("the count of slot {number}"))
                .what(format!("it counts {} references, and {found} were found", slot.count))
                .meaning(meaning)
                .advice("This is a mistake of the program, not of the drive: please report it. Copy the volumes to another array.");
            self.findings.add(finding);
        };
        self.checkpoint.each_slot(each, |_| {});
        if untold > 0 {
            let finding = Finding::new(Severity::Damage, Structure::Count, "the counts of other slots")
                .what(format!("{untold} more are wrong"))
                .meaning("As above.");
            self.findings.add(finding);
        }
    }
}

/// True when an entry without a page below it says of `blocks` blocks what is so.
fn is_plain(reference: Ref, mapped: u64, blocks: u64) -> bool {
    mapped == if reference == Ref::HOLE { 0 } else { blocks }
}

fn wrong_mapped(holder: String, what: String) -> Finding {
    Finding::new(Severity::Damage, Structure::MapPage, holder)
        .what(what)
        .meaning("No data are lost. What the array tells of the space of its volumes is wrong.")
        .advice("This is a mistake of the program, not of the drive: please report it.")
}
