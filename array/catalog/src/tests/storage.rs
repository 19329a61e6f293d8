//! Tests of the stored form and of reading it back.

use super::*;
use crate::record::stored_reservations;
use crate::{
    Admin, ArrayEdit, Chap, MIN_BANDWIDTH_LIMIT, QosEdit, Secret, SecretKeys, Unlocked, VolumeEdit, reservations_key,
};
use engine::{Change, call};
use parking_lot::Mutex;
use types::ObjectId;

#[test]
fn volume_and_record_are_created_atomically() {
    let (service, catalog) = new();
    let volume = catalog.change(|draft| draft.create_volume("v", GIB, 7)).unwrap();
    assert_eq!(service.volume_space(volume.content()).unwrap().provisioned, GIB);
    assert!(service.get(format!("volume/{:016x}", volume.id.0).as_bytes()).is_some());
}

/// The stored form is permanent: future versions must read these records.
#[test]
fn stored_records_match_golden_form() {
    let (service, catalog) = new();
    let chap = Chap { host: Some(("esx".into(), Secret::new("twelve bytes"))), target: None };
    let edit = HostEdit { chap: Some(chap), personality: Some(Some("esxi".into())), ..iqns(&[ESX1]) };
    catalog
        .change(|draft| {
            draft.create_volume("v", GIB, 7)?;
            draft.create_host("h", &edit, 8)?;
            draft.connect("h", "v", Some(4095))?;
            draft.put_admin(Admin {
                name: "admin".into(),
                token_hash: "$argon2id$".into(),
                token_created_ms: 9,
                ..Admin::default()
            })?;
            draft.disconnect("h", "v")?;
            draft.connect("h", "v", Some(0))?;
            draft.create_volume("gone", GIB, 7)?;
            draft.destroy_volume("gone", 10)
        })
        .unwrap();
    let first = golden_of_the_first_version();
    let golden = first.map(|record| if record.starts_with("host/") { SEALED_HOST } else { record });
    assert_eq!(stored(&service), golden);
    // Fields added later are stored only if they are used.
    catalog
        .change(|draft| {
            draft.create_snapshots(&["v"], Some("daily"), 11)?;
            draft.copy_volume("v.daily", "gone2", false, 12)?;
            draft.copy_volume("v", "gone2", true, 13)?;
            let limits = QosEdit { bandwidth_limit: Some(Some(MIN_BANDWIDTH_LIMIT)), ..QosEdit::default() };
            draft.edit_volume("gone2", &VolumeEdit { threshold_percent: Some(Some(80)), qos: limits })?;
            let settings = ArrayEdit { eradication_delay_ms: Some(1000), ..ArrayEdit::default() };
            draft.edit_array_settings(&ArrayEdit { threshold_percent: Some(Some(90)), ..settings })
        })
        .unwrap();
    let golden = [
        concat!(
            r#"array {"v":1,"record":{"name":"array-1","id":"73697874-6565-4e20-a279-746573206f6b","#,
            r#""iqn":"iqn.2026-11.org.ibid:736978746565","serial_prefix":"A279746573206F6B","created_ms":1000,"#,
            r#""next_volume":6,"next_host":2,"snapshots_numbered":1,"#,
            r#""settings":{"eradication_delay_ms":1000,"threshold_percent":90}}}"#
        ),
        concat!(
            r#"snapshot/0000000000000003 {"v":1,"record":{"id":3,"volume":1,"suffix":"daily","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000003","created_ms":11,"destroyed_ms":null}}"#
        ),
        concat!(
            r#"snapshot/0000000000000005 {"v":1,"record":{"id":5,"volume":4,"suffix":"undo-1","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000005","created_ms":13,"destroyed_ms":13}}"#
        ),
        concat!(
            r#"volume/0000000000000004 {"v":1,"record":{"id":4,"name":"gone2","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000004","created_ms":12,"destroyed_ms":null,"#,
            r#""qos":{"bandwidth_limit":1048576,"iops_limit":null},"threshold_percent":80,"source":1}}"#
        ),
    ];
    let changed: Vec<String> = stored(&service)
        .into_iter()
        .filter(|record| !first.contains(&record.as_str()) && record != SEALED_HOST)
        .collect();
    assert_eq!(changed, golden);
}

/// The host of [`golden_of_the_first_version`] with its secret sealed by [`keys`].
const SEALED_HOST: &str = concat!(
    r#"host/0000000000000001 {"v":2,"record":{"id":1,"name":"h","iqns":["iqn.1998-01.com.vmware:esx1"],"#,
    r#""chap":{"host":["esx",{"sealed":"5da06aac295ba8f100cacb02b68b35d26361527832064078491d065195248ffa0e8da0b2b1b36f76"}],"#,
    r#""target":null},"personality":"esxi","created_ms":8}}"#
);

fn put(service: &Arc<dyn Service>, records: &[&str]) {
    let change = |record: &&str| {
        let (key, value) = record.split_once(' ').unwrap();
        Change::Put { key: key.into(), value: value.into() }
    };
    call(&**service, Op::Change(records.iter().map(change).collect())).unwrap();
}

fn secret_of(catalog: &Catalog, iqn: &str) -> Option<String> {
    let (_, secret) = catalog.chap(iqn).unwrap().host.unwrap();
    secret.expose().map(ToOwned::to_owned)
}

#[test]
fn clear_secret_of_an_earlier_version_is_sealed() {
    let (service, catalog) = new();
    drop(catalog);
    put(&service, &golden_of_the_first_version());
    let catalog = Catalog::open(service.clone(), &array_init()).unwrap();
    assert_eq!(
        catalog.unlock(keys()).unwrap(),
        Unlocked { locked: vec![], resealed: vec!["h".to_owned()], ..Unlocked::default() }
    );
    assert!(stored(&service).contains(&SEALED_HOST.to_owned()));
    assert!(!stored(&service).iter().any(|record| record.contains("twelve bytes")));
    assert_eq!(secret_of(&catalog, ESX1).as_deref(), Some("twelve bytes"));
    let again = Catalog::open(service.clone(), &array_init()).unwrap();
    assert_eq!(secret_of(&again, ESX1), None, "until the keys are known");
    assert_eq!(again.unlock(keys()).unwrap(), Unlocked::default());
    assert_eq!(secret_of(&again, ESX1).as_deref(), Some("twelve bytes"));
}

#[test]
fn missing_key_locks_only_its_secrets() {
    let (service, catalog) = new();
    drop(catalog);
    put(&service, &golden_of_the_first_version());
    put(&service, &[SEALED_HOST]);
    let other = || SecretKeys::new(&[[8; SecretKeys::KEY_BYTES]]);
    let catalog = Catalog::open(service.clone(), &array_init()).unwrap();
    assert_eq!(
        catalog.unlock(other()).unwrap(),
        Unlocked { locked: vec!["h".to_owned()], resealed: vec![], ..Unlocked::default() }
    );
    assert_eq!(secret_of(&catalog, ESX1), None);
    // The host can be changed and keeps its secret; another host gets one.
    let chap = Chap { host: Some(("esx".into(), Secret::new("another secret"))), target: None };
    let chap = HostEdit { chap: Some(chap), ..iqns(&[ESX2]) };
    catalog.change(|draft| draft.create_host("i", &chap, 9)).unwrap();
    catalog.change(|draft| draft.edit_host("h", &HostEdit { name: Some("j".into()), ..HostEdit::default() })).unwrap();
    let both = SecretKeys::new(&[[8; SecretKeys::KEY_BYTES], [7; SecretKeys::KEY_BYTES]]);
    let again = Catalog::open(service.clone(), &array_init()).unwrap();
    assert_eq!(
        again.unlock(both).unwrap(),
        Unlocked { locked: vec![], resealed: vec!["j".to_owned()], ..Unlocked::default() }
    );
    assert_eq!(secret_of(&again, ESX1).as_deref(), Some("twelve bytes"));
    assert_eq!(secret_of(&again, ESX2).as_deref(), Some("another secret"));
    let resealed = Catalog::open(service, &array_init()).unwrap();
    assert_eq!(resealed.unlock(other()).unwrap(), Unlocked::default());
}

#[test]
fn secrets_are_not_stored_without_keys() {
    let service: Arc<dyn Service> = Arc::new(engine::model::ModelEngine::default());
    let catalog = Catalog::open(service, &array_init()).unwrap();
    let chap = Chap { host: Some(("esx".into(), Secret::new("twelve bytes"))), target: None };
    let edit = HostEdit { chap: Some(chap), ..iqns(&[ESX1]) };
    let refused = catalog.change(|draft| draft.create_host("h", &edit, 8));
    assert_eq!(refused.unwrap_err(), CatalogError::NoSecretKey { name: "h".into() });
    assert!(catalog.change(|draft| draft.create_host("h", &iqns(&[ESX1]), 8)).is_ok());
}

fn stored(service: &Arc<dyn Service>) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    service.scan(b"").iter().map(|(key, value)| format!("{} {}", text(key), text(value))).collect()
}

fn golden_of_the_first_version() -> [&'static str; 6] {
    [
        r#"admin/admin {"v":1,"record":{"name":"admin","token_hash":"$argon2id$","token_created_ms":9}}"#,
        concat!(
            r#"array {"v":1,"record":{"name":"array-1","id":"73697874-6565-4e20-a279-746573206f6b","#,
            r#""iqn":"iqn.2026-11.org.ibid:736978746565","serial_prefix":"A279746573206F6B","created_ms":1000,"#,
            r#""next_volume":3,"next_host":2}}"#
        ),
        r#"connection/0000000000000001/0000000000000001 {"v":1,"record":{"host":1,"volume":1,"lun":0}}"#,
        concat!(
            r#"host/0000000000000001 {"v":1,"record":{"id":1,"name":"h","iqns":["iqn.1998-01.com.vmware:esx1"],"#,
            r#""chap":{"host":["esx","twelve bytes"],"target":null},"personality":"esxi","created_ms":8}}"#
        ),
        concat!(
            r#"volume/0000000000000001 {"v":1,"record":{"id":1,"name":"v","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000001","created_ms":7,"destroyed_ms":null}}"#
        ),
        concat!(
            r#"volume/0000000000000002 {"v":1,"record":{"id":2,"name":"gone","bytes":1073741824,"#,
            r#""serial":"A279746573206F6B00000002","created_ms":7,"destroyed_ms":10}}"#
        ),
    ]
}

#[test]
fn stored_state_survives_restart() {
    let (service, catalog) = sample_catalog();
    catalog
        .change(|draft| {
            draft.create_snapshots(&["v1", "v2"], None, 76)?;
            draft.create_snapshots(&["v1"], Some("Daily"), 76)?;
            draft.destroy_snapshot("v1.daily", 77)?;
            draft.connect("h1", "v1.1", None)?;
            draft.destroy_volume("v2", 77)?;
            draft.put_admin(Admin {
                name: "admin".into(),
                token_hash: "hash".into(),
                token_created_ms: 5,
                ..Admin::default()
            })
        })
        .unwrap();
    let again = open(&service).unwrap();
    assert_eq!(again.state(), catalog.state());
    assert_eq!(again.lun_map(ESX1), catalog.lun_map(ESX1));
}

#[test]
fn restart_keeps_the_array_identity() {
    let (service, catalog) = new();
    let other = ArrayInit { name: "other".into(), number: 1, identity: [7; 16], now_ms: 9 };
    let again = Catalog::open(service, &other).unwrap();
    assert_eq!(again.array(), catalog.array());
}

#[test]
fn failed_store_leaves_state_unchanged() {
    let engine = Arc::new(Failing::default());
    let service: Arc<dyn Service> = engine.clone();
    let catalog = open(&service).unwrap();
    let (state, version) = (catalog.state(), catalog.version());
    engine.broken.store(true, Ordering::Relaxed);
    let refused = catalog.change(|draft| draft.create_volume("v", GIB, 0));
    assert_eq!(refused, Err(CatalogError::Engine(OpError::NoSpace)));
    assert_eq!((catalog.state(), catalog.version()), (state, version));
    engine.broken.store(false, Ordering::Relaxed);
    assert!(catalog.change(|draft| draft.create_volume("v", GIB, 0)).is_ok());
}

#[test]
fn unreadable_records_refuse_start() {
    let put = |key: &str, value: &str| {
        let (service, _) = sample_catalog();
        let change = engine::Change::Put { key: key.into(), value: value.into() };
        engine::call(&*service, Op::Change(vec![change])).unwrap();
        open(&service).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(put("volume/0000000000000001", "{").contains("volume/0000000000000001 cannot be read"));
    assert!(put("volume/0000000000000001", r#"{"v":3,"record":{}}"#).contains("its version is 3"));
    let connection = r#"{"v":1,"record":{"host":1,"volume":99,"lun":9}}"#;
    assert!(put("connection/0000000000000001/0000000000000063", connection).contains("volume or host is missing"));
    let orphan = concat!(
        r#"{"v":1,"record":{"id":9,"volume":77,"suffix":"s","bytes":1048576,"serial":"A279746573206F6B00000009","#,
        r#""created_ms":1,"destroyed_ms":null}}"#
    );
    assert!(put("snapshot/0000000000000009", orphan).contains("its volume is missing"));
    assert!(
        put("connection/0000000000000001/0000000000000002", connection).contains("it contains the key connection/")
    );
}

#[test]
fn watchers_are_called_once_per_change() {
    let (_, catalog) = sample_catalog();
    let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = heard.clone();
    catalog.subscribe(Arc::new(move |version| log.lock().push(version)));
    let from = catalog.version();
    catalog.change(|draft| draft.resize_volume("v1", 4 * GIB, false, 0)).unwrap();
    assert!(catalog.change(|draft| draft.delete_host("h1")).is_err());
    // A change without effect does not count.
    catalog.change(|draft| draft.resize_volume("v1", 4 * GIB, false, 0)).unwrap();
    catalog.change(|draft| draft.disconnect("h1", "v1")).unwrap();
    assert_eq!(*heard.lock(), [from + 1, from + 2]);
}

#[test]
fn eradication_removes_reservations() {
    let (service, catalog) = new();
    let reserve = |volume: ObjectId| {
        let put = Change::Put { key: reservations_key(volume), value: b"registrations".to_vec() };
        call(&*service, Op::Change(vec![put])).unwrap();
    };
    let ids = catalog
        .change(|draft| {
            let volumes = [draft.create_volume("v1", GIB, 1)?.id, draft.create_volume("v2", GIB, 1)?.id];
            let snapshot = draft.create_snapshots(&["v1"], Some("s"), 2)?[0].id;
            Ok::<_, CatalogError>([volumes[0], volumes[1], snapshot])
        })
        .unwrap();
    ids.into_iter().for_each(reserve);
    catalog.change(|draft| draft.destroy_volume("v1", 3).map(|_| ())).unwrap();
    assert_eq!(stored_reservations(&*service).len(), 3, "destroyed objects can be recovered");
    catalog.change(|draft| draft.eradicate_volume("v1").map(|_| ())).unwrap();
    assert_eq!(stored_reservations(&*service), [(reservations_key(ids[1]), ids[1])]);
    // A reservation stored during the eradication is removed at the next start.
    reserve(ids[0]);
    drop(catalog);
    open(&service).unwrap();
    assert_eq!(stored_reservations(&*service), [(reservations_key(ids[1]), ids[1])]);
}

#[test]
fn scrub_schedule_survives_a_restart() {
    let (service, catalog) = sample_catalog();
    let day = crate::ERADICATION_DELAY_MS;
    assert_eq!(catalog.array().next_scrub_ms(), Some(1_000 + 30 * day), "30 days after the creation");
    catalog.change(|draft| draft.record_scrub(5 * day)).unwrap();
    assert_eq!(open(&service).unwrap().array().next_scrub_ms(), Some(35 * day));
    let edit = |interval| crate::ArrayEdit { scrub_interval_ms: Some(interval), ..crate::ArrayEdit::default() };
    catalog.change(|draft| draft.edit_array_settings(&edit(Some(7 * day)))).unwrap();
    assert_eq!(open(&service).unwrap().array().next_scrub_ms(), Some(12 * day));
    catalog.change(|draft| draft.edit_array_settings(&edit(None))).unwrap();
    let array = open(&service).unwrap().array();
    assert_eq!((array.next_scrub_ms(), array.last_scrub_ms), (None, Some(5 * day)));
}
