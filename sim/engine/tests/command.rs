//! Runs the program as a user would.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ibid-sim")).args(words).output().expect("the program runs")
}

#[test]
fn a_campaign_reports_what_it_did() {
    let output = run(&["crash", "--runs", "20", "--seed", "7"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("20 runs, ") && text.contains("\n0 violations in "), "{text}");
    let again = run(&["crash", "--runs", "20", "--seed", "7", "--jobs", "1"]);
    let counts = |text: &str| text.lines().find(|line| line.starts_with("20 runs, ")).map(ToOwned::to_owned);
    assert_eq!(counts(&text), counts(&String::from_utf8_lossy(&again.stdout)), "the same seed, the same histories");
}

#[test]
fn an_injected_bug_is_found_and_replayed() {
    let output = run(&["crash", "--runs", "2000", "--inject", "answer-flush-early"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("seed ")).unwrap_or_else(|| panic!("{text}"));
    assert!(output.status.success(), "{text}");
    let seed = line["seed ".len()..].split(':').next().unwrap();
    let replayed = run(&["replay", "--seed", seed, "--inject", "answer-flush-early"]);
    assert!(String::from_utf8_lossy(&replayed.stdout).contains(&line[line.find(':').unwrap()..]), "{line}");
}

#[test]
fn two_engines_are_simulated_and_a_bug_is_found() {
    let output = run(&["streams", "--runs", "5", "--seed", "3"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.starts_with("5 runs, ") && text.ends_with("\n0 violations\n"), "{text}");
    let output = run(&["streams", "--runs", "60", "--inject", "tail-forgotten"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("\nseed 2: in step, but array "), "{text}");
    assert!(!run(&["streams", "--runs", "1", "--seed", "3", "--inject", "tail-forgotten"]).status.success());
}
