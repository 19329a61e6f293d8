use super::*;
use crate::toy::{ANSWERS_EARLY, FORGETS, HALF_UNMAP, NO_CHECKSUM, READS_EARLY, SOUND, Toy};

/// The first seed from 1 on whose run breaks a promise.
fn first_violation<S: Subject>(runs: u64, plant: Option<Plant>) -> Option<(u64, Violation)> {
    (1..=runs).find_map(|seed| {
        run::<S>(&RunPlan { plant, ..RunPlan::new(seed) }).violation.map(|violation| (seed, violation))
    })
}

#[test]
fn a_sound_array_breaks_no_promise() {
    assert_eq!(first_violation::<Toy<SOUND>>(80, None), None);
}

#[test]
fn runs_reach_what_they_should() {
    let mut totals = Totals::default();
    (1..=60).for_each(|seed| totals.add(&run::<Toy<SOUND>>(&RunPlan::new(seed)).totals));
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
    let (first, second) = (run::<Toy<SOUND>>(&plan), run::<Toy<SOUND>>(&plan));
    assert_eq!(first.trace, second.trace);
    assert!(first.trace.len() > 10);
    assert_ne!(first.trace, run::<Toy<SOUND>>(&RunPlan { is_traced: true, ..RunPlan::new(43) }).trace);
}

#[test]
fn arrays_that_break_promises_are_found() {
    assert!(first_violation::<Toy<ANSWERS_EARLY>>(100, None).is_some());
    assert!(first_violation::<Toy<NO_CHECKSUM>>(300, None).is_some());
    assert!(first_violation::<Toy<FORGETS>>(100, None).is_some());
    assert!(first_violation::<Toy<HALF_UNMAP>>(300, None).is_some());
    assert!(first_violation::<Toy<READS_EARLY>>(300, None).is_some());
}

#[test]
fn a_flush_left_out_is_found() {
    assert!(first_violation::<Toy<SOUND>>(100, Some(Plant::SkipLogFlush)).is_some());
    assert!(first_violation::<Toy<SOUND>>(100, Some(Plant::SkipCheckpointFlush)).is_some());
    assert!(first_violation::<Toy<SOUND>>(300, Some(Plant::SkipSomeFlushes)).is_some());
}

#[test]
fn a_shrunk_run_still_breaks_the_promise() {
    let seed = first_violation::<Toy<FORGETS>>(100, None).map(|(seed, _)| seed).unwrap();
    let whole = run::<Toy<FORGETS>>(&RunPlan::new(seed));
    let plan = shrink::<Toy<FORGETS>>(&RunPlan::new(seed), 60);
    let small = run::<Toy<FORGETS>>(&plan);
    assert!(small.violation.is_some());
    assert!(small.numbers.len() <= whole.numbers.len());
}
