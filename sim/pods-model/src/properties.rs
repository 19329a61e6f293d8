//! Properties: conditions on every state, and states that a run should reach.

use crate::bug::Bug;
use crate::names::{Owner, Role, Side};
use crate::world::{Setup, World};

/// A name and a condition.
pub type Property = (&'static str, fn(&Setup, &World) -> bool);

/// Holds in every state.
pub const ALWAYS: &[Property] = &[
    ("every block is linearisable", is_linearisable),
    ("one owner", has_one_owner),
    ("no lease beside an owner", has_no_lease_beside_owner),
    ("SYNC means equal", is_equal_in_sync),
    ("whole means equal", is_equal_when_whole),
    ("what was reported is durable", is_reported_durable),
    ("contact leaves one owner", leaves_one_owner),
    ("no report fails a good path", reports_no_good_path_failed),
    ("a resignation leaves an owner", leaves_an_owner),
];

/// Is reached by a run with the right bounds: otherwise the run says little.
pub const REACHED: &[Property] = &[
    ("SYNC again", |_, w| Side::BOTH.iter().all(|s| is_in_later_sync(w, *s))),
    ("a tail is overwritten", |_, w| Side::BOTH.iter().any(|s| overwrites_tail(w, *s))),
];

/// Returns the name of the first property that does not hold.
pub fn violated(world: &World) -> Option<&'static str> {
    ALWAYS.iter().find(|(_, holds)| !holds(&world.setup, world)).map(|(name, _)| *name)
}

fn is_linearisable(_: &Setup, world: &World) -> bool {
    world.is_risk_accepted || world.histories.iter().all(|history| history.is_linearisable())
}

fn owners(world: &World) -> usize {
    Side::BOTH.iter().filter(|side| world.arrays[**side].memory.role.is_owner()).count()
}

fn has_one_owner(_: &Setup, world: &World) -> bool {
    world.is_risk_accepted || owners(world) < 2
}

/// After both reports of a session have been processed, at most one array serves alone, even if a
/// forced promotion made two.
fn leaves_one_owner(_: &Setup, world: &World) -> bool {
    let are_up = Side::BOTH.iter().all(|side| world.arrays[*side].is_up);
    let has_met = world.has_session && world.is_link_whole() && world.is_link_quiet() && are_up;
    !has_met || owners(world) < 2
}

fn has_no_lease_beside_owner(_: &Setup, world: &World) -> bool {
    Side::BOTH.iter().all(|side| {
        let (array, peer) = (&world.arrays[*side], &world.arrays[side.other()]);
        let is_alone = array.is_up && array.memory.role.is_owner();
        !(is_alone && peer.is_up && peer.memory.role == Role::Sync && peer.has_lease)
    })
}

fn is_equal_in_sync(_: &Setup, world: &World) -> bool {
    let [a, b] = Side::BOTH.map(|side| &world.arrays[side]);
    let both = a.memory.role == Role::Sync && b.memory.role == Role::Sync && !a.is_joining && !b.is_joining;
    let is_same_point = a.memory.epoch == b.memory.epoch && a.memory.last == b.memory.last;
    !(both && is_same_point) || a.memory.blocks == b.memory.blocks
}

/// A whole target at the source's position has the source's content.
fn is_equal_when_whole(_: &Setup, world: &World) -> bool {
    Side::BOTH.iter().all(|side| {
        let (source, target) = (&world.arrays[*side].memory, &world.arrays[side.other()].memory);
        let is_pair = source.role == Role::Solo && target.role == Role::Target && source.period == target.period;
        let is_same_point = is_pair && target.is_whole && source.last == target.last;
        !is_same_point || source.blocks == target.blocks
    })
}

/// An owner never meets a SYNC that began after it: states are reported only when durable. A forced
/// promotion may not know the newest epoch.
fn is_reported_durable(_: &Setup, world: &World) -> bool {
    Side::BOTH.iter().all(|side| {
        let (array, peer) = (&world.arrays[*side].memory, &world.arrays[side.other()].memory);
        let is_newer_sync = array.role == Role::Solo && peer.role == Role::Sync && peer.period > array.period;
        world.spent.forces > 0 || !is_newer_sync
    })
}

/// An array that reports its peer's ports as unavailable makes hosts fail the paths to them. It may
/// do so only if the peer does not serve.
fn reports_no_good_path_failed(_: &Setup, world: &World) -> bool {
    Side::BOTH.iter().all(|side| {
        let (array, peer) = (&world.arrays[*side], &world.arrays[side.other()]);
        let reports_failed = match array.memory.role {
            Role::Solo => true,
            Role::Sync => !array.is_in_step() && world.has(Bug::SpeaksForPeer),
            Role::Target | Role::Lost => world.has(Bug::SpeaksForPeer),
            Role::Diverged | Role::Left | Role::Local => false,
        };
        let serves = peer.is_up && peer.memory.role.is_owner();
        world.is_risk_accepted || !(array.is_up && reports_failed && serves)
    })
}

/// Without a fault of the arrays and without asking, both never yield.
fn leaves_an_owner(_: &Setup, world: &World) -> bool {
    let spent = &world.spent;
    let is_undisturbed = spent.asks == 0 && spent.crashes == 0 && spent.damages == 0 && spent.forces == 0;
    let are_lost = Side::BOTH.iter().all(|side| world.arrays[*side].memory.role == Role::Lost);
    !(is_undisturbed && are_lost)
}

fn is_in_later_sync(world: &World, side: Side) -> bool {
    let array = &world.arrays[side];
    array.memory.role == Role::Sync && array.memory.epoch >= 3 && array.disk.epoch >= 3 && array.has_lease
}

fn overwrites_tail(world: &World, side: Side) -> bool {
    let (owner, target) = (&world.arrays[side].memory, &world.arrays[side.other()].memory);
    owner.role == Role::Solo && target.role == Role::Target && !target.delta.is_empty()
}

/// Whether a system without further faults has come back to a state that serves.
pub fn has_recovered(world: &World, without_mediator: bool) -> bool {
    let is_settled = |side: Side| {
        let array = &world.arrays[side];
        array.is_up && array.disk == array.memory
    };
    let is_over =
        world.register.owner == Owner::Retired || Side::BOTH.iter().any(|s| world.arrays[*s].memory.role == Role::Left);
    let serves_alone = Side::BOTH.iter().any(|s| is_settled(*s) && world.arrays[*s].memory.role.is_owner());
    let in_step = Side::BOTH.iter().all(|s| is_settled(*s) && world.arrays[*s].is_in_step()) && world.is_together();
    let is_idle = world.is_link_quiet() && Side::BOTH.iter().all(|s| world.arrays[*s].pending.is_empty());
    let has_leases = Side::BOTH.iter().all(|s| world.arrays[*s].has_lease);
    (in_step && is_idle && has_leases) || (without_mediator && (in_step || serves_alone)) || (is_over && serves_alone)
}
