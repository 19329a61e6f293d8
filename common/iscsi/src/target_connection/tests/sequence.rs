//! Tests of faults in sequences, digests and budgets.

use super::*;
use crate::{
    data_digests::{DataDigests, DataDivision},
    digest::Digests,
    pdu::{BHS_LEN, DecodeError, Encode},
};
use bytes::Buf;

#[test]
fn commands_outside_the_window_are_ignored() {
    let mut peer = Peer::new(small(), ConnectionLimits { command_window: 4, ..ConnectionLimits::default() });
    for cmd_sn in [0, 5, 1000, u32::MAX] {
        assert!(peer.send(&command(cmd_sn, cmd_sn)).is_empty());
        assert!(peer.replies().is_empty());
    }
    let ready = one_command(peer.send(&command(7, 1)));
    peer.target.complete(ready.id, CommandCompletion::good());
    assert_eq!(response(peer.reply()).sn.exp_cmd_sn, 2);
}

#[test]
fn early_commands_are_held_and_duplicates_ignored() {
    let mut peer = peer();
    assert!(peer.send(&command(3, 3)).is_empty());
    assert!(peer.send(&command(2, 2)).is_empty());
    assert!(peer.send(&command(33, 3)).is_empty());
    let order: Vec<u32> = peer
        .send(&command(1, 1))
        .into_iter()
        .map(|event| match event {
            Event::Command(command) => command.initiator_task_tag,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn early_write_collects_data_before_delivery() {
    let mut peer = Peer::new(Parameters { initial_r2t: false, ..small() }, ConnectionLimits::default());
    let opening = ScsiCommand { final_: false, ..write(2, 2, 600, &pattern(100)) };
    assert!(peer.send(&opening).is_empty());
    assert!(peer.send(&data_out(2, NO_TAG, 0, 100, &pattern(600)[100..], true)).is_empty());
    let events = peer.send(&command(1, 1));
    assert_eq!(events.len(), 2);
    let Event::Command(late) = &events[1] else { panic!("{events:?}") };
    assert_eq!(late.data, pattern(600));
}

#[test]
fn outstanding_commands_close_the_window() {
    let mut peer = Peer::new(small(), ConnectionLimits { command_window: 2, ..ConnectionLimits::default() });
    let first = one_command(peer.send(&command(1, 1)));
    one_command(peer.send(&command(2, 2)));
    assert!(peer.send(&command(3, 3)).is_empty(), "beyond MaxCmdSN");
    peer.target.complete(first.id, CommandCompletion::good());
    assert_eq!(response(peer.reply()).sn, TargetSn { stat_sn: 100, exp_cmd_sn: 3, max_cmd_sn: 3 });
    one_command(peer.send(&command(3, 3)));
}

#[test]
fn immediate_commands_bypass_the_window_to_a_limit() {
    let mut peer = Peer::new(
        small(),
        ConnectionLimits { command_window: 1, immediate_requests: 2, ..ConnectionLimits::default() },
    );
    one_command(peer.send(&command(1, 1)));
    let immediate = |tag| ScsiCommand { immediate: true, ..command(tag, 2) };
    let first = one_command(peer.send(&immediate(2)));
    one_command(peer.send(&immediate(3)));
    assert!(peer.send(&immediate(4)).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::TooManyImmediateCommands);
    peer.target.complete(first.id, CommandCompletion::good());
    assert_eq!(response(peer.reply()).sn.exp_cmd_sn, 2, "immediate commands consume no CmdSN");
    one_command(peer.send(&immediate(5)));
}

#[test]
fn duplicate_tag_is_rejected_without_its_cmd_sn() {
    let mut peer = peer();
    one_command(peer.send(&command(1, 1)));
    assert!(peer.send(&command(1, 2)).is_empty());
    let Pdu::Reject(reject) = peer.reply() else { panic!("no reject") };
    assert_eq!((reject.reason, reject.sn.exp_cmd_sn), (RejectReason::TaskInProgress, 2));
    assert_eq!(reject.header, Frame::of(&command(1, 2)).bhs[..]);
    one_command(peer.send(&command(9, 2)));
}

/// Sends a write of two segments with these DataSNs; returns the sense key, ASC and ASCQ.
fn write_with_data_sns(first: u32, second: u32) -> (u8, u8, u8) {
    let mut peer = peer();
    assert!(peer.send(&write(5, 1, 1024, &[])).is_empty());
    let tag = r2t(&peer.reply()).target_transfer_tag;
    assert!(peer.send(&data_out(5, tag, first, 0, &pattern(512), false)).is_empty());
    assert!(peer.replies().is_empty(), "the response follows the end of the sequence");
    assert!(peer.send(&data_out(5, tag, second, 512, &pattern(512), true)).is_empty());
    let answer = response(peer.reply());
    assert_eq!((answer.status, answer.residual), (2, Residual::Underflow(1024)));
    assert_eq!(peer.target.outstanding(), 0);
    (answer.sense[2], answer.sense[12], answer.sense[13])
}

/// Sequence of libiscsi test iSCSIdatasn.iSCSIDataSnInvalid; sense data of RFC 7143 11.4.7.2.
#[test]
fn wrong_data_sn_fails_the_command() {
    for (first, second) in [(0, 0), (27, 27), (u32::MAX, u32::MAX), (1, 0)] {
        assert_eq!(write_with_data_sns(first, second), (0x0b, 0x47, 0x05));
    }
}

#[test]
fn unrequested_data_is_dropped() {
    let mut peer = peer();
    assert!(peer.send(&data_out(99, NO_TAG, 0, 0, b"lost", true)).is_empty());
    assert!(peer.send(&write(5, 1, 1024, &[])).is_empty());
    let tag = r2t(&peer.reply()).target_transfer_tag;
    assert!(peer.send(&data_out(5, tag + 1, 0, 0, &pattern(1024), true)).is_empty());
    assert!(peer.replies().is_empty());
    assert_eq!(one_command(peer.send(&data_out(5, tag, 0, 0, &pattern(1024), true))).data, pattern(1024));
}

#[test]
fn disallowed_immediate_data_fails_the_command() {
    let mut strict = Peer::new(Parameters { immediate_data: false, ..small() }, ConnectionLimits::default());
    assert!(strict.send(&write(5, 1, 512, &pattern(512))).is_empty());
    let answer = response(strict.reply());
    assert_eq!((answer.sense[12], answer.sense[13]), (0x0c, 0x0c));
    let mut short = peer();
    assert!(short.send(&write(5, 1, 4000, &pattern(1025))).is_empty());
    let answer = response(short.reply());
    assert_eq!((answer.sense[12], answer.sense[13]), (0x0c, 0x0d));
}

#[test]
fn invalid_commands_are_rejected() {
    let cases = [
        (ScsiCommand { initiator_task_tag: NO_TAG, ..command(0, 1) }, RejectReason::InvalidPduField),
        (ScsiCommand { data: pattern(4).into(), ..command(5, 1) }, RejectReason::InvalidPduField),
        (ScsiCommand { final_: false, ..write(5, 1, 512, &[]) }, RejectReason::ProtocolError),
    ];
    for (bad, reason) in cases {
        let mut peer = peer();
        assert!(peer.send(&bad).is_empty());
        assert_eq!(reject_reason(peer.reply()), reason);
        one_command(peer.send(&command(6, 1)));
    }
}

#[test]
fn writes_beyond_the_budget_wait_for_their_r2t() {
    let limits = ConnectionLimits { write_budget: 3000, ..ConnectionLimits::default() };
    let mut peer = Peer::new(small(), limits);
    assert!(peer.send(&write(1, 1, 2000, &[])).is_empty());
    let tag = r2t(&peer.reply()).target_transfer_tag;
    assert!(peer.send(&write(2, 2, 2000, &[])).is_empty());
    assert!(peer.send(&write(3, 3, 500, &[])).is_empty());
    assert!(peer.replies().is_empty(), "the third write waits behind the second");
    let ready = one_command(peer.send(&data_out(1, tag, 0, 0, &pattern(2000), true)));
    assert!(peer.replies().is_empty(), "the delivered command still holds its budget");
    peer.target.complete(ready.id, CommandCompletion::good());
    let replies = peer.replies();
    assert_eq!(replies.len(), 3);
    assert_eq!(r2t(&replies[1]).initiator_task_tag, 2);
    assert_eq!(r2t(&replies[2]).initiator_task_tag, 3);
}

/// Such a write needs no R2T, so it must not wait for the budget.
#[test]
fn unsolicited_write_does_not_wait_for_budget() {
    let limits = ConnectionLimits { write_budget: 2000, ..ConnectionLimits::default() };
    let mut peer = Peer::new(Parameters { initial_r2t: false, ..small() }, limits);
    assert!(peer.send(&write(1, 1, 2000, &[])).is_empty());
    let tag = r2t(&peer.reply()).target_transfer_tag;
    assert!(peer.send(&ScsiCommand { final_: false, ..write(2, 2, 600, &[]) }).is_empty());
    let small = one_command(peer.send(&data_out(2, NO_TAG, 0, 0, &pattern(600), true)));
    let large = one_command(peer.send(&data_out(1, tag, 0, 0, &pattern(2000), true)));
    assert_eq!((small.data.len(), large.data.len()), (600, 2000));
    peer.target.complete(large.id, CommandCompletion::good());
    peer.target.complete(small.id, CommandCompletion::good());
    assert_eq!(peer.replies().into_iter().map(|pdu| response(pdu).status).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn write_data_is_collected_up_to_the_limit() {
    let limits = ConnectionLimits { max_write_bytes: 1500, ..ConnectionLimits::default() };
    let mut peer = Peer::new(small(), limits);
    assert!(peer.send(&write(1, 1, 1 << 30, &[])).is_empty());
    let asked = peer.reply();
    assert_eq!(r2t(&asked).desired_length, 1500);
    let tag = r2t(&asked).target_transfer_tag;
    let ready = one_command(peer.send(&data_out(1, tag, 0, 0, &pattern(1500), true)));
    assert_eq!((ready.expected_write, ready.data.len()), (1 << 30, 1500));
    peer.target.complete(ready.id, CommandCompletion::good().wanting(512));
    assert_eq!(response(peer.reply()).residual, Residual::Underflow((1 << 30) - 512));
}

fn with_digests() -> Peer {
    Peer::new(Parameters { digests: Digests { header: true, data: true }, ..small() }, ConnectionLimits::default())
}

/// Returns the bytes of a PDU with one data bit flipped.
fn corrupted(pdu: &impl Encode) -> Vec<u8> {
    let mut output = Output::new(Digests { header: true, data: true });
    output.push(pdu);
    let mut bytes = output.take_all().concat();
    bytes[BHS_LEN + 4] ^= 0x10;
    bytes
}

#[test]
fn wrong_header_digest_closes_the_connection() {
    let mut peer = with_digests();
    let events = peer.send_bytes(&[0u8; BHS_LEN + 4]);
    assert!(matches!(events[..], [Event::Close(CloseReason::Stream(DecodeError::HeaderDigest))]));
    assert!(peer.send(&command(1, 1)).is_empty(), "no PDU is processed after the close");
}

#[test]
fn command_with_wrong_data_digest_may_be_resent() {
    let mut peer = with_digests();
    let command = write(5, 1, 512, &pattern(512));
    assert!(peer.send_bytes(&corrupted(&command)).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::DataDigestError);
    assert_eq!(one_command(peer.send(&command)).data, pattern(512));
}

#[test]
fn data_with_wrong_digest_fails_its_command() {
    let mut peer = with_digests();
    assert!(peer.send(&write(5, 1, 1024, &[])).is_empty());
    let tag = r2t(&peer.reply()).target_transfer_tag;
    assert!(peer.send_bytes(&corrupted(&data_out(5, tag, 0, 0, &pattern(512), false))).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::DataDigestError);
    assert!(peer.send(&data_out(5, tag, 1, 512, &pattern(512), true)).is_empty());
    let answer = response(peer.reply());
    assert_eq!((answer.status, answer.sense[12], answer.sense[13]), (2, 0x47, 0x05));
}

#[test]
fn digests_computed_before_are_sent() {
    let answer = |digests: fn(DataDivision) -> Option<DataDigests>| {
        let mut peer = with_digests();
        let ready = one_command(peer.send(&read(5, 1, 3001)));
        let division = peer.target.digested_division().expect("data digests");
        let completion = CommandCompletion { digests: digests(division), ..CommandCompletion::read(pattern(3001)) };
        peer.target.complete(ready.id, completion);
        peer.target.output().take_all().concat()
    };
    let computed = answer(|_| None);
    assert_eq!(answer(|division| Some(division.digests(&pattern(3001)))), computed);
    assert_ne!(answer(|division| Some(division.digests(&[1; 3001]))), computed, "not computed again");
    assert_eq!(answer(|division| Some(division.digests(&[1; 3000]))), computed, "digests of other data");
    assert_eq!(peer().target.digested_division(), None);
}

#[test]
fn oversized_data_segment_closes_the_connection() {
    let mut peer = peer();
    let events = peer.send(&write(5, 1, 8192, &pattern(4097)));
    let [Event::Close(CloseReason::Stream(error))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*error, DecodeError::DataSegmentTooLong { length: 4097, limit: 4096 });
}

#[test]
fn one_echo_waits_while_output_is_not_sent() {
    let mut peer = peer();
    let mut wire = BytesMut::new();
    for tag in 1..=3 {
        let nop =
            NopOut { immediate: true, initiator_task_tag: tag, data: Bytes::from(vec![7; 1024]), ..NopOut::default() };
        let mut output = Output::default();
        output.push(&nop);
        wire.extend_from_slice(&output.take_all().concat());
    }
    let (rest, mut events) = (wire.len(), Vec::new());
    for answered in 1..=3 {
        peer.target.receive_some(&mut wire, 64, &mut events);
        assert!(peer.target.is_echo_waiting());
        assert_eq!(wire.len(), rest / 3 * (3 - answered), "one request is processed");
        assert_eq!(peer.target.output().len(), 48 + 1024, "one answer waits");
        let left = peer.target.output().len();
        peer.target.output().advance(left);
    }
    assert!(events.is_empty());
}

#[test]
fn early_requests_and_write_data_are_counted() {
    let mut peer = peer();
    assert_eq!(peer.target.held_bytes(), 0);
    let early = NopOut { cmd_sn: 6, initiator_task_tag: 9, data: Bytes::from(vec![7; 512]), ..NopOut::default() };
    peer.send(&early);
    assert_eq!(peer.target.held_bytes(), 512);
    peer.send(&write(8, 7, 700, &[7; 700]));
    assert_eq!(peer.target.held_bytes(), 512 + 700);
}
