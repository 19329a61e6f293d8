//! Tests of stretched pods at one array, on an engine that has streams.

use super::snapshots::{content, read, write};
use super::*;
use crate::{Draft, MAX_POD_IMAGE_BYTES, PathPreference, PodImage, PodMediator, PodPeer, PodStretch, Tag as VolumeTag};
use engine::{Change, StreamChange, call};
use parking_lot::Mutex;
use types::{StreamId, VolumeId};

pub(super) const STREAM: u32 = 77;

pub(super) fn peer() -> PodPeer {
    PodPeer { id: "73697874-6565-4e20-a279-746573206f6b".into(), name: "array-2".into() }
}

/// How the engine treats changes of streams.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Serving {
    /// It orders them.
    #[default]
    Orders,
    /// The peer orders them.
    Follows,
    /// It orders the next one, and loses the peer before that is committed.
    Loses,
}

/// The model with streams: keeps the records for the peer.
#[derive(Default)]
pub(super) struct Streams {
    inner: ModelEngine,
    pub(super) serving: Mutex<Serving>,
    pub(super) records: Mutex<Vec<StreamChange>>,
    /// Number of plain changes.
    plain: Mutex<usize>,
}

impl Streams {
    pub(super) fn take(&self) -> Vec<StreamChange> {
        std::mem::take(&mut *self.records.lock())
    }

    fn order(&self, change: &StreamChange) -> Result<engine::Reply, OpError> {
        let serving = *self.serving.lock();
        if serving == Serving::Follows {
            return Err(OpError::Unavailable("the peer orders the changes of the stream"));
        }
        let is_value = |change: &Change| matches!(change, Change::Put { .. } | Change::Remove { .. });
        assert!(change.changes.iter().all(|change| !is_value(change)) && change.values.iter().all(is_value));
        assert!(change.changes.len() <= engine::MAX_FOLLOWED_OPS && change.message.len() <= engine::MAX_MESSAGE_BYTES);
        for part in &change.changes {
            let volumes = match part {
                Change::CreateVolume { volume, .. }
                | Change::DeleteVolume { volume }
                | Change::ResizeVolume { volume, .. } => [*volume; 2],
                Change::CopyVolume { source, destination } => [*source, *destination],
                _ => panic!("{part:?}"),
            };
            assert!(volumes.iter().all(|volume| volume.stream() == Some(change.stream)), "{part:?}");
        }
        let all = change.changes.iter().chain(&change.values).cloned().collect();
        let done = call(&self.inner, Op::Change(all))?;
        self.records.lock().push(change.clone());
        match serving {
            Serving::Loses => Err(OpError::Unavailable("the stream was closed before the change was committed")),
            _ => Ok(done),
        }
    }
}

impl BlockService for Streams {
    fn submit(&self, op: Op, tag: Tag, sink: &Arc<dyn Sink>) {
        match &op {
            Op::StreamChange(change) => sink.complete(tag, self.order(change)),
            _ => {
                *self.plain.lock() += usize::from(matches!(op, Op::Change(_)));
                self.inner.submit(op, tag, sink);
            }
        }
    }

    fn write_cache(&self) -> bool {
        false
    }
}

impl KeyValue for Streams {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.inner.get(key)
    }

    fn scan(&self, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.inner.scan(prefix)
    }
}

impl Maintenance for Streams {
    fn space(&self) -> PoolSpace {
        self.inner.space()
    }

    fn volume_space(&self, volume: VolumeId) -> Option<VolumeSpace> {
        self.inner.volume_space(volume)
    }

    fn account_space(
        &self,
        owner: &dyn Fn(VolumeId) -> Owner,
        timeout: Option<std::time::Duration>,
    ) -> Option<SpaceByFamily> {
        self.inner.account_space(owner, timeout)
    }

    fn grow(&self, capacity: u64) -> Result<(), OpError> {
        self.inner.grow(capacity)
    }

    fn scrub(&self, bytes_per_second: u64) {
        self.inner.scrub(bytes_per_second);
    }

    fn health(&self) -> Health {
        self.inner.health()
    }
}

/// An array with the pod `p`, stretched, of volumes `a` and `b`, `a` with the snapshot `s`, and
/// with the volume `plain`. `a` is connected.
pub(super) fn stretched() -> (Arc<Streams>, Arc<dyn Service>, Catalog) {
    let (streams, service, catalog) = with_pod();
    catalog.change(|draft| draft.stretch_pod("p", STREAM, peer(), 9)).unwrap();
    (streams, service, catalog)
}

pub(super) fn with_pod() -> (Arc<Streams>, Arc<dyn Service>, Catalog) {
    let streams = Arc::new(Streams::default());
    let service: Arc<dyn Service> = streams.clone();
    let catalog = open(&service).unwrap();
    catalog
        .change(|draft| {
            draft.create_pod("p", Some(100 * GIB), 1)?;
            draft.create_volume("p::a", GIB, 2)?;
            draft.create_volume("p::b", 2 * GIB, 3)?;
            draft.create_volume("plain", GIB, 4)?;
            draft.create_host("h1", &iqns(&[ESX1]), 5)?;
            draft.connect("h1", "p::a", None)
        })
        .unwrap();
    write(&service, content(&catalog, "p::a"), 1);
    catalog.change(|draft| draft.create_snapshots(&["p::a"], Some("s"), 6)).unwrap();
    write(&service, content(&catalog, "p::a"), 2);
    (streams, service, catalog)
}

pub(super) fn numbered(number: u32) -> VolumeId {
    StreamId::new(STREAM).unwrap().volume(number)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(catalog: &Catalog, edit: impl FnOnce(&mut Draft) -> Result<T, CatalogError>) -> String {
    let before = catalog.state();
    let error = catalog.change(edit).unwrap_err();
    assert_eq!(catalog.state(), before);
    error.to_string()
}

#[test]
fn stretch_moves_all_content_in_one_change() {
    let (streams, service, catalog) = with_pod();
    catalog.change(|draft| draft.destroy_volume("p::b", 7)).unwrap();
    let (before, plain) = (catalog.state(), *streams.plain.lock());
    let pod = catalog.change(|draft| draft.stretch_pod("p", STREAM, peer(), 9)).unwrap();
    assert_eq!((*streams.plain.lock() - plain, streams.take().len()), (1, 0), "one change, not yet of the stream");
    let state = catalog.state();
    let places = ["p::a", "p::b", "p::a.s"].map(|name| content(&catalog, name));
    assert_eq!(places, [1, 2, 3].map(numbered));
    assert_eq!((read(&service, places[0]), read(&service, places[2])), (2, 1));
    let old = before.volume("p::a").unwrap();
    let new = state.volume("p::a").unwrap();
    assert_eq!((new.id, &new.serial, new.created_ms), (old.id, &old.serial, old.created_ms));
    assert_eq!(service.volume_space(old.content()), None);
    assert!(state.volume("p::b").unwrap().destroyed_ms.is_some());
    assert_eq!(catalog.lun_map(ESX1).unwrap().get(1).unwrap().content, numbered(1));
    let stretch = pod.stretch.clone().unwrap();
    assert_eq!((stretch.next_content, stretch.peer, pod.quota_bytes), (4, peer(), Some(100 * GIB)));
    assert_eq!(open(&service).unwrap().state(), state);
    assert_eq!(
        refused(&catalog, |draft| draft.stretch_pod("p", 5, peer(), 9)),
        "Pod p is stretched to array array-2; unstretch it first."
    );
}

#[test]
fn preferred_arrays_count_for_stretched_pods() {
    let (_, service, catalog) = with_pod();
    let (own, other) = (catalog.state().array().id.clone(), "another array".to_owned());
    let peer = PodPeer { id: other.clone(), ..peer() };
    catalog.change(|draft| draft.stretch_pod("p", STREAM, peer, 9)).unwrap();
    let prefer = |arrays: &[&String]| {
        let arrays = Some(arrays.iter().map(|id| (*id).clone()).collect());
        let edit = HostEdit { preferred_arrays: arrays, ..HostEdit::default() };
        catalog.change(|draft| draft.edit_host("h1", &edit)).unwrap();
    };
    let preferences = || {
        let map = catalog.lun_map(ESX1).unwrap();
        map.entries.values().map(|entry| (entry.name.clone(), entry.preference)).collect::<Vec<_>>()
    };
    catalog.change(|draft| draft.connect("h1", "plain", Some(2))).unwrap();
    catalog.change(|draft| draft.connect("h1", "p::a.s", Some(3))).unwrap();
    let third = "a third array".to_owned();
    for (arrays, expected) in [
        (vec![], PathPreference::Alike),
        (vec![&own], PathPreference::Own),
        (vec![&other], PathPreference::Peer),
        (vec![&other, &third], PathPreference::Peer),
        (vec![&third], PathPreference::Alike),
        (vec![&own, &other, &own], PathPreference::Alike),
    ] {
        prefer(&arrays);
        let found = preferences();
        let all = [("p::a", expected), ("plain", PathPreference::Alike), ("p::a.s", expected)];
        assert_eq!(found, all.map(|(name, preference)| (name.to_owned(), preference)), "{arrays:?}");
        assert_eq!(open(&service).unwrap().state(), catalog.state());
    }
    assert_eq!(catalog.state().host("h1").unwrap().preferred_arrays.len(), 2, "each once");
    prefer(&[&own]);
    catalog.change(|draft| draft.unstretch_pod("p")).unwrap();
    assert!(preferences().iter().all(|(_, preference)| *preference == PathPreference::Alike));
}

#[test]
fn stretch_refuses_bad_streams_and_pods() {
    let (_, _, catalog) = stretched();
    catalog.change(|draft| draft.unstretch_pod("p")).unwrap();
    let used = "Invalid setting: the number of a stream has 31 bits and is used once.";
    assert_eq!(refused(&catalog, |draft| draft.stretch_pod("p", STREAM, peer(), 9)), used);
    assert_eq!(refused(&catalog, |draft| draft.stretch_pod("p", 1 << 31, peer(), 9)), used);
    assert_eq!(refused(&catalog, |draft| draft.unstretch_pod("p")), "Pod p is not stretched.");
    assert_eq!(refused(&catalog, |draft| draft.drop_pod("p")), "Pod p is not stretched.");
    catalog.change(|draft| draft.create_pod("q", None, 9)).unwrap();
    catalog.change(|draft| draft.destroy_pod("q", false, 9)).unwrap();
    assert_eq!(refused(&catalog, |draft| draft.stretch_pod("q", 5, peer(), 9)), "Pod has been destroyed.");
}

#[test]
fn second_stretch_moves_content_to_the_new_stream() {
    let (_, service, catalog) = stretched();
    catalog.change(|draft| draft.unstretch_pod("p")).unwrap();
    assert_eq!(content(&catalog, "p::a"), numbered(1), "the content stays");
    // The pod is plain again.
    catalog.change(|draft| draft.copy_volume("p::a.s", "copy", false, 10)).unwrap();
    catalog.change(|draft| draft.create_volume("p::c", GIB, 11)).unwrap();
    assert_eq!(content(&catalog, "p::c").stream(), None);
    catalog.change(|draft| draft.stretch_pod("p", 5, peer(), 12)).unwrap();
    let stream = StreamId::new(5).unwrap();
    assert_eq!(content(&catalog, "p::c"), stream.volume(3));
    assert_eq!((read(&service, content(&catalog, "p::a")), service.volume_space(numbered(1))), (2, None));
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

#[test]
fn changes_of_a_stretched_pod_are_records() {
    let (streams, service, catalog) = stretched();
    let pod = |state: &crate::CatalogState| state.pod("p").unwrap().clone();
    let mut expected = 4;
    type Edit = Box<dyn Fn(&mut Draft) -> Result<(), CatalogError>>;
    let edits: Vec<(Edit, usize, u32)> = vec![
        (Box::new(|draft| draft.create_volume("p::c", GIB, 10).map(drop)), 1, 1),
        (Box::new(|draft| draft.resize_volume("p::c", 2 * GIB, false, 10).map(drop)), 1, 0),
        (Box::new(|draft| draft.resize_volume("p::c", GIB, true, 10).map(drop)), 2, 1),
        (Box::new(|draft| draft.rename_volume("p::c", "d").map(drop)), 0, 0),
        (Box::new(|draft| draft.create_snapshots(&["p::a", "p::d"], None, 11).map(drop)), 2, 2),
        (Box::new(|draft| draft.copy_volume("p::a.s", "p::e", false, 11).map(drop)), 1, 1),
        (Box::new(|draft| draft.copy_volume("p::a.s", "p::a", true, 11).map(drop)), 2, 1),
        (Box::new(|draft| draft.destroy_volume("p::d", 12).map(drop)), 0, 0),
        (Box::new(|draft| draft.recover_volume("p::d").map(drop)), 0, 0),
        (Box::new(|draft| draft.destroy_snapshot("p::a.s", 12).map(drop)), 0, 0),
        (Box::new(|draft| draft.eradicate_snapshot("p::a.s").map(drop)), 1, 0),
        (Box::new(|draft| draft.set_pod_quota("p", None, false).map(drop)), 0, 0),
        (Box::new(|draft| draft.set_pod_resync_limit("p", Some(1 << 20)).map(drop)), 0, 0),
        (Box::new(|draft| draft.skip_contents("p").map(drop)), 0, 1 << 14),
        (Box::new(|draft| draft.rename_pod("p", "q").map(drop)), 0, 0),
        (Box::new(|draft| draft.rename_pod("q", "p").map(drop)), 0, 0),
    ];
    for (number, (edit, volumes, contents)) in edits.into_iter().enumerate() {
        catalog.change(edit).unwrap_or_else(|error| panic!("{number}: {error}"));
        let records = streams.take();
        assert_eq!(records.len(), 1, "edit {number}");
        assert_eq!((records[0].changes.len(), records[0].position), (volumes, None), "edit {number}");
        expected += contents;
        let state = catalog.state();
        let image = PodImage::from_message(&records[0].message).unwrap();
        if number + 2 < 16 {
            assert_eq!(image, state.pod_image(&pod(&state)), "edit {number}");
        }
        assert_eq!(image.next_content, expected, "edit {number}");
        assert_eq!(open(&service).unwrap().state(), state);
    }
    // Changes of what the other array does not have are none of the stream.
    catalog
        .change(|draft| {
            draft.connect("h1", "p::b", None)?;
            draft.create_protection_group("g", 13)?;
            draft.set_protection("g", "p::a", true)?;
            draft.set_pod_mediator("p", Some(mediator()))?;
            draft.set_pod_preference("p", true)?;
            draft.create_volume("more", GIB, 13)
        })
        .unwrap();
    assert!(streams.take().is_empty());
    let stretch = pod(&catalog.state()).stretch.clone().unwrap();
    assert_eq!((stretch.mediator, stretch.prefers_peer), (Some(mediator()), true));
}

fn mediator() -> PodMediator {
    PodMediator { address: "m:7443".into(), certificate: "ab".repeat(32), instance: "cd".repeat(16) }
}

#[test]
fn copies_and_moves_across_the_border_are_refused() {
    let (_, _, catalog) = stretched();
    catalog.change(|draft| draft.create_pod("q", None, 9)).unwrap();
    let copy = "Pod p is stretched: its volumes and snapshots are copied only within it; clone within the pod, or \
                unstretch it first.";
    assert_eq!(refused(&catalog, |draft| draft.copy_volume("p::a", "clone", false, 9)), copy);
    assert_eq!(refused(&catalog, |draft| draft.copy_volume("plain", "p::clone", false, 9)), copy);
    assert_eq!(refused(&catalog, |draft| draft.copy_volume("plain", "p::a", true, 9)), copy);
    assert_eq!(refused(&catalog, |draft| draft.clone_pod("p", "r", None, 9)), copy);
    let moves = "Pod p is stretched: volumes move neither into nor out of it; unstretch it first.";
    assert_eq!(refused(&catalog, |draft| draft.move_volume_to_pod("p::a", None)), moves);
    assert_eq!(refused(&catalog, |draft| draft.move_volume_to_pod("p::a", Some("q"))), moves);
    assert_eq!(refused(&catalog, |draft| draft.move_volume_to_pod("plain", Some("p"))), moves);
    assert!(refused(&catalog, |draft| draft.destroy_pod("p", true, 9)).ends_with("unstretch it first."));
}

#[test]
fn change_of_a_stretched_pod_stands_alone() {
    let (streams, service, catalog) = stretched();
    catalog
        .change(|draft| {
            draft.create_pod("q", None, 9)?;
            draft.create_volume("q::a", GIB, 9)?;
            draft.stretch_pod("q", 5, peer(), 9)
        })
        .unwrap();
    let alone = "Pod p is stretched: its volumes and snapshots are changed in a request without those of others.";
    let snapshots =
        |volumes: &'static [&'static str]| move |draft: &mut Draft| draft.create_snapshots(volumes, None, 9);
    assert_eq!(refused(&catalog, snapshots(&["p::a", "plain"])), alone);
    assert_eq!(refused(&catalog, snapshots(&["p::a", "q::a"])), alone);
    let both = |draft: &mut Draft| {
        draft.rename_volume("p::a", "x")?;
        draft.rename_volume("q::a", "x")
    };
    assert_eq!(refused(&catalog, both), alone, "also without changes of volumes");
    let many = |draft: &mut Draft| (0..33).try_for_each(|n| draft.create_volume(&format!("p::v{n}"), GIB, 9).map(drop));
    assert_eq!(
        refused(&catalog, many),
        "Pod p is stretched: one request makes, copies or removes at most 32 of its volumes and snapshots."
    );
    assert!(streams.take().is_empty());
    // Values of other objects are in the record, and names of volumes in two pods are no matter.
    catalog
        .change(|draft| {
            draft.create_snapshots(&["p::a", "p::b"], None, 9)?;
            draft.rename_volume("plain", "other")
        })
        .unwrap();
    assert_eq!(streams.take().len(), 1);
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

#[test]
fn pod_that_is_too_large_is_refused() {
    let (streams, service, catalog) = stretched();
    let fill = |draft: &mut Draft| {
        let tag = |n: usize| VolumeTag {
            namespace: "n".repeat(64),
            key: format!("{n:064}"),
            value: "\u{e9}".repeat(128),
            copyable: true,
        };
        let tags: Vec<VolumeTag> = (0..64).map(tag).collect();
        draft.put_tags("p::a", &tags)?;
        draft.put_tags("p::b", &tags)
    };
    catalog.change(fill).unwrap();
    let image = |catalog: &Catalog| catalog.state().pod_image(catalog.state().pod("p").unwrap());
    let length = image(&catalog).to_message().unwrap().len() - 1;
    assert!(length < MAX_POD_IMAGE_BYTES);
    let each = length / 2;
    let mut made = 2;
    let message = loop {
        let name = format!("p::v{made}");
        match catalog.change(|draft| draft.copy_volume("p::a", &name, false, 9)) {
            Ok(_) => made += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(
        message,
        "Pod p has too many volumes, snapshots and tags for a stretched pod: their records may have 256 KiB."
    );
    assert!((MAX_POD_IMAGE_BYTES / each).abs_diff(made) <= 1, "{made} volumes of {each} bytes");
    assert_eq!(streams.take().len(), made - 1);
    assert_eq!(open(&service).unwrap().state(), catalog.state());
    // As is a pod that has grown before.
    catalog
        .change(|draft| {
            draft.unstretch_pod("p")?;
            draft.copy_volume("p::a", "p::last", false, 9)
        })
        .unwrap();
    assert_eq!(refused(&catalog, |draft| draft.stretch_pod("p", 5, peer(), 9)), message);
}

#[test]
fn pod_of_the_other_array_is_not_changed() {
    let (streams, service, catalog) = stretched();
    *streams.serving.lock() = Serving::Follows;
    let unavailable = "Pod p cannot be changed now: the peer orders the changes of the stream.";
    assert_eq!(refused(&catalog, |draft| draft.rename_volume("p::a", "x")), unavailable);
    catalog.set_order(Arc::new(|_| false));
    let elsewhere = "Pod p is ordered by the other array array-2 now; make the change there.";
    assert_eq!(refused(&catalog, |draft| draft.rename_volume("p::a", "x")), elsewhere);
    // Its objects can be used here.
    catalog.change(|draft| draft.connect("h1", "p::b", None)).unwrap();
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

#[test]
fn change_in_doubt_is_made_here() {
    let (streams, service, catalog) = stretched();
    *streams.serving.lock() = Serving::Loses;
    let (version, plain) = (catalog.version(), catalog.state());
    let error = catalog.change(|draft| draft.create_volume("p::c", GIB, 9)).unwrap_err();
    assert_eq!(error, CatalogError::PodInDoubt { name: "p".into() });
    assert_eq!(catalog.version(), version + 1);
    assert_ne!(catalog.state(), plain);
    assert_eq!(open(&service).unwrap().state(), catalog.state(), "as the engine has it");
}

#[test]
fn background_work_leaves_pods_of_the_other_array() {
    let (streams, service, catalog) = stretched();
    catalog
        .change(|draft| {
            draft.create_protection_group("g", 9)?;
            draft.set_protection("g", "p::a", true)?;
            let schedule = crate::SnapshotSchedule { enabled: true, every_ms: 300_000, at_ms: None };
            draft.edit_protection_group(
                "g",
                &crate::ProtectionGroupEdit { schedule: Some(schedule), ..Default::default() },
                9,
            )?;
            draft.create_snapshot_policy("hourly", true, 9)?;
            let rule = crate::SnapshotRule {
                number: 0,
                every_ms: 3_600_000,
                at_ms: None,
                keep_ms: 3_600_000,
                prefix: "h".into(),
                last_ms: None,
            };
            draft.add_snapshot_rule("hourly", rule, 9)?;
            draft.set_policy_member("hourly", crate::PolicyMember::Volume("p::b"), true)?;
            draft.destroy_volume("plain", 10)
        })
        .unwrap();
    for n in 0..40 {
        catalog.change(|draft| draft.create_volume(&format!("p::v{n}"), GIB, 9)).unwrap();
        catalog.change(|draft| draft.destroy_volume(&format!("p::v{n}"), 10)).unwrap();
    }
    streams.take();
    catalog.set_order(Arc::new(|_| false));
    *streams.serving.lock() = Serving::Follows;
    let later = both(crate::ERADICATION_DELAY_MS + 20);
    let (run, gone) = (catalog.run_protection(1_000_000), catalog.eradicate_due(later).unwrap());
    assert_eq!((run.taken.len(), run.failed.len(), gone), (0, 0, vec!["plain".to_owned()]));
    catalog.set_order(Arc::new(|_| true));
    *streams.serving.lock() = Serving::Orders;
    let run = catalog.run_protection(5_000_000);
    assert_eq!((run.taken, run.failed), (vec!["g.1".to_owned(), "p::b.h-1".to_owned()], Vec::new()));
    let gone = catalog.eradicate_due(later).unwrap();
    assert_eq!((gone.len(), streams.take().len()), (40, 2 + 2), "in records of at most 32 changes");
    let expired = catalog.run_protection(5_000_000 + 3_600_000).expired;
    assert_eq!(expired, ["p::b.h-1"]);
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}

#[test]
fn stretched_pod_matches_golden_form() {
    let (streams, service, catalog) = stretched();
    let stored = |key: &str| String::from_utf8(service.get(key.as_bytes()).unwrap()).unwrap();
    let key = format!("pod/{:016x}", catalog.state().pod("p").unwrap().id.0);
    assert_eq!(
        stored(&key),
        concat!(
            r#"{"v":2,"record":{"id":1,"name":"p","created_ms":1,"quota_bytes":107374182400,"stretch":{"stream":77,"#,
            r#""next_content":4,"peer":{"id":"73697874-6565-4e20-a279-746573206f6b","name":"array-2"},"since_ms":9,"#,
            r#""is_origin":true,"has_reservations":true}}}"#
        )
    );
    assert!(stored("volume/0000000000000001").starts_with(r#"{"v":2,"record":{"id":1,"content":9223372367567257601,"#));
    catalog.change(|draft| draft.rename_volume("p::b", "c")).unwrap();
    let message = streams.take().remove(0).message;
    assert_eq!(
        std::str::from_utf8(&message).unwrap(),
        concat!(
            "\u{2}",
            r#"{"stream":77,"next_content":4,"name":"p","created_ms":1,"quota_bytes":107374182400,"#,
            r#""has_reservations":true,"volumes":[{"content":1,"name":"a","bytes":1073741824,"serial":"A279746573206F6B00000001","created_ms":2},"#,
            r#"{"content":2,"name":"c","bytes":2147483648,"serial":"A279746573206F6B00000002","created_ms":3}],"#,
            r#""snapshots":[{"content":3,"volume":1,"suffix":"s","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000004","created_ms":6}]}"#
        )
    );
    catalog.change(|draft| draft.unstretch_pod("p")).unwrap();
    assert!(stored(&key).starts_with(r#"{"v":1,"record":{"id":1,"name":"p","created_ms":1,"quota_bytes":"#));
    assert_eq!(catalog.state().pod("p").unwrap().stretch, None::<PodStretch>);
}
