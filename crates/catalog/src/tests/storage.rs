//! What is stored, and what comes back.

use super::*;
use crate::Admin;
use parking_lot::Mutex;

#[test]
fn a_volume_and_its_record_are_made_together() {
    let (service, catalog) = new();
    let volume = catalog.change(|draft| draft.create_volume("v", GIB, 7)).unwrap();
    assert_eq!(service.volume_space(volume.id).unwrap().provisioned, GIB);
    let key = format!("volume/{:016x}", volume.id.0);
    let stored = String::from_utf8(service.get(key.as_bytes()).unwrap()).unwrap();
    assert_eq!(
        stored,
        concat!(
            r#"{"v":1,"record":{"id":1,"name":"v","bytes":1073741824,"serial":"A279746573206F6B00000001","#,
            r#""created_ms":7,"destroyed_ms":null}}"#
        )
    );
}

#[test]
fn what_was_stored_comes_back() {
    let (service, catalog) = furnished();
    catalog
        .change(|draft| {
            draft.destroy_volume("v2", 77)?;
            draft.put_admin(Admin { name: "admin".into(), token_hash: "hash".into(), token_created_ms: 5 })
        })
        .unwrap();
    let again = open(&service).unwrap();
    assert_eq!(again.state(), catalog.state());
    assert_eq!(again.lun_map(ESX1), catalog.lun_map(ESX1));
}

#[test]
fn a_second_start_keeps_the_identity() {
    let (service, catalog) = new();
    let other = Founding { name: "other".into(), identity: [7; 16], now_ms: 9 };
    let again = Catalog::open(service, &other).unwrap();
    assert_eq!(again.array(), catalog.array());
}

#[test]
fn what_cannot_be_stored_has_not_happened() {
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
fn records_that_cannot_be_read_stop_the_start() {
    let put = |key: &str, value: &str| {
        let (service, _) = furnished();
        let change = engine::Change::Put { key: key.into(), value: value.into() };
        engine::call(&*service, Op::Change(vec![change])).unwrap();
        open(&service).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(put("volume/0000000000000001", "{").contains("volume/0000000000000001 cannot be read"));
    assert!(put("volume/0000000000000001", r#"{"v":2,"record":{}}"#).contains("its version is 2"));
    let connection = r#"{"v":1,"record":{"host":1,"volume":99,"lun":9}}"#;
    assert!(put("connection/0000000000000001/0000000000000063", connection).contains("volume or host is missing"));
    assert!(put("connection/0000000000000001/0000000000000002", connection).contains("it says that it is connection/"));
}

#[test]
fn watchers_hear_of_each_change_once() {
    let (_, catalog) = furnished();
    let heard: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = heard.clone();
    catalog.subscribe(Arc::new(move |version| log.lock().push(version)));
    let from = catalog.version();
    catalog.change(|draft| draft.resize_volume("v1", 4 * GIB, false)).unwrap();
    assert!(catalog.change(|draft| draft.delete_host("h1")).is_err());
    // A change that changes nothing is none.
    catalog.change(|draft| draft.resize_volume("v1", 4 * GIB, false)).unwrap();
    catalog.change(|draft| draft.disconnect("h1", "v1")).unwrap();
    assert_eq!(*heard.lock(), [from + 1, from + 2]);
}
