use super::*;
use crate::faulty_model::{
    ANSWERS_BEFORE_COMMIT, CORRECT, DROPS_LAST_OP, FaultyModel, IGNORES_CHECKSUM, READS_UNCOMMITTED, SPLITS_UNMAP,
};

/// Returns the first seed from 1 whose run violates an invariant.
fn first_violation<S: SimSubject>(runs: u64, bug: Option<InjectedBug>) -> Option<(u64, SimViolation)> {
    (1..=runs)
        .find_map(|seed| run::<S>(&RunPlan { bug, ..RunPlan::new(seed) }).violation.map(|violation| (seed, violation)))
}

#[test]
fn correct_model_has_no_violation() {
    assert_eq!(first_violation::<FaultyModel<CORRECT>>(80, None), None);
}

#[test]
fn runs_cover_all_counted_events() {
    let mut totals = Totals::default();
    (1..=200).for_each(|seed| totals.add(&run::<FaultyModel<CORRECT>>(&RunPlan::new(seed)).totals));
    let Totals { crashes_in_recovery, answered, refused, present, absent, failures, .. } = totals;
    for (count, name) in [
        (crashes_in_recovery, "crashes in recovery"),
        (answered, "answered"),
        (refused, "refused"),
        (present, "present"),
        (absent, "absent"),
        (failures, "failures"),
    ] {
        assert!(count > 0, "no {name} in {totals:?}");
    }
}

#[test]
fn same_seed_gives_the_same_trace() {
    let plan = RunPlan { is_traced: true, ..RunPlan::new(42) };
    let (first, second) = (run::<FaultyModel<CORRECT>>(&plan), run::<FaultyModel<CORRECT>>(&plan));
    assert_eq!(first.trace, second.trace);
    assert!(first.trace.len() > 10);
    assert_ne!(first.trace, run::<FaultyModel<CORRECT>>(&RunPlan { is_traced: true, ..RunPlan::new(43) }).trace);
}

#[test]
fn every_faulty_model_is_detected() {
    assert!(first_violation::<FaultyModel<ANSWERS_BEFORE_COMMIT>>(100, None).is_some());
    assert!(first_violation::<FaultyModel<IGNORES_CHECKSUM>>(300, None).is_some());
    assert!(first_violation::<FaultyModel<DROPS_LAST_OP>>(100, None).is_some());
    assert!(first_violation::<FaultyModel<SPLITS_UNMAP>>(300, None).is_some());
    assert!(first_violation::<FaultyModel<READS_UNCOMMITTED>>(300, None).is_some());
}

#[test]
fn missing_drive_flush_is_detected() {
    assert!(first_violation::<FaultyModel<CORRECT>>(100, Some(InjectedBug::SkipLogFlush)).is_some());
    assert!(first_violation::<FaultyModel<CORRECT>>(100, Some(InjectedBug::SkipCheckpointFlush)).is_some());
    assert!(first_violation::<FaultyModel<CORRECT>>(300, Some(InjectedBug::SkipSomeFlushes)).is_some());
}

#[test]
fn shrunk_run_keeps_the_violation() {
    let seed = first_violation::<FaultyModel<DROPS_LAST_OP>>(100, None).map(|(seed, _)| seed).unwrap();
    let whole = run::<FaultyModel<DROPS_LAST_OP>>(&RunPlan::new(seed));
    let plan = shrink::<FaultyModel<DROPS_LAST_OP>>(&RunPlan::new(seed), 60);
    let small = run::<FaultyModel<DROPS_LAST_OP>>(&plan);
    assert!(small.violation.is_some());
    assert!(small.numbers.len() <= whole.numbers.len());
}
