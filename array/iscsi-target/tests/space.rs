//! Thin provisioning as hosts see it: a full pool, soft thresholds, and reported resources.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use catalog::{ArrayEdit, VolumeEdit};
use engine::model::ModelEngine;
use iscsi_target::TargetConfig;
use scsi::asc;
use scsi::cdb::{ByteCheck, CdbSize, Command, LogSense, ModeSense, PageControl, Transfer, Verification, WriteSame};
use scsi::copy::{CopyList, build_copy_list, segments_of};
use scsi::inquiry::Naa;
use scsi::mode::find_page;
use scsi::provisioning::Resource;
use scsi::unmap::build_unmap;
use scsi::{Sense, SenseKey};
use std::sync::Arc;
use std::time::Duration;
use support::{ALPHA, Array, BETA, BLOCKS, Ended, Host};
use types::{BlockRange, Lba};

const GOOD: Ended = Ended::Good(Bytes::new());
const FULL: Ended = Ended::Check(SenseKey::DataProtect, asc::SPACE_ALLOCATION_FAILED_WRITE_PROTECT);

async fn start() -> Array {
    let config = TargetConfig { space_poll: Duration::from_millis(1), ..TargetConfig::default() };
    Array::start_on(Arc::new(ModelEngine::default()), config).await
}

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Sixteen, lba: Lba(lba), blocks, dpo: false, fua: false }
}

fn same(blocks: u32, unmap: bool) -> Command {
    Command::WriteSame(WriteSame { size: CdbSize::Sixteen, lba: Lba(0), blocks, unmap, no_data: false })
}

fn naa(array: &Array, volume: &str) -> Naa {
    let serial = array.catalog.state().volume(volume).expect("a volume").serial.clone();
    Naa::from_serial(&serial).expect("a serial number")
}

/// Returns every command that allocates space, with its data.
fn allocating_commands(array: &Array) -> Vec<(Command, Vec<u8>)> {
    let verification =
        Verification { size: CdbSize::Sixteen, lba: Lba(0), blocks: 8, dpo: false, check: ByteCheck::Compare };
    let segments = [segments_of(Lba(0), Lba(8), 8), segments_of(Lba(8), Lba(0), 8)].concat();
    let copy = build_copy_list(&CopyList::between(naa(array, "shared"), naa(array, "a"), segments));
    vec![
        (Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua: false }, vec![0; 1024]),
        (Command::Write(transfer(0, 8)), vec![1; 4096]),
        // Longer than one chunk of a WRITE.
        (Command::Write(transfer(0, 12_000)), vec![1; 12_000 * 512]),
        (Command::OrWrite(transfer(0, 8)), vec![1; 4096]),
        (Command::WriteAndVerify(verification), vec![1; 4096]),
        (Command::WriteAtomic { lba: Lba(0), blocks: 8, dpo: false, fua: false }, vec![1; 4096]),
        (same(8, false), vec![1; 512]),
        (Command::ExtendedCopy { length: copy.len() as u32 }, copy),
    ]
}

#[tokio::test]
async fn full_pool_refuses_allocations_and_recovers() {
    let array = start().await;
    array.change(|draft| draft.resize_volume("shared", 8 << 20, false, 0).map(|_| ())).await;
    let mut host = array.host(ALPHA).await;
    array.gate.set_full(true);
    for (command, data) in allocating_commands(&array) {
        assert_eq!(host.run_with(1, command, data).await, FULL, "{command:?}");
    }
    let everything = build_unmap(&[BlockRange::new(Lba(0), BLOCKS).expect("a range")]);
    let freeing_commands = [
        (Command::Unmap { length: everything.len() as u16 }, everything),
        (same(8, true), vec![1; 512]),
        (same(8, false), vec![0; 512]),
    ];
    for (command, data) in freeing_commands {
        assert_eq!(host.run_with(1, command, data).await, GOOD, "{command:?}");
    }
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await.data(), vec![0; 4096]);
    array.gate.set_full(false);
    for (command, data) in allocating_commands(&array) {
        assert_eq!(host.run_with(1, command, data).await, GOOD, "{command:?}");
    }
}

/// Returns the next unit attention on LUN 1.
async fn next_attention(host: &mut Host) -> Sense {
    loop {
        if let Ended::Check(SenseKey::UnitAttention, _) = host.run(1, Command::TestUnitReady).await {
            return host.sense.expect("sense data");
        }
    }
}

async fn set_thresholds(array: &Array, pool: Option<u8>, volume: Option<u8>) {
    array
        .change(move |draft| {
            draft.edit_array_settings(&ArrayEdit { threshold_percent: Some(pool), ..ArrayEdit::default() })?;
            draft.edit_volume("shared", &VolumeEdit { threshold_percent: Some(volume), ..VolumeEdit::default() })?;
            Ok(())
        })
        .await;
}

#[tokio::test]
async fn pool_threshold_is_reported_once_per_crossing() {
    let array = start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    array.gate.set_used_percent(79);
    set_thresholds(&array, Some(80), None).await;
    for host in [&mut alpha, &mut beta] {
        assert_eq!(next_attention(host).await.asc, asc::MODE_PARAMETERS_CHANGED);
    }
    for percent in [80, 90] {
        array.gate.set_used_percent(percent);
        for host in [&mut alpha, &mut beta] {
            assert_eq!(next_attention(host).await, Resource::Available.threshold_reached());
        }
        array.gate.set_used_percent(100);
        array.gate.wait_checked().await;
        assert!(alpha.attentions(1).await.is_empty(), "the crossing was reported before");
        array.gate.set_used_percent(70);
        array.gate.wait_checked().await;
    }
}

#[tokio::test]
async fn late_nexus_is_notified_of_reached_thresholds() {
    let array = start().await;
    let mut alpha = array.host(ALPHA).await;
    array.gate.set_used_percent(95);
    set_thresholds(&array, Some(90), None).await;
    alpha.drain_attentions().await;
    let mut beta = Host::login(array.address, &array.catalog.target_iqn(), BETA, 1).await.expect("a login");
    assert_eq!(beta.attentions(1).await[..2], [0x2900, 0x3807]);
}

#[tokio::test]
async fn volume_threshold_is_reported_to_its_hosts() {
    let array = start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    set_thresholds(&array, None, Some(50)).await;
    for host in [&mut alpha, &mut beta] {
        assert_eq!(next_attention(host).await.asc, asc::MODE_PARAMETERS_CHANGED);
    }
    assert_eq!(alpha.run_with(1, Command::Write(transfer(0, 1024)), vec![1; 512 << 10]).await, GOOD);
    for host in [&mut alpha, &mut beta] {
        assert_eq!(next_attention(host).await, Resource::Used.threshold_reached());
        assert!(host.attentions(2).await.is_empty(), "the threshold belongs to another volume");
    }
}

#[tokio::test]
async fn thresholds_and_resources_are_readable_by_hosts() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    array.gate.set_used_percent(60);
    set_thresholds(&array, Some(80), Some(100)).await;
    assert_eq!(next_attention(&mut host).await.asc, asc::MODE_PARAMETERS_CHANGED);
    let sense = ModeSense {
        size: CdbSize::Ten,
        no_block_descriptors: true,
        long_lba: false,
        control: PageControl::Current,
        page: 0x1c,
        subpage: 0x02,
        allocation: 255,
    };
    let data = host.run(1, Command::ModeSense(sense)).await.data();
    let page = find_page(&data, CdbSize::Ten, 0x1c | 0x40).expect("the page");
    // The pool threshold is at 20 GiB free, the volume threshold at 1 MiB used, both in MiB.
    assert_eq!(page[16..], [0x80, 1, 0, 0, 0, 0, 0x50, 0, 0x81, 2, 0, 0, 0, 0, 0, 1]);
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 1)), vec![1; 512]).await, GOOD);
    let log = Command::LogSense(LogSense { page: 0x0c, subpage: 0, pointer: 0, allocation: 255 });
    let data = host.run(1, log).await.data();
    // The pool has 40 GiB free. The volume has mapped less than 1 MiB, rounded up.
    assert_eq!(data[4..], [0, 1, 3, 8, 0, 0, 0xa0, 0, 2, 0, 0, 0, 0, 2, 3, 8, 0, 0, 0, 1, 1, 0, 0, 0]);
}
