//! Pods and their volumes.

use super::snapshots::{read, write};
use super::*;
use crate::{CatalogPart, Draft, ERADICATION_DELAY_MS, MAX_GROUP_VOLUMES, PolicyMember, Volume};
use engine::{Change, call};

/// [`sample_catalog`] with a pod `p` of `p::a` and `p::b`, and a pod `other`.
fn with_pods() -> (Arc<dyn Service>, Catalog) {
    let (service, catalog) = sample_catalog();
    let create = |draft: &mut Draft| {
        draft.create_pod("p", None, 6_000)?;
        draft.create_pod("other", None, 6_000)?;
        draft.create_volume("P::a", GIB, 6_000)?;
        draft.create_volume("p::b", GIB, 6_000)
    };
    catalog.change(create).unwrap();
    (service, catalog)
}

fn names(catalog: &Catalog, pod: &str) -> Vec<String> {
    let state = catalog.state();
    let pod = state.pod(pod).unwrap();
    state.volumes_of_pod(pod).map(|volume| volume.name.clone()).collect()
}

fn change<T>(catalog: &Catalog, edit: impl FnOnce(&mut Draft) -> Result<T, CatalogError>) -> Result<(), String> {
    catalog.change(|draft| edit(draft).map(|_| ())).map_err(|error: CatalogError| error.to_string())
}

fn volume(catalog: &Catalog, name: &str) -> Arc<Volume> {
    catalog.state().volume(name).unwrap().clone()
}

#[test]
fn volume_moves_in_and_out_of_a_pod() {
    let (service, catalog) = with_pods();
    assert_eq!(names(&catalog, "p"), ["p::a", "p::b"], "the pod's own spelling");
    let before = volume(&catalog, "v1");
    change(&catalog, |draft| draft.create_snapshots(&["v1"], Some("s"), 7_000)).unwrap();
    change(&catalog, |draft| draft.move_volume_to_pod("v1", Some("P"))).unwrap();
    assert_eq!(names(&catalog, "p"), ["p::a", "p::b", "p::v1"]);
    let moved = volume(&catalog, "p::v1");
    assert_eq!((moved.id, &moved.serial, moved.bytes), (before.id, &before.serial, before.bytes));
    let state = catalog.state();
    assert_eq!(state.hosts_of(moved.id).count(), 1, "connections stay");
    assert_eq!(state.lun_map(ESX1).unwrap().entries[&1].name, "p::v1");
    assert_eq!(state.snapshot_name(state.snapshot("P::v1.s").unwrap()), "p::v1.s");
    assert_eq!(state.pod_of_volume(&moved).unwrap().name, "p");
    change(&catalog, |draft| draft.move_volume_to_pod("p::v1", Some("other"))).unwrap();
    change(&catalog, |draft| draft.move_volume_to_pod("other::v1", None)).unwrap();
    change(&catalog, |draft| draft.move_volume_to_pod("v1", None)).unwrap();
    assert_eq!((names(&catalog, "p").len(), names(&catalog, "other").len()), (2, 0));
    assert_eq!(volume(&catalog, "v1").id, before.id);
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn volume_moves_between_groups_and_pods() {
    let (service, catalog) = with_pods();
    change(&catalog, |draft| draft.create_volume_group("g", 6_000)).unwrap();
    change(&catalog, |draft| draft.move_volume("v1", Some("g"))).unwrap();
    change(&catalog, |draft| draft.move_volume_to_pod("g/v1", None)).unwrap();
    assert!(catalog.state().volume("g/v1").is_ok(), "it is in no pod");
    change(&catalog, |draft| draft.move_volume_to_pod("g/v1", Some("p"))).unwrap();
    change(&catalog, |draft| draft.move_volume("p::v1", None)).unwrap();
    assert!(catalog.state().volume("p::v1").is_ok(), "it is in no group");
    change(&catalog, |draft| draft.move_volume("p::v1", Some("g"))).unwrap();
    assert_eq!(names(&catalog, "p").len(), 2);
    assert_eq!(catalog.state().group_of_volume(&volume(&catalog, "g/v1")).unwrap().name, "g");
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn names_of_volumes_follow_their_pod() {
    let (service, catalog) = with_pods();
    change(&catalog, |draft| draft.rename_pod("p", "Dc1")).unwrap();
    assert_eq!(names(&catalog, "dc1"), ["Dc1::a", "Dc1::b"]);
    change(&catalog, |draft| draft.rename_volume("dc1::a", "DC1::c")).unwrap();
    change(&catalog, |draft| draft.rename_volume("Dc1::c", "d")).unwrap();
    assert_eq!(names(&catalog, "Dc1"), ["Dc1::b", "Dc1::d"]);
    let refused = |edit: &dyn Fn(&mut Draft) -> Result<Arc<Volume>, CatalogError>| change(&catalog, edit).unwrap_err();
    let cases: [(&str, &str); 8] = [
        ("none::x", "Pod does not exist."),
        ("Dc1::b", "Volume already exists."),
        ("Dc1::x::y", "Invalid name"),
        ("::x", "Invalid name"),
        ("Dc1::", "Invalid name"),
        ("Dc1:x", "Invalid name"),
        ("g/Dc1::x", "Invalid name"),
        ("Dc1::g/x", "Volume group cannot be in a pod"),
    ];
    for (name, words) in cases {
        let error = refused(&|draft| draft.create_volume(name, GIB, 0));
        assert!(error.starts_with(words), "{name}: {error}");
    }
    assert!(refused(&|draft| draft.rename_volume("Dc1::d", "b")).contains("already exists"));
    assert!(refused(&|draft| draft.rename_volume("Dc1::d", "other::d")).contains("keeps the volume group and the pod"));
    assert!(refused(&|draft| draft.rename_volume("v1", "Dc1::v1")).contains("keeps the volume group and the pod"));
    assert!(refused(&|draft| draft.rename_volume("Dc1::d", "g/d")).contains("keeps the volume group and the pod"));
    assert!(refused(&|draft| draft.move_volume_to_pod("v1", Some("none"))).contains("Pod does not exist"));
    change(&catalog, |draft| draft.create_volume("other::b", GIB, 0)).unwrap();
    assert!(refused(&|draft| draft.move_volume_to_pod("Dc1::b", Some("other"))).contains("already exists"));
    assert!(change(&catalog, |draft| draft.rename_pod("dc1", "other")).unwrap_err().contains("already"));
    assert!(change(&catalog, |draft| draft.create_pod("OTHER", None, 0)).unwrap_err().contains("already"));
    assert!(change(&catalog, |draft| draft.create_pod("a::b", None, 0)).unwrap_err().contains("Invalid name"));
    let group = change(&catalog, |draft| draft.create_volume_group("Dc1::g", 0)).unwrap_err();
    assert!(group.starts_with("Volume group cannot be in a pod"), "{group}");
    let group = change(&catalog, |draft| draft.create_protection_group("Dc1::g", 0)).unwrap_err();
    assert!(group.starts_with("Protection group cannot be in a pod"), "{group}");
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn volume_groups_and_pods_of_one_name_are_apart() {
    let (_, catalog) = with_pods();
    change(&catalog, |draft| draft.create_volume_group("p", 6_000)).unwrap();
    change(&catalog, |draft| draft.create_volume("p/a", GIB, 6_000)).unwrap();
    change(&catalog, |draft| draft.create_pod("p1", None, 6_000)).unwrap();
    change(&catalog, |draft| draft.create_volume("p1::a", GIB, 6_000)).unwrap();
    assert_eq!(names(&catalog, "p"), ["p::a", "p::b"]);
    let state = catalog.state();
    let group = state.volumes_of_group(state.volume_group("p").unwrap());
    assert_eq!(group.map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["p/a"]);
}

#[test]
fn pod_is_destroyed_empty_or_with_its_volumes() {
    let (service, catalog) = with_pods();
    change(&catalog, |draft| draft.destroy_volume("p::b", 7_000)).unwrap();
    let full = change(&catalog, |draft| draft.destroy_pod("p", false, 8_000)).unwrap_err();
    assert!(full.starts_with("Pod is not empty: move or destroy its volumes first"), "{full}");
    change(&catalog, |draft| draft.connect("h1", "p::a", None)).unwrap();
    let connected = change(&catalog, |draft| draft.destroy_pod("p", true, 8_000)).unwrap_err();
    assert!(connected.contains("existing connections"), "{connected}");
    change(&catalog, |draft| draft.disconnect("h1", "p::a")).unwrap();
    change(&catalog, |draft| draft.destroy_pod("p", true, 8_000)).unwrap();
    assert!(volume(&catalog, "p::a").destroyed_ms.is_some());
    let destroyed = "Pod has been destroyed.";
    assert_eq!(change(&catalog, |draft| draft.create_volume("p::x", GIB, 0)).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.recover_volume("p::b")).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.move_volume_to_pod("v1", Some("p"))).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.rename_pod("p", "x")).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.clone_pod("p", "x", None, 0)).unwrap_err(), destroyed);
    assert_eq!(change(&catalog, |draft| draft.destroy_pod("p", true, 0)).unwrap_err(), destroyed);
    change(&catalog, |draft| draft.recover_pod("p")).unwrap();
    let is_live = |name: &str| volume(&catalog, name).destroyed_ms.is_none();
    assert_eq!((is_live("p::a"), is_live("p::b")), (true, false), "one was destroyed before");
    assert_eq!(change(&catalog, |draft| draft.eradicate_pod("p", true)).unwrap_err(), "Pod is not destroyed.");
    change(&catalog, |draft| draft.destroy_volume("p::a", 9_000)).unwrap();
    change(&catalog, |draft| draft.destroy_pod("p", false, 9_000)).unwrap();
    let full = change(&catalog, |draft| draft.eradicate_pod("p", false)).unwrap_err();
    assert!(full.starts_with("Pod is not empty: eradicate its volumes first"), "{full}");
    change(&catalog, |draft| draft.eradicate_pod("p", true)).unwrap();
    assert!(catalog.state().volume("p::a").is_err() && catalog.state().pod("p").is_err());
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn destroyed_pod_is_eradicated_after_its_volumes() {
    let (_, catalog) = with_pods();
    change(&catalog, |draft| draft.destroy_pod("p", true, 8_000)).unwrap();
    change(&catalog, |draft| draft.destroy_pod("other", false, 8_000)).unwrap();
    assert!(catalog.eradicate_due(both(8_000 + ERADICATION_DELAY_MS - 1)).unwrap().is_empty());
    let mut gone = catalog.eradicate_due(both(8_000 + ERADICATION_DELAY_MS)).unwrap();
    gone.sort();
    assert_eq!(gone, ["other", "p", "p::a", "p::b"]);
    assert_eq!(catalog.state().pods().count(), 0);
}

#[test]
fn clone_copies_the_live_volumes_at_one_instant() {
    let (service, catalog) = with_pods();
    let write = |name: &str, byte: u8| write(&service, volume(&catalog, name).content(), byte);
    let first = |name: &str| read(&service, volume(&catalog, name).content());
    write("p::a", 1);
    write("p::b", 2);
    change(&catalog, |draft| draft.create_snapshots(&["p::a"], Some("s"), 7_000)).unwrap();
    change(&catalog, |draft| draft.create_volume("p::gone", GIB, 7_000)).unwrap();
    change(&catalog, |draft| draft.destroy_volume("p::gone", 7_000)).unwrap();
    change(&catalog, |draft| draft.clone_pod("P", "q", Some(2 * GIB), 8_000)).unwrap();
    write("p::a", 3);
    assert_eq!(names(&catalog, "q"), ["q::a", "q::b"]);
    assert_eq!((first("q::a"), first("q::b"), first("p::a")), (1, 2, 3));
    let (state, copy) = (catalog.state(), volume(&catalog, "q::a"));
    assert_eq!((copy.source, copy.created_ms), (Some(volume(&catalog, "p::a").id), 8_000));
    assert_eq!(state.snapshots_of(copy.id).count(), 0);
    assert_ne!(copy.serial, volume(&catalog, "p::a").serial);
    assert_eq!(state.pod("q").unwrap().source, Some(state.pod("p").unwrap().id));
    let version = catalog.version();
    assert!(change(&catalog, |draft| draft.clone_pod("p", "q", None, 0)).unwrap_err().contains("already exists"));
    assert!(change(&catalog, |draft| draft.clone_pod("p", "r", Some(GIB), 0)).unwrap_err().starts_with("Quota limit"));
    assert_eq!(catalog.version(), version, "a clone that fails leaves nothing");
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn clone_is_one_change_of_the_engine() {
    let (_, catalog) = with_pods();
    let mut draft = Draft::new(&catalog.state(), 0, None, Arc::new(|_| true));
    draft.clone_pod("p", "q", None, 7_000).unwrap();
    let changes = draft.finish().changes;
    let copies = changes.iter().filter(|change| matches!(change, Change::CopyVolume { .. }));
    assert_eq!(copies.count(), 2);
}

#[test]
fn quota_limits_the_size_of_all_volumes() {
    let (service, catalog) = with_pods();
    let set = |quota, ignores| change(&catalog, |draft| draft.set_pod_quota("P", quota, ignores));
    assert!(set(Some((1 << 20) - 512), false).unwrap_err().contains("a quota is 1 MiB"));
    assert!(set(Some((1 << 30) + 1), false).unwrap_err().contains("multiple of 512"));
    let below = set(Some(GIB), false).unwrap_err();
    assert!(below.contains(&format!("have {} bytes", 2 * GIB)), "{below}");
    set(Some(3 * GIB), false).unwrap();
    let refused = |edit: &dyn Fn(&mut Draft) -> Result<Arc<Volume>, CatalogError>| {
        let error = change(&catalog, edit).unwrap_err();
        assert!(error.starts_with("Quota limit reached: the volumes of pod p may have"), "{error}");
    };
    refused(&|draft| draft.create_volume("p::c", GIB + 4096, 0));
    refused(&|draft| draft.resize_volume("p::a", 2 * GIB + 4096, false, 0));
    refused(&|draft| draft.move_volume_to_pod("v2", Some("p")));
    refused(&|draft| draft.copy_volume("v2", "p::c", false, 0));
    change(&catalog, |draft| draft.copy_volume("v2", "p::a", true, 0)).unwrap();
    refused(&|draft| draft.copy_volume("v2", "p::b", true, 0));
    change(&catalog, |draft| draft.destroy_volume("p::a", 7_000)).unwrap();
    change(&catalog, |draft| draft.create_volume("p::c", 2 * GIB, 7_000)).unwrap();
    refused(&|draft| draft.recover_volume("p::a"));
    set(Some(GIB), true).unwrap();
    refused(&|draft| draft.create_volume("p::d", 1 << 20, 0));
    change(&catalog, |draft| draft.rename_volume("p::c", "d")).unwrap();
    change(&catalog, |draft| draft.resize_volume("p::d", GIB, true, 8_000)).unwrap();
    change(&catalog, |draft| draft.rename_pod("p", "p2")).unwrap();
    change(&catalog, |draft| draft.destroy_pod("p2", true, 9_000)).unwrap();
    change(&catalog, |draft| draft.recover_pod("p2")).unwrap();
    let state = catalog.state();
    assert_eq!(state.provisioned_in_pod(state.pod("p2").unwrap()), 2 * GIB, "more than the quota, as before");
    change(&catalog, |draft| draft.set_pod_quota("p2", None, false)).unwrap();
    change(&catalog, |draft| draft.recover_volume("p2::a")).unwrap();
    assert_eq!(*open(&service).unwrap().state(), *catalog.state());
}

#[test]
fn number_of_volumes_of_a_pod_is_limited() {
    let (_, catalog) = new();
    change(&catalog, |draft| draft.create_pod("p", None, 0)).unwrap();
    let fill = |draft: &mut Draft| {
        (0..MAX_GROUP_VOLUMES).try_for_each(|n| draft.create_volume(&format!("p::v{n}"), 1 << 20, 0).map(|_| ()))
    };
    change(&catalog, fill).unwrap();
    let limit = "Pod volume limit reached (1000).";
    assert_eq!(change(&catalog, |draft| draft.create_volume("p::x", GIB, 0)).unwrap_err(), limit);
    change(&catalog, |draft| draft.create_volume("x", GIB, 0)).unwrap();
    assert_eq!(change(&catalog, |draft| draft.move_volume_to_pod("x", Some("p"))).unwrap_err(), limit);
}

#[test]
fn protection_and_policies_of_a_volume_survive_a_move() {
    let (_, catalog) = with_pods();
    let protect = |draft: &mut Draft| {
        draft.create_protection_group("pg", 6_000)?;
        draft.set_protection("pg", "v1", true)?;
        draft.create_snapshot_policy("hourly", true, 6_000)?;
        draft.set_policy_member("hourly", PolicyMember::Volume("v1"), true)?;
        draft.move_volume_to_pod("v1", Some("p"))
    };
    change(&catalog, protect).unwrap();
    change(&catalog, |draft| draft.snapshot_protection_group("pg", Some("s"), false, 7_000)).unwrap();
    let state = catalog.state();
    let snapshot = state.snapshot("pg.s.p::v1").unwrap();
    assert_eq!(state.snapshot_name(snapshot), "pg.s.p::v1");
    let policy = state.snapshot_policy("hourly").unwrap();
    assert_eq!(state.volumes_of_policy(policy)[0].name, "p::v1");
}

#[test]
fn changes_of_pods_are_reported_as_such() {
    let (_, catalog) = with_pods();
    let before = catalog.state();
    change(&catalog, |draft| draft.set_pod_quota("other", Some(GIB), false)).unwrap();
    assert_eq!(catalog.state().parts_changed_since(&before), [CatalogPart::Pods]);
}

#[test]
fn volume_of_a_missing_pod_is_damage() {
    let (service, catalog) = with_pods();
    let key = format!("pod/{:016x}", catalog.state().pod("p").unwrap().id.0).into_bytes();
    call(&*service, Op::Change(vec![Change::Remove { key }])).unwrap();
    assert!(open(&service).err().unwrap().to_string().contains("its pod is missing"));
}
