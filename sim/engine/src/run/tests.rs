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
fn a_sound_array_breaks_no_promise() {
    assert_eq!(first_violation::<FaultyModel<CORRECT>>(80, None), None);
}

#[test]
fn runs_reach_what_they_should() {
    let mut totals = Totals::default();
    (1..=60).for_each(|seed| totals.add(&run::<FaultyModel<CORRECT>>(&RunPlan::new(seed)).totals));
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
fn a_run_is_named_by_its_seed() {
    let plan = RunPlan { is_traced: true, ..RunPlan::new(42) };
    let (first, second) = (run::<FaultyModel<CORRECT>>(&plan), run::<FaultyModel<CORRECT>>(&plan));
    assert_eq!(first.trace, second.trace);
    assert!(first.trace.len() > 10);
    assert_ne!(first.trace, run::<FaultyModel<CORRECT>>(&RunPlan { is_traced: true, ..RunPlan::new(43) }).trace);
}

#[test]
fn arrays_that_break_promises_are_found() {
    assert!(first_violation::<FaultyModel<ANSWERS_BEFORE_COMMIT>>(100, None).is_some());
    assert!(first_violation::<FaultyModel<IGNORES_CHECKSUM>>(300, None).is_some());
    assert!(first_violation::<FaultyModel<DROPS_LAST_OP>>(100, None).is_some());
    assert!(first_violation::<FaultyModel<SPLITS_UNMAP>>(300, None).is_some());
    assert!(first_violation::<FaultyModel<READS_UNCOMMITTED>>(300, None).is_some());
}

#[test]
fn a_flush_left_out_is_found() {
    assert!(first_violation::<FaultyModel<CORRECT>>(100, Some(InjectedBug::SkipLogFlush)).is_some());
    assert!(first_violation::<FaultyModel<CORRECT>>(100, Some(InjectedBug::SkipCheckpointFlush)).is_some());
    assert!(first_violation::<FaultyModel<CORRECT>>(300, Some(InjectedBug::SkipSomeFlushes)).is_some());
}

#[test]
fn a_shrunk_run_still_breaks_the_promise() {
    let seed = first_violation::<FaultyModel<DROPS_LAST_OP>>(100, None).map(|(seed, _)| seed).unwrap();
    let whole = run::<FaultyModel<DROPS_LAST_OP>>(&RunPlan::new(seed));
    let plan = shrink::<FaultyModel<DROPS_LAST_OP>>(&RunPlan::new(seed), 60);
    let small = run::<FaultyModel<DROPS_LAST_OP>>(&plan);
    assert!(small.violation.is_some());
    assert!(small.numbers.len() <= whole.numbers.len());
}
