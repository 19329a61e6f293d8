//! A slice of the campaign, and the planted bugs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use arrays_sim::{SimBug, Totals, replay, run};
use std::process::Command;

/// Planted bugs, each with a seed that finds it.
const PLANTED: &[(&str, u64)] = &[
    ("own-durability", 1),
    ("ack-before-flush", 362),
    ("tail-not-in-delta", 61),
    ("delta-forgotten", 15),
    ("read-without-lease", 43),
    ("resend-all", 2),
    ("skip-log-flush", 6),
];

/// Only long campaigns find them.
const RARE: &[&str] = &["mask-without-tail", "requests-outlive-session", "answer-forward-early", "clock-drift"];

/// Most histories until a bug is found.
const MOST: u64 = 4;

#[test]
fn planted_bugs_of_arrays_are_found() {
    for (name, seed) in PLANTED {
        let bug = SimBug::parse(name).unwrap();
        let is_found = (*seed..seed + MOST).any(|seed| run(seed, Some(bug)).1.is_err());
        assert!(is_found, "{name} is not found in {MOST} histories from {seed}");
    }
}

#[test]
fn every_bug_of_arrays_is_planted() {
    let is_planted = |name: &&str| RARE.contains(name) || PLANTED.iter().any(|(planted, _)| planted == name);
    let missing: Vec<_> = SimBug::ALL.iter().map(|(_, name)| *name).filter(|name| !is_planted(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn arrays_hold_their_rules_and_come_back() {
    let totals = Totals::default();
    for seed in 1..=16 {
        let (done, result) = run(seed, None);
        totals.add(&done);
        assert!(result.is_ok(), "seed {seed}: {result:?}");
    }
    let counts = totals.list();
    let count = |name: &str| counts.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
    for name in ["writes", "reads", "refused", "faults", "ends", "sessions", "quiet_returns"] {
        assert!(count(name) > 5, "{name}: {counts:?}");
    }
}

#[test]
fn same_seed_is_the_same_history() {
    let [first, second] = [0, 1].map(|_| replay(4, None));
    assert!(first.1.is_ok() && first == second, "{:?}, {:?}", first.1, second.1);
    assert_ne!(replay(7, None).1, first.1);
}

#[test]
fn program_simulates_two_arrays() {
    let run = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_arrays-sim")).args(words).output().expect("it runs");
    let output = run(&["run", "--histories", "2", "--seed", "3"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.starts_with("histories 2, "), "{text}");
    assert!(text.ends_with("\n0 violations\n"), "{text}");
    let output = run(&["replay", "--seed", "3"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("fault: "), "{text}");
    assert!(!run(&["run", "--inject", "none-such"]).status.success());
}
