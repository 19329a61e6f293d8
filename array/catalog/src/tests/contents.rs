//! Tests of content that has an id of its own.

use super::snapshots::{content, read, write};
use super::*;
use crate::{CatalogPart, volume_names};
use types::{ObjectId, VolumeId};

const FAR: VolumeId = VolumeId(1 << 40);
const FAR_SNAPSHOT: VolumeId = VolumeId((1 << 40) + 1);

fn moved() -> (Arc<dyn Service>, Catalog) {
    let (service, catalog) = sample_catalog();
    write(&service, content(&catalog, "v1"), 1);
    catalog.change(|draft| draft.create_snapshots(&["v1"], Some("s"), 1)).unwrap();
    write(&service, content(&catalog, "v1"), 2);
    catalog
        .change(|draft| {
            draft.move_content("v1", FAR)?;
            draft.move_content("v1.s", FAR_SNAPSHOT)
        })
        .unwrap();
    (service, catalog)
}

#[test]
fn object_stays_when_its_content_moves() {
    let (service, catalog) = sample_catalog();
    catalog.change(|draft| draft.create_snapshots(&["v1"], Some("s"), 1)).unwrap();
    let before = catalog.state();
    let map = catalog.lun_map(ESX1).unwrap();
    let old = content(&catalog, "v1");
    write(&service, old, 7);
    catalog.change(|draft| draft.move_content("v1", FAR)).unwrap();
    let (state, volume) = (catalog.state(), catalog.state().volume("v1").unwrap().clone());
    let same = before.volume("v1").unwrap();
    assert_eq!((volume.id, &volume.serial, volume.content()), (same.id, &same.serial, FAR));
    assert_eq!((read(&service, FAR), service.volume_space(old)), (7, None));
    assert_eq!(state.parts_changed_since(&before), [CatalogPart::Volumes]);
    // A session sees the same logical unit, and where its blocks are now.
    let entry = catalog.lun_map(ESX1).unwrap().get(1).unwrap().clone();
    let former = map.get(1).unwrap();
    assert_eq!((entry.volume, entry.content, former.content), (former.volume, FAR, old));
    assert_eq!(crate::LunEntry { content: old, ..entry }, *former);
    assert_eq!(state.snapshots_of(volume.id).count(), 1);
}

#[test]
fn moved_objects_are_found_by_their_content() {
    let (service, catalog) = moved();
    let name = |content| {
        let state = catalog.state();
        state.volume_or_snapshot_of(content).map(|object| state.volume_or_snapshot_name(&object))
    };
    let named = |content| name(content).unwrap_or_default();
    assert_eq!([named(FAR), named(FAR_SNAPSHOT), named(VolumeId(2))], ["v1", "v1.s", "v2"]);
    assert_eq!([name(VolumeId(1)), name(VolumeId(3))], [None, None], "the former places");
    let values: Vec<_> = service.scan(b"");
    let names = volume_names(values.iter().map(|(key, value)| (&key[..], &value[..])));
    let expected = [(VolumeId(2), "v2"), (FAR, "v1"), (FAR_SNAPSHOT, "v1.s")];
    assert_eq!(names, expected.map(|(id, name)| (id, name.to_owned())).into());
    // The content moves back to the id that it had, and there is nothing left to store.
    catalog.change(|draft| draft.move_content("v1", VolumeId(1))).unwrap();
    assert_eq!((name(FAR), named(VolumeId(1))), (None, "v1".to_owned()));
    assert_eq!(open(&service).unwrap().state(), catalog.state());
    let taken = catalog.change(|draft| draft.move_content("v2", VolumeId(1))).unwrap_err();
    assert_eq!(taken.to_string(), "Volume already exists.");
}

#[test]
fn changes_of_moved_objects_reach_their_content() {
    let (service, catalog) = moved();
    let size = |content| service.volume_space(content).map(|space| space.provisioned);
    catalog.change(|draft| draft.resize_volume("v1", 3 * GIB, false, 2)).unwrap();
    assert_eq!((size(FAR), size(FAR_SNAPSHOT)), (Some(3 * GIB), Some(GIB)));
    let clone = catalog.change(|draft| draft.copy_volume("v1.s", "clone", false, 3)).unwrap();
    assert_eq!(read(&service, clone.content()), 1);
    catalog.change(|draft| draft.create_snapshots(&["v1"], Some("t"), 3)).unwrap();
    assert_eq!(read(&service, content(&catalog, "v1.t")), 2);
    catalog.change(|draft| draft.copy_volume("clone", "v1", true, 4)).unwrap();
    assert_eq!((read(&service, FAR), size(FAR)), (1, Some(GIB)));
    // The reservations belong to the object, not to its content.
    let key = crate::reservations_key(ObjectId(1));
    engine::call(&*service, Op::Change(vec![engine::Change::Put { key: key.clone(), value: vec![1] }])).unwrap();
    catalog
        .change(|draft| {
            draft.disconnect("h1", "v1")?;
            draft.destroy_volume("v1", 5)?;
            draft.eradicate_volume("v1")
        })
        .unwrap();
    assert_eq!((size(FAR), size(FAR_SNAPSHOT), service.get(&key)), (None, None, None));
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

/// A program that does not know of the content must not read another volume in its place, so these
/// records have a version of their own. Records of content that never moved are as before.
#[test]
fn moved_content_has_a_stored_form_of_its_own() {
    let (service, catalog) = moved();
    let stored = |key: &str| String::from_utf8(service.get(key.as_bytes()).unwrap()).unwrap();
    assert_eq!(
        stored("volume/0000000000000001"),
        concat!(
            r#"{"v":2,"record":{"id":1,"content":1099511627776,"name":"v1","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000001","created_ms":2000,"destroyed_ms":null}}"#
        )
    );
    assert_eq!(
        stored("snapshot/0000000000000003"),
        concat!(
            r#"{"v":2,"record":{"id":3,"content":1099511627777,"volume":1,"suffix":"s","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000003","created_ms":1,"destroyed_ms":null}}"#
        )
    );
    assert!(stored("volume/0000000000000002").starts_with(r#"{"v":1,"record":{"id":2,"name":"v2","#));
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}
