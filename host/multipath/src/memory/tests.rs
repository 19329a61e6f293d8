use super::*;
use crate::vaai::Support;
use scsi::lba_status::ProvisioningStatus;

const BLOCK: usize = 512;

fn array() -> (MemoryArray, MemoryHostDisk, MemoryHostDisk) {
    let array = MemoryArray::new("iqn.2026-11.test:memory");
    let name = array.create(1 << 20);
    let (one, two) = (array.open(&name, "one").unwrap(), array.open(&name, "two").unwrap());
    (array, one, two)
}

fn block(byte: u8, blocks: usize) -> Bytes {
    vec![byte; BLOCK * blocks].into()
}

#[tokio::test]
async fn write_by_one_host_is_read_by_another() {
    let (array, one, two) = array();
    one.write(7, block(3, 20)).await.unwrap();
    assert_eq!(two.read(6, 22).await.unwrap(), [block(0, 1), block(3, 20), block(0, 1)].concat());
    two.write_same(9, 3, block(0, 1)).await.unwrap();
    two.write_same(100, 2, block(5, 1)).await.unwrap();
    assert_eq!(one.read(8, 5).await.unwrap(), [block(3, 1), block(0, 3), block(3, 1)].concat());
    assert_eq!(one.read(100, 3).await.unwrap(), [block(5, 2), block(0, 1)].concat());
    one.unmap(vec![(0, 1 << 20)]).await.unwrap();
    assert_eq!(array.stored_bytes(&one.identity.name), 0);
}

#[tokio::test]
async fn ats_writes_only_on_a_match() {
    let (_, one, two) = array();
    assert_eq!(one.compare_and_write(0, block(0, 1), block(1, 1)).await, Ok(AtsOutcome::Written));
    assert_eq!(two.compare_and_write(0, block(0, 1), block(2, 1)).await, Ok(AtsOutcome::Miscompare { offset: 0 }));
    assert_eq!(two.read(0, 1).await.unwrap(), block(1, 1));
    let (numbers, other) = (one.counters(), two.counters());
    assert_eq!((numbers.ats.done, numbers.ats.failed, other.ats.done, other.ats.failed), (1, 0, 0, 1));
    // A miscompare proves that the device supports the command.
    assert_eq!(two.vaai().ats.support, Support::Supported);
}

#[tokio::test]
async fn copy_within_an_array_counts_at_both_ends() {
    let (array, _, _) = array();
    let statistics = Statistics::default();
    let (source, target) = (array.create(64), array.create(64));
    let source = array.open_with(&source, "one", &statistics).unwrap();
    let target = array.open_with(&target, "one", &statistics).unwrap();
    source.write(0, block(9, 8)).await.unwrap();
    source.copy(&target, vec![CopyRun { source: 0, destination: 20, blocks: 8 }]).await.unwrap();
    assert_eq!(target.read(20, 8).await.unwrap(), block(9, 8));
    assert_eq!((source.counters().clone_read.bytes, target.counters().clone_write.bytes), (4096, 4096));
    let foreign = MemoryArray::new("iqn.2026-11.test:other");
    let foreign = foreign.open(&foreign.create(64), "one").unwrap();
    let error = source.copy(&foreign, vec![]).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
    assert_eq!(source.vaai().clone.support, Support::Supported);
}

#[tokio::test]
async fn refused_offload_is_not_sent_again() {
    let (array, one, _) = array();
    array.refuse(&one.identity.name, Primitive::Zero, true);
    for _ in 0..3 {
        assert_eq!(one.write_same(0, 8, block(0, 1)).await, Err(DeviceError::Unsupported(Primitive::Zero)));
    }
    assert_eq!((one.vaai().zero.support, one.counters().zero.failed), (Support::Unsupported, 1));
    one.enable(Primitive::Delete, false);
    assert_eq!(one.unmap(vec![(0, 8)]).await, Err(DeviceError::Unsupported(Primitive::Delete)));
    assert_eq!((one.vaai().delete.support, one.counters().delete.failed), (Support::Unknown, 0));
}

#[tokio::test]
async fn reservation_lasts_until_release_reset_or_crash() {
    let (_, one, two) = array();
    one.reserve().await.unwrap();
    assert_eq!(two.read(0, 1).await, Err(DeviceError::ReservationConflict));
    two.release().await.unwrap();
    assert_eq!(two.write(0, block(1, 1)).await, Err(DeviceError::ReservationConflict));
    one.release().await.unwrap();
    two.write(0, block(1, 1)).await.unwrap();
    one.reserve().await.unwrap();
    two.reset().await.unwrap();
    two.reserve().await.unwrap();
    two.crash();
    one.read(0, 1).await.unwrap();
    assert_eq!(two.read(0, 1).await, Err(DeviceError::PathsDown));
    assert_eq!((one.counters().reservations, two.counters().conflicts), (2, 2));
}

#[tokio::test]
async fn lba_status_starts_at_the_requested_block() {
    let (_, one, _) = array();
    one.write(16, block(1, 16)).await.unwrap();
    let extent = |lba, blocks, provisioning| ProvisioningExtent { lba, blocks, provisioning };
    let rest = (1 << 20) - 32;
    let found = one.get_lba_status(4).await.unwrap();
    let expected = [
        extent(4, 12, ProvisioningStatus::Deallocated),
        extent(16, 16, ProvisioningStatus::Mapped),
        extent(32, rest, ProvisioningStatus::Deallocated),
    ];
    assert_eq!(found, expected);
    assert_eq!(one.get_lba_status(20).await.unwrap()[0], extent(20, 12, ProvisioningStatus::Mapped));
    assert_eq!(one.get_lba_status(1 << 20).await, Err(DeviceError::OutOfRange { lba: 1 << 20 }));
}

/// Delays writes and loses the responses of ATS.
struct Trouble;

impl FaultHook for Trouble {
    fn inject(&self, host: &str, _: &str, operation: &Operation) -> Injection {
        match (host, operation) {
            ("one", Operation::Write(..)) => Injection { before: Duration::from_secs(9), ..Injection::default() },
            (_, Operation::CompareAndWrite(..)) => {
                Injection { outcome: InjectedOutcome::AnswerLost(DeviceError::TimedOut), ..Injection::default() }
            }
            (_, Operation::Unmap(_)) => {
                Injection { outcome: InjectedOutcome::Failed(DeviceError::OutOfSpace), ..Injection::default() }
            }
            _ => Injection::default(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_hook_delays_fails_and_loses_commands() {
    let (array, one, two) = array();
    array.set_hook(Some(Arc::new(Trouble)));
    let (late, early) = tokio::join!(one.write(0, block(1, 1)), two.write(0, block(2, 1)));
    assert_eq!((late, early), (Ok(()), Ok(())));
    assert_eq!(two.read(0, 1).await.unwrap(), block(1, 1));
    assert_eq!(two.compare_and_write(0, block(1, 1), block(4, 1)).await, Err(DeviceError::TimedOut));
    assert_eq!(two.read(0, 1).await.unwrap(), block(4, 1));
    assert_eq!(two.unmap(vec![(0, 1)]).await, Err(DeviceError::OutOfSpace));
    array.set_bad(&one.identity.name, 5, 2);
    assert_eq!(one.read(0, 8).await, Err(DeviceError::Medium { lba: Some(5) }));
}

#[tokio::test(start_paused = true)]
async fn crashed_host_gets_paths_down() {
    let (array, one, two) = array();
    array.set_hook(Some(Arc::new(Trouble)));
    let (write, ()) = tokio::join!(one.write(0, block(1, 1)), async { one.crash() });
    assert_eq!(write, Err(DeviceError::PathsDown));
    assert_eq!(two.read(0, 1).await.unwrap(), block(0, 1));
}

#[tokio::test]
async fn invalid_lengths_and_addresses_fail() {
    let (_, one, _) = array();
    assert_eq!(one.write(0, Bytes::from_static(&[0; 100])).await, Err(DeviceError::Length(100)));
    assert_eq!(one.write((1 << 20) - 1, block(1, 2)).await, Err(DeviceError::OutOfRange { lba: 1 << 20 }));
    assert_eq!(one.read(u64::MAX, 2).await, Err(DeviceError::OutOfRange { lba: u64::MAX }));
    assert_eq!(one.write_same(0, 1, block(1, 2)).await, Err(DeviceError::Length(1024)));
    let pair = (block(0, 1), block(0, 2));
    assert_eq!(one.compare_and_write(0, pair.0, pair.1).await, Err(DeviceError::Length(512)));
}
