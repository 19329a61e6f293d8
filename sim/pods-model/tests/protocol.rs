//! The protocol within small bounds, its planted bugs, and random histories.

use pods_model::budget::Budget;
use pods_model::bug::{Bug, Bugs};
use pods_model::catalogue::{PLANTED, PLANTED_DEEP, Planted, RECOVERS, RECOVERS_WITHOUT_MEDIATOR, SMALL, STUCK};
use pods_model::checker::{Search, SearchResult};
use pods_model::recovery::{Ending, Histories};
use pods_model::world::Setup;
use std::collections::BTreeSet;

fn setup(limits: &str, bugs: &str) -> Setup {
    let bugs = Bugs::parse(bugs).unwrap_or_else(|| panic!("{bugs} are bugs"));
    let limits = Budget::parse(limits).unwrap_or_else(|error| panic!("{limits}: {error}"));
    Setup { limits, bugs }
}

fn search(setup: Setup) -> SearchResult {
    Search { setup, threads: 1, max_states: 20_000_000 }.run()
}

/// Searches a part of the planted bugs, so that tests share the work.
fn finds_part(part: usize) {
    for Planted { bugs, limits } in PLANTED.iter().skip(part).step_by(2) {
        assert!(search(setup(limits, bugs)).violation.is_some(), "{bugs} is not found within {limits}");
    }
}

#[test]
fn even_planted_bugs_are_found() {
    finds_part(0);
}

#[test]
fn odd_planted_bugs_are_found() {
    finds_part(1);
}

#[test]
fn every_bug_is_planted_somewhere() {
    let planted = || PLANTED.iter().chain(PLANTED_DEEP).chain(STUCK).flat_map(|planted| planted.bugs.split(','));
    let missing: Vec<_> = Bug::ALL.iter().filter(|(_, name)| !planted().any(|p| p == *name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn small_bounds_hold_no_violation() {
    let mut reached = BTreeSet::new();
    for limits in SMALL {
        let result = search(setup(limits, ""));
        assert!(result.is_exhausted && result.violation.is_none(), "{limits}: {:?}", result.violation);
        reached.extend(result.reached);
    }
    assert_eq!(reached.len(), 2, "some runs reach SYNC again and overwrite a tail: {reached:?}");
}

#[test]
fn random_histories_come_back() {
    for (limits, loses_mediator) in [(RECOVERS, false), (RECOVERS_WITHOUT_MEDIATOR, true)] {
        let histories = Histories { setup: setup(limits, ""), loses_mediator };
        for seed in 0..2000 {
            let ending = histories.play(seed);
            assert_eq!(ending, Ending::Recovered, "seed {seed}, {limits}");
        }
    }
}

#[test]
fn missing_ways_back_are_found() {
    for Planted { bugs, limits } in STUCK {
        let histories = Histories { setup: setup(limits, bugs), loses_mediator: true };
        let is_stuck = |seed| matches!(histories.play(seed), Ending::Stuck(_));
        assert!((0..2000).any(is_stuck), "{bugs}");
    }
}
