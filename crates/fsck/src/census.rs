//! What belongs to whom: every stored byte of data goes to the family that alone holds it, or to what is shared.
//!
//! The families are walked one after the other, in each the volume before its snapshots. A slot remembers in four bytes who
//! came to it first; who comes later from another family makes it shared. A page that is shared is entered once more, to
//! make all below it shared too, and never again: so no page is entered more than twice, however many volumes hold it.

use crate::checkpoint::{Checkpoint, Unreadable};
use crate::manifest::Kind;
use crate::pages::{self, PageSlot, PageSlots};
use map::{Ref, SlotName, Target};
use std::collections::BTreeMap;
use store::SECTOR_BYTES;
use units::VolumeId;

/// Nobody has come yet.
const NOBODY: u32 = 0;
/// Several families.
const SHARED: u32 = u32::MAX;
/// No volume any more: a page that waits to be dropped.
const RELEASED: u32 = u32::MAX - 1;

/// Bytes of one family, as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Held by its volume, and by no other family.
    pub volume: u64,
    /// Held by its snapshots only.
    pub snapshots: u64,
}

/// The data of an array, by who holds them. All figures together are [`Checkpoint::data_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// By family.
    pub families: BTreeMap<VolumeId, Share>,
    /// Held by more than one family.
    pub shared: u64,
    /// Held by nobody any more, and not given back yet.
    pub released: u64,
}

/// Counts the data of a checkpoint. `owner` tells the family of a volume, and whether it is a snapshot in it. `go_on` is asked
/// now and then, and ends the count.
pub fn census(
    checkpoint: &Checkpoint<'_>,
    owner: &dyn Fn(VolumeId) -> (VolumeId, bool),
    go_on: &dyn Fn() -> bool,
) -> Result<Shares, Unreadable> {
    let mut order: Vec<(VolumeId, bool, VolumeId)> = checkpoint
        .manifest
        .volumes
        .keys()
        .map(|volume| (owner(*volume), *volume))
        .map(|((family, snap), volume)| (family, snap, volume))
        .collect();
    order.sort_unstable();
    let mut slots = PageSlots::default();
    let mut is_whole = true;
    let each = |number, slot: map::Slot| {
        if let Some(place) = slot.place.filter(|place| checkpoint.is_metadata(place.segment)) {
            slots.insert(number, PageSlot { place, crc: slot.crc, generation: slot.generation });
        }
    };
    checkpoint.each_slot(each, |_| is_whole = false);
    if !is_whole {
        return Err(Unreadable("a page of the slot table cannot be read".to_owned()));
    }
    let tags = vec![NOBODY; checkpoint.slots() as usize];
    let mut count = Count { checkpoint, slots, tags, todo: Vec::new() };
    let mut families: Vec<VolumeId> = Vec::new();
    for (family, is_snapshot, volume) in order {
        if families.last() != Some(&family) {
            families.push(family);
        }
        let tag = families.len() as u32 * 2 - u32::from(!is_snapshot);
        let root = checkpoint.manifest.volumes[&volume].root;
        count.walk(root.reference, tag, go_on)?;
    }
    for name in checkpoint.manifest.drops.clone() {
        count.walk(Ref::page(name), RELEASED, go_on)?;
    }
    count.sum(&families)
}

struct Count<'c, 'd> {
    checkpoint: &'c Checkpoint<'d>,
    slots: PageSlots,
    /// Who holds a slot: twice the number of a family (from 1 on), less one for its volume.
    tags: Vec<u32>,
    /// References to follow, and whose they are.
    todo: Vec<(Ref, u32)>,
}

impl Count<'_, '_> {
    /// Goes through all below a reference.
    fn walk(&mut self, root: Ref, tag: u32, go_on: &dyn Fn() -> bool) -> Result<(), Unreadable> {
        self.todo.push((root, tag));
        while let Some((reference, tag)) = self.todo.pop() {
            match reference.target() {
                Target::Data(name) => {
                    self.take(name, tag)?;
                }
                Target::Page(name) => {
                    if let Some(tag) = self.take(name, tag)? {
                        if !go_on() {
                            return Err(Unreadable("the count was ended".to_owned()));
                        }
                        self.enter(name, tag)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes that a slot is held; gives the tag for what is below it when that has to be noted too.
    fn take(&mut self, name: SlotName, tag: u32) -> Result<Option<u32>, Unreadable> {
        let held = self.tags.get_mut(name.slot as usize);
        let held = held.ok_or_else(|| Unreadable(format!("a reference names slot {name:?}, which is none")))?;
        let is_same = |a: u32, b: u32| a.div_ceil(2) == b.div_ceil(2);
        let next = match *held {
            NOBODY => tag,
            SHARED => return Ok(None),
            // What waits to be dropped, and is held by a volume, is the volume's.
            _ if tag == RELEASED => return Ok(None),
            // The volume came before its snapshots: what it holds is its own.
            before if tag != SHARED && is_same(before, tag) => return Ok(None),
            _ => SHARED,
        };
        *held = next;
        Ok(Some(next))
    }

    fn enter(&mut self, name: SlotName, tag: u32) -> Result<(), Unreadable> {
        let page = pages::read(self.checkpoint, &self.slots, name);
        let page = page.map_err(|what| Unreadable(format!("map page {name:?}: {what}")))?;
        let named = page.entries.iter().map(|entry| entry.reference).filter(|reference| reference.is_named());
        self.todo.extend(named.map(|reference| (reference, tag)));
        Ok(())
    }

    fn sum(self, families: &[VolumeId]) -> Result<Shares, Unreadable> {
        let mut shares = Shares {
            families: families.iter().map(|family| (*family, Share::default())).collect(),
            ..Shares::default()
        };
        let mut unclaimed = 0_u64;
        let checkpoint = self.checkpoint;
        let kind = |segment: u32| checkpoint.manifest.segments.get(segment as usize).map(|segment| segment.kind);
        checkpoint.each_slot(
            |number, slot| {
                let Some(place) = slot.place.filter(|place| kind(place.segment) == Some(Kind::Data)) else { return };
                let bytes = u64::from(place.share()) * SECTOR_BYTES;
                match self.tags[number as usize] {
                    NOBODY => unclaimed += 1,
                    SHARED => shares.shared += bytes,
                    RELEASED => shares.released += bytes,
                    tag => {
                        let family = families[(tag.div_ceil(2) - 1) as usize];
                        let share = shares.families.entry(family).or_default();
                        *(if tag.is_multiple_of(2) { &mut share.snapshots } else { &mut share.volume }) += bytes;
                    }
                }
            },
            |_| {},
        );
        if unclaimed > 0 {
            return Err(Unreadable(format!("{unclaimed} slots hold data that nobody references")));
        }
        Ok(shares)
    }
}
