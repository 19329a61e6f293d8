//! Mark pass: follows and counts every reference below every root, and compares the result with the
//! counts of the slots.
//!
//! The pass works level by level from the top and reads each page once, in the order of their
//! positions on the drive. It uses six bytes of memory per slot.

use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, FsckFindings, Severity, Structure};
use crate::manifest::Volume;
use crate::pages::{self, Entry, MapPage, PageSlot, PageSlots};
use crate::patches;
use crate::sums::Sums;
use blockmap::{GENERATION_BITS, GENERATION_MASK, MAX_HEIGHT, Ref, RefTarget, SlotId, height_for, span};
use rustc_hash::FxHashMap;
use types::{LBA_BYTES, LBAS_PER_BLOCK, MAX_VOLUME_BYTES};

/// Contents of a slot, in its tag next to the generation. The tag of a free slot is 0.
const KIND_SHIFT: u32 = GENERATION_BITS;
const DATA: u16 = 1 << KIND_SHIFT;
const PAGE: u16 = 2 << KIND_SHIFT;
const ALIAS: u16 = 3 << KIND_SHIFT;
const KIND_MASK: u16 = 3 << KIND_SHIFT;
/// Tag of a slot whose slot table page is unreadable.
const UNKNOWN: u16 = GENERATION_MASK;
/// Pages read at a time.
const BATCH: usize = 1024;
/// Maximum number of wrong counts that are reported individually.
const MAX_COUNT_FINDINGS: u64 = 100;

/// Totals of the mark pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkTotals {
    /// Map pages.
    pub pages: u64,
    /// Data slots in use.
    pub blocks: u64,
    /// References to these slots, where an alias counts as one.
    pub references: u64,
}

/// Facts that a reference states about a page. All references to a page must state the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Claim {
    /// Level of the page. `None` for pages in the drop queue.
    level: Option<u8>,
    /// Number of 4 KiB blocks that are not HOLE.
    mapped: Option<u64>,
}

const NO_CLAIM: Claim = Claim { level: None, mapped: None };

/// Pages to be read, by level, and those whose level is unknown.
#[derive(Default)]
struct WorkQueue {
    levels: [Vec<SlotId>; MAX_HEIGHT as usize + 1],
    drops: Vec<SlotId>,
}

struct Walk<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    findings: &'c FsckFindings,
    should_continue: &'c (dyn Fn() -> bool + Sync),
    /// Reference count of each slot minus the references found. All are 0 at the end if the counts
    /// are right.
    left: Vec<u32>,
    tags: Vec<u16>,
    pages: PageSlots,
    /// Facts stated about each page by its references.
    claims: FxHashMap<u64, Claim>,
    queue: WorkQueue,
    marked: MarkTotals,
    has_aliases: bool,
    /// True if something could not be read, so some references were not found.
    is_partial: bool,
}

/// Recounts every reference. Ends early, with findings that mean nothing, if `should_continue`
/// returns false.
pub(crate) fn check(
    checkpoint: &Checkpoint<'_>,
    findings: &FsckFindings,
    should_continue: &(dyn Fn() -> bool + Sync),
) -> MarkTotals {
    let slots = checkpoint.slots() as usize;
    let mut walk = Walk {
        checkpoint,
        findings,
        should_continue,
        left: vec![0; slots],
        tags: vec![UNKNOWN; slots],
        pages: PageSlots::default(),
        claims: FxHashMap::default(),
        queue: WorkQueue::default(),
        marked: MarkTotals::default(),
        has_aliases: false,
        is_partial: checkpoint.slot_pages.iter().any(Option::is_none),
    };
    if !walk.load_slots() {
        return walk.marked;
    }
    walk.check_patched_pages();
    walk.mark_roots();
    walk.mark_named();
    for level in (0..=MAX_HEIGHT).rev() {
        walk.read_all(|queue| &mut queue.levels[usize::from(level)]);
    }
    for id in checkpoint.manifest.drops.clone() {
        walk.mark(Ref::page(id), NO_CLAIM, &|| "the queue of pages to be dropped".to_owned());
    }
    walk.read_all(|queue| &mut queue.drops);
    walk.compare();
    walk.marked
}

impl Walk<'_, '_> {
    /// Reads all slots. Returns false if the pass must end.
    fn load_slots(&mut self) -> bool {
        let (left, tags, pages) = (&mut self.left, &mut self.tags, &mut self.pages);
        let has_aliases = &mut self.has_aliases;
        let (checkpoint, marked, is_partial) = (self.checkpoint, &mut self.marked, &mut self.is_partial);
        let mut sums = Sums::new(checkpoint);
        let is_complete = checkpoint.each_slot_while(
            &|| (self.should_continue)(),
            |number, slot| {
                let is_page = slot.place.is_some_and(|place| checkpoint.is_metadata(place.segment));
                sums.add(number, &slot, is_page);
                let kind = if is_page {
                    PAGE
                } else if slot.names.is_some() {
                    ALIAS
                } else {
                    DATA
                };
                left[number as usize] = slot.count;
                tags[number as usize] = if slot.count > 0 { slot.generation | kind } else { 0 };
                *has_aliases |= kind == ALIAS;
                marked.blocks += u64::from(slot.count > 0 && kind == DATA);
                if let (Some(place), true) = (slot.place, is_page) {
                    pages.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
                }
            },
            // The read pass reports the page.
            |_| *is_partial = true,
        );
        if is_complete && !*is_partial {
            sums.compare(checkpoint, self.findings);
        }
        is_complete
    }

    /// Every patched page of the map must be held by a slot.
    fn check_patched_pages(&self) {
        let is_unknown = |slot: u64| self.tags.get(slot as usize) == Some(&UNKNOWN);
        for (id, what) in pages::stray_pages(self.checkpoint, &self.pages, is_unknown) {
            self.findings.add(patches::stray(format!("patch of map page {id:?}"), what.to_owned()));
        }
    }

    fn mark_roots(&mut self) {
        for (id, volume) in &self.checkpoint.manifest.volumes {
            let Volume { blocks, root } = *volume;
            let name = format!("volume {}", id.0);
            let finding = |what: &str| {
                Finding::new(Severity::Damage, Structure::Volume, name.clone())
                    .what(what)
                    .meaning("The array cannot start with such a volume.")
                    .advice("Restore the array from a backup.")
            };
            let is_size = blocks > 0
                && blocks.is_multiple_of(LBAS_PER_BLOCK)
                && blocks <= MAX_VOLUME_BYTES / LBA_BYTES
                && height_for(blocks / LBAS_PER_BLOCK) <= root.height;
            if !is_size {
                self.findings.add(finding("its size is invalid or does not match its tree"));
            }
            match root.reference.target() {
                RefTarget::Data(_) | RefTarget::Alias(_) => self.findings.add(finding("its root is a data block")),
                RefTarget::Page(_) => {
                    let claim = Claim { level: Some(root.height), mapped: Some(root.mapped) };
                    self.mark(root.reference, claim, &|| format!("the root of {name}"));
                }
                _ if !has_expected_mapped(root.reference, root.mapped, span(root.height)) => {
                    self.findings.add(finding("its number of mapped blocks is wrong"));
                }
                _ => {}
            }
        }
    }

    /// Counts one reference, which is stored in `holder` and states `claim` about a page.
    fn mark(&mut self, reference: Ref, claim: Claim, holder: &dyn Fn() -> String) {
        let (id, kind) = match reference.target() {
            RefTarget::Data(id) => (id, DATA),
            RefTarget::Page(id) => (id, PAGE),
            RefTarget::Alias(id) => (id, ALIAS),
            _ => return,
        };
        let finding = |what: &str| {
            let named = match kind {
                PAGE => "page",
                ALIAS => "alias",
                _ => "block",
            };
            Finding::new(Severity::Damage, Structure::MapPage, format!("reference in {}", holder()))
                .what(format!("it names {named} {id:?}, {what}"))
                .meaning("Reading the range returns a medium error, never other data.")
                .advice("Rewrite the range, or restore the volume.")
        };
        let tag = self.tags.get(id.slot as usize).copied();
        if tag == Some(UNKNOWN) {
            return;
        }
        let is_in_use = |tag: &u16| tag & KIND_MASK != 0 && tag & GENERATION_MASK == id.generation;
        let Some(tag) = tag.filter(is_in_use) else {
            return self.findings.add(finding("which is free or has another generation"));
        };
        if tag & KIND_MASK != kind {
            return self.findings.add(finding("which is of another kind"));
        }
        let left = &mut self.left[id.slot as usize];
        *left = left.wrapping_sub(1);
        self.marked.references += u64::from(kind == DATA);
        if kind != PAGE {
            return;
        }
        match self.claims.get(&id.slot) {
            Some(other) if claim != NO_CLAIM && *other != claim => {
                self.findings.add(finding("but another reference contradicts it"));
            }
            Some(_) => {}
            None => {
                self.claims.insert(id.slot, claim);
                match claim.level {
                    Some(level) => self.queue.levels[usize::from(level)].push(id),
                    None => self.queue.drops.push(id),
                }
            }
        }
    }

    /// Counts one reference for each alias to the block that it names.
    fn mark_named(&mut self) {
        if !self.has_aliases {
            return;
        }
        let (checkpoint, should_continue) = (self.checkpoint, self.should_continue);
        let each = |number: u64, slot: blockmap::Slot| {
            if let Some(named) = slot.names {
                self.mark(Ref::data(named), NO_CLAIM, &|| format!("the alias of slot {number}"));
            }
        };
        checkpoint.each_slot_while(&|| should_continue(), each, |_| {});
    }

    /// Reads all queued pages, including those queued on the way.
    fn read_all(&mut self, queue: impl Fn(&mut WorkQueue) -> &mut Vec<SlotId>) {
        loop {
            let mut ids = std::mem::take(queue(&mut self.queue));
            if ids.is_empty() {
                return;
            }
            ids.sort_unstable_by_key(|id| self.pages.get(&id.slot).map(|slot| slot.place));
            for batch in ids.chunks(BATCH) {
                if !(self.should_continue)() {
                    self.is_partial = true;
                    return;
                }
                for (id, page) in self.read_batch(batch) {
                    match page {
                        Ok(page) => self.enter(id, &page),
                        Err(what) => self.report_unreadable(id, what),
                    }
                }
            }
        }
    }

    /// Reads with two threads, so that one can wait for the drive while the other verifies
    /// checksums.
    fn read_batch(&self, batch: &[SlotId]) -> Vec<(SlotId, Result<MapPage, &'static str>)> {
        let read = |ids: &[SlotId]| -> Vec<_> {
            ids.iter().copied().zip(pages::read_batch(self.checkpoint, &self.pages, ids)).collect()
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

    fn enter(&mut self, id: SlotId, page: &MapPage) {
        let level = page.level;
        let holder = || format!("map page {id:?} of level {level}");
        let claim = self.claims.get(&id.slot).copied().unwrap_or(NO_CLAIM);
        if claim.level.is_some_and(|claim| claim != level) {
            return self.report_unreadable(id, "its level differs from the one stated by its references");
        }
        self.marked.pages += 1;
        let mapped = page.entries.iter().fold(0_u64, |sum, entry| sum.wrapping_add(entry.mapped));
        if claim.mapped.is_some_and(|claim| claim != mapped) {
            let what = format!("{mapped} blocks are mapped below it, but its references state another number");
            self.findings.add(wrong_mapped(holder(), what));
        }
        for (index, Entry { reference, mapped }) in page.entries.iter().enumerate() {
            let is_page = matches!(reference.target(), RefTarget::Page(_));
            if level > 0 && !is_page && !has_expected_mapped(*reference, *mapped, blockmap::entry_span(level)) {
                let what = format!("entry {index} states {mapped} mapped blocks, but holds {reference:?}");
                self.findings.add(wrong_mapped(holder(), what));
            }
            let below = Claim { level: Some(level.saturating_sub(1)), mapped: Some(*mapped) };
            self.mark(*reference, if claim == NO_CLAIM { NO_CLAIM } else { below }, &holder);
        }
    }

    fn report_unreadable(&mut self, id: SlotId, what: &str) {
        self.is_partial = true;
        let level = self.claims.get(&id.slot).and_then(|claim| claim.level).unwrap_or(0);
        let blocks = span(level) * LBAS_PER_BLOCK * LBA_BYTES;
        let finding = Finding::new(Severity::Damage, Structure::MapPage, format!("map page {id:?} of level {level}"))
            .what(what)
            .meaning(format!(
                "The {} that it maps cannot be read, and its references cannot be counted.",
                types::format_capacity(blocks)
            ))
            .advice("Restore the affected volumes, or rewrite the whole range.");
        let slot = self.pages.get(&id.slot);
        let place = slot.map(pages::location).filter(|at| self.checkpoint.drive.holds(at));
        self.findings.add(match place {
            Some(at) => finding.at(self.checkpoint.drive.offset(&at), u64::from(at.bytes)),
            None => finding,
        });
    }

    /// Reports every slot whose count differs from the references found.
    fn compare(&self) {
        if self.left.iter().all(|left| *left == 0) {
            return;
        }
        let (mut reported, mut unreported) = (0, 0_u64);
        let each = |number: u64, slot: blockmap::Slot| {
            let found = slot.count.wrapping_sub(self.left[number as usize]);
            // If something could not be read, missing references are expected.
            if found == slot.count || (self.is_partial && found < slot.count) {
                return;
            }
            if reported == MAX_COUNT_FINDINGS {
                unreported += 1;
                return;
            }
            reported += 1;
            let meaning = if found > slot.count {
                "Removing one of the references could free the slot while others still use it."
            } else {
                "Its space is leaked. No data are lost."
            };
            let finding = Finding::new(Severity::Damage, Structure::Count, format!("reference count of slot {number}"))
                .what(format!("{} references are recorded, but {found} were found", slot.count))
                .meaning(meaning)
                .advice(
                    "This is a bug in the software, not a drive error: report it. Copy the volumes to another array.",
                );
            self.findings.add(finding);
        };
        let should_continue = || (self.should_continue)();
        self.checkpoint.each_slot_while(&should_continue, each, |_| {});
        if unreported > 0 {
            let finding = Finding::new(Severity::Damage, Structure::Count, "reference counts of other slots")
                .what(format!("{unreported} more are wrong"))
                .meaning("As above.");
            self.findings.add(finding);
        }
    }
}

/// Returns true if an entry without a page states the right number of mapped blocks, out of
/// `blocks`.
fn has_expected_mapped(reference: Ref, mapped: u64, blocks: u64) -> bool {
    mapped == if reference == Ref::HOLE { 0 } else { blocks }
}

fn wrong_mapped(holder: String, what: String) -> Finding {
    Finding::new(Severity::Damage, Structure::MapPage, holder)
        .what(what)
        .meaning("No data are lost. The reported space of the volumes is wrong.")
        .advice("This is a bug in the software, not a drive error: report it.")
}
