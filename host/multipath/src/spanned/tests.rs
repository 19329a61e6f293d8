use super::*;
use crate::memory::MemoryArray;

/// Returns a disk of two parts of 64 blocks, and its members: blocks 8 to 71 and 16 to 79.
fn spanned() -> (SpannedDisk, [Arc<dyn SharedDisk>; 2]) {
    let array = MemoryArray::new("iqn.2026-11.test:spanned");
    let disk = || -> Arc<dyn SharedDisk> { Arc::new(array.open(&array.create(128), "a").unwrap()) };
    let disks = [disk(), disk()];
    let member = |first, lba, at: usize| SpanMember { first, blocks: 64, lba, disk: Arc::clone(&disks[at]) };
    (SpannedDisk::new(vec![member(0, 8, 0), member(64, 16, 1)]).unwrap(), disks)
}

fn blocks(byte: u8, count: usize) -> Bytes {
    vec![byte; count * 512].into()
}

#[tokio::test]
async fn ranges_across_members_are_split() {
    let (disk, members) = spanned();
    assert_eq!(disk.identity().blocks, 128);
    disk.write(60, blocks(7, 8)).await.unwrap();
    assert_eq!(members[0].read(68, 4).await.unwrap(), blocks(7, 4));
    assert_eq!(members[1].read(16, 4).await.unwrap(), blocks(7, 4));
    assert_eq!(disk.read(60, 8).await.unwrap(), blocks(7, 8));
    disk.copy(&disk, vec![CopyRun { source: 60, destination: 62, blocks: 2 }]).await.unwrap();
    disk.copy(&disk, vec![CopyRun { source: 58, destination: 70, blocks: 8 }]).await.unwrap();
    assert_eq!(members[1].read(22, 8).await.unwrap(), [blocks(0, 2), blocks(7, 6)].concat());
    disk.write_same(56, 16, blocks(9, 1)).await.unwrap();
    disk.unmap(vec![(62, 4)]).await.unwrap();
    assert_eq!(disk.read(56, 16).await.unwrap(), [blocks(9, 6), blocks(0, 4), blocks(9, 6)].concat());
    let status = disk.get_lba_status(63).await.unwrap();
    assert!(status.iter().all(|extent| extent.lba >= 63 && extent.lba + extent.blocks <= 64), "{status:?}");
}

#[tokio::test]
async fn ends_and_atomicity_are_respected() {
    let (disk, members) = spanned();
    let beyond = disk.write(124, blocks(1, 8)).await;
    assert_eq!(beyond, Err(DeviceError::OutOfRange { lba: 128 }));
    let swap = disk.compare_and_write(63, blocks(0, 2), blocks(1, 2)).await;
    assert_eq!(swap, Err(DeviceError::Length(1024)));
    assert_eq!(disk.compare_and_write(64, blocks(0, 1), blocks(1, 1)).await, Ok(AtsOutcome::Written));
    assert_eq!(members[1].read(16, 1).await.unwrap(), blocks(1, 1));
}

#[tokio::test]
async fn offloads_are_those_of_all_members() {
    let (disk, members) = spanned();
    members[1].enable(Primitive::Zero, false);
    assert!(!disk.vaai().is_usable(Primitive::Zero) && disk.vaai().is_usable(Primitive::Clone));
    disk.reserve().await.unwrap();
    disk.release().await.unwrap();
}
