use super::*;
use crate::io::Omissions;
use std::time::Duration;

fn quiet(_: u64) {}

/// Few hosts, few files, many blows: a short run that meets what a long one does.
fn short(seed: u64) -> Campaign {
    Campaign { calm: Duration::from_millis(500), ..Campaign::new(seed, 8, 120) }
}

fn holds(campaign: Campaign) -> Outcome {
    let outcome = campaign.run(&quiet);
    println!("{outcome:?}");
    assert_eq!(outcome.violation, None, "seed {}: {outcome:?}", campaign.seed);
    assert!(outcome.operations >= campaign.hosts as u64 * campaign.operations, "{outcome:?}");
    outcome
}

#[test]
fn locks_have_one_owner_and_nothing_is_lost() {
    let outcomes: Vec<Outcome> = (0..5).map(|seed| holds(short(seed))).collect();
    let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    // A run in which nothing happens shows nothing.
    assert!(sum(|o| o.crashes) > 5 && sum(|o| o.path_losses) > 2 && sum(|o| o.stops) > 2, "{outcomes:?}");
}

#[test]
fn the_same_holds_under_reservations() {
    for seed in 0..2 {
        holds(Campaign { ats: false, ats_heartbeat: false, ..short(seed) });
    }
}

#[test]
fn the_same_holds_with_heartbeats_by_plain_writes() {
    for seed in 0..2 {
        holds(Campaign { ats_heartbeat: false, ..short(seed) });
    }
}

#[test]
fn a_seed_is_one_history() {
    assert_eq!(short(7).run(&quiet), short(7).run(&quiet));
}

/// A datastore that breaks its promises, in one way, is found out within a few seeds.
fn is_found(change: impl Fn(&mut Campaign)) -> String {
    let run = |seed| {
        let mut campaign = short(seed);
        change(&mut campaign);
        campaign.run(&quiet).violation
    };
    (0..40).find_map(run).expect("the simulator notices nothing")
}

#[test]
fn a_swap_that_is_not_verified_is_found() {
    is_found(|campaign| campaign.omit = Omissions { verify: true, ..Omissions::default() });
}

#[test]
fn a_journal_that_is_not_replayed_is_found() {
    is_found(|campaign| campaign.omit = Omissions { replay: true, ..Omissions::default() });
}

#[test]
fn a_host_that_writes_without_a_heartbeat_is_found() {
    is_found(|campaign| campaign.omit = Omissions { fence: true, ..Omissions::default() });
}

#[test]
fn a_lease_that_is_too_short_is_found() {
    is_found(|campaign| {
        campaign.timing.lease = Duration::from_secs(4);
        assert!(!campaign.timing.is_safe());
    });
}
