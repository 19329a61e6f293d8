//! Requests of administrators, one after the other, with hosts at work.

use super::{MS, SECOND, Task, World};
use crate::bug::SimBug;
use crate::totals::{Profile, Violation};
use pod::{Bug, Event, Machine, Owner, Request, Role, Rule};

fn settled(seed: u64) -> World {
    settled_with(seed, None)
}

fn settled_with(seed: u64, bug: Option<SimBug>) -> World {
    let mut world = World::new(seed, bug, Profile::Single);
    world.tasks.retain(|_, task| !matches!(task, Task::Fault(_)));
    world.run_until(7 * SECOND).unwrap();
    assert!((0..2).all(|node| machine(&world, node).is_in_step()));
    world
}

fn machine(world: &World, node: usize) -> &Machine {
    world.nodes[node].machine.as_ref().unwrap()
}

fn sequencer(world: &World) -> usize {
    usize::from(machine(world, 0).stored().sequencer != machine(world, 0).side())
}

#[test]
fn hand_over_keeps_hosts_waiting_for_half_a_second() {
    for seed in 1..6 {
        let mut world = settled(seed);
        let node = sequencer(&world);
        let writes = world.totals.writes;
        world.feed(node, Event::Request(Request::Resign));
        world.run_until(8 * SECOND).unwrap();
        assert_eq!(sequencer(&world), 1 - node, "seed {seed}: the other array orders changes");
        assert!(world.totals.writes > writes && world.longest < 500 * MS, "seed {seed}: {}", world.longest);
        world.run_until(12 * SECOND).unwrap();
        assert!(machine(&world, node).is_in_step());
    }
}

#[test]
fn both_resign_and_one_takes_over() {
    let mut world = settled(1);
    (0..2).for_each(|node| world.feed(node, Event::Request(Request::Resign)));
    world.run_until(12 * SECOND).unwrap();
    assert!((0..2).all(|node| machine(&world, node).is_in_step()));
    assert_eq!(world.totals.alone, 1, "one array has been alone since");
}

#[test]
fn removed_array_leaves_a_local_pod() {
    for seed in 1..6 {
        let mut world = settled(seed);
        let node = sequencer(&world);
        world.feed(node, Event::Request(Request::Unstretch));
        world.run_until(12 * SECOND).unwrap();
        let roles = [node, 1 - node].map(|node| machine(&world, node).stored().role);
        assert_eq!(roles, [Role::Local, Role::Left], "seed {seed}");
        assert_eq!(world.register.owner, Owner::Retired);
    }
}

#[test]
fn removal_that_a_cut_interrupts_leaves_one_owner() {
    for seed in 1..20 {
        let mut world = settled(seed);
        let node = sequencer(&world);
        world.feed(node, Event::Request(Request::Unstretch));
        let delay = world.rng.below(5 * MS);
        world.run_until(7 * SECOND + delay).unwrap();
        (0..2).for_each(|from| world.cut(from, 4 * SECOND));
        world.run_until(25 * SECOND).unwrap();
        let roles = [0, 1].map(|node| machine(&world, node).stored().role);
        let is_over = roles.contains(&Role::Local) && roles.contains(&Role::Left);
        assert!(is_over || roles == [Role::Sync; 2], "seed {seed}: {roles:?}");
    }
}

/// ONLY(follower) becomes MEDIATOR, and the link is cut before the follower has the record. The
/// follower continues by its own right, so the sequencer must not ask yet.
fn cut_while_a_right_ends(seed: u64, bug: Option<SimBug>) -> Result<(), Violation> {
    let mut world = settled_with(seed, bug);
    let node = sequencer(&world);
    let follower = machine(&world, 1 - node).side();
    (0..2).for_each(|of| world.feed(of, Event::Request(Request::Prefer(follower))));
    world.unreachable_until = [13 * SECOND; 2];
    world.run_until(13 * SECOND)?;
    assert_eq!(machine(&world, 1 - node).stored().rule.current, Rule::Only(follower), "seed {seed}");
    let mut at = 13 * SECOND;
    while machine(&world, node).stored().rule.current != Rule::Mediator {
        at += 20;
        assert!(at < 20 * SECOND, "seed {seed}: the mediator is back");
        world.run_until(at)?;
    }
    world.unreachable_until[1 - node] = 40 * SECOND;
    (0..2).for_each(|from| world.cut(from, 8 * SECOND));
    world.run_until(at + 16 * SECOND)
}

#[test]
fn mediator_is_not_asked_before_its_rule_is_in_force() {
    let early = Some(SimBug::Machine(Bug::AskEarly));
    let found = (1..6).filter(|seed| cut_while_a_right_ends(*seed, early).is_err()).count();
    assert!(found > 2, "{found} of 5 runs find two owners");
    for seed in 1..6 {
        assert_eq!(cut_while_a_right_ends(seed, None), Ok(()), "seed {seed}");
    }
}
