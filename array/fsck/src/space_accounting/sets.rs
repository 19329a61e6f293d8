//! Owners of slots, encoded in two bytes: none, one family, or a set of families.

use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Encoded owner of a slot.
pub(super) type OwnerTag = u16;

/// No reference was found yet.
pub(super) const UNOWNED: OwnerTag = 0;
/// The slot is referenced only by pages in the drop queue.
pub(super) const RELEASED: OwnerTag = OwnerTag::MAX - 1;
/// A set of families that is not tracked because there are too many sets.
pub(super) const UNTRACKED_SET: OwnerTag = OwnerTag::MAX;

/// Maximum number of families.
pub(super) const MAX_FAMILIES: usize = 30_000;
/// Maximum number of members of all sets together: 8 MiB.
const MAX_MEMBERS: usize = 4 << 20;
/// Maximum number of cached unions.
const MAX_UNIONS: usize = 1 << 18;

/// Returns the tag of a family's volume, or of its snapshots only. The volume has the lower tag and
/// takes precedence.
pub(super) fn single(family: usize, is_snapshot: bool) -> OwnerTag {
    family as OwnerTag * 2 + 1 + OwnerTag::from(is_snapshot)
}

/// The families, by number, and the sets of families found so far.
pub(super) struct Sets {
    families: usize,
    members: Vec<Rc<[u16]>>,
    numbers: FxHashMap<Rc<[u16]>, OwnerTag>,
    unions: FxHashMap<(OwnerTag, OwnerTag), OwnerTag>,
    /// Total number of members of all sets.
    size: usize,
}

/// Decoded owner.
pub(super) enum Owner<'s> {
    None,
    Released,
    /// A family, by number, and whether only its snapshots are the owner.
    Family(usize, bool),
    /// Several families, by number.
    Set(&'s [u16]),
    /// Several families that are not tracked.
    UntrackedSet,
}

impl Sets {
    /// Creates the table for `families` families, at most [`MAX_FAMILIES`].
    pub(super) fn new(families: usize) -> Self {
        let (numbers, unions) = (FxHashMap::default(), FxHashMap::default());
        Self { families, members: Vec::new(), numbers, unions, size: 0 }
    }

    /// Decodes a tag.
    pub(super) fn owner(&self, tag: OwnerTag) -> Owner<'_> {
        match tag {
            UNOWNED => Owner::None,
            RELEASED => Owner::Released,
            UNTRACKED_SET => Owner::UntrackedSet,
            _ => {
                let at = usize::from(tag) - 1;
                match at.checked_sub(2 * self.families) {
                    None => Owner::Family(at / 2, at % 2 == 1),
                    Some(set) => self.members.get(set).map_or(Owner::UntrackedSet, |members| Owner::Set(members)),
                }
            }
        }
    }

    /// Returns the owner of a slot that both `one` and `other` own.
    pub(super) fn union(&mut self, one: OwnerTag, other: OwnerTag) -> OwnerTag {
        if one == other {
            return one;
        }
        let pair = (one.min(other), one.max(other));
        if let Some(known) = self.unions.get(&pair) {
            return *known;
        }
        let union = match (self.owner(pair.0), self.owner(pair.1)) {
            // The volume takes precedence over its snapshots.
            (Owner::Family(family, _), Owner::Family(same, _)) if family == same => return pair.0,
            (Owner::None | Owner::Released, _) => return pair.1,
            (_, Owner::Released) => return pair.0,
            (Owner::UntrackedSet, _) | (_, Owner::UntrackedSet) => return UNTRACKED_SET,
            (one, other) => {
                let mut members = members(&one);
                members.extend(self::members(&other));
                members.sort_unstable();
                members.dedup();
                self.number(members)
            }
        };
        if self.unions.len() < MAX_UNIONS {
            self.unions.insert(pair, union);
        }
        union
    }

    fn number(&mut self, members: Vec<u16>) -> OwnerTag {
        let next = 1 + 2 * self.families + self.members.len();
        let members: Rc<[u16]> = members.into();
        if let Some(known) = self.numbers.get(&members) {
            return *known;
        }
        if self.size + members.len() > MAX_MEMBERS || next >= usize::from(RELEASED) {
            return UNTRACKED_SET;
        }
        self.size += members.len();
        self.members.push(members.clone());
        self.numbers.insert(members, next as OwnerTag);
        next as OwnerTag
    }
}

fn members(owner: &Owner<'_>) -> Vec<u16> {
    match owner {
        Owner::Family(family, _) => vec![*family as u16],
        Owner::Set(members) => members.to_vec(),
        Owner::None | Owner::Released | Owner::UntrackedSet => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_unions_do_not_depend_on_order() {
        let mut sets = Sets::new(3);
        let (volume, snapshots, others) = (single(0, false), single(0, true), [single(1, true), single(2, false)]);
        assert_eq!(sets.union(snapshots, volume), volume);
        let two = sets.union(volume, others[0]);
        assert_eq!((sets.union(others[0], snapshots), sets.union(two, volume)), (two, two));
        let (three, also) = (sets.union(two, others[1]), sets.union(others[1], others[0]));
        assert_eq!(sets.union(also, snapshots), three);
        assert!(matches!(sets.owner(three), Owner::Set([0, 1, 2])));
        assert!(matches!(sets.owner(others[0]), Owner::Family(1, true)));
        assert_eq!(sets.union(three, UNTRACKED_SET), UNTRACKED_SET);
    }

    #[test]
    fn excess_sets_are_merged_into_one() {
        let mut sets = Sets::new(MAX_FAMILIES);
        let mut last = single(0, false);
        for family in 1..MAX_FAMILIES {
            last = sets.union(last, single(family, false));
        }
        assert!(matches!(sets.owner(last), Owner::UntrackedSet));
        assert!(sets.size <= MAX_MEMBERS);
        assert!(matches!(sets.owner(sets.members.len() as OwnerTag), Owner::Family(..)));
        assert!(matches!(sets.owner(single(MAX_FAMILIES - 1, true)), Owner::Family(29_999, true)));
    }
}
