//! Rules for changes, and the errors returned for violations.

use super::*;
use crate::{Audit, Chap, ERADICATION_DELAY_MS, MAX_LUN, ObjectKind, Role, Secret, check_iqn, check_name};

/// Returns the message of a refused change, and checks that the state is unchanged.
fn refused<T: std::fmt::Debug>(
    catalog: &Catalog,
    edit: impl FnOnce(&mut crate::Draft) -> Result<T, CatalogError>,
) -> String {
    let (before, version) = (catalog.state(), catalog.version());
    let error = catalog.change(edit).unwrap_err();
    assert_eq!(catalog.state(), before);
    assert_eq!(catalog.version(), version);
    error.to_string()
}

#[test]
fn names_allow_letters_digits_hyphen_underscore() {
    for good in ["a", "V1", "vm-100-disk-0", "volume-5e1f_x", "1a", &"x".repeat(63)] {
        assert_eq!(check_name(good), Ok(()), "{good}");
    }
    for bad in ["", "1", "12-34", "-a", "a-", "_a", "a b", "a.b", "a/b", "pod::v", "ä", "a\n", &"x".repeat(64)] {
        assert_eq!(check_name(bad), Err(CatalogError::BadName { name: bad.into() }), "{bad}");
    }
}

#[test]
fn initiator_names_are_compared_in_lower_case() {
    assert_eq!(check_iqn("IQN.1998-01.com.VMware:ESX1").unwrap(), ESX1);
    assert_eq!(check_iqn("*").unwrap(), "*");
    assert!(check_iqn("eui.02004567A425678D").is_ok());
    assert!(check_iqn("naa.624a93700123456789abcdef00000001").is_ok());
    let long = format!("iqn.2026-11.org:{}", "x".repeat(300));
    for bad in
        ["", "iqn.", "iqn.com.vmware", "iqn.1998-1.com", "eui.123", "naa.x", "esx1", "iqn.1998-01.a b", "**", &long]
    {
        assert_eq!(check_iqn(bad), Err(CatalogError::BadIqn { iqn: bad.into() }), "{bad}");
    }
}

#[test]
fn volume_sizes_are_checked_and_rounded_to_4_kib() {
    let (_, catalog) = new();
    let create = |name: &str, bytes: u64| catalog.change(|draft| draft.create_volume(name, bytes, 0));
    assert_eq!(create("least", 1 << 20).unwrap().bytes, 1 << 20);
    assert_eq!(create("most", 4 << 50).unwrap().bytes, 4 << 50);
    assert_eq!(create("odd", (1 << 20) + 512).unwrap().bytes, (1 << 20) + 4096);
    for bad in [0, 512, (1 << 20) - 512, (1 << 20) + 1, (4 << 50) + 512, u64::MAX] {
        assert_eq!(create("bad", bad), Err(CatalogError::BadSize { name: "bad".into() }), "{bad}");
    }
}

#[test]
fn names_are_unique_ignoring_case() {
    let (_, catalog) = sample_catalog();
    assert_eq!(refused(&catalog, |d| d.create_volume("V1", GIB, 0)), "Volume already exists.");
    assert_eq!(refused(&catalog, |d| d.create_host("H1", &HostEdit::default(), 0)), "Host already exists.");
    assert_eq!(refused(&catalog, |d| d.rename_volume("v2", "V1")), "Volume already exists.");
    assert_eq!(catalog.change(|d| d.rename_volume("V2", "Second")).unwrap().name, "Second");
    assert_eq!(catalog.change(|d| d.rename_volume("second", "SECOND")).unwrap().name, "SECOND");
    assert_eq!(catalog.state().volume("second").unwrap().name, "SECOND");
    assert_eq!(refused(&catalog, |d| d.rename_volume("v2", "v3")), "Volume does not exist.");
}

#[test]
fn serial_numbers_are_never_reused() {
    let (service, catalog) = new();
    let first = catalog.change(|d| d.create_volume("v", GIB, 0)).unwrap();
    catalog.change(|d| d.destroy_volume("v", 1)).unwrap();
    catalog.change(|d| d.eradicate_volume("v")).unwrap();
    let catalog = open(&service).unwrap();
    let second = catalog.change(|d| d.create_volume("v", GIB, 0)).unwrap();
    assert_ne!(first.id, second.id);
    assert_ne!(first.serial, second.serial);
    // The identity "sixteen bytes ok", with the variant bits of its 9th byte set (RFC 9562).
    assert_eq!(first.serial, "A279746573206F6B00000001");
    assert_eq!(first.naa(), "624a9370a279746573206f6b00000001");
    assert_eq!(catalog.array().id, "73697874-6565-4e20-a279-746573206f6b");
    assert_eq!(catalog.target_iqn(), "iqn.2026-11.org.ibid:736978746565");
}

#[test]
fn shrinking_requires_truncate() {
    let (_, catalog) = sample_catalog();
    assert_eq!(catalog.change(|d| d.resize_volume("v1", 3 * GIB, false, 0)).unwrap().bytes, 3 * GIB);
    assert!(refused(&catalog, |d| d.resize_volume("v1", GIB, false, 0)).contains("truncate"));
    assert_eq!(catalog.change(|d| d.resize_volume("v1", GIB, true, 0)).unwrap().bytes, GIB);
}

#[test]
fn destroyed_volume_is_unusable_until_recovered() {
    let (_, catalog) = sample_catalog();
    assert_eq!(
        refused(&catalog, |d| d.destroy_volume("v1", 0)),
        "Volume cannot be deleted due to existing connections."
    );
    assert_eq!(refused(&catalog, |d| d.eradicate_volume("v2")), "Volume is not destroyed.");
    assert_eq!(refused(&catalog, |d| d.recover_volume("v2")), "Volume is not destroyed.");
    catalog.change(|d| d.destroy_volume("v2", 9_000)).unwrap();
    assert_eq!(refused(&catalog, |d| d.destroy_volume("v2", 0)), "Volume has been destroyed.");
    assert_eq!(refused(&catalog, |d| d.connect("h1", "v2", None)), "Volume has been destroyed.");
    assert_eq!(refused(&catalog, |d| d.resize_volume("v2", 4 * GIB, false, 0)), "Volume has been destroyed.");
    assert_eq!(refused(&catalog, |d| d.create_volume("v2", GIB, 0)), "Volume already exists.");
    let recovered = catalog.change(|d| d.recover_volume("v2")).unwrap();
    assert_eq!(recovered.destroyed_ms, None);
}

#[test]
fn destroyed_volumes_are_eradicated_after_delay() {
    let (service, catalog) = sample_catalog();
    let content = catalog.change(|d| d.destroy_volume("v2", 9_000)).unwrap().content();
    let due = 9_000 + ERADICATION_DELAY_MS;
    // A clock that was set back must not look like a very long delay.
    for early in [0, 8_999, 9_000, due - 1] {
        assert_eq!(catalog.eradicate_due(both(early)).unwrap(), Vec::<String>::new());
    }
    assert!(service.volume_space(content).is_some());
    assert_eq!(catalog.eradicate_due(both(due)).unwrap(), ["v2"]);
    assert_eq!(service.volume_space(content), None);
    assert_eq!(catalog.state().volume("v2"), Err(CatalogError::NoSuch { kind: ObjectKind::Volume, name: "v2".into() }));
}

#[test]
fn initiator_belongs_to_one_host() {
    let (_, catalog) = sample_catalog();
    let message = refused(&catalog, |d| d.create_host("h3", &iqns(&["IQN.1998-01.com.vmware:ESX1"]), 0));
    assert_eq!(message, "The specified IQN is already in use by host h1.");
    assert!(refused(&catalog, |d| d.edit_host("h2", &iqns(&[ESX2, ESX1]))).contains("already in use"));
    // An initiator that its host gives up is free, and listing one's own initiator again is no
    // conflict.
    catalog.change(|d| d.edit_host("h1", &iqns(&[]))).unwrap();
    let host = catalog.change(|d| d.edit_host("h2", &iqns(&[ESX2, ESX1, ESX1]))).unwrap();
    assert_eq!(host.iqns, [ESX2, ESX1]);
}

#[test]
fn connected_host_cannot_be_deleted() {
    let (_, catalog) = sample_catalog();
    assert_eq!(refused(&catalog, |d| d.delete_host("h1")), "Host cannot be deleted due to existing connections.");
    catalog.change(|d| d.disconnect("h1", "v1")).unwrap();
    catalog.change(|d| d.delete_host("h1")).unwrap();
    assert_eq!(refused(&catalog, |d| d.delete_host("h1")), "Host does not exist.");
    assert_eq!(catalog.lun_map(ESX1), None);
}

#[test]
fn lowest_free_lun_from_1_is_assigned() {
    let (_, catalog) = sample_catalog();
    catalog.change(|d| (0..6).try_for_each(|n| d.create_volume(&format!("w{n}"), GIB, 0).map(|_| ()))).unwrap();
    let connect = |volume: &str, lun| catalog.change(|d| d.connect("h1", volume, lun)).map(|connection| connection.lun);
    assert_eq!(connect("w0", None).unwrap(), 2);
    assert_eq!(connect("w1", Some(0)).unwrap(), 0);
    assert_eq!(connect("w2", Some(MAX_LUN)).unwrap(), MAX_LUN);
    assert_eq!(connect("w3", Some(4)).unwrap(), 4);
    assert_eq!(connect("w4", None).unwrap(), 3);
    assert_eq!(connect("w5", Some(4)).unwrap_err().to_string(), "LUN 4 is already in use on host h1.");
    assert_eq!(connect("w5", Some(MAX_LUN + 1)).unwrap_err(), CatalogError::BadLun { lun: 4096 });
    assert_eq!(connect("w4", None).unwrap_err().to_string(), "Connection already exists.");
    catalog.change(|d| d.disconnect("h1", "w0")).unwrap();
    assert_eq!(connect("w5", None).unwrap(), 2);
    assert_eq!(refused(&catalog, |d| d.disconnect("h2", "w5")), "Connection does not exist.");
}

#[test]
fn initiator_sees_only_the_volumes_of_its_host() {
    let (_, catalog) = sample_catalog();
    let map = catalog.lun_map("IQN.1998-01.COM.VMWARE:ESX1").unwrap();
    assert_eq!(map.host, "h1");
    assert_eq!(map.entries.keys().copied().collect::<Vec<_>>(), [1]);
    let entry = map.get(1).unwrap();
    assert_eq!((entry.name.as_str(), entry.blocks, entry.read_only), ("v1", GIB / 512, false));
    assert!(catalog.lun_map(ESX2).unwrap().entries.is_empty());
    assert_eq!(catalog.lun_map("iqn.2000-01.org:stranger"), None);

    catalog.change(|d| d.create_host("anyone", &iqns(&["*"]), 0)).unwrap();
    catalog.change(|d| d.connect("anyone", "v2", None)).unwrap();
    assert_eq!(catalog.lun_map("iqn.2000-01.org:stranger").unwrap().host, "anyone");
    // A host that lists an initiator by name takes precedence over the wildcard.
    assert_eq!(catalog.lun_map(ESX1).unwrap().host, "h1");
    assert!(refused(&catalog, |d| d.create_host("all", &iqns(&["*"]), 0)).contains("already in use"));
}

#[test]
fn incomplete_chap_settings_are_refused() {
    let (_, catalog) = sample_catalog();
    let pair = |user: &str, secret: &str| Some((user.to_owned(), Secret::new(secret)));
    let set = |chap: Chap| {
        let edit = HostEdit { chap: Some(chap), ..HostEdit::default() };
        catalog.change(|d| d.edit_host("h1", &edit)).map(|host| host.chap.clone())
    };
    let good = Chap { host: pair("esx", "twelve bytes"), target: pair("array", "another secret") };
    assert_eq!(set(good.clone()).unwrap(), good);
    assert_eq!(catalog.chap(ESX1), Some(good.clone()));
    assert_eq!(catalog.chap(ESX2), Some(Chap::default()));
    assert_eq!(catalog.chap("iqn.2000-01.org:stranger"), None);
    assert!(!format!("{good:?}").contains("twelve"), "a secret must not reach a log");
    for (chap, reason) in [
        (Chap { host: pair("esx", "eleven byte"), target: None }, "secret must have 12"),
        (Chap { host: pair("", "twelve bytes"), target: None }, "user name must have 1"),
        (Chap { host: None, target: pair("array", "twelve bytes") }, "mutual CHAP also requires"),
        (Chap { host: pair("a", "the same secret"), target: pair("b", "the same secret") }, "must differ"),
    ] {
        let message = set(chap).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(catalog.chap(ESX1), Some(good));
}

#[test]
fn failed_change_reverts_all_of_its_steps() {
    let (_, catalog) = sample_catalog();
    let message = refused(&catalog, |draft| {
        draft.create_volume("v3", GIB, 0)?;
        draft.connect("h2", "v3", None)?;
        draft.create_volume("v1", GIB, 0)
    });
    assert_eq!(message, "Volume already exists.");
    assert!(catalog.state().volume("v3").is_err());
}

/// An array whose time of this run a test sets.
fn with_uptime(service: &Arc<dyn Service>) -> (Arc<AtomicU64>, Catalog) {
    let uptime = Arc::new(AtomicU64::new(0));
    let shown = uptime.clone();
    let catalog = open(service).unwrap().with_uptime(Arc::new(move || shown.load(Ordering::Relaxed)));
    (uptime, catalog)
}

#[test]
fn clock_set_forward_eradicates_nothing() {
    const MINUTE: u64 = 60_000;
    let (service, _) = sample_catalog();
    let (uptime, catalog) = with_uptime(&service);
    let eradicate = |wall_ms: u64, up: u64| {
        uptime.store(up, Ordering::Relaxed);
        catalog.eradicate_due(ArrayTime { wall_ms, served_ms: catalog.served_ms() }).unwrap()
    };
    uptime.store(7 * MINUTE, Ordering::Relaxed);
    let volume = catalog.change(|d| d.destroy_volume("v2", MINUTE)).unwrap();
    let none: [&str; 0] = [];
    assert_eq!(eradicate(MINUTE + 2 * ERADICATION_DELAY_MS, 8 * MINUTE), none, "two days ahead for a minute");
    let now = ArrayTime { wall_ms: MINUTE + 2 * ERADICATION_DELAY_MS, served_ms: catalog.served_ms() };
    let left = volume.destroyed_at().unwrap().remaining_ms(ERADICATION_DELAY_MS, now);
    assert_eq!(left, ERADICATION_DELAY_MS - MINUTE, "the later clock counts");
    assert_eq!(eradicate(2 * MINUTE, 8 * MINUTE), none);
    assert_eq!(eradicate(MINUTE + ERADICATION_DELAY_MS, 6 * MINUTE + ERADICATION_DELAY_MS), none);
    assert_eq!(eradicate(0, 7 * MINUTE + ERADICATION_DELAY_MS), none, "set back");
    assert_eq!(eradicate(MINUTE + ERADICATION_DELAY_MS, 7 * MINUTE + ERADICATION_DELAY_MS), ["v2"]);
}

#[test]
fn time_without_service_does_not_eradicate() {
    const HOUR: u64 = 3_600_000;
    let (service, _) = sample_catalog();
    let (uptime, catalog) = with_uptime(&service);
    catalog.store_served_time().unwrap();
    assert_eq!((catalog.version(), catalog.array().served_ms), (1, 0), "nothing waits for the time served");
    uptime.store(10 * HOUR, Ordering::Relaxed);
    catalog.change(|d| d.destroy_volume("v2", 10 * HOUR)).unwrap();
    uptime.store(14 * HOUR, Ordering::Relaxed);
    catalog.store_served_time().unwrap();
    // A crash loses the last hour.
    uptime.store(15 * HOUR, Ordering::Relaxed);
    let (uptime, catalog) = with_uptime(&service);
    assert_eq!(catalog.served_ms(), 14 * HOUR);
    let week = 7 * ERADICATION_DELAY_MS;
    let at = |up: u64| {
        uptime.store(up, Ordering::Relaxed);
        catalog.eradicate_due(ArrayTime { wall_ms: week, served_ms: catalog.served_ms() }).unwrap()
    };
    assert!(at(0).is_empty() && at(20 * HOUR - 1).is_empty(), "a week without service counts nothing");
    assert_eq!(at(20 * HOUR), ["v2"]);
}

#[test]
fn destruction_by_an_older_version_is_counted() {
    let (service, catalog) = sample_catalog();
    catalog.change(|d| d.destroy_volume("v2", 9_000)).unwrap();
    // Without a time served, the delay begins with the first run that counts.
    let (uptime, catalog) = with_uptime(&service);
    uptime.store(ERADICATION_DELAY_MS, Ordering::Relaxed);
    let now = ArrayTime { wall_ms: 9_000 + ERADICATION_DELAY_MS, served_ms: catalog.served_ms() };
    assert_eq!(catalog.eradicate_due(now).unwrap(), ["v2"]);
}

#[test]
fn audit_trail_is_bounded_and_survives_restart() {
    let (service, catalog) = new();
    let audit = |n: usize| Audit {
        id: 0,
        at_ms: n as u64,
        admin: "admin".into(),
        origin: "::1".into(),
        method: "POST".into(),
        path: "/volumes".into(),
        arguments: "é".repeat(n),
    };
    catalog.change(|draft| (0..crate::MAX_AUDITS + 3).try_for_each(|n| draft.record_audit(audit(n)))).unwrap();
    let state = catalog.state();
    assert_eq!(state.audits().count(), crate::MAX_AUDITS);
    assert_eq!(state.audits().next().map(|audit| (audit.id, audit.at_ms)), Some((4, 3)));
    assert!(state.audits().all(|audit| audit.arguments.len() <= crate::MAX_AUDIT_ARGUMENTS + '…'.len_utf8()));
    assert_eq!(open(&service).unwrap().state(), state);
}

#[test]
fn limited_administrators_have_a_version_of_their_own() {
    let (service, catalog) = new();
    catalog.change(|draft| draft.create_admin("full", Role::ArrayAdmin)).unwrap();
    catalog.change(|draft| draft.create_admin("limited", Role::Readonly)).unwrap();
    let stored = |name: &str| String::from_utf8(service.get(format!("admin/{name}").as_bytes()).unwrap()).unwrap();
    assert!(stored("full").contains(r#""v":1"#) && !stored("full").contains("role"));
    assert!(stored("limited").contains(r#""v":2"#) && stored("limited").contains(r#""role":"readonly""#));
    assert_eq!(open(&service).unwrap().state(), catalog.state());
}
