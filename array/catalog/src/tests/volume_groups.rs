//! Volume groups and their volumes.

use super::*;
use crate::{Draft, ERADICATION_DELAY_MS, Qos, QosEdit};

/// [`sample_catalog`] with a group `vg` of `vg/a` and `vg/b`, and a group `other`.
fn grouped() -> (Arc<dyn Service>, Catalog) {
    let (service, catalog) = sample_catalog();
    let create = |draft: &mut Draft| {
        draft.create_volume_group("vg", 6_000)?;
        draft.create_volume_group("other", 6_000)?;
        draft.create_volume("VG/a", GIB, 6_000)?;
        draft.create_volume("vg/b", GIB, 6_000)
    };
    catalog.change(create).unwrap();
    (service, catalog)
}

fn names(catalog: &Catalog, group: &str) -> Vec<String> {
    let state = catalog.state();
    let group = state.volume_group(group).unwrap();
    state.volumes_of_group(group).map(|volume| volume.name.clone()).collect()
}

fn change<T>(catalog: &Catalog, edit: impl FnOnce(&mut Draft) -> Result<T, CatalogError>) -> Result<(), String> {
    catalog.change(|draft| edit(draft).map(|_| ())).map_err(|error: CatalogError| error.to_string())
}

#[test]
fn volume_moves_in_and_out_of_a_group() {
    let (service, catalog) = grouped();
    assert_eq!(names(&catalog, "vg"), ["vg/a", "vg/b"], "the group's own spelling");
    let (v1, lun) = (catalog.state().volume("v1").unwrap().id, catalog.state().volume("v1").unwrap().serial.clone());
    change(&catalog, |draft| draft.create_snapshots(&["v1"], Some("s"), 7_000)).unwrap();
    change(&catalog, |draft| draft.move_volume("v1", Some("VG"))).unwrap();
    assert_eq!(names(&catalog, "vg"), ["vg/a", "vg/b", "vg/v1"]);
    let state = catalog.state();
    let moved = state.volume("vg/v1").unwrap();
    assert_eq!((moved.id, &moved.serial), (v1, &lun), "identity and connections stay");
    assert_eq!(state.hosts_of(v1).count(), 1);
    assert_eq!(state.snapshot_name(state.snapshot("vg/v1.s").unwrap()), "vg/v1.s");
    change(&catalog, |draft| draft.move_volume("vg/v1", Some("other"))).unwrap();
    change(&catalog, |draft| draft.move_volume("other/v1", None)).unwrap();
    change(&catalog, |draft| draft.move_volume("v1", None)).unwrap();
    assert_eq!((names(&catalog, "vg").len(), names(&catalog, "other").len()), (2, 0));
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn limits_of_a_group_are_stored_and_range_checked() {
    let (service, catalog) = grouped();
    let set = |bandwidth_limit, iops_limit| {
        change(&catalog, |draft| draft.edit_volume_group("VG", &QosEdit { bandwidth_limit, iops_limit }))
    };
    set(Some(Some(1 << 20)), Some(Some(100))).unwrap();
    set(None, Some(Some(5_000))).unwrap();
    let limits = |catalog: &Catalog| catalog.state().volume_group("vg").unwrap().qos;
    assert_eq!(limits(&catalog), Qos { bandwidth_limit: Some(1 << 20), iops_limit: Some(5_000) });
    assert_eq!(limits(&open(&service).unwrap()), limits(&catalog));
    assert!(set(Some(Some((1 << 20) - 1)), None).unwrap_err().contains("bandwidth limit must be 1 MiB"));
    assert!(set(None, Some(Some(99))).unwrap_err().contains("IOPS limit must be 100"));
    set(Some(None), Some(None)).unwrap();
    assert_eq!(limits(&catalog), Qos::default());
    change(&catalog, |draft| draft.destroy_volume_group("vg", 8_000)).unwrap();
    assert!(set(None, Some(Some(100))).unwrap_err().contains("has been destroyed"));
}

#[test]
fn names_of_volumes_follow_their_group() {
    let (service, catalog) = grouped();
    change(&catalog, |draft| draft.rename_volume_group("vg", "Prod")).unwrap();
    assert_eq!(names(&catalog, "prod"), ["Prod/a", "Prod/b"]);
    change(&catalog, |draft| draft.rename_volume("prod/a", "PROD/c")).unwrap();
    change(&catalog, |draft| draft.rename_volume("Prod/c", "d")).unwrap();
    change(&catalog, |draft| draft.rename_volume("Prod/d", "Prod/c")).unwrap();
    assert_eq!(names(&catalog, "Prod"), ["Prod/b", "Prod/c"]);
    let refused =
        |edit: &dyn Fn(&mut Draft) -> Result<Arc<crate::Volume>, CatalogError>| change(&catalog, edit).unwrap_err();
    assert!(refused(&|draft| draft.rename_volume("Prod/c", "b")).contains("already exists"));
    assert!(refused(&|draft| draft.rename_volume("Prod/c", "other/c")).contains("keeps the volume group"));
    assert!(refused(&|draft| draft.rename_volume("v1", "Prod/v1")).contains("keeps the volume group"));
    assert!(refused(&|draft| draft.rename_volume("Prod/c", "Prod/b")).contains("already exists"));
    assert!(refused(&|draft| draft.create_volume("none/x", GIB, 0)).contains("Volume group does not exist"));
    assert!(refused(&|draft| draft.create_volume("Prod/x/y", GIB, 0)).contains("Invalid name"));
    assert!(refused(&|draft| draft.create_volume("/x", GIB, 0)).contains("Invalid name"));
    assert!(refused(&|draft| draft.create_volume("Prod/", GIB, 0)).contains("Invalid name"));
    assert!(refused(&|draft| draft.move_volume("v1", Some("none"))).contains("Volume group does not exist"));
    change(&catalog, |draft| draft.create_volume("other/b", GIB, 0)).unwrap();
    assert!(refused(&|draft| draft.move_volume("Prod/b", Some("other"))).contains("already exists"));
    assert!(change(&catalog, |draft| draft.rename_volume_group("prod", "other")).unwrap_err().contains("already"));
    assert!(change(&catalog, |draft| draft.create_volume_group("a/b", 0)).unwrap_err().contains("Invalid name"));
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn group_is_destroyed_and_recovered_with_its_volumes() {
    let (service, catalog) = grouped();
    change(&catalog, |draft| draft.destroy_volume("vg/b", 7_000)).unwrap();
    change(&catalog, |draft| draft.connect("h1", "vg/a", None)).unwrap();
    let connected = change(&catalog, |draft| draft.destroy_volume_group("vg", 8_000)).unwrap_err();
    assert!(connected.contains("existing connections"), "{connected}");
    change(&catalog, |draft| draft.disconnect("h1", "vg/a")).unwrap();
    change(&catalog, |draft| draft.destroy_volume_group("vg", 8_000)).unwrap();
    assert!(catalog.state().volume("vg/a").unwrap().destroyed_ms.is_some());
    let destroyed = "Volume group has been destroyed.";
    assert_eq!(change(&catalog, |draft| draft.create_volume("vg/x", GIB, 0)).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.recover_volume("vg/b")).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.move_volume("v1", Some("vg"))).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.rename_volume_group("vg", "x")).unwrap_err(), destroyed);
    change(&catalog, |draft| draft.recover_volume_group("vg")).unwrap();
    let state = catalog.state();
    let is_live = |name: &str| state.volume(name).unwrap().destroyed_ms.is_none();
    assert_eq!((is_live("vg/a"), is_live("vg/b")), (true, false), "one was destroyed before");
    let live = change(&catalog, |draft| draft.eradicate_volume_group("vg")).unwrap_err();
    assert_eq!(live, "Volume group is not destroyed.");
    change(&catalog, |draft| draft.destroy_volume_group("vg", 9_000)).unwrap();
    change(&catalog, |draft| draft.eradicate_volume_group("vg")).unwrap();
    assert!(catalog.state().volume("vg/a").is_err() && catalog.state().volume_group("vg").is_err());
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn destroyed_group_is_eradicated_after_its_volumes() {
    let (_, catalog) = grouped();
    change(&catalog, |draft| draft.destroy_volume_group("vg", 8_000)).unwrap();
    change(&catalog, |draft| draft.destroy_volume_group("other", 8_000)).unwrap();
    assert!(catalog.eradicate_due(both(8_000 + ERADICATION_DELAY_MS - 1)).unwrap().is_empty());
    let mut gone = catalog.eradicate_due(both(8_000 + ERADICATION_DELAY_MS)).unwrap();
    gone.sort();
    assert_eq!(gone, ["other", "vg", "vg/a", "vg/b"]);
    assert_eq!(catalog.state().volume_groups().count(), 0);
}

#[test]
fn volume_of_a_missing_group_is_damage() {
    let (service, catalog) = grouped();
    let key = format!("volume-group/{:016x}", catalog.state().volume_group("vg").unwrap().id.0).into_bytes();
    engine::call(&*service, engine::Op::Change(vec![engine::Change::Remove { key }])).unwrap();
    assert!(open(&service).err().unwrap().to_string().contains("volume group is missing"));
}
