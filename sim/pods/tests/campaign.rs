//! A slice of the campaign, and the planted bugs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use pods_sim::{SimBug, Totals, run};
use std::process::Command;

/// Planted bugs, each with the first seed of its runs. Runs of one kind are eight seeds apart.
const PLANTED: &[(&str, u64)] = &[
    ("no-lease-wait", 1),
    ("no-lease-check", 1),
    ("clock-drift", 1),
    ("restart-forgets-grants", 97),
    ("tail-not-in-delta", 2),
    ("no-mask", 163),
    ("resume-restarted", 2),
    ("excluded-asks", 275),
    ("right-early", 78),
    ("no-way-back", 474),
    ("no-position-check", 94),
    ("join-early", 779),
    ("repeat-orders-twice", 238),
    ("answer-before-durable", 135),
    ("no-cancel", 7),
    ("direct-change-ignored", 87),
    ("no-forward-age", 631),
];

/// Random runs find it seldom; `mediator_is_not_asked_before_its_rule_is_in_force` finds it.
const RARE: &[&str] = &["ask-early"];

/// Most runs until a bug is found.
const MOST_RUNS: u64 = 20;

/// Returns the first seed whose run violates a rule.
fn first_violation(seed: u64, bug: SimBug) -> Option<u64> {
    (0..MOST_RUNS).map(|at| seed + 8 * at).find(|seed| run(*seed, Some(bug)).1.is_err())
}

#[test]
fn planted_bugs_are_found() {
    for (name, seed) in PLANTED {
        let bug = SimBug::parse(name).unwrap();
        assert!(first_violation(*seed, bug).is_some(), "{name} is not found in {MOST_RUNS} runs from {seed}");
    }
}

#[test]
fn every_bug_is_planted() {
    let is_planted = |name: &&str| RARE.contains(name) || PLANTED.iter().any(|(planted, _)| planted == name);
    let missing: Vec<_> = SimBug::all().map(|(_, name)| name).filter(|name| !is_planted(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn pods_hold_their_rules_and_come_back() {
    let mut totals = Totals::default();
    for seed in 401..=500 {
        let (done, result) = run(seed, None);
        totals.add(&done);
        assert_eq!(result, Ok(()), "seed {seed}");
    }
    let Totals { alone, in_step, resumed, full_resyncs, swaps, late_swaps, hand_overs, rules, .. } = totals.clone();
    let counts = [alone, in_step, resumed, full_resyncs, swaps, hand_overs, rules];
    let Totals { forwards, refused, cancels, .. } = totals.clone();
    assert!([forwards, refused, cancels].iter().all(|count| *count > 50), "{totals:?}");
    assert!(counts.iter().all(|count| *count > 3) && late_swaps > 0, "{totals:?}");
    assert!(totals.longest_pause <= 5000, "{totals:?}");
    assert_eq!(run(3, None), run(3, None), "the same seed, the same run");
}

#[test]
fn program_reports_a_planted_bug() {
    let run = |words: &[&str]| Command::new(env!("CARGO_BIN_EXE_pods-sim")).args(words).output().expect("it runs");
    let output = run(&["--runs", "20", "--step", "8", "--inject", "no-lease-wait"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("which is stale"), "{text}");
    let output = run(&["--runs", "4"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.starts_with("4 runs, ") && text.ends_with("\n0 violations\n"), "{text}");
    assert!(!run(&["--inject", "none-such"]).status.success());
}
