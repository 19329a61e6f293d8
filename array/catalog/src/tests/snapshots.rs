//! Tests of snapshots and copies.

use super::*;
use crate::{ArrayEdit, ERADICATION_DELAY_MS, ObjectKind, QosEdit, VolumeEdit};
use bytes::Bytes;
use engine::Reply;
use types::{BlockRange, Lba, ObjectId, VolumeId};

/// Fills the first block of a volume with a byte.
pub(super) fn write(service: &Arc<dyn Service>, volume: VolumeId, byte: u8) {
    let data = Bytes::from(vec![byte; 512]);
    engine::call(&**service, Op::Write { volume, lba: Lba(0), data, fua: false }).unwrap();
}

/// Returns the first byte of a volume or snapshot.
pub(super) fn read(service: &Arc<dyn Service>, volume: VolumeId) -> u8 {
    let range = BlockRange::new(Lba(0), 1).unwrap();
    match engine::call(&**service, Op::Read { volume, range }).unwrap() {
        Reply::Data(data) => data[0],
        other => panic!("{other:?}"),
    }
}

fn id(catalog: &Catalog, name: &str) -> ObjectId {
    catalog.state().volume_or_snapshot(name).unwrap().id()
}

/// Returns where the blocks of a volume or snapshot are.
pub(super) fn content(catalog: &Catalog, name: &str) -> VolumeId {
    catalog.state().volume_or_snapshot(name).unwrap().content()
}

fn take(catalog: &Catalog, volumes: &[&str], suffix: Option<&str>, now_ms: u64) -> Vec<String> {
    let taken = catalog.change(|draft| draft.create_snapshots(volumes, suffix, now_ms)).unwrap();
    taken.iter().map(|snapshot| catalog.state().snapshot_name(snapshot)).collect()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(
    catalog: &Catalog,
    edit: impl FnOnce(&mut crate::Draft) -> Result<T, CatalogError>,
) -> String {
    let before = catalog.state();
    let error = catalog.change(edit).unwrap_err();
    assert_eq!(catalog.state(), before);
    error.to_string()
}

#[test]
fn snapshot_keeps_the_volume_content() {
    let (service, catalog) = sample_catalog();
    let v1 = content(&catalog, "v1");
    write(&service, v1, 1);
    assert_eq!(take(&catalog, &["v1"], Some("before"), 7), ["v1.before"]);
    write(&service, v1, 2);
    let snapshot = catalog.state().snapshot("V1.Before").unwrap().clone();
    assert_eq!((snapshot.created_ms, snapshot.bytes, snapshot.volume), (7, GIB, id(&catalog, "v1")));
    assert_eq!((read(&service, snapshot.content()), read(&service, v1)), (1, 2));
    // The snapshot keeps the size of that instant, and its name follows a rename of the volume.
    catalog.change(|draft| draft.resize_volume("v1", 2 * GIB, false, 8)).unwrap();
    catalog.change(|draft| draft.rename_volume("v1", "db")).unwrap();
    assert_eq!(catalog.state().snapshot("db.before").unwrap().bytes, GIB);
    assert_eq!(catalog.state().snapshot("v1.before").unwrap_err().to_string(), "Volume snapshot does not exist.");
}

#[test]
fn group_snapshot_is_atomic_with_one_suffix() {
    let (service, catalog) = sample_catalog();
    let version = catalog.version();
    assert_eq!(take(&catalog, &["v1", "v2"], None, 7), ["v1.1", "v2.1"]);
    assert_eq!(catalog.version(), version + 1, "one change, hence one instant");
    assert_eq!(take(&catalog, &["v2"], None, 8), ["v2.2"]);
    assert_eq!(take(&catalog, &["v1"], None, 9), ["v1.3"]);
    assert!(service.volume_space(content(&catalog, "v2.2")).is_some());
    assert_eq!(refused(&catalog, |d| d.create_snapshots(&["v1", "v9"], None, 9)), "Volume does not exist.");
    assert_eq!(refused(&catalog, |d| d.create_snapshots(&["v1", "v1"], None, 9)), "Volume snapshot already exists.");
    let of_v1: Vec<_> = catalog.state().snapshots_of(id(&catalog, "v1")).map(|s| s.suffix.clone()).collect();
    assert_eq!(of_v1, ["1", "3"]);
}

#[test]
fn snapshot_suffixes_are_checked_and_unique() {
    let (_, catalog) = sample_catalog();
    take(&catalog, &["v1"], Some("daily"), 1);
    for bad in ["", "7", "a.b", "-a", "a b"] {
        assert!(refused(&catalog, |d| d.create_snapshots(&["v1"], Some(bad), 1)).starts_with("Invalid name"), "{bad}");
    }
    assert_eq!(refused(&catalog, |d| d.create_snapshots(&["v1"], Some("DAILY"), 1)), "Volume snapshot already exists.");
    take(&catalog, &["v2"], Some("daily"), 1);
    take(&catalog, &["v1"], Some("weekly"), 1);
    assert_eq!(refused(&catalog, |d| d.rename_snapshot("v1.weekly", "Daily")), "Volume snapshot already exists.");
    catalog.change(|d| d.rename_snapshot("v1.weekly", "Weekly")).unwrap();
    catalog.change(|d| d.rename_snapshot("v1.weekly", "monthly")).unwrap();
    assert!(catalog.state().snapshot("v1.monthly").is_ok());
    assert!(catalog.state().snapshot("v1.weekly").is_err());
}

#[test]
fn copy_is_independent_of_its_source() {
    let (service, catalog) = sample_catalog();
    let v1 = content(&catalog, "v1");
    write(&service, v1, 1);
    take(&catalog, &["v1"], Some("s"), 1);
    write(&service, v1, 2);
    let of_volume = catalog.change(|d| d.copy_volume("v1", "clone", false, 5)).unwrap();
    let of_snapshot = catalog.change(|d| d.copy_volume("v1.s", "older", false, 6)).unwrap();
    assert_eq!((of_volume.bytes, of_volume.created_ms, of_volume.source), (GIB, 5, Some(id(&catalog, "v1"))));
    assert_eq!(of_snapshot.source, Some(id(&catalog, "v1.s")));
    write(&service, of_volume.content(), 3);
    let copies = [&of_volume, &of_snapshot].map(|copy| read(&service, copy.content()));
    assert_eq!((read(&service, v1), copies), (2, [3, 1]));
    assert_eq!(refused(&catalog, |d| d.copy_volume("v1", "clone", false, 7)), "Volume already exists.");
    assert_eq!(refused(&catalog, |d| d.copy_volume("v9", "x", false, 7)), "Volume does not exist.");
    assert_eq!(refused(&catalog, |d| d.copy_volume("v1.x", "x", false, 7)), "Volume snapshot does not exist.");
    assert_eq!(refused(&catalog, |d| d.copy_volume("v1", "v1", true, 7)), "Volume cannot be overwritten with itself.");
    assert!(refused(&catalog, |d| d.copy_volume("v1", "v1.s", true, 7)).starts_with("Invalid name"));
}

#[test]
fn overwritten_content_can_be_recovered() {
    let (service, catalog) = sample_catalog();
    let (v1, v2) = (content(&catalog, "v1"), content(&catalog, "v2"));
    write(&service, v1, 1);
    write(&service, v2, 2);
    take(&catalog, &["v2"], Some("s"), 1);
    let written = catalog.change(|d| d.copy_volume("v2.s", "v1", true, 9)).unwrap();
    assert_eq!((written.content(), written.bytes, read(&service, v1)), (v1, 2 * GIB, 2));
    // The connected host sees the new content and size.
    assert_eq!(catalog.lun_map(ESX1).unwrap().get(1).unwrap().blocks, 2 * GIB / 512);
    let undo = catalog.state().snapshot("v1.undo-1").unwrap().clone();
    assert_eq!((undo.destroyed_ms, undo.bytes, read(&service, undo.content())), (Some(9), GIB, 1));
    assert_eq!(refused(&catalog, |d| d.copy_volume("v1.undo-1", "v1", true, 9)), "Volume snapshot has been destroyed.");
    catalog.change(|d| d.recover_snapshot("v1.undo-1")).unwrap();
    catalog.change(|d| d.copy_volume("v1.undo-1", "v1", true, 10)).unwrap();
    assert_eq!((read(&service, v1), catalog.state().volume("v1").unwrap().bytes), (1, GIB));
    // Truncated data can be recovered in the same way.
    catalog.change(|d| d.resize_volume("v1", GIB / 2, true, 11)).unwrap();
    assert_eq!(catalog.state().snapshot("v1.undo-3").unwrap().bytes, GIB);
}

#[test]
fn connected_snapshot_is_read_only() {
    let (_, catalog) = sample_catalog();
    take(&catalog, &["v1"], Some("s"), 1);
    assert_eq!(catalog.change(|d| d.connect("h1", "v1.S", Some(9))).unwrap().lun, 9);
    let map = catalog.lun_map(ESX1).unwrap();
    let (volume, snapshot) = (map.get(1).unwrap(), map.get(9).unwrap());
    assert_eq!((snapshot.name.as_str(), snapshot.read_only, snapshot.blocks), ("v1.s", true, GIB / 512));
    assert_ne!(volume.serial, snapshot.serial);
    assert_eq!(refused(&catalog, |d| d.connect("h1", "v1.s", None)), "Connection already exists.");
    assert_eq!(
        refused(&catalog, |d| d.destroy_snapshot("v1.s", 1)),
        "Volume snapshot cannot be deleted due to existing connections."
    );
    catalog.change(|d| d.disconnect("h1", "v1")).unwrap();
    let message = refused(&catalog, |d| d.destroy_volume("v1", 1));
    assert_eq!(message, "Volume snapshot cannot be deleted due to existing connections.");
    catalog.change(|d| d.disconnect("h1", "v1.s")).unwrap();
    catalog.change(|d| d.destroy_snapshot("v1.s", 1)).unwrap();
    assert_eq!(refused(&catalog, |d| d.connect("h1", "v1.s", None)), "Volume snapshot has been destroyed.");
}

#[test]
fn snapshots_follow_destroy_and_recover_of_volume() {
    let (service, catalog) = sample_catalog();
    take(&catalog, &["v2"], Some("a"), 1);
    take(&catalog, &["v2"], Some("b"), 1);
    let (a, b) = (content(&catalog, "v2.a"), content(&catalog, "v2.b"));
    catalog.change(|d| d.destroy_snapshot("v2.b", 5)).unwrap();
    catalog.change(|d| d.destroy_volume("v2", 9)).unwrap();
    assert_eq!(refused(&catalog, |d| d.copy_volume("v2.a", "x", false, 9)), "Volume snapshot has been destroyed.");
    assert_eq!(refused(&catalog, |d| d.recover_snapshot("v2.a")), "Volume has been destroyed.");
    assert_eq!(refused(&catalog, |d| d.create_snapshots(&["v2"], None, 9)), "Volume has been destroyed.");
    catalog.change(|d| d.recover_volume("v2")).unwrap();
    let state = catalog.state();
    assert_eq!(state.snapshot_destroyed_ms(state.snapshot("v2.a").unwrap()), None);
    assert_eq!(state.snapshot_destroyed_ms(state.snapshot("v2.b").unwrap()), Some(5));
    assert_eq!(refused(&catalog, |d| d.recover_snapshot("v2.a")), "Volume snapshot is not destroyed.");
    assert_eq!(refused(&catalog, |d| d.eradicate_snapshot("v2.a")), "Volume snapshot is not destroyed.");
    catalog.change(|d| d.eradicate_snapshot("v2.b")).unwrap();
    assert_eq!(service.volume_space(b), None);
    catalog.change(|d| d.destroy_volume("v2", 20)).unwrap();
    catalog.change(|d| d.eradicate_volume("v2")).unwrap();
    assert_eq!((service.volume_space(a), catalog.state().snapshot_count()), (None, 0));
}

#[test]
fn only_due_objects_are_eradicated() {
    let (service, catalog) = sample_catalog();
    let delay = 60_000;
    let edit = ArrayEdit { eradication_delay_ms: Some(delay), ..ArrayEdit::default() };
    catalog.change(|d| d.edit_array_settings(&edit)).unwrap();
    take(&catalog, &["v1", "v2"], Some("a"), 1);
    take(&catalog, &["v1"], Some("b"), 1);
    catalog.change(|d| d.destroy_snapshot("v1.a", 100)).unwrap();
    catalog.change(|d| d.destroy_snapshot("v1.b", 200)).unwrap();
    catalog.change(|d| d.destroy_volume("v2", 300)).unwrap();
    // This also holds after a restart.
    let catalog = open(&service).unwrap();
    assert_eq!(catalog.state().time_to_eradication_ms(both(300)), Some(delay - 200));
    assert_eq!(catalog.eradicate_due(both(99 + delay)).unwrap(), Vec::<String>::new());
    assert_eq!(catalog.eradicate_due(both(100 + delay)).unwrap(), ["v1.a"]);
    assert_eq!(catalog.eradicate_due(both(1_000 + delay)).unwrap(), ["v1.b", "v2.a", "v2"]);
    assert_eq!(catalog.state().time_to_eradication_ms(both(0)), None);
    assert!(catalog.state().volume("v1").is_ok());
}

#[test]
fn volume_with_many_snapshots_is_eradicated_in_parts() {
    let (_, catalog) = sample_catalog();
    catalog.change(|d| (0..1000).try_for_each(|_| d.create_snapshots(&["v2"], None, 0).map(|_| ()))).unwrap();
    catalog.change(|d| d.destroy_volume("v2", 0)).unwrap();
    let version = catalog.version();
    assert_eq!(catalog.eradicate_due(both(ERADICATION_DELAY_MS)).unwrap().len(), 1001);
    assert_eq!(catalog.version() - version, 4);
    assert_eq!(
        catalog.state().volume("v2").unwrap_err(),
        CatalogError::NoSuch { kind: ObjectKind::Volume, name: "v2".into() }
    );
}

#[test]
fn limits_and_thresholds_are_range_checked() {
    let (_, catalog) = sample_catalog();
    let set = |edit: VolumeEdit| catalog.change(|d| d.edit_volume("v1", &edit)).map(|volume| volume.qos);
    let none = VolumeEdit::default();
    let limits = |qos: QosEdit| VolumeEdit { qos, ..none };
    set(limits(QosEdit { bandwidth_limit: Some(Some(1 << 30)), iops_limit: Some(Some(100)) })).unwrap();
    let unlimited = QosEdit { bandwidth_limit: Some(None), iops_limit: None };
    set(VolumeEdit { qos: unlimited, threshold_percent: Some(Some(80)) }).unwrap();
    let entry = catalog.lun_map(ESX1).unwrap().get(1).unwrap().clone();
    assert_eq!((entry.qos.bandwidth_limit, entry.qos.iops_limit, entry.threshold_percent), (None, Some(100), Some(80)));
    for bad in [
        limits(QosEdit { bandwidth_limit: Some(Some((1 << 20) - 1)), iops_limit: None }),
        limits(QosEdit { bandwidth_limit: None, iops_limit: Some(Some(99)) }),
        VolumeEdit { threshold_percent: Some(Some(0)), ..none },
        VolumeEdit { threshold_percent: Some(Some(101)), ..none },
    ] {
        assert!(set(bad).unwrap_err().to_string().starts_with("Invalid setting: "), "{bad:?}");
    }
    let array = |edit: ArrayEdit| catalog.change(|d| d.edit_array_settings(&edit));
    assert!(array(ArrayEdit { eradication_delay_ms: Some(999), ..ArrayEdit::default() }).is_err());
    assert!(array(ArrayEdit { threshold_percent: Some(Some(200)), ..ArrayEdit::default() }).is_err());
    array(ArrayEdit { threshold_percent: Some(Some(90)), ..ArrayEdit::default() }).unwrap();
    assert_eq!(catalog.array().settings.threshold_percent, Some(90));
    assert!(array(ArrayEdit { scrub_interval_ms: Some(Some(3_599_999)), ..ArrayEdit::default() }).is_err());
    assert!(array(ArrayEdit { scrub_bytes_per_second: Some((1 << 20) - 1), ..ArrayEdit::default() }).is_err());
}
