//! Who holds a slot, as a number of two bytes: nobody, one family, or a set of families.

use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Who holds a slot.
pub(super) type Tag = u16;

/// Nobody has come yet.
pub(super) const NOBODY: Tag = 0;
/// No volume any more: held only by pages that wait to be dropped.
pub(super) const RELEASED: Tag = Tag::MAX - 1;
/// A set of families that is not told from others: there are too many.
pub(super) const SEVERAL: Tag = Tag::MAX;

/// The most families that can be told apart.
pub(super) const MOST_FAMILIES: usize = 30_000;
/// The most members of all sets together: 8 MiB.
const MOST_MEMBERS: usize = 4 << 20;
/// The most unions that are remembered.
const MOST_UNIONS: usize = 1 << 18;

/// Of a family's volume, or of its snapshots alone. The lower of the two stands for both.
pub(super) fn single(family: usize, is_snapshot: bool) -> Tag {
    family as Tag * 2 + 1 + Tag::from(is_snapshot)
}

/// The families, by number, and the sets of them that have come up.
pub(super) struct Sets {
    families: usize,
    members: Vec<Rc<[u16]>>,
    numbers: FxHashMap<Rc<[u16]>, Tag>,
    unions: FxHashMap<(Tag, Tag), Tag>,
    /// Members of all sets together.
    size: usize,
}

/// Who is behind a tag.
pub(super) enum Holder<'s> {
    Nobody,
    Released,
    /// A family, by its number: its volume, or only its snapshots.
    Family(usize, bool),
    /// Several families, by their numbers.
    Set(&'s [u16]),
    /// Several, and nobody knows which.
    Several,
}

impl Sets {
    /// For so many families, at most [`MOST_FAMILIES`].
    pub(super) fn new(families: usize) -> Self {
        let (numbers, unions) = (FxHashMap::default(), FxHashMap::default());
        Self { families, members: Vec::new(), numbers, unions, size: 0 }
    }

    /// Who is behind a tag.
    pub(super) fn holder(&self, tag: Tag) -> Holder<'_> {
        match tag {
            NOBODY => Holder::Nobody,
            RELEASED => Holder::Released,
            SEVERAL => Holder::Several,
            _ => {
                let at = usize::from(tag) - 1;
                match at.checked_sub(2 * self.families) {
                    None => Holder::Family(at / 2, at % 2 == 1),
                    Some(set) => self.members.get(set).map_or(Holder::Several, |members| Holder::Set(members)),
                }
            }
        }
    }

    /// Who holds what two hold.
    pub(super) fn union(&mut self, one: Tag, other: Tag) -> Tag {
        if one == other {
            return one;
        }
        let pair = (one.min(other), one.max(other));
        if let Some(known) = self.unions.get(&pair) {
            return *known;
        }
        let union = match (self.holder(pair.0), self.holder(pair.1)) {
            // The volume comes first: what it holds is its own.
            (Holder::Family(family, _), Holder::Family(same, _)) if family == same => return pair.0,
            (Holder::Nobody | Holder::Released, _) => return pair.1,
            (_, Holder::Released) => return pair.0,
            (Holder::Several, _) | (_, Holder::Several) => return SEVERAL,
            (one, other) => {
                let mut members = members(&one);
                members.extend(self::members(&other));
                members.sort_unstable();
                members.dedup();
                self.number(members)
            }
        };
        if self.unions.len() < MOST_UNIONS {
            self.unions.insert(pair, union);
        }
        union
    }

    fn number(&mut self, members: Vec<u16>) -> Tag {
        let next = 1 + 2 * self.families + self.members.len();
        let members: Rc<[u16]> = members.into();
        if let Some(known) = self.numbers.get(&members) {
            return *known;
        }
        if self.size + members.len() > MOST_MEMBERS || next >= usize::from(RELEASED) {
            return SEVERAL;
        }
        self.size += members.len();
        self.members.push(members.clone());
        self.numbers.insert(members, next as Tag);
        next as Tag
    }
}

fn members(holder: &Holder<'_>) -> Vec<u16> {
    match holder {
        Holder::Family(family, _) => vec![*family as u16],
        Holder::Set(members) => members.to_vec(),
        Holder::Nobody | Holder::Released | Holder::Several => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_come_together_in_any_order() {
        let mut sets = Sets::new(3);
        let (volume, snapshots, others) = (single(0, false), single(0, true), [single(1, true), single(2, false)]);
        assert_eq!(sets.union(snapshots, volume), volume);
        let two = sets.union(volume, others[0]);
        assert_eq!((sets.union(others[0], snapshots), sets.union(two, volume)), (two, two));
        let (three, also) = (sets.union(two, others[1]), sets.union(others[1], others[0]));
        assert_eq!(sets.union(also, snapshots), three);
        assert!(matches!(sets.holder(three), Holder::Set([0, 1, 2])));
        assert!(matches!(sets.holder(others[0]), Holder::Family(1, true)));
        assert_eq!(sets.union(three, SEVERAL), SEVERAL);
    }

    #[test]
    fn more_sets_than_there_are_numbers_are_one() {
        let mut sets = Sets::new(MOST_FAMILIES);
        let mut last = single(0, false);
        for family in 1..MOST_FAMILIES {
            last = sets.union(last, single(family, false));
        }
        assert!(matches!(sets.holder(last), Holder::Several));
        assert!(sets.size <= MOST_MEMBERS);
        assert!(matches!(sets.holder(sets.members.len() as Tag), Holder::Family(..)));
        assert!(matches!(sets.holder(single(MOST_FAMILIES - 1, true)), Holder::Family(29_999, true)));
    }
}
