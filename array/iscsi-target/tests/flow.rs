//! Flow control with many commands, range checks, and long transfers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use engine::model::ModelEngine;
use iscsi::Digests;
use iscsi::pdu::{TaskFunction, TaskOutcome};
use iscsi_target::TargetConfig;
use scsi::asc;
use scsi::cdb::{ByteCheck, CdbSize, Command, Transfer, Verification, WriteSame};
use scsi::lba_status::{ProvisioningStatus, parse_lba_status};
use std::sync::Arc;
use support::{ALPHA, Array, BETA, BLOCKS, Ended, Host};
use types::Lba;

const GOOD: Ended = Ended::Good(Bytes::new());

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Sixteen, lba: Lba(lba), blocks, dpo: false, fua: false }
}

/// Returns a block filled with its own address.
fn block(lba: u64) -> Vec<u8> {
    lba.to_be_bytes().repeat(64)
}

#[tokio::test]
async fn reads_above_the_unsent_limit_wait_and_complete() {
    let config = TargetConfig { max_unsent_bytes: 10_000, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut host = array.host(ALPHA).await;
    let all: Vec<u8> = (0..512).flat_map(block).collect();
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 512)), all).await, GOOD);
    let mut reads = Vec::new();
    for index in 0..64 {
        reads.push((index, host.submit(1, &Command::Read(transfer(index * 8, 8)), Bytes::new()).await));
    }
    for (index, read) in reads {
        let expected: Vec<u8> = (index * 8..index * 8 + 8).flat_map(block).collect();
        assert_eq!(host.end_of(read).await.data(), expected, "read {index}");
    }
    // A read larger than the limit runs alone.
    assert_eq!(host.run(1, Command::Read(transfer(0, 512))).await.data().len(), 512 * 512);
}

#[tokio::test]
async fn lun_reset_aborts_waiting_reads() {
    let config = TargetConfig { max_unsent_bytes: 512, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut host = array.host(ALPHA).await;
    array.gate.block_reads();
    let mut reads = Vec::new();
    for _ in 0..3 {
        reads.push(host.submit(1, &Command::Read(transfer(0, 1)), Bytes::new()).await);
    }
    array.gate.wait_blocked(1).await;
    let reset = host.start_function(TaskFunction::LogicalUnitReset, 1, None).await;
    assert!(host.is_pending(reset).await);
    assert_eq!(array.gate.blocked(), 1, "two reads wait for memory");
    array.gate.release();
    assert_eq!(host.outcome_of(reset).await, TaskOutcome::Complete);
    host.drain_attentions().await;
    assert!(reads.into_iter().all(|read| !host.has_ended(read)));
    assert_eq!(host.run(1, Command::Read(transfer(0, 1))).await.data(), vec![0; 512]);
}

#[tokio::test]
async fn ranges_past_the_end_are_refused_and_change_nothing() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    let outside = Ended::Check(scsi::SenseKey::IllegalRequest, asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE);
    let beyond = [transfer(BLOCKS, 1), transfer(BLOCKS - 1, 2), transfer(u64::MAX, 1), transfer(BLOCKS + 1, 0)];
    for place in beyond {
        let data = vec![0xff; place.blocks as usize * 512];
        assert_eq!(host.run(1, Command::Read(place)).await, outside, "{place:?}");
        assert_eq!(host.run_with(1, Command::Write(place), data.clone()).await, outside, "{place:?}");
        assert_eq!(host.run_with(1, Command::OrWrite(place), data).await, outside, "{place:?}");
    }
    assert_eq!(host.run(1, Command::Read(transfer(BLOCKS, 0))).await, GOOD);
    assert_eq!(host.run(1, Command::Read(transfer(BLOCKS - 1, 1))).await.data(), vec![0; 512]);
}

#[tokio::test]
async fn verify_reports_miscompare_offset_across_chunks() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 2048)), block(7).repeat(2048)).await, GOOD);
    let verify =
        |check| Command::Verify(Verification { size: CdbSize::Sixteen, lba: Lba(0), blocks: 2048, dpo: false, check });
    assert_eq!(host.run(1, verify(ByteCheck::Medium)).await, GOOD);
    assert_eq!(host.run_with(1, verify(ByteCheck::CompareSame), block(7)).await, GOOD);
    assert_eq!(host.run_with(1, Command::Write(transfer(2047, 1)), block(8)).await, GOOD);
    let differs = Ended::Check(scsi::SenseKey::Miscompare, asc::MISCOMPARE_DURING_VERIFY_OPERATION);
    assert_eq!(host.run_with(1, verify(ByteCheck::CompareSame), block(7)).await, differs);
    assert_eq!(host.sense.and_then(|sense| sense.information), Some(2047 * 512 + 7));
    assert_eq!(host.run_with(1, verify(ByteCheck::Compare), block(7).repeat(2048)).await, differs);
    assert_eq!(host.sense.and_then(|sense| sense.information), Some(2047 * 512 + 7));
}

#[tokio::test]
async fn write_same_writes_unmaps_and_extends_to_the_end() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    let same = |lba, blocks, unmap, no_data| {
        Command::WriteSame(WriteSame { size: CdbSize::Sixteen, lba: Lba(lba), blocks, unmap, no_data })
    };
    assert_eq!(host.run_with(1, same(BLOCKS - 16, 0, false, false), block(5)).await, GOOD);
    assert_eq!(host.run(1, Command::Read(transfer(BLOCKS - 16, 16))).await.data(), block(5).repeat(16));
    assert_eq!(host.run(1, same(BLOCKS - 16, 8, true, true)).await, GOOD);
    assert_eq!(host.run(1, Command::Read(transfer(BLOCKS - 16, 8))).await.data(), vec![0; 4096]);
    let status = host.run(1, Command::GetLbaStatus { lba: Lba(BLOCKS - 16), allocation: 64 }).await.data();
    let runs = parse_lba_status(&status).expect("runs");
    let found: Vec<_> = runs.iter().map(|run| (run.lba.0, run.blocks, run.status)).collect();
    assert_eq!(found, [(BLOCKS - 16, 8, ProvisioningStatus::Deallocated), (BLOCKS - 8, 8, ProvisioningStatus::Mapped)]);
}

#[tokio::test]
async fn write_longer_than_one_chunk_is_complete() {
    let array = Array::start().await;
    array.change(|draft| draft.resize_volume("shared", 64 << 20, false, 0).map(|_| ())).await;
    let mut host = array.host(ALPHA).await;
    let blocks = 3 * 8192 + 5;
    let data: Vec<u8> = (0..u64::from(blocks)).flat_map(block).collect();
    assert_eq!(host.run_with(1, Command::Write(transfer(3, blocks)), data.clone()).await, GOOD);
    assert_eq!(host.run(1, Command::Read(transfer(3, blocks))).await.data(), data);
    assert_eq!(array.target.totals_of(array.volume("shared")).get(telemetry::CommandClass::Write).commands, 1);
}

#[tokio::test]
async fn abort_acts_while_64_verifies_are_queued() {
    let array = Array::start().await;
    array.change(|draft| draft.resize_volume("shared", 64 << 20, false, 0).map(|_| ())).await;
    let mut host = array.host(ALPHA).await;
    host.drain_attentions().await;
    let range =
        Verification { size: CdbSize::Sixteen, lba: Lba(0), blocks: 32 << 11, dpo: false, check: ByteCheck::Medium };
    let before = array.gate.reads();
    let mut verifies = Vec::new();
    for _ in 0..64 {
        verifies.push(host.queue(1, &Command::Verify(range)));
    }
    // One write to the socket carries the commands and the function.
    let abort = host.start_function(TaskFunction::AbortTaskSet, 1, None).await;
    assert_eq!(host.outcome_of(abort).await, TaskOutcome::Complete);
    let read = array.gate.reads() - before;
    assert!(read < 64 * 32, "all {read} pieces were read before the abort");
    assert!(verifies.into_iter().all(|verify| !host.has_ended(verify)));
    assert_eq!(host.run(1, Command::TestUnitReady).await, GOOD);
}

#[tokio::test]
async fn long_reads_run_off_the_network_threads() {
    let array = Array::start().await;
    let (mut host, mut other) = (array.host(ALPHA).await, array.host(BETA).await);
    // The engine holds the calling thread of each long read. The test has one network thread.
    array.gate.hold_threads_of_long_reads();
    let verify =
        Verification { size: CdbSize::Sixteen, lba: Lba(0), blocks: 2048, dpo: false, check: ByteCheck::Medium };
    let read = host.submit(1, &Command::Read(transfer(0, 2048)), Bytes::new()).await;
    let verified = host.submit(1, &Command::Verify(verify), Bytes::new()).await;
    array.gate.wait_held().await;
    assert_eq!(other.run(1, Command::TestUnitReady).await, GOOD);
    host.ping().await;
    assert!(!host.has_ended(read));
    array.gate.release_threads();
    assert_eq!(host.end_of(read).await.data().len(), 1 << 20);
    assert_eq!(host.end_of(verified).await, GOOD);
}

#[tokio::test]
async fn long_reads_with_data_digests_are_intact() {
    let array = Array::start().await;
    let mut config = Host::config(&array.catalog.target_iqn(), ALPHA, 1);
    config.offer.digests = Digests { header: true, data: true };
    let mut host = Host::login_with(array.address, config).await.expect("a login");
    host.drain_attentions().await;
    let all: Vec<u8> = (0..1025).flat_map(block).collect();
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 1025)), all.clone()).await, GOOD);
    assert_eq!(host.run(1, Command::Read(transfer(0, 1025))).await.data(), all);
    assert_eq!(host.run(1, Command::Read(transfer(0, 8))).await.data(), all[..4096]);
}

#[tokio::test]
async fn hosts_that_do_not_read_share_a_bounded_memory() {
    let config = TargetConfig { wire_bytes: 8 << 20, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let mut host = array.host(BETA).await;
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 2048)), block(7).repeat(2048)).await, GOOD);
    let mut deaf = Vec::new();
    for isid in 1..=8 {
        let mut session = Host::login(array.address, &array.catalog.target_iqn(), ALPHA, isid).await.expect("a login");
        session.drain_attentions().await;
        let mut reads = Vec::new();
        for _ in 0..100 {
            reads.push(session.submit(1, &Command::Read(transfer(0, 2048)), Bytes::new()).await);
        }
        deaf.push((session, reads));
    }
    // Another host is served while 800 answers of 1 MiB are not read.
    for _ in 0..20 {
        assert_eq!(host.run(1, Command::Read(transfer(0, 2048))).await.data().len(), 1 << 20);
    }
    let (_, peak) = array.target.wire_bytes();
    assert!(peak <= (8 << 20) + 9 * (2 << 20) + (1 << 20), "{peak} bytes were held");
    // The answers arrive once they are read.
    for (mut session, reads) in deaf {
        for read in reads {
            assert_eq!(session.end_of(read).await.data().len(), 1 << 20);
        }
    }
}

#[tokio::test]
async fn many_sessions_of_a_host_hold_no_more_memory() {
    const BUDGET: u64 = 8 << 20;
    const SESSIONS: u64 = 60;
    let config = TargetConfig { wire_bytes: BUDGET, ..TargetConfig::default() };
    let array = Array::start_on(Arc::new(ModelEngine::default()), config).await;
    let target = array.catalog.target_iqn();
    let mut host = array.host(BETA).await;
    assert_eq!(host.run_with(1, Command::Write(transfer(0, 2048)), block(7).repeat(2048)).await, GOOD);
    let mut deaf = Vec::new();
    for isid in 1..=SESSIONS {
        let mut session = Host::login(array.address, &target, ALPHA, isid as u8).await.expect("a login");
        session.drain_attentions().await;
        for _ in 0..4 {
            session.submit(1, &Command::Read(transfer(0, 2048)), Bytes::new()).await;
        }
        deaf.push(session);
    }
    for _ in 0..20 {
        assert_eq!(host.run(1, Command::Read(transfer(0, 2048))).await.data().len(), 1 << 20);
    }
    // The minimum of the other host and of the connections, and two sessions beyond their share.
    let (_, peak) = array.target.wire_bytes();
    let bound = BUDGET + (32 << 20) + (SESSIONS + 1) * (64 << 10) + 3 * (2 << 20);
    assert!(peak <= bound, "{peak} bytes were held, more than {bound}");
    // A session of the greedy host executes short commands nevertheless.
    let mut late = Host::login(array.address, &target, ALPHA, 200).await.expect("a login");
    late.drain_attentions().await;
    assert_eq!(late.run(1, Command::Read(transfer(0, 8))).await.data().len(), 4096);
}

#[tokio::test]
async fn flood_of_pings_holds_little_memory() {
    let array = Array::start().await;
    let mut host = array.host(ALPHA).await;
    let mut floods = Vec::new();
    for number in 0..12 {
        let mut flood = Host::login(array.address, "", &format!("iqn.2026-11.org.ibid:nobody{number}"), 1)
            .await
            .expect("a discovery");
        // The answers are not read; the target stops reading before all pings are sent.
        flood.fill_with_pings(8192).await;
        floods.push(flood);
    }
    assert_eq!(host.run(1, Command::TestUnitReady).await, GOOD);
    let (_, peak) = array.target.wire_bytes();
    assert!(peak <= (12 * (64 << 10)) + (1 << 20), "{peak} bytes were held");
}
