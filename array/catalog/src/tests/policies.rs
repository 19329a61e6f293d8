//! Snapshot policies over simulated days.

use super::*;
use crate::{Draft, PolicyMember, SnapshotRule};
use std::collections::BTreeSet;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn rule(every_ms: u64, keep_ms: u64, prefix: &str) -> SnapshotRule {
    SnapshotRule { number: 0, every_ms, at_ms: None, keep_ms, prefix: prefix.into(), last_ms: None }
}

fn change<T>(catalog: &Catalog, edit: impl FnOnce(&mut Draft) -> Result<T, CatalogError>) -> Result<(), String> {
    catalog.change(|draft| edit(draft).map(|_| ())).map_err(|error: CatalogError| error.to_string())
}

/// [`sample_catalog`] with a policy `p` of `v1`: every 5 minutes for an hour, and every 6 hours for
/// two days.
fn protected() -> (Arc<dyn Service>, Catalog) {
    let (service, catalog) = sample_catalog();
    let create = |draft: &mut Draft| {
        draft.create_snapshot_policy("p", true, 6_000)?;
        draft.add_snapshot_rule("P", rule(5 * MINUTE, HOUR, "often"), 6_000)?;
        draft.add_snapshot_rule("p", rule(6 * HOUR, 2 * DAY, "daily"), 6_000)?;
        draft.set_policy_member("p", PolicyMember::Volume("V1"), true)
    };
    change(&catalog, create).unwrap();
    (service, catalog)
}

fn live(catalog: &Catalog) -> Vec<String> {
    let state = catalog.state();
    let live = state.snapshots().filter(|snapshot| state.snapshot_destroyed_ms(snapshot).is_none());
    live.map(|snapshot| state.snapshot_name(snapshot)).collect()
}

#[test]
fn rules_keep_what_they_say_over_days() {
    let (service, catalog) = protected();
    let first = 100 * DAY;
    for minute in 0..4 * 24 * 60 {
        let now = first + minute * MINUTE;
        assert!(catalog.run_protection(now).failed.is_empty());
        catalog.eradicate_due(both(now)).unwrap();
        if minute % 97 != 0 {
            continue;
        }
        // Independent of the implementation: those of the last hour, and those of each sixth hour
        // of two days. A snapshot that expires now is gone.
        let taken = (0..=minute / 5).map(|n| first + n * 5 * MINUTE);
        let kept = taken.filter(|at| at + HOUR > now || ((at - first).is_multiple_of(6 * HOUR) && at + 2 * DAY > now));
        let state = catalog.state();
        let found = state.snapshots().filter(|snapshot| snapshot.destroyed_ms.is_none());
        let found: BTreeSet<u64> = found.map(|snapshot| snapshot.created_ms).collect();
        assert_eq!(found, kept.collect(), "after {minute} minutes");
        let destroyed = state.snapshots().filter_map(|snapshot| snapshot.destroyed_ms);
        assert!(destroyed.into_iter().all(|at| at + crate::ERADICATION_DELAY_MS > now), "eradicated after a day");
    }
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

#[test]
fn rules_due_together_share_one_snapshot() {
    let (_, catalog) = protected();
    assert_eq!(catalog.run_protection(DAY).taken, ["v1.daily-1"], "the longer rule names it");
    assert_eq!(catalog.run_protection(DAY + 5 * MINUTE).taken, ["v1.often-2"]);
    change(&catalog, |draft| draft.create_snapshots(&["v1"], Some("often-3"), 0)).unwrap();
    assert_eq!(catalog.run_protection(DAY + 10 * MINUTE).taken, ["v1.often-4"], "the suffix is in use");
}

#[test]
fn policy_of_a_group_follows_its_volumes() {
    let (service, catalog) = protected();
    let group = |draft: &mut Draft| {
        draft.create_volume_group("vg", 0)?;
        draft.create_volume("vg/a", GIB, 0)?;
        draft.create_volume("vg/b", GIB, 0)?;
        draft.set_policy_member("p", PolicyMember::Volume("vg/a"), true)?;
        draft.set_policy_member("p", PolicyMember::VolumeGroup("VG"), true)
    };
    change(&catalog, group).unwrap();
    assert_eq!(catalog.run_protection(DAY).taken, ["v1.daily-1", "vg/a.daily-1", "vg/b.daily-1"], "each once");
    change(&catalog, |draft| {
        draft.move_volume("v2", Some("vg"))?;
        draft.destroy_volume("vg/a", DAY)?;
        draft.set_policy_member("p", PolicyMember::Volume("v1"), false)
    })
    .unwrap();
    assert_eq!(catalog.run_protection(DAY + 5 * MINUTE).taken, ["vg/v2.often-2", "vg/b.often-2"]);
    change(&catalog, |draft| {
        draft.eradicate_volume("vg/a")?;
        draft.destroy_volume_group("vg", DAY)?;
        draft.eradicate_volume_group("vg")
    })
    .unwrap();
    let state = catalog.state();
    let policy = state.snapshot_policy("p").unwrap();
    assert!(policy.volumes.is_empty() && policy.groups.is_empty(), "eradicated members left");
    assert!(catalog.run_protection(DAY + 10 * MINUTE).taken.is_empty());
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn snapshots_expire_without_their_policy() {
    let (_, catalog) = protected();
    catalog.run_protection(DAY);
    catalog.run_protection(DAY + 5 * MINUTE);
    change(&catalog, |draft| draft.edit_snapshot_policy("p", Some("q"), Some(false))).unwrap();
    assert!(catalog.run_protection(DAY + 10 * MINUTE).taken.is_empty(), "disabled");
    change(&catalog, |draft| draft.delete_snapshot_policy("q")).unwrap();
    change(&catalog, |draft| draft.connect("h2", "v1.often-2", None)).unwrap();
    assert!(catalog.run_protection(DAY + 5 * MINUTE + HOUR).expired.is_empty(), "connected");
    change(&catalog, |draft| draft.disconnect("h2", "v1.often-2")).unwrap();
    assert_eq!(catalog.run_protection(DAY + 5 * MINUTE + HOUR).expired, ["v1.often-2"]);
    assert_eq!(live(&catalog), ["v1.daily-1"]);
    change(&catalog, |draft| draft.recover_snapshot("v1.often-2")).unwrap();
    change(&catalog, |draft| draft.rename_snapshot("v1.daily-1", "kept")).unwrap();
    assert!(catalog.run_protection(9 * DAY).expired.is_empty(), "recovered or renamed ones stay");
    assert_eq!(live(&catalog), ["v1.kept", "v1.often-2"]);
}

#[test]
fn daily_rule_runs_at_its_time_of_day() {
    let (_, catalog) = sample_catalog();
    let at = SnapshotRule { at_ms: Some(3 * HOUR), ..rule(DAY, 7 * DAY, "night") };
    change(&catalog, |draft| {
        draft.create_snapshot_policy("p", true, 0)?;
        draft.set_policy_member("p", PolicyMember::Volume("v1"), true)?;
        draft.add_snapshot_rule("p", at, 10 * DAY + 5 * HOUR)
    })
    .unwrap();
    assert!(catalog.run_protection(10 * DAY + 6 * HOUR).taken.is_empty());
    assert!(catalog.run_protection(11 * DAY + 3 * HOUR - 1).taken.is_empty());
    assert_eq!(catalog.run_protection(11 * DAY + 3 * HOUR).taken, ["v1.night-1"]);
}

#[test]
fn interval_begins_with_the_first_volume() {
    let (_, catalog) = protected();
    change(&catalog, |draft| draft.set_policy_member("p", PolicyMember::Volume("v1"), false)).unwrap();
    let before = catalog.version();
    assert!(catalog.run_protection(DAY).taken.is_empty());
    assert_eq!(catalog.version(), before, "nothing is stored");
    change(&catalog, |draft| draft.set_policy_member("p", PolicyMember::Volume("v2"), true)).unwrap();
    assert_eq!(catalog.run_protection(DAY + MINUTE).taken, ["v2.daily-1"]);
}

#[test]
fn rules_and_members_are_checked() {
    let (_, catalog) = protected();
    let refused = |edit: &dyn Fn(&mut Draft) -> Result<(), CatalogError>| change(&catalog, edit).unwrap_err();
    let add = |rule: SnapshotRule| refused(&move |draft| draft.add_snapshot_rule("p", rule.clone(), 0).map(|_| ()));
    assert!(add(rule(MINUTE, HOUR, "x")).contains("5 minutes"));
    assert!(add(rule(HOUR, HOUR - 1, "x")).contains("at least the time between"));
    assert!(add(rule(HOUR, 5000 * DAY, "x")).contains("4000 days"));
    assert!(add(rule(5 * MINUTE, DAY, "x")).contains("interval of its own"));
    assert!(add(rule(HOUR, DAY, "a.b")).contains("Invalid name"));
    assert!(add(rule(HOUR, DAY, &"x".repeat(49))).contains("48 characters"));
    assert!(add(SnapshotRule { at_ms: Some(0), ..rule(HOUR, DAY, "x") }).contains("whole days"));
    assert!(refused(&|draft| draft.create_snapshot_policy("P", true, 0)).contains("already exists"));
    assert!(refused(&|draft| draft.delete_snapshot_policy("none")).contains("Snapshot policy does not exist"));
    assert!(refused(&|draft| draft.remove_snapshot_rule("p", 9)).contains("does not exist"));
    let member =
        |name, is_member| refused(&move |draft| draft.set_policy_member("p", PolicyMember::Volume(name), is_member));
    assert!(member("v1", true).contains("already belongs"));
    assert!(member("v2", false).contains("does not exist"));
    assert!(member("none", true).contains("Volume does not exist"));
    change(&catalog, |draft| draft.remove_snapshot_rule("p", 1)).unwrap();
    change(&catalog, |draft| draft.add_snapshot_rule("p", rule(5 * MINUTE, HOUR, "x"), 0)).unwrap();
    let numbers: Vec<u64> =
        catalog.state().snapshot_policy("p").unwrap().rules.iter().map(|rule| rule.number).collect();
    assert_eq!(numbers, [2, 3], "numbers are not reused");
}
