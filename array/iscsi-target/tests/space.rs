//! Thin provisioning as hosts see it: a full pool refuses what takes space and nothing else, thresholds are told once,
//! and what is there can be asked for.

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

/// Every command that takes space, with its data.
fn takers(array: &Array) -> Vec<(Command, Vec<u8>)> {
    let verification =
        Verification { size: CdbSize::Sixteen, lba: Lba(0), blocks: 8, dpo: false, check: ByteCheck::Compare };
    let segments = [segments_of(Lba(0), Lba(8), 8), segments_of(Lba(8), Lba(0), 8)].concat();
    let copy = build_copy_list(&CopyList::between(naa(array, "shared"), naa(array, "a"), segments));
    vec![
        (Command::CompareAndWrite { lba: Lba(0), blocks: 1, dpo: false, fua: false }, vec![0; 1024]),
        (Command::Write(transfer(0, 8)), vec![1; 4096]),
        // Longer than one piece of the engine's.
        (Command::Write(transfer(0, 12_000)), vec![1; 12_000 * 512]),
        (Command::OrWrite(transfer(0, 8)), vec![1; 4096]),
        (Command::WriteAndVerify(verification), vec![1; 4096]),
        (Command::WriteAtomic { lba: Lba(0), blocks: 8, dpo: false, fua: false }, vec![1; 4096]),
        (same(8, false), vec![1; 512]),
        (Command::ExtendedCopy { length: copy.len() as u32 }, copy),
    ]
}

#[tokio::test]
async fn a_full_pool_refuses_what_takes_space_and_goes_on_by_itself() {
    let array = start().await;
    array.change(|draft| draft.resize_volume("shared", 8 << 20, false, 0).map(|_| ())).await;
    let mut host = array.host(ALPHA).await;
    array.gate.set_full(true);
    for (command, data) in takers(&array) {
        assert_eq!(host.run_with(1, command, data).await, FULL, "{command:?}");
    }
    let everything = build_unmap(&[BlockRange::new(Lba(0), BLOCKS).expect("a range")]);
    let givers = [
        (Command::Unmap { length: everything.len() as u16 }, everything),
        (same(8, true), vec![1; 512]),
        (same(8, false), vec![0; 512]),
    ];
    for (command, data) in givers {
        assert_eq!(host.run_with(1, command, data).await, GOOD, "{command:?}");
    }
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await.data(), vec![0; 4096]);
    array.gate.set_full(false);
    for (command, data) in takers(&array) {
        assert_eq!(host.run_with(1, command, data).await, GOOD, "{command:?}");
    }
}

/// What the next command on LUN 1 is told.
async fn next_news(host: &mut Host) -> Sense {
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
async fn a_pool_that_fills_is_told_once_to_every_nexus_and_again_when_it_has_emptied_between() {
    let array = start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    array.gate.use_percent(79);
    set_thresholds(&array, Some(80), None).await;
    for host in [&mut alpha, &mut beta] {
        assert_eq!(next_news(host).await.asc, asc::MODE_PARAMETERS_CHANGED);
    }
    for percent in [80, 90] {
        array.gate.use_percent(percent);
        for host in [&mut alpha, &mut beta] {
            assert_eq!(next_news(host).await, Resource::Available.threshold_reached());
        }
        array.gate.use_percent(100);
        array.gate.looked_at().await;
        assert!(alpha.news(1).await.is_empty(), "it was told before");
        array.gate.use_percent(70);
        array.gate.looked_at().await;
    }
}

#[tokio::test]
async fn a_nexus_that_comes_late_is_told_what_the_others_know() {
    let array = start().await;
    let mut alpha = array.host(ALPHA).await;
    array.gate.use_percent(95);
    set_thresholds(&array, Some(90), None).await;
    alpha.hear_news().await;
    let mut beta = Host::login(array.address, &array.catalog.target_iqn(), BETA, 1).await.expect("a login");
    assert_eq!(beta.news(1).await[..2], [0x2900, 0x3807]);
}

#[tokio::test]
async fn a_volume_that_fills_is_told_to_those_who_see_it() {
    let array = start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    set_thresholds(&array, None, Some(50)).await;
    for host in [&mut alpha, &mut beta] {
        assert_eq!(next_news(host).await.asc, asc::MODE_PARAMETERS_CHANGED);
    }
    assert_eq!(alpha.run_with(1, Command::Write(transfer(0, 1024)), vec![1; 512 << 10]).await, GOOD);
    for host in [&mut alpha, &mut beta] {
        assert_eq!(next_news(host).await, Resource::Used.threshold_reached());
        assert!(host.news(2).await.is_empty(), "of another volume");
    }
}

#[tokio::test]
async fn thresholds_and_resources_can_be_asked_for() {
    let array = start().await;
    let mut host = array.host(ALPHA).await;
    array.gate.use_percent(60);
    set_thresholds(&array, Some(80), Some(100)).await;
    assert_eq!(next_news(&mut host).await.asc, asc::MODE_PARAMETERS_CHANGED);
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
    // 20 of 100 GiB left, in MiB; and all of the volume's 1 MiB.
    assert_eq!(page[16..], [0x80, 1, 0, 0, 0, 0, 0x50, 0, 0x81, 2, 0, 0, 0, 0, 0, 1]);
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 1)), vec![1; 512]).await, GOOD);
    let log = Command::LogSense(LogSense { page: 0x0c, subpage: 0, pointer: 0, allocation: 255 });
    let data = host.run(1, log).await.data();
    // 40 GiB left for all, and a part of a MiB mapped here.
    assert_eq!(data[4..], [0, 1, 3, 8, 0, 0, 0xa0, 0, 2, 0, 0, 0, 0, 2, 3, 8, 0, 0, 0, 1, 1, 0, 0, 0]);
}
