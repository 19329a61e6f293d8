//! The map of a file: the place of each block, or of each page of a directory. It consists of runs
//! in memory and of a tree of pages on disk.
//!
//! The shape of the tree is fixed. In a tree of height 1, leaf `n` is pointer `n % 1008` of page `n
//! / 1008`, and so on up to the 16 pointers of the descriptor. So a change touches only the pages
//! on its path and never moves another entry.

use crate::layout::descriptor::{Descriptor, MAX_HEIGHT, ROOTS};
use crate::layout::page::{POINTERS, Pointer};
use crate::transaction::allocate::{NumberRun, push_run};
use crate::{DatastoreError, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A run of leaves: `length` consecutive numbers from `target` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) target: u32,
    pub(crate) length: u32,
    pub(crate) to_be_zeroed: bool,
}

/// The map. Levels count from 1; pages of level 1 point to leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Map {
    height: u8,
    runs: BTreeMap<u32, Run>,
    /// Page number by place, for each level.
    pages: [BTreeMap<u32, u32>; MAX_HEIGHT as usize],
    /// Places whose page on disk is out of date: (level, place).
    dirty: BTreeSet<(u8, u32)>,
    /// Pages that the map no longer needs.
    freed: Vec<u32>,
}

/// Returns the maximum number of leaves of a map of this height.
fn capacity(height: u8) -> u64 {
    (ROOTS as u64).saturating_mul((POINTERS as u64).saturating_pow(u32::from(height)))
}

impl Map {
    /// Returns the height of the tree.
    pub(crate) fn height(&self) -> u8 {
        self.height
    }

    /// Creates a map from a descriptor, and returns the pages to read next as (place, page).
    pub(crate) fn from_descriptor(descriptor: &Descriptor) -> Result<(Self, Vec<(u32, u32)>)> {
        let height = descriptor.height;
        if height > MAX_HEIGHT {
            return Err(DatastoreError::TooLarge);
        }
        let mut map = Self { height, ..Self::default() };
        let roots: Vec<u32> = descriptor.roots.iter().map(|root| root.get()).collect();
        let pages = map.read(height, 0, &roots);
        Ok((map, pages))
    }

    /// Adds the pointers of a page of level `level` + 1, or of the descriptor, from place `first`
    /// of `level` on. Returns the pages to read next as (place, page).
    pub(crate) fn read(&mut self, level: u8, first: u32, pointers: &[u32]) -> Vec<(u32, u32)> {
        let mut pages = Vec::new();
        for (place, packed) in (first..).zip(pointers) {
            let pointer = Pointer::unpack(*packed);
            let Some(target) = pointer.target else { continue };
            if level == 0 {
                self.insert(place, Run { target, length: 1, to_be_zeroed: pointer.to_be_zeroed });
            } else {
                self.pages[usize::from(level) - 1].insert(place, target);
                pages.push((place, target));
            }
        }
        pages
    }

    /// Returns the run from leaf `at` on.
    pub(crate) fn at(&self, at: u32) -> Option<Run> {
        let (first, run) = self.runs.range(..=at).next_back()?;
        let skip = at - first;
        (skip < run.length).then(|| Run { target: run.target + skip, length: run.length - skip, ..*run })
    }

    /// Returns the runs within a range, each with its first leaf.
    pub(crate) fn within(&self, range: Range<u32>) -> Vec<(u32, Run)> {
        let mut found = Vec::new();
        let head = self.at(range.start).map(|run| (range.start, run));
        let rest = self.runs.range(range.start.saturating_add(1)..range.end.max(range.start.saturating_add(1)));
        for (first, run) in head.into_iter().chain(rest.map(|(first, run)| (*first, *run))) {
            if first < range.end {
                found.push((first, Run { length: run.length.min(range.end - first), ..run }));
            }
        }
        found
    }

    /// Returns the unallocated ranges within a range.
    pub(crate) fn holes(&self, range: Range<u32>) -> Vec<Range<u32>> {
        let mut holes = Vec::new();
        let mut at = range.start;
        for (first, run) in self.within(range.clone()) {
            if at < first {
                holes.push(at..first);
            }
            at = first + run.length;
        }
        if at < range.end {
            holes.push(at..range.end);
        }
        holes
    }

    /// Returns the number of leaves.
    pub(crate) fn leaves(&self) -> u64 {
        self.runs.values().map(|run| u64::from(run.length)).sum()
    }

    /// Returns the number of the last leaf plus one.
    pub(crate) fn end(&self) -> u32 {
        self.runs.last_key_value().map_or(0, |(first, run)| first + run.length)
    }

    /// Returns all pages of the tree as (level, place, page).
    pub(crate) fn pages(&self) -> impl Iterator<Item = (u8, u32, u32)> + '_ {
        let level = |(at, pages): (usize, &BTreeMap<u32, u32>)| {
            pages.iter().map(move |(place, page)| (at as u8 + 1, *place, *page)).collect::<Vec<_>>()
        };
        self.pages.iter().enumerate().flat_map(level)
    }

    fn insert(&mut self, first: u32, run: Run) {
        let mut merged = (first, run);
        if let Some((before, previous)) = self.runs.range(..first).next_back().map(|(at, run)| (*at, *run))
            && before + previous.length == first
            && previous.target + previous.length == run.target
            && previous.to_be_zeroed == run.to_be_zeroed
        {
            merged = (before, Run { length: previous.length + run.length, ..previous });
        }
        let end = first + run.length;
        if let Some(next) = self.runs.get(&end).copied()
            && run.target + run.length == next.target
            && run.to_be_zeroed == next.to_be_zeroed
        {
            self.runs.remove(&end);
            merged.1.length += next.length;
        }
        self.runs.insert(merged.0, merged.1);
    }

    /// Removes and returns the runs of a range.
    fn cut(&mut self, range: &Range<u32>) -> Vec<(u32, Run)> {
        let cut = self.within(range.clone());
        for (first, run) in &cut {
            let Some((begin, whole)) = self.runs.range(..=*first).next_back().map(|(at, run)| (*at, *run)) else {
                continue;
            };
            self.runs.remove(&begin);
            if begin < *first {
                self.runs.insert(begin, Run { length: first - begin, ..whole });
            }
            let (end, whole_end) = (first + run.length, begin + whole.length);
            if end < whole_end {
                let rest = Run { target: whole.target + (end - begin), length: whole_end - end, ..whole };
                self.runs.insert(end, rest);
            }
        }
        cut
    }

    fn mark_dirty(&mut self, range: Range<u32>) {
        if self.height > 0 && range.start < range.end {
            let per = POINTERS as u32;
            self.dirty.extend((range.start / per..=(range.end - 1) / per).map(|place| (1, place)));
        }
    }

    /// Makes the tree high enough for leaf `last`.
    pub(crate) fn grow_to(&mut self, last: u32) -> Result<()> {
        while u64::from(last) >= capacity(self.height) {
            if self.height == MAX_HEIGHT {
                return Err(DatastoreError::TooLarge);
            }
            self.height += 1;
            let lower = usize::from(self.height) - 1;
            let has_content = if lower == 0 { !self.runs.is_empty() } else { !self.pages[lower - 1].is_empty() };
            if has_content {
                // The former pointers of the descriptor move to the first page of the new level.
                self.dirty.insert((self.height, 0));
            }
        }
        Ok(())
    }

    /// Puts leaves into the holes of `range` in order. There must be no more leaves than holes.
    /// Call [`Map::grow_to`] first.
    pub(crate) fn fill(&mut self, range: Range<u32>, leaves: &[NumberRun], to_be_zeroed: bool) {
        let mut leaves = leaves.iter().copied();
        let mut current = leaves.next();
        for hole in self.holes(range) {
            let mut at = hole.start;
            while let Some((target, length)) = current.filter(|_| at < hole.end) {
                let length_here = length.min(hole.end - at);
                self.insert(at, Run { target, length: length_here, to_be_zeroed });
                self.mark_dirty(at..at + length_here);
                at += length_here;
                let rest = (target + length_here, length - length_here);
                current = if rest.1 > 0 { Some(rest) } else { leaves.next() };
            }
        }
    }

    /// Marks the leaves of a range as written. Returns whether any was not.
    pub(crate) fn mark_written(&mut self, range: Range<u32>) -> bool {
        let unwritten: Vec<(u32, Run)> = self.within(range).into_iter().filter(|(_, run)| run.to_be_zeroed).collect();
        for (first, run) in &unwritten {
            let range = *first..first + run.length;
            self.cut(&range);
            self.insert(*first, Run { to_be_zeroed: false, ..*run });
            self.mark_dirty(range);
        }
        !unwritten.is_empty()
    }

    /// Removes the leaves of a range and returns them.
    pub(crate) fn punch(&mut self, range: Range<u32>) -> Vec<NumberRun> {
        let cut = self.cut(&range);
        let mut leaves = Vec::new();
        for (first, run) in &cut {
            self.mark_dirty(*first..first + run.length);
            push_run(&mut leaves, (run.target, run.length));
        }
        leaves
    }

    fn is_empty_at(&self, level: u8, place: u32) -> bool {
        let per = POINTERS as u32;
        let range = place.saturating_mul(per)..place.saturating_add(1).saturating_mul(per);
        match level {
            1 => self.within(range).is_empty(),
            _ => self.pages[usize::from(level) - 2].range(range).next().is_none(),
        }
    }

    /// Returns the number of pages that [`Map::assign_pages`] needs.
    pub(crate) fn missing_pages(&self) -> u32 {
        let per = POINTERS as u32;
        // Places on the level below that get a page, and that lose theirs.
        let (mut missing, mut added, mut removed) = (0, BTreeSet::new(), BTreeSet::new());
        for level in 1..=self.height {
            let pages = &self.pages[usize::from(level) - 1];
            let dirty = self.dirty.range((level, 0)..(level + 1, 0)).map(|(_, place)| *place);
            let parents = added.iter().chain(&removed).map(|place: &u32| place / per);
            let touched: BTreeSet<u32> = dirty.chain(parents).collect();
            let is_used = |place: &u32| {
                added.iter().any(|below| below / per == *place)
                    || match level {
                        1 => !self.is_empty_at(level, *place),
                        _ => self.pages[usize::from(level) - 2]
                            .range(place * per..(place + 1) * per)
                            .any(|(below, _)| !removed.contains(below)),
                    }
            };
            let (used, unused): (Vec<u32>, Vec<u32>) = touched.into_iter().partition(is_used);
            let new: BTreeSet<u32> = used.into_iter().filter(|place| !pages.contains_key(place)).collect();
            missing += new.len() as u32;
            (removed, added) = (unused.into_iter().filter(|place| pages.contains_key(place)).collect(), new);
        }
        missing
    }

    /// Assigns pages to places that need one, from the bottom up, and frees pages that are no
    /// longer needed.
    pub(crate) fn assign_pages(&mut self, spare: &mut Vec<u32>) -> Result<()> {
        for level in 1..=self.height {
            let places: Vec<u32> = self.dirty.range((level, 0)..(level + 1, 0)).map(|(_, place)| *place).collect();
            for place in places {
                let empty = self.is_empty_at(level, place);
                let pages = &mut self.pages[usize::from(level) - 1];
                let changed = match (empty, pages.contains_key(&place)) {
                    (true, true) => pages.remove(&place).map(|page| self.freed.push(page)).is_some(),
                    (false, false) => {
                        let page = spare.pop().ok_or(DatastoreError::NoMetadata("pages"))?;
                        pages.insert(place, page).is_none()
                    }
                    _ => false,
                };
                if empty {
                    self.dirty.remove(&(level, place));
                }
                if changed && level < self.height {
                    self.dirty.insert((level + 1, place / POINTERS as u32));
                }
            }
        }
        Ok(())
    }

    /// Returns the pages to write as (level, place, page), and the freed pages. Clears both lists.
    pub(crate) fn take_changes(&mut self) -> (Vec<(u8, u32, u32)>, Vec<u32>) {
        let dirty = std::mem::take(&mut self.dirty);
        let page = |(level, place): (u8, u32)| Some((level, place, *self.pages[usize::from(level) - 1].get(&place)?));
        (dirty.into_iter().filter_map(page).collect(), std::mem::take(&mut self.freed))
    }

    /// Returns the pointers of a page.
    pub(crate) fn pointers(&self, level: u8, place: u32) -> Vec<u32> {
        self.pointers_from(level - 1, place * POINTERS as u32, POINTERS as u32)
    }

    /// Returns the pointers of the descriptor.
    pub(crate) fn roots(&self) -> Vec<u32> {
        self.pointers_from(self.height, 0, ROOTS as u32)
    }

    fn pointers_from(&self, level: u8, first: u32, count: u32) -> Vec<u32> {
        let mut pointers = vec![0; count as usize];
        if level == 0 {
            for (at, run) in self.within(first..first + count) {
                for step in 0..run.length {
                    let pointer = Pointer { target: Some(run.target + step), to_be_zeroed: run.to_be_zeroed };
                    pointers[(at - first + step) as usize] = pointer.pack();
                }
            }
        } else {
            for (place, page) in self.pages[usize::from(level) - 1].range(first..first + count) {
                pointers[(place - first) as usize] = Pointer { target: Some(*page), to_be_zeroed: false }.pack();
            }
        }
        pointers
    }
}

#[cfg(test)]
mod tests;
