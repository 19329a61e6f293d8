//! Protection groups over simulated days.

use super::*;
use crate::{Draft, ProtectionGroupEdit, Retention, SnapshotSchedule};
use std::collections::BTreeSet;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// [`sample_catalog`] with a protection group `pg` of `v1` and `v2`.
fn protected() -> (Arc<dyn Service>, Catalog) {
    let (service, catalog) = sample_catalog();
    let create = |draft: &mut Draft| {
        draft.create_protection_group("pg", 6_000)?;
        draft.set_protection("pg", "v1", true)?;
        draft.set_protection("PG", "v2", true)
    };
    catalog.change(create).unwrap();
    (service, catalog)
}

fn change(catalog: &Catalog, edit: impl FnOnce(&mut Draft) -> Result<(), CatalogError>) -> Result<(), CatalogError> {
    catalog.change(edit)
}

/// Lists the names of the snapshots of `pg` that are not destroyed.
fn live(catalog: &Catalog) -> Vec<String> {
    let state = catalog.state();
    let live = state.group_snapshots().filter(|snapshot| snapshot.destroyed_ms.is_none());
    live.map(|snapshot| state.group_snapshot_name(snapshot)).collect()
}

#[test]
fn five_minute_schedule_keeps_what_its_retention_says() {
    let (service, catalog) = protected();
    let retention = Retention { all_for_sec: 3600, per_day: 4, days: 2 };
    let schedule = SnapshotSchedule { enabled: true, every_ms: 5 * MINUTE, at_ms: None };
    let edit = ProtectionGroupEdit { schedule: Some(schedule), retention: Some(retention), ..Default::default() };
    change(&catalog, |draft| draft.edit_protection_group("pg", &edit, 0)).unwrap();
    let first = 100 * DAY;
    for minute in 0..4 * 24 * 60 {
        let now = first + minute * MINUTE;
        catalog.run_protection(now);
        catalog.eradicate_due(both(now)).unwrap();
        if minute % 97 != 0 {
            continue;
        }
        // Independent of the implementation: all of the last hour, and of two days before the
        // snapshots at 0, 6, 12 and 18 o'clock.
        let taken = (0..=minute / 5).map(|n| first + n * 5 * MINUTE);
        let all_from = now - 60 * MINUTE;
        let kept = taken.filter(|at| *at >= all_from || (*at % (DAY / 4) == 0 && *at >= all_from - 2 * DAY));
        let state = catalog.state();
        let found = state.group_snapshots().filter(|snapshot| snapshot.destroyed_ms.is_none());
        let found: BTreeSet<u64> = found.map(|snapshot| snapshot.created_ms).collect();
        assert_eq!(found, kept.collect(), "after {minute} minutes");
        let destroyed = state.group_snapshots().filter_map(|snapshot| snapshot.destroyed_ms);
        assert!(destroyed.into_iter().all(|at| at + crate::ERADICATION_DELAY_MS > now), "eradicated after a day");
        assert_eq!(state.snapshot_count(), 2 * state.group_snapshots().count());
    }
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

#[test]
fn group_snapshot_contains_all_volumes_at_one_instant() {
    let (service, catalog) = protected();
    let take = |suffix: Option<&str>| {
        change(&catalog, |draft| draft.snapshot_protection_group("pg", suffix, false, 9_000).map(|_| ()))
    };
    take(None).unwrap();
    take(Some("daily")).unwrap();
    assert_eq!(live(&catalog), ["pg.1", "pg.daily"]);
    assert!(matches!(take(Some("DAILY")), Err(CatalogError::AlreadyExists { .. })));
    let state = catalog.state();
    assert_eq!(state.snapshot_name(state.snapshot("pg.daily.v2").unwrap()), "pg.daily.v2");
    assert!(state.snapshot("v2.daily").is_err());
    change(&catalog, |draft| draft.create_snapshots(&["v2"], Some("daily"), 9_500).map(|_| ())).unwrap();
    assert_ne!(catalog.state().snapshot("v2.daily").unwrap().id, state.snapshot("pg.daily.v2").unwrap().id);
    change(&catalog, |draft| draft.copy_volume("pg.1.v1", "clone", false, 9_600).map(|_| ())).unwrap();
    assert!(change(&catalog, |draft| draft.destroy_snapshot("pg.1.v1", 9_700).map(|_| ())).is_err());
    assert!(change(&catalog, |draft| draft.rename_snapshot("pg.1.v1", "x").map(|_| ())).is_err());
    assert_eq!(open(&service).unwrap().state(), catalog.state());
    // Unscheduled snapshots are kept.
    catalog.run_protection(9_000 * DAY);
    assert_eq!(live(&catalog), ["pg.1", "pg.daily"]);
}

#[test]
fn destroyed_group_recovers_with_its_snapshots() {
    let (service, catalog) = protected();
    let take = |suffix: &str| {
        change(&catalog, |draft| draft.snapshot_protection_group("pg", Some(suffix), true, 9_000).map(|_| ()))
    };
    take("one").unwrap();
    take("two").unwrap();
    change(&catalog, |draft| draft.set_group_snapshot_destroyed("pg.one", true, 10_000)).unwrap();
    change(&catalog, |draft| draft.set_protection_group_destroyed("pg", true, 11_000)).unwrap();
    assert!(live(&catalog).is_empty());
    assert!(take("three").is_err());
    change(&catalog, |draft| draft.set_protection_group_destroyed("pg", false, 12_000)).unwrap();
    assert_eq!(live(&catalog), ["pg.two"]);
    change(&catalog, |draft| draft.set_group_snapshot_destroyed("pg.one", false, 12_000)).unwrap();
    assert_eq!(live(&catalog), ["pg.one", "pg.two"]);
    change(&catalog, |draft| draft.set_protection_group_destroyed("pg", true, 13_000)).unwrap();
    catalog.eradicate_due(both(13_000 + crate::ERADICATION_DELAY_MS - 1)).unwrap();
    assert_eq!(catalog.state().group_snapshots().count(), 2);
    catalog.eradicate_due(both(13_000 + crate::ERADICATION_DELAY_MS)).unwrap();
    assert_eq!((catalog.state().group_snapshots().count(), catalog.state().snapshot_count()), (0, 0));
    assert!(catalog.state().protection_group("pg").is_err());
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

#[test]
fn eradicated_volume_leaves_its_protection_group() {
    let (service, catalog) = protected();
    change(&catalog, |draft| draft.snapshot_protection_group("pg", None, true, 9_000).map(|_| ())).unwrap();
    change(&catalog, |draft| {
        draft.destroy_volume("v2", 10_000)?;
        draft.eradicate_volume("v2").map(|_| ())
    })
    .unwrap();
    let state = catalog.state();
    assert_eq!(state.protection_group("pg").unwrap().volumes, [state.volume("v1").unwrap().id]);
    assert_eq!(state.members_of(state.group_snapshot("pg.1").unwrap()).len(), 1);
    assert_eq!(open(&service).unwrap().state(), catalog.state());
    assert!(change(&catalog, |draft| draft.set_protection("pg", "v1", true)).is_err());
    change(&catalog, |draft| draft.set_protection("pg", "v1", false)).unwrap();
    let empty = change(&catalog, |draft| draft.snapshot_protection_group("pg", None, true, 9_000).map(|_| ()));
    assert_eq!(empty, Err(CatalogError::NoMembers { name: "pg".into() }));
}
