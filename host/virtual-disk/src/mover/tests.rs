use super::*;
use crate::layout::Joint;
use multipath::{FaultHook, Injection, MemoryArray, MemoryHostDisk, Operation};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn ignore(_: u64) {}

/// Creates two volumes of 64 MiB on one array; the first contains bytes that identify their
/// position.
async fn volumes() -> (MemoryArray, MemoryHostDisk, MemoryHostDisk) {
    let array = MemoryArray::new("iqn.2026-11.org.ibid:mover");
    let open = |array: &MemoryArray| {
        let name = array.create(64 * MIB / 512);
        array.open(&name, "esx01").unwrap()
    };
    let (source, destination) = (open(&array), open(&array));
    for mib in 0..64u64 {
        source.write(mib * 2048, mebibyte(mib)).await.unwrap();
    }
    (array, source, destination)
}

fn mebibyte(seed: u64) -> Bytes {
    (0..MIB / 8).flat_map(|i| (seed << 32 | i).to_le_bytes()).collect::<Vec<_>>().into()
}

fn joint(from: u64, to: u64, mib: u64) -> Joint {
    Joint { offset: 0, bytes: mib * MIB, source: from * 2048, destination: to * 2048 }
}

fn order(xcopy_bytes: u64) -> CopyOrder {
    CopyOrder { forbidden: None, xcopy_bytes }
}

#[tokio::test]
async fn zeroing_uses_write_same_of_one_mebibyte() {
    let (_, disk, _) = volumes().await;
    let mover = Mover::new(MoverSettings::default());
    mover.zero(&disk, &[(2048, 8 * 2048), (40 * 2048, 100)], &ignore).await.unwrap();
    let work = mover.work.work();
    assert_eq!((work.write_same.commands, work.write_same.bytes, work.write.commands), (9, 8 * MIB + 51_200, 0));
    assert!(disk.read(2048, 2048).await.unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(disk.read(0, 2048).await.unwrap(), mebibyte(0));
}

/// Makes every offloaded copy and zeroing command take a second.
struct SlowOffloads;

impl FaultHook for SlowOffloads {
    fn inject(&self, _: &str, _: &str, operation: &Operation) -> Injection {
        let slow = matches!(operation, Operation::Copy(_) | Operation::WriteSame(..));
        Injection { before: Duration::from_secs(u64::from(slow)), ..Injection::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn outstanding_commands_follow_the_settings() {
    let (array, source, destination) = volumes().await;
    array.set_hook(Some(Arc::new(SlowOffloads)));
    let secs = |since| platform::clock::now().duration_since(since).as_secs();
    for (xcopy, write_same) in [(64, 64), (4, 8)] {
        let outstanding = Outstanding { xcopy, write_same, ..Outstanding::default() };
        let mover = Mover::new(MoverSettings { outstanding, ..MoverSettings::default() });
        let begun = platform::clock::now();
        mover.copy((&source, &destination), &[joint(0, 0, 64)], order(MIB), &ignore).await.unwrap();
        assert_eq!((mover.work.work().xcopy.commands, secs(begun)), (64, 64 / u64::from(xcopy)));
        let begun = platform::clock::now();
        mover.zero(&destination, &[(0, 64 * 2048)], &ignore).await.unwrap();
        assert_eq!((mover.work.work().write_same.commands, secs(begun)), (64, 64 / u64::from(write_same)));
    }
}

#[tokio::test]
async fn zeros_are_written_without_write_same() {
    let (array, disk, _) = volumes().await;
    let off = MoverSettings { hardware_init: false, ..MoverSettings::default() };
    let mover = Mover::new(off);
    mover.zero(&disk, &[(0, 4 * 2048)], &ignore).await.unwrap();
    assert_eq!((mover.work.work().write_same.commands, mover.work.work().write.bytes), (0, 4 * MIB));
    // The device does not know the command: the refused piece and all others are written.
    array.refuse(&disk.identity().name, Primitive::Zero, true);
    let mover = Mover::new(MoverSettings::default());
    mover.zero(&disk, &[(8 * 2048, 4 * 2048)], &ignore).await.unwrap();
    assert_eq!((mover.work.work().write_same.commands, mover.work.work().write.bytes), (0, 4 * MIB));
    assert!(disk.read(8 * 2048, 8192).await.unwrap().iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn xcopy_commands_have_the_transfer_size() {
    let (_, source, destination) = volumes().await;
    for (transfer, commands) in [(4, 8), (16, 2)] {
        let mover = Mover::new(MoverSettings::default());
        let why = mover.copy((&source, &destination), &[joint(0, 8, 32)], order(transfer * MIB), &ignore).await;
        assert_eq!(why, Ok(None));
        assert_eq!((mover.work.work().xcopy.commands, mover.work.work().read.commands), (commands, 0));
    }
    for mib in 0..32 {
        assert_eq!(destination.read((mib + 8) * 2048, 2048).await.unwrap(), mebibyte(mib));
    }
}

#[tokio::test]
async fn copy_not_offloaded_reports_the_reason() {
    let (array, source, destination) = volumes().await;
    let pair: (&dyn SharedDisk, &dyn SharedDisk) = (&source, &destination);
    let off = MoverSettings { hardware_move: false, ..MoverSettings::default() };
    let by_setting = Mover::new(off);
    let why = by_setting.copy(pair, &[joint(0, 0, 4)], order(4 * MIB), &ignore).await;
    assert_eq!(why, Ok(Some(HostCopyReason::SwitchedOff)));
    assert_eq!((by_setting.work.work().xcopy.commands, by_setting.work.work().read.bytes), (0, 4 * MIB));

    let by_rule = Mover::new(MoverSettings::default());
    let forbidden = CopyOrder { forbidden: Some(OffloadForbidden::BlockSizes), ..order(4 * MIB) };
    let why = by_rule.copy(pair, &[joint(4, 4, 1)], forbidden, &ignore).await;
    assert_eq!(why, Ok(Some(HostCopyReason::Forbidden(OffloadForbidden::BlockSizes))));
    assert_eq!(by_rule.work.work().read.commands, 16, "64 KiB between datastores of different block sizes");

    array.refuse(&source.identity().name, Primitive::Clone, true);
    for reason in [HostCopyReason::Refused, HostCopyReason::Unsupported] {
        let mover = Mover::new(MoverSettings::default());
        let why = mover.copy(pair, &[joint(8, 8, 8)], order(4 * MIB), &ignore).await;
        assert_eq!(why, Ok(Some(reason)), "the first refusal is remembered");
        assert_eq!(mover.work.work().write.bytes, 8 * MIB);
    }
    for mib in [0, 3, 4, 8, 15] {
        assert_eq!(destination.read(mib * 2048, 2048).await.unwrap(), mebibyte(mib));
    }
}

#[tokio::test]
async fn other_device_errors_end_the_operation() {
    let (array, source, destination) = volumes().await;
    array.set_bad(&source.identity().name, 3 * 2048, 1);
    let off = MoverSettings { hardware_move: false, ..MoverSettings::default() };
    let ended = Mover::new(off).copy((&source, &destination), &[joint(0, 0, 8)], order(MIB), &ignore).await;
    assert_eq!(ended, Err(DeviceError::Medium { lba: Some(3 * 2048) }));
    destination.set_paths(false);
    let ended = Mover::new(MoverSettings::default()).zero(&destination, &[(0, 2048)], &ignore).await;
    assert_eq!(ended, Err(DeviceError::PathsDown));
}

#[tokio::test]
async fn unmap_is_sent_if_the_device_supports_it() {
    let (array, disk, _) = volumes().await;
    let name = disk.identity().name.clone();
    let mover = Mover::new(MoverSettings::default());
    let before = array.stored_bytes(&name);
    assert_eq!(mover.unmap(&disk, &[(0, 2048), (4 * 2048, 2048)]).await, Ok(true));
    assert_eq!(before - array.stored_bytes(&name), 2 * MIB);
    array.refuse(&name, Primitive::Delete, true);
    assert_eq!(mover.unmap(&disk, &[(8 * 2048, 2048)]).await, Ok(false), "reported without an error");
}

proptest! {
    #[test]
    fn unmap_commands_respect_the_device_limits(
        runs in proptest::collection::vec((0u64..1 << 40, 1u64..10_000), 0..20),
        most_blocks in 1u64..5000,
        most_ranges in 1usize..8,
    ) {
        let commands = unmap_commands(&runs, most_blocks, most_ranges);
        let blocks = |ranges: &[(u64, u64)]| ranges.iter().map(|(_, blocks)| blocks).sum::<u64>();
        prop_assert!(commands.iter().all(|ranges| blocks(ranges) <= most_blocks && ranges.len() <= most_ranges));
        prop_assert_eq!(commands.iter().map(|ranges| blocks(ranges)).sum::<u64>(), blocks(&runs));
    }
}
