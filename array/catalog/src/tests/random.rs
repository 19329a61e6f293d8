//! Random changes: the rules hold after each change, and the stored state equals the state in
//! memory.

use super::*;
use crate::{CatalogState, Draft, VolumeOrSnapshot};
use proptest::prelude::*;
use std::collections::BTreeSet;
use types::VolumeId;

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u64),
    Resize(u8, u64, bool),
    Rename(u8, u8),
    Destroy(u8),
    Recover(u8),
    Eradicate(u8),
    Snapshot(u8, Option<u8>),
    RenameSnapshot(u8, u8, u8),
    DestroySnapshot(u8, u8),
    RecoverSnapshot(u8, u8),
    EradicateSnapshot(u8, u8),
    Copy(u8, u8, bool),
    CopySnapshot(u8, u8, u8, bool),
    ConnectSnapshot(u8, u8, u8),
    Time(u64),
    Host(u8, Vec<u8>),
    Edit(u8, Option<u8>, Option<Vec<u8>>),
    DeleteHost(u8),
    Connect(u8, u8, Option<u16>),
    Disconnect(u8, u8),
    CreatePod(u8, Option<u64>),
    ClonePod(u8, u8, Option<u64>),
    RenamePod(u8, u8),
    DestroyPod(u8, bool),
    RecoverPod(u8),
    EradicatePod(u8, bool),
    Move(u8, Option<u8>),
    MoveContent(u8, Option<u8>, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0u8..5;
    let mib = || (1u64..9).prop_map(|mib| mib << 20);
    prop_oneof![
        (name(), mib()).prop_map(|(v, size)| Step::Create(v, size)),
        (name(), mib(), any::<bool>()).prop_map(|(v, size, truncate)| Step::Resize(v, size, truncate)),
        (name(), name()).prop_map(|(v, to)| Step::Rename(v, to)),
        name().prop_map(Step::Destroy),
        name().prop_map(Step::Recover),
        name().prop_map(Step::Eradicate),
        (name(), prop::option::of(0u8..3)).prop_map(|(v, suffix)| Step::Snapshot(v, suffix)),
        (name(), 0u8..3, 0u8..3).prop_map(|(v, suffix, to)| Step::RenameSnapshot(v, suffix, to)),
        (name(), 0u8..3).prop_map(|(v, suffix)| Step::DestroySnapshot(v, suffix)),
        (name(), 0u8..3).prop_map(|(v, suffix)| Step::RecoverSnapshot(v, suffix)),
        (name(), 0u8..3).prop_map(|(v, suffix)| Step::EradicateSnapshot(v, suffix)),
        (name(), name(), any::<bool>()).prop_map(|(from, to, overwrite)| Step::Copy(from, to, overwrite)),
        (name(), 0u8..3, name(), any::<bool>())
            .prop_map(|(from, suffix, to, overwrite)| Step::CopySnapshot(from, suffix, to, overwrite)),
        (name(), name(), 0u8..3).prop_map(|(h, v, suffix)| Step::ConnectSnapshot(h, v, suffix)),
        (0u64..3).prop_map(|days| Step::Time(days * crate::ERADICATION_DELAY_MS)),
        (name(), prop::collection::vec(name(), 0..3)).prop_map(|(h, iqns)| Step::Host(h, iqns)),
        (name(), prop::option::of(name()), prop::option::of(prop::collection::vec(name(), 0..3)))
            .prop_map(|(h, to, iqns)| Step::Edit(h, to, iqns)),
        name().prop_map(Step::DeleteHost),
        (name(), name(), prop::option::of(0u16..4)).prop_map(|(h, v, lun)| Step::Connect(h, v, lun)),
        (name(), name()).prop_map(|(h, v)| Step::Disconnect(h, v)),
        (name(), prop::option::of(0u8..3), 0u64..4).prop_map(|(v, s, to)| Step::MoveContent(v, s, to)),
        pod_step(),
    ]
}

fn pod_step() -> impl Strategy<Value = Step> {
    let pod = || 0u8..2;
    let quota = || prop::option::of((4u64..12).prop_map(|mib| mib << 20));
    prop_oneof![
        4 => (pod(), quota()).prop_map(|(p, quota)| Step::CreatePod(p, quota)),
        1 => (pod(), pod(), quota()).prop_map(|(p, to, quota)| Step::ClonePod(p, to, quota)),
        1 => (pod(), pod()).prop_map(|(p, to)| Step::RenamePod(p, to)),
        1 => (pod(), any::<bool>()).prop_map(|(p, with_volumes)| Step::DestroyPod(p, with_volumes)),
        1 => pod().prop_map(Step::RecoverPod),
        1 => (pod(), any::<bool>()).prop_map(|(p, with_volumes)| Step::EradicatePod(p, with_volumes)),
        4 => (0u8..5, prop::option::of(pod())).prop_map(|(v, p)| Step::Move(v, p)),
    ]
}

fn volume(n: u8) -> String {
    // Names ignore case, so different spellings denote the same volume.
    let own = if n.is_multiple_of(2) { format!("vol{n}") } else { format!("VOL{n}") };
    if n < 3 { own } else { format!("{}::{own}", pod(n - 3)) }
}

fn pod(n: u8) -> String {
    if n.is_multiple_of(2) { format!("pod{n}") } else { format!("POD{n}") }
}

fn suffix(n: u8) -> String {
    if n.is_multiple_of(2) { format!("s{n}") } else { format!("S{n}") }
}

fn snapshot(v: u8, s: u8) -> String {
    format!("{}.{}", volume(v), suffix(s))
}

fn host(n: u8) -> String {
    format!("host{n}")
}

fn initiators(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|n| if *n == 0 { "*".to_owned() } else { format!("iqn.2026-11.org.test:{n}") }).collect()
}

fn apply(draft: &mut Draft, step: &Step, now: u64) -> Result<(), CatalogError> {
    match step {
        Step::Create(v, size) => draft.create_volume(&volume(*v), *size, now).map(|_| ()),
        Step::Resize(v, size, truncate) => draft.resize_volume(&volume(*v), *size, *truncate, now).map(|_| ()),
        Step::Rename(v, to) => draft.rename_volume(&volume(*v), &volume(*to)).map(|_| ()),
        Step::Destroy(v) => draft.destroy_volume(&volume(*v), now).map(|_| ()),
        Step::Recover(v) => draft.recover_volume(&volume(*v)).map(|_| ()),
        Step::Eradicate(v) => draft.eradicate_volume(&volume(*v)).map(|_| ()),
        Step::Snapshot(v, s) => draft.create_snapshots(&[&volume(*v)], s.map(suffix).as_deref(), now).map(|_| ()),
        Step::RenameSnapshot(v, s, to) => draft.rename_snapshot(&snapshot(*v, *s), &suffix(*to)).map(|_| ()),
        Step::DestroySnapshot(v, s) => draft.destroy_snapshot(&snapshot(*v, *s), now).map(|_| ()),
        Step::RecoverSnapshot(v, s) => draft.recover_snapshot(&snapshot(*v, *s)).map(|_| ()),
        Step::EradicateSnapshot(v, s) => draft.eradicate_snapshot(&snapshot(*v, *s)).map(|_| ()),
        Step::Copy(from, to, over) => draft.copy_volume(&volume(*from), &volume(*to), *over, now).map(|_| ()),
        Step::CopySnapshot(from, s, to, over) => {
            draft.copy_volume(&snapshot(*from, *s), &volume(*to), *over, now).map(|_| ())
        }
        Step::ConnectSnapshot(h, v, s) => draft.connect(&host(*h), &snapshot(*v, *s), None).map(|_| ()),
        Step::Time(_) => Ok(()),
        Step::Host(h, iqns) => {
            let edit = HostEdit { iqns: Some(initiators(iqns)), ..HostEdit::default() };
            draft.create_host(&host(*h), &edit, now).map(|_| ())
        }
        Step::Edit(h, to, iqns) => {
            let edit = HostEdit { name: to.map(host), iqns: iqns.as_deref().map(initiators), ..HostEdit::default() };
            draft.edit_host(&host(*h), &edit).map(|_| ())
        }
        Step::DeleteHost(h) => draft.delete_host(&host(*h)).map(|_| ()),
        Step::Connect(h, v, lun) => draft.connect(&host(*h), &volume(*v), *lun).map(|_| ()),
        Step::Disconnect(h, v) => draft.disconnect(&host(*h), &volume(*v)).map(|_| ()),
        Step::CreatePod(p, quota) => draft.create_pod(&pod(*p), *quota, now).map(|_| ()),
        Step::ClonePod(p, to, quota) => draft.clone_pod(&pod(*p), &pod(*to), *quota, now).map(|_| ()),
        Step::RenamePod(p, to) => draft.rename_pod(&pod(*p), &pod(*to)).map(|_| ()),
        Step::DestroyPod(p, with_volumes) => draft.destroy_pod(&pod(*p), *with_volumes, now).map(|_| ()),
        Step::RecoverPod(p) => draft.recover_pod(&pod(*p)).map(|_| ()),
        Step::EradicatePod(p, with_volumes) => draft.eradicate_pod(&pod(*p), *with_volumes),
        Step::Move(v, p) => draft.move_volume_to_pod(&volume(*v), p.map(pod).as_deref()).map(|_| ()),
        Step::MoveContent(v, s, to) => {
            draft.move_content(&s.map_or(volume(*v), |s| snapshot(*v, s)), VolumeId((1 << 40) + to))
        }
    }
}

/// Checks invariants of the state from the records alone.
pub(super) fn check(state: &CatalogState, service: &dyn Service) {
    let unique = |names: Vec<String>| {
        let count = names.len();
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), count);
    };
    unique(state.volumes().map(|v| v.name.to_lowercase()).collect());
    let serials = state.volumes().map(|v| &v.serial).chain(state.snapshots().map(|s| &s.serial));
    unique(serials.cloned().collect());
    unique(state.snapshots().map(|s| state.snapshot_name(s).to_lowercase()).collect());
    let contents = state.volumes().map(|v| v.content()).chain(state.snapshots().map(|s| s.content()));
    unique(contents.map(|content| content.to_string()).collect());
    unique(state.hosts().map(|h| h.name.to_lowercase()).collect());
    unique(state.pods().map(|p| p.name.to_lowercase()).collect());
    unique(state.hosts().flat_map(|h| h.iqns.clone()).collect());
    unique(state.connections().map(|c| format!("{:?} {}", c.host, c.lun)).collect());
    for connection in state.connections() {
        assert!(state.host_by_id(connection.host).is_some());
        let destroyed_ms = match state.volume_or_snapshot_by_id(connection.volume).unwrap() {
            VolumeOrSnapshot::Volume(volume) => volume.destroyed_ms,
            VolumeOrSnapshot::Snapshot(snapshot) => state.snapshot_destroyed_ms(&snapshot),
        };
        assert_eq!(destroyed_ms, None);
    }
    for volume in state.volumes() {
        assert_eq!(state.volume(&volume.name).unwrap(), volume);
        assert_eq!(state.volume_or_snapshot_of(volume.content()).map(|object| object.id()), Some(volume.id));
        assert_eq!(service.volume_space(volume.content()).unwrap().provisioned, volume.bytes);
    }
    for volume in state.volumes().filter(|volume| volume.name.contains("::")) {
        let pod = state.pod_of_volume(volume).unwrap();
        assert!(volume.name.starts_with(&format!("{}::", pod.name)), "{} in {}", volume.name, pod.name);
        assert!(pod.destroyed_ms.is_none() || volume.destroyed_ms.is_some());
    }
    for pod in state.pods() {
        assert_eq!(state.pod(&pod.name).unwrap(), pod);
        // No step sets a quota below the usage.
        assert!(pod.quota_bytes.is_none_or(|quota| state.provisioned_in_pod(pod) <= quota));
    }
    for snapshot in state.snapshots() {
        assert_eq!(state.snapshot(&state.snapshot_name(snapshot)).unwrap(), snapshot);
        assert_eq!(service.volume_space(snapshot.content()).unwrap().provisioned, snapshot.bytes);
        assert_eq!(state.volume_or_snapshot_of(snapshot.content()).map(|object| object.id()), Some(snapshot.id));
        assert!(state.snapshots_of(snapshot.volume).any(|other| other == snapshot));
    }
    let destroyed =
        state.volumes().filter_map(|v| v.destroyed_ms).chain(state.snapshots().filter_map(|s| s.destroyed_ms));
    let destroyed: BTreeSet<u64> = destroyed.collect();
    let last = destroyed.last().copied().unwrap_or_default();
    let left = destroyed.first().map(|first| crate::ERADICATION_DELAY_MS.saturating_sub(last - first));
    assert_eq!(state.time_to_eradication_ms(both(last)), left);
    for host in state.hosts() {
        let map = host.iqns.first().map(|iqn| state.lun_map(iqn).unwrap());
        let luns: BTreeSet<u16> = state.connections().filter(|c| c.host == host.id).map(|c| c.lun).collect();
        assert!(map.is_none_or(|map| map.entries.keys().copied().collect::<BTreeSet<_>>() == luns));
    }
}

proptest! {
    #[test]
    fn stored_state_equals_memory_state(steps in prop::collection::vec(prop::collection::vec(step(), 1..4), 0..60)) {
        let (service, catalog) = new();
        let mut now = 0;
        for group in &steps {
            let before = catalog.state();
            let done = catalog.change(|draft| group.iter().try_for_each(|step| apply(draft, step, now)));
            if done.is_err() {
                prop_assert_eq!(&catalog.state(), &before);
            }
            for step in group {
                if let Step::Time(days) = step {
                    now += days;
                    catalog.eradicate_due(both(now)).unwrap();
                }
            }
            check(&catalog.state(), &*service);
            prop_assert_eq!(open(&service).unwrap().state(), catalog.state());
        }
    }
}
