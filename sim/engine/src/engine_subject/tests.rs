use super::*;
use crate::campaign::{CrashCampaign, execute};
use crate::exhaustive::{alphabet, search};
use crate::run::InjectedBug;

fn campaign(runs: u64, bug: Option<InjectedBug>) -> CrashCampaign {
    CrashCampaign { seed: 1, runs, jobs: 2, bug, most_violations: 1 }
}

#[test]
fn engine_survives_random_crashes() {
    let findings = execute::<EngineSubject>(&campaign(100, None), &|_, _| {});
    assert_eq!(findings.violations, Vec::new());
    let totals = findings.totals;
    for (count, name) in [(totals.present, "present"), (totals.absent, "absent"), (totals.failures, "failures")] {
        assert!(count > 0, "no {name} in {totals:?}");
    }
}

/// Seeds that have found bugs. 216815: after a crash the free space was no more than a checkpoint
/// and a segment, and an UNMAP was refused.
const FINDERS: &[u64] = &[216_815];

#[test]
fn seeds_of_fixed_bugs_pass() {
    for &seed in FINDERS {
        let findings = execute::<EngineSubject>(&CrashCampaign { seed, ..campaign(1, None) }, &|_, _| {});
        assert_eq!(findings.violations, Vec::new());
    }
}

#[test]
fn short_sequences_survive_a_crash_at_every_access() {
    let (searched, broken) = search::<EngineSubject>(EngineSetup::plain(), &alphabet(), 2, 11, 2);
    assert_eq!(broken, Vec::new());
    assert!(searched.crashes > 3 * searched.sequences, "{searched:?}");
}

#[test]
fn missing_engine_flush_is_detected() {
    for bug in [
        InjectedBug::SkipLogFlush,
        InjectedBug::SkipSuperblockFlush,
        InjectedBug::SkipCheckpointFlush,
        InjectedBug::SkipSomeFlushes,
    ] {
        let findings = execute::<EngineSubject>(&campaign(500, Some(bug)), &|_, _| {});
        assert!(!findings.violations.is_empty(), "{bug:?}");
    }
}
