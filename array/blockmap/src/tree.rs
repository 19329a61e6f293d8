//! The tree of one volume: finding references, and replacing them copy-on-write.
//!
//! Two rules keep shared pages sound. *Top down*: a page is made private before anything below it is edited, and copying
//! a page counts all its children up first. *No faults on the way*: whoever edits has asked [`Map::missing`] before, so that
//! an edit finds every page and every slot it needs in memory and never stops half-way.

use crate::absent::Absent;
use crate::page::{Below, MAX_HEIGHT, Page, PageCache, entries, entry_span, height_for, span};
use crate::reference::{Ref, RefTarget, SlotId};
use crate::slot::SlotPlace;
use crate::table::{SlotTable, is_near_limit};
use std::collections::VecDeque;

/// Where a volume begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The page at the top, or what the whole volume is.
    pub reference: Ref,
    /// Level of that page; 0 is a leaf.
    pub height: u8,
    /// 4 KiB blocks of the volume that are not HOLE.
    pub mapped: u64,
}

impl Root {
    /// An empty volume of so many 4 KiB blocks.
    pub fn empty(blocks: u64) -> Self {
        Self { reference: Ref::HOLE, height: height_for(blocks), mapped: 0 }
    }

    fn below(&self) -> Below {
        Below { reference: self.reference, mapped: self.mapped }
    }

    fn put(&mut self, below: Below) {
        (self.reference, self.mapped) = (below.reference, below.mapped);
    }
}

/// A slot that nobody references any more, and where its bytes were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Its name while it lived.
    pub name: SlotId,
    /// Where it was stored, if it was.
    pub place: Option<SlotPlace>,
}

/// A run of blocks with one reference, as [`Map::collect`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Blocks from the start of the collected range.
    pub offset: u64,
    /// Length in blocks; for a page the span of its level.
    pub blocks: u64,
    /// One counted reference.
    pub reference: Ref,
    /// Of a page: the blocks below it that are not HOLE.
    mapped: u64,
}

/// The private pages above a subtree, from the top, and the entry of each that leads on.
#[derive(Clone, Copy)]
struct Path {
    steps: [(SlotId, usize); MAX_HEIGHT as usize],
    len: usize,
}

impl Path {
    fn new() -> Self {
        Self { steps: [(SlotId { slot: 0, generation: 0 }, 0); MAX_HEIGHT as usize], len: 0 }
    }

    fn push(&mut self, name: SlotId, index: usize) {
        self.steps[self.len] = (name, index);
        self.len += 1;
    }
}

impl std::ops::Deref for Path {
    type Target = [(SlotId, usize)];

    fn deref(&self) -> &Self::Target {
        &self.steps[..self.len]
    }
}

/// A slot has as many references as can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block is shared as often as can be counted")]
pub struct TooManyReferences;

/// Slots and pages of all volumes.
#[derive(Default)]
pub struct Map {
    /// The slot table.
    pub slots: SlotTable,
    /// The pages in memory.
    pub pages: PageCache,
    /// Pages that lost their last reference; the one that came last is worked off first: of a tree of any size, there are only as many
    /// here as its pages have references on one way down.
    drops: VecDeque<SlotId>,
    freed: Vec<Freed>,
}

impl Map {
    /// Calls `visit(first block, blocks, reference)` for the runs of `first..end` in order; data references come one by one.
    pub fn visit(&mut self, root: &Root, first: u64, end: u64, visit: &mut impl FnMut(u64, u64, Ref)) {
        self.visit_below(root.reference, root.height, 0, (first, end), visit);
    }

    fn visit_below(
        &mut self,
        node: Ref,
        level: u8,
        start: u64,
        range: (u64, u64),
        visit: &mut impl FnMut(u64, u64, Ref),
    ) {
        let RefTarget::Page(name) = node.target() else {
            let from = range.0.max(start);
            return visit(from, range.1.min(start + span(level)) - from, node);
        };
        if level == 0 {
            let page = self.page(name);
            return touched(0, start, range).for_each(|index| visit(start + index as u64, 1, page.refs[index]));
        }
        for index in touched(level, start, range) {
            let child = self.page(name).refs[index];
            self.visit_below(child, level - 1, start + index as u64 * entry_span(level), range, visit);
        }
    }

    fn page(&mut self, name: SlotId) -> &Page {
        match self.pages.get(name) {
            Some(page) => page,
            None => panic!("page {name:?} is used while it is not in memory"),
        }
    }

    /// Sets every block of `first..end` to `fill`, which names no slot. Whole subtrees are replaced by one reference.
    pub fn fill(&mut self, root: &mut Root, first: u64, end: u64, fill: Ref) {
        assert!(!fill.is_named());
        if first < end {
            root.put(self.fill_below(root.below(), root.height, 0, (first, end), fill));
        }
    }

    fn fill_below(&mut self, node: Below, level: u8, start: u64, range: (u64, u64), fill: Ref) -> Below {
        if range.0 <= start && start + span(level) <= range.1 {
            self.release(node.reference);
            return Below::whole(fill, span(level));
        }
        if node.reference == fill {
            return node;
        }
        let name = self.own(node.reference, level);
        let mut page = std::mem::take(self.pages.edit(name));
        let mut mapped = node.mapped;
        for index in touched(level, start, range) {
            let old = page.entry(index);
            let new = if level == 0 {
                self.release(old.reference);
                Below::whole(fill, 1)
            } else {
                self.fill_below(old, level - 1, start + index as u64 * entry_span(level), range, fill)
            };
            page.put(index, new);
            mapped = mapped.wrapping_add(new.mapped).wrapping_sub(old.mapped);
        }
        *self.pages.edit(name) = page;
        Below { reference: Ref::page(name), mapped }
    }

    /// Sets every block of `first..end` to the data block `block`, whose one counted reference is taken over. Pages that come out
    /// alike are made once and shared, so that any length costs a few pages.
    pub fn fill_with_block(&mut self, root: &mut Root, first: u64, end: u64, block: Ref) {
        let mut alike = vec![None; usize::from(root.height) + 1];
        if first < end {
            root.put(self.fill_block_below(root.below(), root.height, 0, (first, end), block, &mut alike));
        }
        alike.into_iter().flatten().chain([block]).for_each(|reference| self.release(reference));
    }

    fn fill_block_below(
        &mut self,
        node: Below,
        level: u8,
        start: u64,
        range: (u64, u64),
        block: Ref,
        alike: &mut Vec<Option<Ref>>,
    ) -> Below {
        if range.0 <= start && start + span(level) <= range.1 {
            self.release(node.reference);
            let page = self.alike(level, block, alike);
            self.share(page);
            return Below::whole(page, span(level));
        }
        let name = self.own(node.reference, level);
        let mut page = std::mem::take(self.pages.edit(name));
        let mut mapped = node.mapped;
        for index in touched(level, start, range) {
            let old = page.entry(index);
            let new = if level == 0 {
                self.share(block);
                self.release(old.reference);
                Below::whole(block, 1)
            } else {
                self.fill_block_below(old, level - 1, start + index as u64 * entry_span(level), range, block, alike)
            };
            page.put(index, new);
            mapped = mapped.wrapping_add(new.mapped).wrapping_sub(old.mapped);
        }
        *self.pages.edit(name) = page;
        Below { reference: Ref::page(name), mapped }
    }

    /// The page of that level below which everything is `block`; made at its first use.
    fn alike(&mut self, level: u8, block: Ref, alike: &mut Vec<Option<Ref>>) -> Ref {
        if let Some(page) = alike[usize::from(level)] {
            return page;
        }
        let entry = if level == 0 { block } else { self.alike(level - 1, block, alike) };
        let page = Page::filled(level, entry);
        if let RefTarget::Data(name) | RefTarget::Page(name) = entry.target() {
            let is_counted = self.slots.count_up_by(name, page.refs.len() as u32);
            assert!(is_counted, "a new block met the end of its count");
        }
        let name = self.slots.allocate_page();
        self.pages.insert_new(name, page);
        alike[usize::from(level)] = Some(Ref::page(name));
        Ref::page(name)
    }

    /// Counts up a reference that was made a moment ago and cannot be at the end of its count.
    fn share(&mut self, reference: Ref) {
        let is_counted = self.count_up(reference);
        assert!(is_counted, "a new block met the end of its count");
    }

    /// Puts `refs` (counted by the caller) at the blocks from `first` on, within one leaf, and releases what was there.
    pub fn set(&mut self, root: &mut Root, first: u64, refs: &[Ref]) {
        let leaf = first - first % span(0);
        assert!(first + refs.len() as u64 <= leaf + span(0));
        if refs.len() as u64 == span(0) {
            let (name, page) = (self.slots.allocate_page(), Page::leaf(refs));
            let below = Below { reference: Ref::page(name), mapped: page.mapped() };
            self.pages.insert_new(name, page);
            return self.put_page(root, leaf, 0, below);
        }
        let path = self.own_path(root, leaf, 0);
        let old = self.end(root, &path);
        let name = self.own(old.reference, 0);
        let mut page = std::mem::take(self.pages.edit(name));
        let mut mapped = old.mapped;
        for (index, reference) in ((first - leaf) as usize..).zip(refs) {
            let (before, after) = (page.entry(index), Below::whole(*reference, 1));
            page.put(index, after);
            mapped = mapped.wrapping_add(after.mapped).wrapping_sub(before.mapped);
            self.release(before.reference);
        }
        *self.pages.edit(name) = page;
        self.put_end(root, &path, old, Below { reference: Ref::page(name), mapped });
    }

    /// Makes the pages above the subtree of that level that begins at block `first` private.
    fn own_path(&mut self, root: &mut Root, first: u64, level: u8) -> Path {
        let mut path = Path::new();
        for at in (level + 1..=root.height).rev() {
            let old = self.end(root, &path);
            let name = self.own(old.reference, at);
            self.put_end(root, &path, old, Below { reference: Ref::page(name), ..old });
            path.push(name, (first / entry_span(at)) as usize % entries(at));
        }
        path
    }

    /// What stands at the end of a path.
    fn end(&mut self, root: &Root, path: &Path) -> Below {
        path.last().map_or(root.below(), |(name, index)| self.page(*name).entry(*index))
    }

    /// Replaces what stands at the end of a path, and counts what is mapped now, all the way up.
    fn put_end(&mut self, root: &mut Root, path: &Path, old: Below, new: Below) {
        if new == old {
            return;
        }
        let Some(((name, index), above)) = path.split_last() else { return root.put(new) };
        self.pages.edit(*name).put(*index, new);
        let difference = new.mapped.wrapping_sub(old.mapped);
        if difference != 0 {
            above.iter().for_each(|(name, index)| self.pages.edit(*name).add_mapped(*index, difference));
            root.mapped = root.mapped.wrapping_add(difference);
        }
    }

    /// Replaces the subtree of that level that begins at block `first` by `new`, one counted reference.
    fn put_page(&mut self, root: &mut Root, first: u64, level: u8, new: Below) {
        let path = self.own_path(root, first, level);
        let old = self.end(root, &path);
        self.put_end(root, &path, old, new);
        self.release(old.reference);
    }

    /// Has a page in memory stored anew by the next checkpoint, at another place.
    pub fn rewrite_page(&mut self, name: SlotId) {
        self.slots.touch_slot(name);
        self.pages.edit(name);
    }

    /// A private page in the place of `node`: itself when nobody shares it, else a copy, else a page filled with it.
    /// The reference to `node` passes to the page that is given back.
    fn own(&mut self, node: Ref, level: u8) -> SlotId {
        let page = match node.target() {
            RefTarget::Page(name) if self.slots.count(name) == 1 => {
                self.slots.touch_slot(name);
                return name;
            }
            RefTarget::Page(name) => {
                let page = self.page(name).clone();
                page.refs.iter().for_each(|child| {
                    let counted = self.count_up(*child);
                    assert!(counted, "a count has met its end in spite of the headroom");
                });
                self.slots.count_down(name, 1);
                page
            }
            _ => Page::filled(level, node),
        };
        let name = self.slots.allocate_page();
        self.pages.insert_new(name, page);
        name
    }

    /// Counts one more reference, where the reference names a slot.
    #[must_use]
    pub fn count_up(&mut self, reference: Ref) -> bool {
        match reference.target() {
            RefTarget::Data(name) | RefTarget::Page(name) => self.slots.count_up(name),
            _ => true,
        }
    }

    /// Drops one reference. A block that loses its last one is freed; a page waits in the queue of [`Map::drop_next`].
    pub fn release(&mut self, reference: Ref) {
        match reference.target() {
            RefTarget::Data(name) | RefTarget::Page(name) if self.slots.count(name) > 1 => {
                self.slots.count_down(name, 1)
            }
            RefTarget::Data(name) => {
                let place = self.slots.free(name);
                self.freed.push(Freed { name, place });
            }
            // The queue takes over the last reference.
            RefTarget::Page(name) => self.drops.push_back(name),
            _ => {}
        }
    }

    /// Drops so many references of one kind.
    fn release_run(&mut self, reference: Ref, references: u32) {
        match reference.target() {
            RefTarget::Data(name) | RefTarget::Page(name) if self.slots.count(name) > references => {
                self.slots.count_down(name, references);
            }
            RefTarget::Data(_) | RefTarget::Page(_) => (0..references).for_each(|_| self.release(reference)),
            _ => {}
        }
    }

    /// Works off one page of the drop queue: releases what it references and frees it. `Ok(false)` when the queue is empty;
    /// `Err` names what has to be read first.
    pub fn drop_next(&mut self) -> Result<bool, Vec<Absent>> {
        let Some(name) = self.drops.back().copied() else { return Ok(false) };
        let absent = self.missing_for_drop(name);
        if !absent.is_empty() {
            return Err(absent);
        }
        let Some(page) = self.pages.remove(name) else { return Err(vec![Absent::Page(name)]) };
        self.drops.pop_back();
        // Children that are alike go together: a filled leaf is one step.
        page.refs.chunk_by(|a, b| a == b).for_each(|run| self.release_run(run[0], run.len() as u32));
        let place = self.slots.free(name);
        self.freed.push(Freed { name, place });
        Ok(true)
    }

    /// The pages that wait to be dropped. Each holds one reference to its slot.
    pub fn drops(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.drops.iter().copied()
    }

    /// Number of pages that wait to be dropped.
    pub fn drops_len(&self) -> usize {
        self.drops.len()
    }

    /// Puts the next page of the drop queue behind the others: it cannot be read now.
    pub fn defer_drop(&mut self) {
        let next = self.drops.pop_back();
        next.into_iter().for_each(|name| self.drops.push_front(name));
    }

    /// Puts a page in the drop queue, as it stood there before a restart.
    pub fn restore_drop(&mut self, name: SlotId) {
        self.drops.push_back(name);
    }

    /// The slots that were freed since the last call.
    pub fn take_freed(&mut self, out: &mut Vec<Freed>) {
        out.append(&mut self.freed);
    }

    /// Collects counted references to the blocks `first..end`, to be stored from block `to` on of a tree of `to_height`: whole
    /// pages where both ends have the same place in their page, else block by block. On an error nothing stays counted.
    pub fn collect(
        &mut self,
        root: &Root,
        first: u64,
        end: u64,
        to: u64,
        to_height: u8,
    ) -> Result<Vec<Piece>, TooManyReferences> {
        let mut pieces = Vec::new();
        self.collect_below(
            root.below(),
            root.height,
            0,
            (first, end),
            &|level, start| shares(level, start, first, to, to_height),
            &mut pieces,
        );
        for (done, piece) in pieces.iter().enumerate() {
            let is_countable = match piece.reference.target() {
                RefTarget::Data(name) | RefTarget::Page(name) => {
                    !is_near_limit(self.slots.count(name)) && self.slots.count_up(name)
                }
                _ => true,
            };
            if !is_countable {
                pieces[..done].iter().for_each(|piece| self.release(piece.reference));
                return Err(TooManyReferences);
            }
        }
        Ok(pieces)
    }

    /// True when [`Map::collect`] would succeed.
    pub fn can_collect(&self, root: &Root, first: u64, end: u64, to: u64, to_height: u8) -> bool {
        let mut pieces = Vec::new();
        self.collect_below(
            root.below(),
            root.height,
            0,
            (first, end),
            &|level, start| shares(level, start, first, to, to_height),
            &mut pieces,
        );
        pieces.iter().all(|piece| self.is_shareable(piece.reference))
    }

    fn collect_below(
        &self,
        node: Below,
        level: u8,
        start: u64,
        range: (u64, u64),
        is_shared: &impl Fn(u8, u64) -> bool,
        out: &mut Vec<Piece>,
    ) {
        let is_covered = range.0 <= start && start + span(level) <= range.1;
        let name = match node.reference.target() {
            RefTarget::Page(name) if !(is_covered && is_shared(level, start)) => name,
            _ => {
                let from = range.0.max(start);
                let blocks = range.1.min(start + span(level)) - from;
                let Below { reference, mapped } = node;
                return out.push(Piece { offset: from - range.0, blocks, reference, mapped });
            }
        };
        let Some(page) = self.pages.get(name) else { panic!("page {name:?} is used while it is not in memory") };
        for index in touched(level, start, range) {
            let at = start + index as u64 * entry_span(level);
            let below = page.entry(index);
            if level > 0 {
                self.collect_below(below, level - 1, at, range, is_shared, out);
            } else {
                out.push(Piece { offset: at - range.0, blocks: 1, reference: below.reference, mapped: below.mapped });
            }
        }
    }

    /// Stores collected pieces from block `to` on. Every piece passes its reference to the tree. A leaf that the pieces cover
    /// wholly is replaced without being looked into.
    pub fn store(&mut self, root: &mut Root, to: u64, pieces: &[Piece]) {
        let mut run = Vec::with_capacity(span(0) as usize);
        let (mut rest, mut done) = (pieces, 0);
        while let Some(piece) = rest.first() {
            let (at, left) = (to + piece.offset + done, piece.blocks - done);
            if let RefTarget::Page(_) = piece.reference.target() {
                let level = height_for(left);
                assert!(span(level) == left && at.is_multiple_of(left));
                self.put_page(root, at, level, Below { reference: piece.reference, mapped: piece.mapped });
                rest = &rest[1..];
                continue;
            }
            if !piece.reference.is_named() && at.is_multiple_of(span(0)) && left >= span(0) {
                let whole = left - left % span(0);
                self.fill(root, at, at + whole, piece.reference);
                (rest, done) = advance(rest, done + whole);
                continue;
            }
            run.clear();
            let room = (span(0) - at % span(0)) as usize;
            while let Some(next) =
                rest.first().filter(|next| run.len() < room && !matches!(next.reference.target(), RefTarget::Page(_)))
            {
                let take = (next.blocks - done).min((room - run.len()) as u64);
                run.extend(std::iter::repeat_n(next.reference, take as usize));
                (rest, done) = advance(rest, done + take);
            }
            self.set(root, at, &run);
        }
    }

    /// Raises the tree until it covers so many blocks.
    pub fn grow(&mut self, root: &mut Root, blocks: u64) {
        while span(root.height) < blocks {
            root.height += 1;
            if root.reference != Ref::HOLE {
                let name = self.slots.allocate_page();
                let mut page = Page::filled(root.height, Ref::HOLE);
                page.put(0, root.below());
                self.pages.insert_new(name, page);
                root.reference = Ref::page(name);
            }
        }
    }
}

/// What is left of a list of pieces when `done` blocks of the first one are dealt with.
fn advance(pieces: &[Piece], done: u64) -> (&[Piece], u64) {
    match pieces.first() {
        Some(piece) if piece.blocks == done => (&pieces[1..], 0),
        _ => (pieces, done),
    }
}

/// True when a whole page of `level` at block `start` of the source lands on a whole page of the destination.
pub fn shares(level: u8, start: u64, first: u64, to: u64, to_height: u8) -> bool {
    level <= to_height && (start - first + to).is_multiple_of(span(level))
}

/// Indices of the entries, of a page of that level that begins at block `start`, that the range touches.
pub(crate) fn touched(level: u8, start: u64, range: (u64, u64)) -> std::ops::Range<usize> {
    let from = range.0.saturating_sub(start) / entry_span(level);
    let to = range.1.saturating_sub(start).div_ceil(entry_span(level));
    from as usize..(to as usize).min(entries(level))
}
