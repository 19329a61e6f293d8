//! Hosts that claim, use and store the devices of a scripted target.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

#[path = "../../initiator/tests/support/mod.rs"]
mod support;

use esxi_host::{DeviceLocation, EsxiHost, HostError, Setting};
use iscsi::target_connection::CommandCompletion;
use multipath::{PathPolicy, Primitive, SharedDisk, Support};
use platform::TemporaryDirectory;
use scsi::{Cdb, Command, Sense, SenseFormat, asc};
use support::{LBA_LEN, NAME, Reply, Served, Target};

const DISK: &str = "naa.60606060606060606060606060606060";

fn serve() -> Served {
    Target::scripted(4096, |task| match Cdb::parse(&task.cdb) {
        Ok(Command::Unmap { .. }) => {
            let sense = Sense::illegal(asc::INVALID_COMMAND_OPERATION_CODE);
            Reply::Answer(CommandCompletion::check_condition(sense.to_bytes(SenseFormat::Fixed)))
        }
        _ => Reply::Disk,
    })
    .serve()
}

fn unit(served: &Served) -> Vec<DeviceLocation> {
    vec![served.url().parse().unwrap()]
}

#[tokio::test]
async fn claimed_devices_and_support_are_stored() {
    let served = serve();
    let directory = TemporaryDirectory::new(None, "host").unwrap();
    let first = EsxiHost::open("esx01", directory.path()).unwrap();
    let twice = [unit(&served), unit(&served)].concat();
    assert_eq!(first.claim(&twice).await.unwrap(), [DISK]);
    assert_eq!(first.claim(&unit(&served)).await.unwrap(), [DISK]);
    let device = first.device(DISK).unwrap();
    assert_eq!((device.ports.len(), device.array.as_str(), device.mebibytes()), (1, NAME, 2));
    first.set_policy(DISK, PathPolicy::RoundRobin { iops: 3 }).await.unwrap();
    let disk = first.iscsi_disk(DISK).await.unwrap();
    assert_eq!((disk.paths().len(), disk.policy()), (2, PathPolicy::RoundRobin { iops: 3 }));
    disk.write_same(0, 8, vec![0; LBA_LEN].into()).await.unwrap();
    assert!(disk.unmap(vec![(0, 8)]).await.unwrap_err().is_refusal());
    first.enable(DISK, Primitive::Clone, false).await.unwrap();
    first.close().await.unwrap();

    let second = EsxiHost::open("esx01", directory.path()).unwrap();
    let vaai = second.device(DISK).unwrap().vaai;
    let support = Primitive::ALL.map(|one| vaai.of(one).support);
    assert_eq!(support, [Support::Unknown, Support::Unknown, Support::Supported, Support::Unsupported]);
    assert!(!vaai.clone.enabled);
    let disk = second.disk(DISK).await.unwrap();
    assert!(!disk.vaai().is_usable(Primitive::Clone));
    disk.write_same(0, 8, vec![0; LBA_LEN].into()).await.unwrap();
    assert_eq!(second.counters().unwrap()[DISK].zero.done, 2);
    second.close().await.unwrap();
    assert_eq!(EsxiHost::open("esx01", directory.path()).unwrap().counters().unwrap()[DISK].zero.done, 2);
    second.forget_support(DISK).unwrap();
    assert_eq!(second.device(DISK).unwrap().vaai.delete.support, Support::Unknown);
    second.unclaim(DISK).unwrap();
    assert!(matches!(second.disk(DISK).await, Err(HostError::NoDevice(_))));
}

#[tokio::test]
async fn each_adapter_and_port_makes_a_path() {
    let served = serve();
    let host = EsxiHost::transient("esx01").unwrap();
    host.set_adapters(3).unwrap();
    // One port under two names, like a disk with two portals.
    let other = served.url().replace("127.0.0.1", "localhost");
    let places = [served.url(), other].map(|url| url.parse().unwrap());
    assert_eq!(host.claim(&places).await.unwrap(), [DISK]);
    let disk = host.iscsi_disk(DISK).await.unwrap();
    assert_eq!(disk.paths().len(), 6);
    let names = host.device(DISK).unwrap().path_names(&host.targets());
    assert_eq!((names.len(), names[3].as_str()), (6, "vmhba65:C1:T0:L0"));
    host.set(Setting::ApdTimeout, 20).unwrap();
    host.close().await.unwrap();
}

#[tokio::test]
async fn claiming_an_unknown_target_fails() {
    let served = serve();
    let place: DeviceLocation = served.url().replace(NAME, "iqn.2026-11.test:other").parse().unwrap();
    let host = EsxiHost::transient("esx01").unwrap();
    assert!(matches!(host.claim(&[place]).await, Err(HostError::Open { .. })));
    assert!(host.devices().is_empty());
}
