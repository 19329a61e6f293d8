//! Volume trees: lookup of references, and their copy-on-write replacement.
//!
//! Two rules protect shared pages. *Top down*: a page is made private before anything below it is
//! edited, and copying a page first counts up all of its children. A leaf that names slots in many
//! pages of the slot table is [gathered](gather) before. *No misses*: callers load the
//! pages listed by [`Map::missing`] before an edit. The edit then finds every page and slot in
//! memory and never stops half-way.

pub(crate) mod audit;
mod gather;
mod headroom;
mod missing;
mod named_pages;
mod redirect;
mod relieve;
mod runs;
#[cfg(test)]
mod tests;

use crate::absent::Absent;
use crate::page::{MAX_HEIGHT, Page, PageCache, Subtree, entries, entry_span, height_for, span};
use crate::reference::{Ref, RefTarget, SlotId};
use crate::slot::SlotPlace;
use crate::table::SlotTable;
use named_pages::MaxNamedPages;
use std::collections::VecDeque;
use types::to_usize;

/// Root of a volume tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Top page, or the content of the whole volume if it is uniform.
    pub reference: Ref,
    /// Level of the top page. Leaves are level 0.
    pub height: u8,
    /// Number of 4 KiB blocks of the volume that are not HOLE.
    pub mapped: u64,
}

impl Root {
    /// Creates the root of an empty volume of `blocks` 4 KiB blocks.
    pub fn empty(blocks: u64) -> Self {
        Self { reference: Ref::HOLE, height: height_for(blocks), mapped: 0 }
    }

    fn subtree(&self) -> Subtree {
        Subtree { reference: self.reference, mapped: self.mapped }
    }

    fn put(&mut self, below: Subtree) {
        (self.reference, self.mapped) = (below.reference, below.mapped);
    }
}

/// A slot that lost its last reference, with the location of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Id of the slot before it was freed.
    pub id: SlotId,
    /// Location of the bytes, if they were stored.
    pub place: Option<SlotPlace>,
}

/// A run of blocks with one reference, as returned by [`Map::collect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset in blocks from the start of the collected range.
    pub offset: u64,
    /// Length in blocks. For a page this is the span of its level.
    pub blocks: u64,
    /// The reference, already counted.
    pub reference: Ref,
    /// For a page, the number of blocks below it that are not HOLE.
    mapped: u64,
}

/// The private pages above a subtree, from the top down, each with the index of the entry to
/// follow.
#[derive(Clone, Copy)]
struct Path {
    steps: [(SlotId, usize); MAX_HEIGHT as usize],
    len: usize,
}

impl Path {
    fn new() -> Self {
        Self { steps: [(SlotId { slot: 0, generation: 0 }, 0); MAX_HEIGHT as usize], len: 0 }
    }

    fn push(&mut self, id: SlotId, index: usize) {
        self.steps[self.len] = (id, index);
        self.len += 1;
    }
}

impl std::ops::Deref for Path {
    type Target = [(SlotId, usize)];

    fn deref(&self) -> &Self::Target {
        &self.steps[..self.len]
    }
}

/// A slot has reached its reference limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reference count of a block is at its limit")]
pub struct TooManyReferences;

/// Slots and map pages of all volumes.
#[derive(Default)]
pub struct Map {
    /// The slot table.
    pub slots: SlotTable,
    /// The map pages in memory.
    pub pages: PageCache,
    /// Pages that lost their last reference. The newest is dropped first, which bounds the queue to
    /// the references of the pages on one path from root to leaf.
    drops: VecDeque<SlotId>,
    freed: Vec<Freed>,
    max_named_pages: MaxNamedPages,
}

impl Map {
    /// Calls `visit(first block, blocks, reference)` for the runs of `first..end`, in order.
    /// References to blocks and aliases are reported one by one.
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
        let RefTarget::Page(id) = node.target() else {
            let from = range.0.max(start);
            return visit(from, range.1.min(start + span(level)) - from, node);
        };
        if level == 0 {
            let page = self.page(id);
            return touched(0, start, range).for_each(|index| visit(start + index as u64, 1, page.refs[index]));
        }
        for index in touched(level, start, range) {
            let child = self.page(id).refs[index];
            self.visit_below(child, level - 1, start + index as u64 * entry_span(level), range, visit);
        }
    }

    fn page(&mut self, id: SlotId) -> &Page {
        match self.pages.get(id) {
            Some(page) => page,
            None => panic!("page {id:?} is used while it is not in memory"),
        }
    }

    /// Sets every block of `first..end` to `fill`, which must not name a slot. Whole subtrees are
    /// replaced by one reference.
    pub fn fill(&mut self, root: &mut Root, first: u64, end: u64, fill: Ref) {
        assert!(!fill.is_named());
        if first < end {
            root.put(self.fill_below(root.subtree(), root.height, 0, (first, end), fill));
        }
    }

    fn fill_below(&mut self, node: Subtree, level: u8, start: u64, range: (u64, u64), fill: Ref) -> Subtree {
        if range.0 <= start && start + span(level) <= range.1 {
            self.release(node.reference);
            return Subtree::whole(fill, span(level));
        }
        if node.reference == fill {
            return node;
        }
        let id = self.make_private(node.reference, level);
        let mut page = std::mem::take(self.pages.edit(id));
        let mut mapped = node.mapped;
        for index in touched(level, start, range) {
            let old = page.entry(index);
            let new = if level == 0 {
                self.release(old.reference);
                Subtree::whole(fill, 1)
            } else {
                self.fill_below(old, level - 1, start + index as u64 * entry_span(level), range, fill)
            };
            page.put(index, new);
            mapped = mapped.wrapping_add(new.mapped).wrapping_sub(old.mapped);
        }
        *self.pages.edit(id) = page;
        Subtree { reference: Ref::page(id), mapped }
    }

    /// Sets every block of `first..end` to the data block `block` and takes over its one counted
    /// reference.
    ///
    /// Identical pages are created once and shared, so a range of any length costs only a few
    /// pages.
    pub fn fill_with_block(&mut self, root: &mut Root, first: u64, end: u64, block: Ref) {
        let mut uniform = vec![None; usize::from(root.height) + 1];
        if first < end {
            root.put(self.fill_block_below(root.subtree(), root.height, 0, (first, end), block, &mut uniform));
        }
        uniform.into_iter().flatten().chain([block]).for_each(|reference| self.release(reference));
    }

    fn fill_block_below(
        &mut self,
        node: Subtree,
        level: u8,
        start: u64,
        range: (u64, u64),
        block: Ref,
        uniform: &mut Vec<Option<Ref>>,
    ) -> Subtree {
        if range.0 <= start && start + span(level) <= range.1 {
            self.release(node.reference);
            let page = self.uniform_page(level, block, uniform);
            self.share(page);
            return Subtree::whole(page, span(level));
        }
        let id = self.make_private(node.reference, level);
        let mut page = std::mem::take(self.pages.edit(id));
        let mut mapped = node.mapped;
        for index in touched(level, start, range) {
            let old = page.entry(index);
            let new = if level == 0 {
                self.share(block);
                self.release(old.reference);
                Subtree::whole(block, 1)
            } else {
                self.fill_block_below(old, level - 1, start + index as u64 * entry_span(level), range, block, uniform)
            };
            page.put(index, new);
            mapped = mapped.wrapping_add(new.mapped).wrapping_sub(old.mapped);
        }
        *self.pages.edit(id) = page;
        Subtree { reference: Ref::page(id), mapped }
    }

    /// Returns the page of `level` whose blocks are all `block`. Creates it on first use.
    fn uniform_page(&mut self, level: u8, block: Ref, uniform: &mut Vec<Option<Ref>>) -> Ref {
        if let Some(page) = uniform[usize::from(level)] {
            return page;
        }
        let entry = if level == 0 { block } else { self.uniform_page(level - 1, block, uniform) };
        let page = Page::filled(level, entry);
        if let Some(id) = entry.slot() {
            let is_counted = self.slots.count_up_by(id, entry_count(&page.refs));
            assert!(is_counted, "the reference count of a new block overflowed");
        }
        let id = self.slots.allocate_page();
        self.pages.insert_new(id, page);
        uniform[usize::from(level)] = Some(Ref::page(id));
        Ref::page(id)
    }

    /// Counts up a reference that was created just now and therefore cannot be at its limit.
    fn share(&mut self, reference: Ref) {
        let is_counted = self.count_up(reference);
        assert!(is_counted, "the reference count of a new block overflowed");
    }

    /// Stores `refs`, counted by the caller, at the blocks from `first` on, and releases the old
    /// references. All blocks must be within one leaf.
    pub fn set(&mut self, root: &mut Root, first: u64, refs: &[Ref]) {
        let leaf = first - first % span(0);
        assert!(first + refs.len() as u64 <= leaf + span(0));
        if refs.len() as u64 == span(0) {
            let (id, page) = (self.slots.allocate_page(), Page::leaf(refs));
            let below = Subtree { reference: Ref::page(id), mapped: page.mapped() };
            self.pages.insert_new(id, page);
            return self.put_page(root, leaf, 0, below);
        }
        let path = self.make_path_private(root, leaf, 0);
        let old = self.end(root, &path);
        let id = self.make_private(old.reference, 0);
        let mut page = std::mem::take(self.pages.edit(id));
        let mut mapped = old.mapped;
        for (index, reference) in (to_usize(first - leaf)..).zip(refs) {
            let (before, after) = (page.entry(index), Subtree::whole(*reference, 1));
            page.put(index, after);
            mapped = mapped.wrapping_add(after.mapped).wrapping_sub(before.mapped);
            self.release(before.reference);
        }
        *self.pages.edit(id) = page;
        self.put_end(root, &path, old, Subtree { reference: Ref::page(id), mapped });
    }

    /// Makes the pages above a subtree private. The subtree has this level and starts at block
    /// `first`.
    fn make_path_private(&mut self, root: &mut Root, first: u64, level: u8) -> Path {
        let mut path = Path::new();
        for at in (level + 1..=root.height).rev() {
            let old = self.end(root, &path);
            let id = self.make_private(old.reference, at);
            self.put_end(root, &path, old, Subtree { reference: Ref::page(id), ..old });
            path.push(id, to_usize(first / entry_span(at)) % entries(at));
        }
        path
    }

    /// Returns the subtree at the end of a path.
    fn end(&mut self, root: &Root, path: &Path) -> Subtree {
        path.last().map_or(root.subtree(), |(id, index)| self.page(*id).entry(*index))
    }

    /// Replaces the subtree at the end of a path and updates the mapped blocks of all levels above.
    fn put_end(&mut self, root: &mut Root, path: &Path, old: Subtree, new: Subtree) {
        if new == old {
            return;
        }
        let Some(((id, index), above)) = path.split_last() else { return root.put(new) };
        self.pages.edit_entry(*id, *index).put(*index, new);
        let difference = new.mapped.wrapping_sub(old.mapped);
        if difference != 0 {
            above.iter().for_each(|(id, index)| self.pages.edit_entry(*id, *index).add_mapped(*index, difference));
            root.mapped = root.mapped.wrapping_add(difference);
        }
    }

    /// Replaces a subtree by `new`, which holds one counted reference. The subtree has this level
    /// and starts at block `first`.
    fn put_page(&mut self, root: &mut Root, first: u64, level: u8, new: Subtree) {
        let path = self.make_path_private(root, first, level);
        let old = self.end(root, &path);
        self.put_end(root, &path, old, new);
        self.release(old.reference);
    }

    /// Makes the next checkpoint store a page in memory whole, at another location.
    pub fn rewrite_page(&mut self, id: SlotId) {
        self.slots.touch_slot(id);
        self.pages.rewrite(id);
    }

    /// Returns a private page in place of `node`. The reference to `node` moves to the returned
    /// page.
    ///
    /// The result is `node` itself if it is not shared, a copy of it if it is, or a new page filled
    /// with `node`.
    fn make_private(&mut self, node: Ref, level: u8) -> SlotId {
        let page = match node.target() {
            RefTarget::Page(id) if self.slots.count(id) == 1 => {
                self.slots.touch_slot(id);
                return id;
            }
            RefTarget::Page(id) => {
                if level == 0 {
                    self.gather(id);
                }
                let page = self.page(id).clone();
                page.refs.iter().for_each(|child| {
                    let counted = self.count_up(*child);
                    assert!(counted, "a reference count overflowed despite the headroom");
                });
                self.slots.count_down(id, 1);
                page
            }
            _ => Page::filled(level, node),
        };
        let id = self.slots.allocate_page();
        self.pages.insert_new(id, page);
        id
    }

    /// Adds one reference if the reference names a slot.
    #[must_use]
    pub fn count_up(&mut self, reference: Ref) -> bool {
        reference.slot().is_none_or(|id| self.slots.count_up(id))
    }

    /// Returns the slot of the data block that a reference of a leaf leads to, through its alias if
    /// it names one.
    #[inline]
    pub fn block(&self, reference: Ref) -> Option<SlotId> {
        match reference.target() {
            RefTarget::Data(id) => Some(id),
            RefTarget::Alias(alias) => self.slots.named_by(alias),
            _ => None,
        }
    }

    /// Releases one reference. A block that loses its last reference is freed. An alias that does
    /// is freed, and releases the block that it names. A page is queued for [`Map::drop_next`].
    pub fn release(&mut self, reference: Ref) {
        match reference.target() {
            RefTarget::Data(id) | RefTarget::Page(id) | RefTarget::Alias(id) if self.slots.count(id) > 1 => {
                self.slots.count_down(id, 1);
            }
            RefTarget::Alias(alias) => {
                let named = self.slots.named_by(alias);
                self.slots.free(alias);
                self.freed.push(Freed { id: alias, place: None });
                named.into_iter().for_each(|id| self.release(Ref::data(id)));
            }
            RefTarget::Data(id) => {
                let place = self.slots.free(id);
                self.freed.push(Freed { id, place });
            }
            // The queue takes over the last reference.
            RefTarget::Page(id) => self.drops.push_back(id),
            _ => {}
        }
    }

    /// Releases `references` equal references.
    fn release_run(&mut self, reference: Ref, references: u32) {
        match reference.slot() {
            Some(id) if self.slots.count(id) > references => self.slots.count_down(id, references),
            Some(_) => (0..references).for_each(|_| self.release(reference)),
            None => {}
        }
    }

    /// Drops one page of the drop queue: releases its references and frees it.
    ///
    /// Returns `Ok(false)` if the queue is empty.
    ///
    /// # Errors
    ///
    /// Returns the pages that must be loaded first.
    pub fn drop_next(&mut self) -> Result<bool, Vec<Absent>> {
        let Some(id) = self.drops.back().copied() else { return Ok(false) };
        let absent = self.missing_for_drop(id);
        if !absent.is_empty() {
            return Err(absent);
        }
        let Some(page) = self.pages.remove(id) else { return Err(vec![Absent::Page(id)]) };
        self.drops.pop_back();
        // Equal children are released together, so a filled leaf takes one step.
        page.refs.chunk_by(|a, b| a == b).for_each(|run| self.release_run(run[0], entry_count(run)));
        let place = self.slots.free(id);
        self.freed.push(Freed { id, place });
        Ok(true)
    }

    /// Returns the pages waiting to be dropped. Each holds one reference to its slot.
    pub fn drops(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.drops.iter().copied()
    }

    /// Returns the number of pages waiting to be dropped.
    pub fn drops_len(&self) -> usize {
        self.drops.len()
    }

    /// Moves the next page of the drop queue to the end because it cannot be read now.
    pub fn defer_drop(&mut self) {
        let next = self.drops.pop_back();
        next.into_iter().for_each(|id| self.drops.push_front(id));
    }

    /// Restores a page of the drop queue after a restart.
    pub fn restore_drop(&mut self, id: SlotId) {
        self.drops.push_back(id);
    }

    /// Appends the slots freed since the last call to `out`.
    pub fn take_freed(&mut self, out: &mut Vec<Freed>) {
        out.append(&mut self.freed);
    }

    /// Collects references to the blocks `first..end`, to be stored at block `to` of a tree of
    /// height `to_height`. Each collected reference is counted up.
    ///
    /// Whole pages are collected where both ranges have the same alignment, single blocks
    /// elsewhere.
    ///
    /// A full count never refuses the operation: a full page is not collected as a whole, and a
    /// full block is collected through a new alias (`Map::relieve`).
    ///
    /// # Errors
    ///
    /// Fails if a reference count would overflow. No reference stays counted then.
    pub fn collect(
        &mut self,
        root: &Root,
        first: u64,
        end: u64,
        to: u64,
        to_height: u8,
    ) -> Result<Vec<Piece>, TooManyReferences> {
        let is_shared = |level: u8, start: u64| shares(level, start, first, to, to_height);
        if self.slots.has_full() {
            self.relieve_below(root.reference, root.height, 0, (first, end), &is_shared);
        }
        let mut pieces = Vec::new();
        self.collect_below(root.subtree(), root.height, 0, (first, end), &is_shared, &mut pieces);
        for (done, piece) in pieces.iter().enumerate() {
            let is_countable = piece.reference.slot().is_none_or(|id| self.slots.count_up(id));
            if !is_countable {
                pieces[..done].iter().for_each(|piece| self.release(piece.reference));
                return Err(TooManyReferences);
            }
        }
        Ok(pieces)
    }

    fn collect_below(
        &self,
        node: Subtree,
        level: u8,
        start: u64,
        range: (u64, u64),
        is_shared: &impl Fn(u8, u64) -> bool,
        out: &mut Vec<Piece>,
    ) {
        let is_covered = range.0 <= start && start + span(level) <= range.1;
        let id = match node.reference.target() {
            RefTarget::Page(id) if !(is_covered && is_shared(level, start) && !self.slots.is_full(id)) => id,
            _ => {
                let from = range.0.max(start);
                let blocks = range.1.min(start + span(level)) - from;
                let Subtree { reference, mapped } = node;
                return out.push(Piece { offset: from - range.0, blocks, reference, mapped });
            }
        };
        let Some(page) = self.pages.get(id) else { panic!("page {id:?} is used while it is not in memory") };
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

    /// Stores collected pieces from block `to` on. The tree takes over the reference of every
    /// piece. A leaf that the pieces cover entirely is replaced without being read.
    pub fn store(&mut self, root: &mut Root, to: u64, pieces: &[Piece]) {
        let mut run = Vec::with_capacity(to_usize(span(0)));
        let (mut rest, mut done) = (pieces, 0);
        while let Some(piece) = rest.first() {
            let (at, left) = (to + piece.offset + done, piece.blocks - done);
            if let RefTarget::Page(_) = piece.reference.target() {
                let level = height_for(left);
                assert!(span(level) == left && at.is_multiple_of(left));
                self.put_page(root, at, level, Subtree { reference: piece.reference, mapped: piece.mapped });
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
            let room = to_usize(span(0) - at % span(0));
            while let Some(next) =
                rest.first().filter(|next| run.len() < room && !matches!(next.reference.target(), RefTarget::Page(_)))
            {
                let take = (next.blocks - done).min((room - run.len()) as u64);
                run.extend(std::iter::repeat_n(next.reference, to_usize(take)));
                (rest, done) = advance(rest, done + take);
            }
            self.set(root, at, &run);
        }
    }

    /// Shares the whole tree. Returns the root of the copy, with one counted reference.
    ///
    /// # Errors
    ///
    /// Fails as [`Map::collect`] does.
    pub fn copy(&mut self, root: &Root) -> Result<Root, TooManyReferences> {
        if self.is_shareable(root.reference) {
            return if self.count_up(root.reference) { Ok(*root) } else { Err(TooManyReferences) };
        }
        let pieces = self.collect(root, 0, span(root.height), 0, root.height)?;
        let mut copy = Root { reference: Ref::HOLE, mapped: 0, ..*root };
        self.store(&mut copy, 0, &pieces);
        Ok(copy)
    }

    /// Raises the tree until it covers `blocks` blocks.
    pub fn grow(&mut self, root: &mut Root, blocks: u64) {
        while span(root.height) < blocks {
            root.height += 1;
            if root.reference != Ref::HOLE {
                let id = self.slots.allocate_page();
                let mut page = Page::filled(root.height, Ref::HOLE);
                page.put(0, root.subtree());
                self.pages.insert_new(id, page);
                root.reference = Ref::page(id);
            }
        }
    }
}

/// Returns the number of references in a page or in a part of one.
#[expect(clippy::cast_possible_truncation, reason = "a page has at most 1024 entries")]
fn entry_count(refs: &[Ref]) -> u32 {
    refs.len() as u32
}

/// Returns the remaining pieces after `done` blocks of the first one were processed.
fn advance(pieces: &[Piece], done: u64) -> (&[Piece], u64) {
    match pieces.first() {
        Some(piece) if piece.blocks == done => (&pieces[1..], 0),
        _ => (pieces, done),
    }
}

/// Returns true if a whole source page of `level` at block `start` maps to a whole destination
/// page.
pub fn shares(level: u8, start: u64, first: u64, to: u64, to_height: u8) -> bool {
    level <= to_height && (start - first + to).is_multiple_of(span(level))
}

/// Returns the indices of the entries that the range touches, for a page of `level` that starts at
/// block `start`. None if the range begins after the page.
pub(crate) fn touched(level: u8, start: u64, range: (u64, u64)) -> std::ops::Range<usize> {
    let from = range.0.saturating_sub(start) / entry_span(level);
    let to = range.1.saturating_sub(start).div_ceil(entry_span(level));
    let end = to_usize(to).min(entries(level));
    to_usize(from).min(end)..end
}
