use super::*;
use multipath::{MemoryArray, Support};
use platform::TemporaryDirectory;

#[test]
fn new_host_has_esxi_defaults() {
    let host = EsxiHost::transient("esx07").unwrap();
    assert_eq!((host.name(), host.iqn().as_str()), ("esx07", "iqn.2026-11.org.ibid:esx07"));
    assert_eq!(host.uuid().split('-').map(str::len).collect::<Vec<_>>(), [8, 8, 4, 12]);
    assert!(host.settings().is_on(Setting::HardwareAcceleratedMove));
    assert!(host.devices().is_empty() && host.mounts().is_empty());
    assert!(matches!(host.device("naa.1"), Err(HostError::NoDevice(_))));
}

#[test]
fn stored_changes_are_seen_by_later_commands() {
    let directory = TemporaryDirectory::new(None, "host").unwrap();
    let first = EsxiHost::open("esx01", directory.path()).unwrap();
    first.set(Setting::MaxHwTransferSize, 16_384).unwrap();
    let mount = |label: &str| Mount { label: label.into(), uuid: "5f-1".into(), device: "naa.1".into() };
    first.add_mount(mount("old")).unwrap();
    first.add_mount(mount("datastore1")).unwrap();
    let second = EsxiHost::open("esx01", directory.path()).unwrap();
    assert_eq!((second.uuid(), second.settings().get(Setting::MaxHwTransferSize)), (first.uuid(), 16_384));
    assert_eq!(second.mounts(), [mount("datastore1")]);
    second.set(Setting::EnableBlockDelete, 1).unwrap();
    // Two processes change different settings: neither loses the other's change.
    first.remove_mount("5f-1").unwrap();
    let third = EsxiHost::open("esx01", directory.path()).unwrap();
    assert!(third.settings().is_on(Setting::EnableBlockDelete) && third.mounts().is_empty());
    assert!(first.settings().is_on(Setting::EnableBlockDelete));
    let error = third.set(Setting::EnableBlockDelete, 2).unwrap_err();
    assert_eq!(error.to_string(), "Invalid value 2 for /VMFS3/EnableBlockDelete: 0 to 1 are possible");
}

#[test]
fn damaged_host_file_error_names_the_path() {
    let directory = TemporaryDirectory::new(None, "host").unwrap();
    EsxiHost::open("esx01", directory.path()).unwrap();
    let path = directory.path().join("host.json");
    let text = platform::files::read_text(&path, 1 << 20).unwrap().unwrap();
    for damaged in [text.replace("\"version\": 1", "\"version\": 9"), "{".to_owned()] {
        platform::files::replace(&path, damaged.as_bytes(), platform::files::Access::Owner).unwrap();
        assert!(matches!(EsxiHost::open("esx01", directory.path()), Err(HostError::Damaged { .. })));
    }
}

#[tokio::test]
async fn attached_disk_is_found_by_name() {
    let array = MemoryArray::new("iqn.2026-11.test:memory");
    let name = array.create(64);
    let host = EsxiHost::transient("esx01").unwrap();
    host.attach(Arc::new(array.open_with(&name, "esx01", host.statistics()).unwrap())).await;
    let disk = host.disk(&name).await.unwrap();
    disk.read(0, 8).await.unwrap();
    assert_eq!(host.counters().unwrap()[&name].reads, 1);
    host.enable(&name, Primitive::Ats, false).await.unwrap();
    assert!(!disk.vaai().ats.enabled && disk.vaai().ats.support == Support::Unknown);
}

#[test]
fn log_lines_are_written_to_the_file() {
    let directory = TemporaryDirectory::new(None, "host").unwrap();
    let host = EsxiHost::open("esx01", directory.path()).unwrap();
    host.log("Unmap: Async Unmapped 200 blocks from volume 5f").unwrap();
    let text = platform::files::read_text(&directory.path().join("vmkernel.log"), 4096).unwrap().unwrap();
    assert!(text.ends_with(")Unmap: Async Unmapped 200 blocks from volume 5f\n"), "{text}");
    assert_eq!(host.recent_log().unwrap(), [text.trim_end()]);
}
