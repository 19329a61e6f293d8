//! What belongs to whom: every stored byte of data goes to the family that alone holds it, or is divided among those that
//! hold it together.
//!
//! What waits to be dropped is dropped first, in the counts that the walk keeps for itself. Then the trees are walked level by
//! level from the top, each page once: by the time a page is entered, all that name it have been seen, so that its *tag* is final: one
//! family (its volume, or only its snapshots), or several. A tag takes two bytes a slot, a count of references two more.
//!
//! **Division.** Each reference to a page or block has an equal part of it, and so on down from the roots. Followed from the top that would
//! need a list of families for every page; it is followed from the bottom instead: what a page is worth is the sum of its
//! references' parts of what they name, and what a family holds is the sum of its roots' parts. A block that one family alone holds is
//! divided among its own references only, so what exceeds a family's own is its part of what several share.

mod count;
mod counts;
mod divide;

use crate::checkpoint::{Checkpoint, Unreadable};
use count::Count;
use std::collections::BTreeMap;
use units::{MAP_BLOCK_BYTES, VolumeId};

/// Bytes of one family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// What its volume has mapped, before reduction.
    pub written: u64,
    /// As stored: held by its volume, and by no other family.
    pub volume: u64,
    /// As stored: held by its snapshots only.
    pub snapshots: u64,
    /// As stored: its part of what several families hold.
    pub shared: u64,
}

/// The data of an array, by who holds them. All stored bytes together are [`Checkpoint::data_bytes`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// By family.
    pub families: BTreeMap<VolumeId, Share>,
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
    let volumes = &checkpoint.manifest.volumes;
    let owned: Vec<_> = volumes.iter().map(|(name, volume)| (owner(*name), volume.root)).collect();
    let mut shares = Shares::default();
    for ((family, is_snapshot), root) in &owned {
        let share = shares.families.entry(*family).or_default();
        if !is_snapshot {
            share.written = share.written.saturating_add(root.mapped.saturating_mul(MAP_BLOCK_BYTES));
        }
    }
    let families: Vec<VolumeId> = shares.families.keys().copied().collect();
    if families.len() > count::MOST_FAMILIES {
        return Err(Unreadable(format!("more than {} families cannot be told apart", count::MOST_FAMILIES)));
    }
    let roots: Vec<count::Root> = owned
        .into_iter()
        .map(|((family, is_snapshot), root)| {
            let family = families.partition_point(|other| *other < family);
            count::Root { family, is_snapshot, reference: root.reference, height: root.height }
        })
        .collect();
    let mut count = Count::new(checkpoint)?;
    count.release(go_on)?;
    count.walk(&roots, go_on)?;
    let held = count.held(families.len())?;
    let parts = count.parts(&roots, families.len());
    let own = held.families.iter().map(|(volume, snapshots)| volume + snapshots);
    let excess: Vec<f64> = parts.iter().zip(own).map(|(part, own)| part - own as f64).collect();
    let shared = divide::divide(held.shared, &excess);
    for ((share, (volume, snapshots)), shared) in shares.families.values_mut().zip(held.families).zip(shared) {
        (share.volume, share.snapshots, share.shared) = (volume, snapshots, shared);
    }
    shares.released = held.released;
    Ok(shares)
}
