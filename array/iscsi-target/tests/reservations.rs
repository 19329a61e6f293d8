//! Reservations over real sessions: conflicts, copies, preemption, and persistence over restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod support;

use bytes::Bytes;
use engine::Service;
use engine::model::ModelEngine;
use iscsi_target::TargetConfig;
use scsi::cdb::{CdbSize, Command, Transfer};
use scsi::copy::{CopyList, Segment, build_copy_list};
use scsi::inquiry::Naa;
use scsi::persistent_reservation::{InAction, OutAction, OutParameters, parse_keys, parse_reservation};
use scsi::{SenseKey, Status, asc};
use std::sync::Arc;
use support::{ALPHA, Array, BETA, Ended, Host};
use types::Lba;

const GOOD: Ended = Ended::Good(Bytes::new());

fn transfer(lba: u64, blocks: u32) -> Transfer {
    Transfer { size: CdbSize::Ten, lba: Lba(lba), blocks, dpo: false, fua: false }
}

fn naa(array: &Array, volume: &str) -> Naa {
    let state = array.catalog.state();
    Naa::from_serial(&state.volume(volume).expect("a volume").serial).expect("a serial number")
}

async fn write(host: &mut Host, lun: u16) -> Ended {
    host.run_with(lun, Command::Write(transfer(0, 1)), vec![1; 512]).await
}

async fn copy(host: &mut Host, source: Naa, destination: Naa) -> Ended {
    let segment = Segment { source: 0, destination: 1, blocks: 1, source_lba: Lba(0), destination_lba: Lba(64) };
    let list = build_copy_list(&CopyList::between(source, destination, vec![segment]));
    // Sent to LUN 2, which is not reserved. Only the source and the destination are checked.
    host.run_with(2, Command::ExtendedCopy { length: list.len() as u32 }, list).await
}

/// Registers alpha and reserves the shared volume with type Write Exclusive.
async fn reserve(alpha: &mut Host, aptpl: bool) {
    assert_eq!(alpha.reserve_out(1, OutAction::Register, 0, 0xa1, aptpl).await, GOOD);
    assert_eq!(alpha.reserve_out(1, OutAction::Reserve, 0xa1, 0, aptpl).await, GOOD);
}

#[tokio::test]
async fn write_exclusive_reservation_blocks_other_writers() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    reserve(&mut alpha, false).await;
    assert_eq!(write(&mut alpha, 1).await, GOOD);
    assert_eq!(write(&mut beta, 1).await, Ended::Conflict);
    assert_eq!(beta.run(1, Command::Read(transfer(0, 1))).await.data(), vec![1; 512]);
    assert_eq!(alpha.reserve_out(1, OutAction::Release, 0xa1, 0, false).await, GOOD);
    assert_eq!(write(&mut beta, 1).await, GOOD);
}

#[tokio::test]
async fn copy_conflicts_only_with_a_reserved_destination() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    reserve(&mut alpha, false).await;
    let (b, shared) = (naa(&array, "b"), naa(&array, "shared"));
    let refused = Ended::Check(SenseKey::CopyAborted, asc::THIRD_PARTY_DEVICE_FAILURE);
    assert_eq!(copy(&mut beta, b, shared).await, refused);
    // Write Exclusive allows other hosts to read.
    assert_eq!(copy(&mut beta, shared, b).await, GOOD);
    assert_eq!(copy(&mut alpha, naa(&array, "a"), shared).await, GOOD);
}

#[tokio::test]
async fn reserve6_blocks_others_until_the_session_ends() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    assert_eq!(alpha.run(1, Command::Reserve { size: CdbSize::Six }).await, GOOD);
    assert_eq!(beta.run(1, Command::Read(transfer(0, 1))).await, Ended::Conflict);
    let refused = Ended::Check(SenseKey::CopyAborted, asc::THIRD_PARTY_DEVICE_FAILURE);
    assert_eq!(copy(&mut beta, naa(&array, "shared"), naa(&array, "b")).await, refused);
    alpha.logout().await;
    assert_eq!(beta.run(1, Command::Read(transfer(0, 1))).await.data().len(), 512);
}

#[tokio::test]
async fn preempt_and_abort_aborts_preempted_commands() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    reserve(&mut alpha, false).await;
    assert_eq!(beta.reserve_out(1, OutAction::Register, 0, 0xb2, false).await, GOOD);
    array.gate.block_changes();
    let stuck = alpha.submit(1, &Command::Write(transfer(8, 1)), vec![0xee; 512]).await;
    array.gate.wait_blocked(1).await;
    let parameters =
        OutParameters { key: 0xb2, service_key: 0xa1, persist: false, all_target_ports: false, initiator_ports: None };
    let kind = Some(scsi::persistent_reservation::ReservationType::WriteExclusive);
    let preempt = Command::PersistentReserveOut { action: OutAction::PreemptAndAbort, kind, length: 24 };
    let preempting = beta.submit(1, &preempt, parameters.to_bytes().to_vec()).await;
    beta.ping().await;
    assert!(!beta.has_ended(preempting), "the outcome of alpha's write is not certain yet");
    array.gate.release();
    assert_eq!(beta.end_of(preempting).await, GOOD);
    assert_eq!(alpha.end_of(stuck).await, Ended::Aborted);
    assert_eq!(alpha.attentions(1).await, [asc::REGISTRATIONS_PREEMPTED.0]);
    assert_eq!(write(&mut alpha, 1).await, Ended::Conflict);
    assert_eq!(write(&mut beta, 1).await, GOOD);
}

#[tokio::test]
async fn only_aptpl_reservations_survive_a_restart() {
    let engine: Arc<dyn Service> = Arc::new(ModelEngine::default());
    for aptpl in [true, false] {
        let array = Array::start_on(engine.clone(), TargetConfig::default()).await;
        let mut alpha = array.host(ALPHA).await;
        if !aptpl {
            assert_eq!(alpha.reserve_out(1, OutAction::Clear, 0xa1, 0, false).await, GOOD);
        }
        reserve(&mut alpha, aptpl).await;
        array.target.shutdown().await;

        let again = Array::start_on(engine.clone(), TargetConfig::default()).await;
        let mut beta = again.host(BETA).await;
        let read = |action| Command::PersistentReserveIn { action, allocation: 1024 };
        let (_, keys) = parse_keys(&beta.run(1, read(InAction::ReadKeys)).await.data()).expect("keys");
        let held = parse_reservation(&beta.run(1, read(InAction::ReadReservation)).await.data());
        assert_eq!((keys.is_empty(), held.is_some()), (!aptpl, aptpl));
        assert_eq!(write(&mut beta, 1).await, if aptpl { Ended::Conflict } else { GOOD });
        again.target.shutdown().await;
    }
}

#[tokio::test]
async fn reservation_is_refused_if_it_cannot_be_stored() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    assert_eq!(alpha.reserve_out(1, OutAction::Register, 0, 0xa1, true).await, GOOD);
    assert_eq!(beta.reserve_out(1, OutAction::Register, 0, 0xb2, true).await, GOOD);
    let read = |action| Command::PersistentReserveIn { action, allocation: 1024 };
    let seen = async |host: &mut Host| {
        let keys = parse_keys(&host.run(1, read(InAction::ReadKeys)).await.data()).expect("keys");
        (keys, parse_reservation(&host.run(1, read(InAction::ReadReservation)).await.data()))
    };
    let before = seen(&mut alpha).await;
    array.gate.set_values_full(true);
    let lacking = |asc| Ended::Check(SenseKey::IllegalRequest, asc);
    let refused = alpha.reserve_out(1, OutAction::Register, 0xa1, 0xa3, true).await;
    assert_eq!(refused, lacking(asc::INSUFFICIENT_REGISTRATION_RESOURCES));
    let refused = alpha.reserve_out(1, OutAction::Reserve, 0xa1, 0, true).await;
    assert_eq!(refused, lacking(asc::INSUFFICIENT_RESERVATION_RESOURCES));
    let refused = alpha.reserve_out(1, OutAction::PreemptAndAbort, 0xa1, 0xb2, true).await;
    assert_eq!(refused, lacking(asc::INSUFFICIENT_RESERVATION_RESOURCES));
    assert_eq!(seen(&mut beta).await, before, "keys, generation and reservation are unchanged");
    assert_eq!(write(&mut beta, 1).await, GOOD);
    assert_eq!(alpha.reserve_out(1, OutAction::Clear, 0xa1, 0, true).await, GOOD, "CLEAR needs no space");
    array.gate.set_values_full(false);
    assert_eq!(beta.attentions(1).await, [asc::RESERVATIONS_PREEMPTED.0]);
    reserve(&mut alpha, true).await;
    assert_eq!(write(&mut beta, 1).await, Ended::Conflict);
}

#[tokio::test]
async fn reservation_holds_once_stored_despite_session_loss() {
    let array = Array::start().await;
    let (mut alpha, mut beta) = (array.host(ALPHA).await, array.host(BETA).await);
    array.gate.block_values();
    let parameters =
        OutParameters { key: 0, service_key: 0xa1, initiator_ports: None, all_target_ports: false, persist: true };
    let register = Command::PersistentReserveOut { action: OutAction::Register, kind: None, length: 24 };
    alpha.submit(1, &register, parameters.to_bytes().to_vec()).await;
    array.gate.wait_blocked(1).await;
    let keys = Command::PersistentReserveIn { action: InAction::ReadKeys, allocation: 1024 };
    let seen = async |host: &mut Host| parse_keys(&host.run(1, keys).await.data()).expect("keys").1;
    assert!(seen(&mut beta).await.is_empty(), "the registration is not stored yet");
    let other = beta.reserve_out(1, OutAction::Register, 0, 0xb2, true).await;
    assert_eq!(other, Ended::Other(Status::Busy), "a change is being stored");
    drop(alpha);
    array.gate.release();
    assert_eq!(seen(&mut beta).await, [0xa1]);
    assert_eq!(beta.reserve_out(1, OutAction::Register, 0, 0xb2, true).await, GOOD);
}
