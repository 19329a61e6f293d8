//! Tests of a pod that two arrays have: what the second one makes of the images of the first.

use super::snapshots::content;
use super::stretched::{Streams, numbered, peer, stretched};
use super::*;
use crate::{CatalogState, Draft, Pod, PodId, PodImage, VolumeOrSnapshot};
use engine::{Change, StreamChange, call};
use proptest::prelude::*;
use types::VolumeId;

/// The second array, with other objects, so that ids and numbers differ.
fn second() -> (Arc<dyn Service>, Catalog) {
    let service: Arc<dyn Service> = Arc::new(Streams::default());
    let init = ArrayInit { name: "array-2".into(), identity: *b"other sixteen by", number: 2, now_ms: 500 };
    let catalog = Catalog::open(service.clone(), &init).unwrap();
    catalog.unlock(keys()).unwrap();
    catalog
        .change(|draft| {
            for name in ["x", "y", "z"] {
                draft.create_volume(name, GIB, 1)?;
            }
            draft.create_host("h2", &iqns(&[ESX2]), 1)
        })
        .unwrap();
    (service, catalog)
}

fn reopened(service: &Arc<dyn Service>) -> Arc<CatalogState> {
    let catalog = Catalog::open(service.clone(), &array_init()).unwrap();
    catalog.unlock(keys()).unwrap();
    catalog.state()
}

fn image(catalog: &Catalog, pod: &str) -> PodImage {
    let state = catalog.state();
    state.pod_image(state.pod(pod).unwrap())
}

fn pod_id(catalog: &Catalog) -> PodId {
    catalog.state().stretched_pods().next().unwrap().id
}

/// Lets the second array follow a record.
fn follow(service: &Arc<dyn Service>, catalog: &Catalog, record: &StreamChange) -> Result<Arc<Pod>, CatalogError> {
    if !record.changes.is_empty() {
        call(&**service, Op::Change(record.changes.clone())).unwrap();
    }
    let image = PodImage::from_message(&record.message).unwrap();
    let id = pod_id(catalog);
    catalog.change(|draft| draft.apply_pod_image(id, &image))
}

fn adopt(first: &Catalog, second: &Catalog) -> Arc<Pod> {
    let image = image(first, "p");
    second.change(|draft| draft.adopt_pod(&image, peer(), 10)).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(catalog: &Catalog, edit: impl FnOnce(&mut Draft) -> Result<T, CatalogError>) -> String {
    let before = catalog.state();
    let error = catalog.change(edit).unwrap_err();
    assert_eq!(catalog.state(), before);
    error.to_string()
}

#[test]
fn adopted_pod_has_the_same_image() {
    let (_, _, first) = stretched();
    let (service, second) = second();
    let pod = adopt(&first, &second);
    assert_eq!(image(&second, "p"), image(&first, "p"));
    let (one, two) = (first.state(), second.state());
    let (a, b) = (one.volume("p::a").unwrap(), two.volume("p::a").unwrap());
    assert_ne!(a.id, b.id);
    assert_eq!((a.naa(), a.content()), (b.naa(), b.content()));
    for (volume, blocks) in image(&first, "p").contents() {
        assert_eq!(service.volume_space(volume).unwrap().provisioned, blocks * 512);
    }
    let uuid = VolumeOrSnapshot::Volume(a.clone()).uuid();
    assert_eq!(two.volume_or_snapshot_by_uuid(&uuid).map(|found| found.id()), Some(b.id), "hosts know it by that");
    let own = VolumeOrSnapshot::Volume(two.volume("x").unwrap().clone());
    assert_eq!(two.volume_or_snapshot_by_uuid(&own.uuid()), Some(own));
    assert_eq!(reopened(&service), two);
    // Each array has connections of its own.
    second.change(|draft| draft.connect("h2", "p::a.s", None)).unwrap();
    assert_eq!(second.lun_map(ESX2).unwrap().get(1).unwrap().content, numbered(3));
    assert_eq!(pod.stretch.as_ref().unwrap().since_ms, 10);
}

#[test]
fn adoption_is_refused_in_words() {
    let (_, _, first) = stretched();
    let (_, second) = second();
    let image = image(&first, "p");
    let adopt = |image: PodImage| move |draft: &mut Draft| draft.adopt_pod(&image, peer(), 10);
    second.change(|draft| draft.create_pod("P", None, 1)).unwrap();
    assert_eq!(refused(&second, adopt(image.clone())), "Pod already exists.");
    let other = PodImage { name: "q".into(), ..image.clone() };
    let mut own = other.clone();
    own.volumes[0].serial = second.state().volume("x").unwrap().serial.clone();
    let serial = &own.volumes[0].serial;
    assert_eq!(refused(&second, adopt(own.clone())), format!("Serial number {serial} is already used by x."));
    second.change(adopt(other.clone())).unwrap();
    let again = PodImage { name: "r".into(), ..other };
    assert!(refused(&second, adopt(again)).ends_with("its stream is used here."));
}

#[test]
fn images_that_contradict_themselves_are_refused() {
    let (_, _, first) = stretched();
    let good = image(&first, "p");
    let edits: [(&str, fn(&mut PodImage)); 13] = [
        ("the name of the pod is not one", |image| image.name = "a b".into()),
        ("a number has more than 31 bits", |image| image.stream = 1 << 31),
        ("the resync limit is not one", |image| image.resync_limit = Some(0)),
        ("two objects have one content", |image| image.volumes[1].content = 1),
        ("a content is not counted", |image| image.next_content = 3),
        ("a serial number is not one", |image| image.volumes[0].serial = "zz".into()),
        ("a serial number is not one", |image| image.volumes[0].serial = image.volumes[1].serial.clone()),
        ("the name of a volume is not one", |image| image.volumes[0].name = "q::a".into()),
        ("two volumes have one name", |image| image.volumes[0].name = "B".into()),
        ("a size is not that of a volume", |image| image.volumes[0].bytes += 512),
        ("a snapshot has no volume", |image| image.snapshots[0].volume = 3),
        ("a suffix is not one", |image| image.snapshots[0].suffix = "a.b".into()),
        ("two snapshots have one name", |image| {
            let mut other = image.snapshots[0].clone();
            (other.content, other.suffix, other.serial) = (9, "S".into(), "0".repeat(24));
            image.next_content = 10;
            image.snapshots.push(other);
        }),
    ];
    for (reason, edit) in edits {
        let mut bad = good.clone();
        edit(&mut bad);
        let error = PodImage::from_message(&bad.to_message().unwrap()).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    for message in [&b""[..], b"\x02", b"\x02{}", b"\x03{\"stream\":1}"] {
        PodImage::from_message(message).unwrap_err();
    }
    assert_eq!(PodImage::from_message(&good.to_message().unwrap()), Ok(good));
}

#[test]
fn followed_images_remove_and_rename_objects() {
    let (streams, _, first) = stretched();
    let (service, second) = second();
    adopt(&first, &second);
    second
        .change(|draft| {
            draft.connect("h2", "p::b", None)?;
            draft.create_host_group("hosts", 1)?;
            draft.connect_group("hosts", "p::b", None)?;
            draft.create_protection_group("g2", 1)?;
            draft.set_protection("g2", "p::b", true)
        })
        .unwrap();
    let key = crate::reservations_key(second.state().volume("p::b").unwrap().id);
    call(&*service, Op::Change(vec![Change::Put { key: key.clone(), value: vec![1] }])).unwrap();
    // Names are exchanged, so that each is taken for a moment.
    first
        .change(|draft| {
            draft.rename_volume("p::a", "c")?;
            draft.rename_volume("p::b", "a")?;
            draft.rename_volume("p::c", "b")
        })
        .unwrap();
    follow(&service, &second, &streams.take().remove(0)).unwrap();
    assert_eq!((content(&second, "p::b"), content(&second, "p::a")), (numbered(1), numbered(2)));
    first.change(|draft| draft.destroy_volume("p::a", 20)).unwrap();
    first.change(|draft| draft.eradicate_volume("p::a")).unwrap();
    for record in streams.take() {
        follow(&service, &second, &record).unwrap();
    }
    let state = second.state();
    assert_eq!((state.connections().count(), service.get(&key)), (0, None));
    assert!(state.protection_group("g2").unwrap().volumes.is_empty());
    assert_eq!(image(&second, "p"), image(&first, "p"));
    assert_eq!(service.volume_space(numbered(2)), None);
    assert_eq!(reopened(&service), state);
}

#[test]
fn pod_whose_name_is_taken_gets_a_variation() {
    let (streams, _, first) = stretched();
    let (service, second) = second();
    adopt(&first, &second);
    second.change(|draft| draft.create_pod("q", None, 1)).unwrap();
    first.change(|draft| draft.rename_pod("p", "q")).unwrap();
    let record = streams.take().remove(0);
    let pod = follow(&service, &second, &record).unwrap();
    assert_eq!((pod.name.as_str(), second.state().volume("q-2::a").is_ok()), ("q-2", true));
    assert_eq!(image(&second, "q-2"), image(&first, "q"), "its name for both is kept");
    let before = second.version();
    follow(&service, &second, &record).unwrap();
    assert_eq!(second.version(), before, "doing it again changes nothing");
    assert_eq!(reopened(&service), second.state());
    second.change(|draft| draft.rename_pod("q-2", "r")).unwrap();
    assert_eq!(image(&second, "r").name, "r", "a name that was given here is for both");
}

#[test]
fn group_snapshot_is_plain_at_the_other_array() {
    let (streams, _, first) = stretched();
    let (service, second) = second();
    adopt(&first, &second);
    for group in ["g", "other"] {
        first
            .change(|draft| {
                draft.create_protection_group(group, 9)?;
                draft.set_protection(group, "p::a", true)?;
                draft.set_protection(group, "p::b", true)?;
                draft.snapshot_protection_group(group, None, true, 9)
            })
            .unwrap();
    }
    streams.take().iter().for_each(|record| drop(follow(&service, &second, record).unwrap()));
    let state = second.state();
    let names: Vec<String> = state.snapshots().map(|snapshot| state.snapshot_name(snapshot)).collect();
    assert_eq!(names, ["p::a.s", "p::a.1-4", "p::b.1-5", "p::a.1-6", "p::b.1-7"]);
    // An image of the second array leaves the members of the first in their group.
    let (back, id) = (image(&second, "p"), pod_id(&first));
    assert_eq!(back, image(&first, "p"));
    let version = first.version();
    first.change(|draft| draft.apply_pod_image(id, &back)).unwrap();
    assert_eq!(first.version(), version);
    // The other array destroys one of them.
    second.change(|draft| draft.destroy_snapshot("p::a.1-4", 30)).unwrap();
    let back = image(&second, "p");
    first.change(|draft| draft.apply_pod_image(id, &back)).unwrap();
    let member = first.state().snapshot("g.1.p::a").unwrap().clone();
    assert_eq!((member.destroyed_ms, member.suffix.as_str()), (Some(30), "1"));
    assert_eq!(image(&first, "p"), back);
}

#[test]
fn dropped_pod_leaves_nothing() {
    let (_, _, first) = stretched();
    let (service, second) = second();
    let before = second.state();
    adopt(&first, &second);
    second
        .change(|draft| {
            draft.connect("h2", "p::a", None)?;
            draft.connect("h2", "p::a.s", None)
        })
        .unwrap();
    let contents = image(&second, "p").contents();
    second.change(|draft| draft.drop_pod("p")).unwrap();
    let state = second.state();
    assert!(contents.iter().all(|(volume, _)| service.volume_space(*volume).is_none()));
    assert_eq!((state.volumes().count(), state.snapshots().count()), (before.volumes().count(), 0));
    assert_eq!((state.pods().count(), state.connections().count()), (0, 0));
    assert_eq!(reopened(&service), state);
    adopt(&first, &second);
}

#[test]
fn volume_changes_make_the_volumes_of_the_image() {
    let (_, _, first) = stretched();
    let image = image(&first, "p");
    let contents = image.contents();
    let hidden = (numbered(0), 1 << 38);
    assert_eq!(contents, [hidden, (numbered(1), GIB / 512), (numbered(2), 2 * GIB / 512), (numbered(3), GIB / 512)]);
    assert_eq!(image.volume_changes(&contents), []);
    let delta = numbered(7).delta().unwrap();
    let held = [hidden, (numbered(1), GIB / 512), (numbered(2), 8), (numbered(9), 8), (VolumeId(4), 8), (delta, 8)];
    let expected = [
        Change::DeleteVolume { volume: numbered(9) },
        Change::ResizeVolume { volume: numbered(2), blocks: 2 * GIB / 512 },
        Change::CreateVolume { volume: numbered(3), blocks: GIB / 512 },
    ];
    assert_eq!(image.volume_changes(&held), expected);
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Resize(u8, u64),
    Rename(u8, u8),
    Destroy(u8),
    Recover(u8),
    Eradicate(u8),
    Snapshot(u8),
    Group,
    Copy(u8, u8),
    DestroySnapshots(u8),
    RenamePod(bool),
    Skip,
    Connect(u8),
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0u8..4;
    prop_oneof![
        4 => name().prop_map(Step::Create),
        2 => (name(), 1u64..5).prop_map(|(v, mib)| Step::Resize(v, mib << 20)),
        2 => (name(), name()).prop_map(|(v, to)| Step::Rename(v, to)),
        2 => name().prop_map(Step::Destroy),
        1 => name().prop_map(Step::Recover),
        1 => name().prop_map(Step::Eradicate),
        3 => name().prop_map(Step::Snapshot),
        2 => Just(Step::Group),
        2 => (name(), name()).prop_map(|(from, to)| Step::Copy(from, to)),
        1 => name().prop_map(Step::DestroySnapshots),
        1 => any::<bool>().prop_map(Step::RenamePod),
        1 => Just(Step::Skip),
        1 => name().prop_map(Step::Connect),
        1 => (0u64..3).prop_map(|days| Step::Time(days * crate::ERADICATION_DELAY_MS)),
    ]
}

fn apply(draft: &mut Draft, step: &Step, now: u64) -> Result<(), CatalogError> {
    let pod = draft.state().stretched_pods().next().unwrap().name.clone();
    let name = |v: &u8| format!("{pod}::v{v}");
    match step {
        Step::Create(v) => draft.create_volume(&name(v), 1 << 20, now).map(drop),
        Step::Resize(v, bytes) => draft.resize_volume(&name(v), *bytes, true, now).map(drop),
        Step::Rename(v, to) => draft.rename_volume(&name(v), &format!("v{to}")).map(drop),
        Step::Destroy(v) => draft.destroy_volume(&name(v), now).map(drop),
        Step::Recover(v) => draft.recover_volume(&name(v)).map(drop),
        Step::Eradicate(v) => draft.eradicate_volume(&name(v)).map(drop),
        Step::Snapshot(v) => draft.create_snapshots(&[&name(v)], None, now).map(drop),
        Step::Group => {
            let volumes: Vec<String> = draft.state().volumes().map(|volume| volume.name.clone()).collect();
            let mut own = volumes.iter().filter(|volume| volume.contains("::"));
            let _ = own.try_for_each(|volume| draft.set_protection("g", volume, true));
            draft.snapshot_protection_group("g", None, true, now).map(drop)
        }
        Step::Copy(from, to) => draft.copy_volume(&name(from), &name(to), true, now).map(drop),
        Step::DestroySnapshots(v) => {
            let state = draft.state().clone();
            let volume = state.volume(&name(v))?;
            let mut snapshots = state.snapshots_of(volume.id).filter(|snapshot| snapshot.group.is_none());
            snapshots.try_for_each(|snapshot| draft.destroy_snapshot(&state.snapshot_name(snapshot), now).map(drop))
        }
        Step::RenamePod(is_taken) => draft.rename_pod(&pod, if *is_taken { "taken" } else { "p" }).map(drop),
        Step::Skip => draft.skip_contents(&pod).map(drop),
        Step::Connect(v) => draft.connect("h1", &name(v), None).map(drop),
        Step::Time(_) => Ok(()),
    }
}

proptest! {
    /// Both arrays have the same pod after each record, in memory, stored, and in the engine.
    #[test]
    fn following_array_has_the_same_pod(steps in prop::collection::vec(prop::collection::vec(step(), 1..3), 0..40)) {
        let (streams, one, first) = stretched();
        let (two, second) = second();
        adopt(&first, &second);
        first.change(|draft| draft.create_protection_group("g", 1)).unwrap();
        second.change(|draft| draft.create_pod("taken", None, 1)).unwrap();
        let mut now = 100;
        for group in &steps {
            let before = first.state();
            if first.change(|draft| group.iter().try_for_each(|step| apply(draft, step, now))).is_err() {
                prop_assert_eq!(&first.state(), &before);
            }
            for step in group {
                if let Step::Time(days) = step {
                    now += days;
                    first.eradicate_due(both(now)).unwrap();
                }
            }
            for record in streams.take() {
                follow(&two, &second, &record).unwrap();
            }
            let mut images = [&first, &second].map(|catalog| {
                let state = catalog.state();
                state.pod_image(state.stretched_pods().next().unwrap())
            });
            prop_assert_eq!(&images[0], &images[1]);
            for (volume, blocks) in images[1].contents() {
                for service in [&one, &two] {
                    prop_assert_eq!(service.volume_space(volume).map(|space| space.provisioned), Some(blocks * 512));
                }
            }
            // The other array could take over from here.
            images.reverse();
            let id = pod_id(&first);
            let version = first.version();
            first.change(|draft| draft.apply_pod_image(id, &images[0])).unwrap();
            prop_assert_eq!(first.version(), version);
            super::random::check(&first.state(), &*one);
            super::random::check(&second.state(), &*two);
            prop_assert_eq!(reopened(&one), first.state());
            prop_assert_eq!(reopened(&two), second.state());
        }
    }
}
