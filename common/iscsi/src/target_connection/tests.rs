//! Tests of a target connection with a scripted initiator.
#![expect(clippy::cast_possible_truncation, reason = "the bytes of test patterns wrap around")]

use bytes::Bytes;

use super::*;
use crate::{
    login::SessionKind,
    pdu::{
        DataIn, DataOut, LogoutReason, LogoutRequest, LogoutResult, NopOut, Pdu, R2t, Residual, ScsiCommand,
        ScsiResponse, Snack, TaskFunction, TaskManagementRequest, TaskOutcome, TextRequest,
    },
    testing::{LUN, Peer, command, read, write},
};

mod management;
mod sequence;

/// Parameters with small bursts, to keep exchanges short.
fn small() -> Parameters {
    Parameters {
        initial_r2t: true,
        immediate_data: true,
        max_receive_segment: 4096,
        max_send_segment: 1024,
        max_burst_length: 2048,
        first_burst_length: 1024,
        max_outstanding_r2t: 2,
        ..Parameters::default()
    }
}

fn peer() -> Peer {
    Peer::new(small(), ConnectionLimits::default())
}

/// Returns the only command among the events.
fn one_command(mut events: Vec<Event>) -> TargetCommand {
    assert_eq!(events.len(), 1, "{events:?}");
    match events.remove(0) {
        Event::Command(command) => command,
        other => panic!("no command: {other:?}"),
    }
}

fn response(pdu: Pdu) -> ScsiResponse {
    match pdu {
        Pdu::ScsiResponse(response) => response,
        other => panic!("no response: {other:?}"),
    }
}

fn r2t(pdu: &Pdu) -> &R2t {
    match pdu {
        Pdu::R2t(r2t) => r2t,
        other => panic!("no R2T: {other:?}"),
    }
}

fn data_ins(pdus: Vec<Pdu>) -> Vec<DataIn> {
    let only = |pdu| match pdu {
        Pdu::DataIn(pdu) => pdu,
        other => panic!("no Data-In: {other:?}"),
    };
    pdus.into_iter().map(only).collect()
}

fn reject_reason(pdu: Pdu) -> RejectReason {
    match pdu {
        Pdu::Reject(reject) => reject.reason,
        other => panic!("no Reject: {other:?}"),
    }
}

fn data_out(tag: u32, transfer_tag: u32, data_sn: u32, offset: u32, data: &[u8], final_: bool) -> DataOut {
    DataOut {
        final_,
        lun: LUN,
        initiator_task_tag: tag,
        target_transfer_tag: transfer_tag,
        exp_stat_sn: 100,
        data_sn,
        buffer_offset: offset,
        data: Bytes::copy_from_slice(data),
    }
}

/// Bytes that differ from their neighbours.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i ^ (i >> 8)) as u8).collect()
}

#[test]
fn command_without_data_gets_a_response() {
    let mut peer = peer();
    let events = peer.send(&command(5, 1));
    let ready = one_command(events);
    assert_eq!((ready.lun, ready.initiator_task_tag, ready.cmd_sn), (LUN, 5, 1));
    peer.target.complete(ready.id, CommandCompletion::good());
    let answer = response(peer.reply());
    assert_eq!((answer.status, answer.initiator_task_tag, answer.residual), (0, 5, Residual::None));
    assert_eq!(answer.sn, TargetSn { stat_sn: 100, exp_cmd_sn: 2, max_cmd_sn: 129 });
    assert_eq!(peer.target.outstanding(), 0);
}

#[test]
fn read_splits_into_bursts_with_status_in_last_pdu() {
    let mut peer = peer();
    let ready = one_command(peer.send(&read(5, 1, 5000)));
    assert_eq!((ready.expected_read, ready.expected_write), (5000, 0));
    let data = pattern(5000);
    peer.target.complete(ready.id, CommandCompletion::read(data.clone()));
    let pdus = data_ins(peer.replies());
    let shape: Vec<_> = pdus.iter().map(|p| (p.data_sn, p.buffer_offset, p.data.len(), p.final_)).collect();
    let want = [
        (0, 0, 1024, false),
        (1, 1024, 1024, true),
        (2, 2048, 1024, false),
        (3, 3072, 1024, true),
        (4, 4096, 904, true),
    ];
    assert_eq!(shape, want);
    let statuses: Vec<_> = pdus.iter().map(|p| p.status).collect();
    assert_eq!(statuses, [None, None, None, None, Some((0, Residual::None))]);
    assert_eq!(pdus.concat_data(), data);
    assert_eq!(pdus[4].sn.stat_sn, 100);
}

trait ConcatData {
    fn concat_data(&self) -> Vec<u8>;
}

impl ConcatData for Vec<DataIn> {
    fn concat_data(&self) -> Vec<u8> {
        self.iter().flat_map(|pdu| pdu.data.to_vec()).collect()
    }
}

#[test]
fn read_residuals_follow_expected_length() {
    // (expected, data, explicit `wanted`, sent, residual)
    let cases = [
        (512, 512, None, 512, Residual::None),
        (1024, 512, None, 512, Residual::Underflow(512)),
        (256, 512, None, 256, Residual::Overflow(256)),
        (256, 256, Some(512), 256, Residual::Overflow(256)),
        (0, 512, None, 0, Residual::Overflow(512)),
        (512, 0, None, 0, Residual::Underflow(512)),
    ];
    for (expected, length, wanted, sent, residual) in cases {
        let mut peer = peer();
        let ready = one_command(peer.send(&read(5, 1, expected)));
        let completion = CommandCompletion { wanted, ..CommandCompletion::read(pattern(length)) };
        peer.target.complete(ready.id, completion);
        let (got, data) = match peer.reply() {
            Pdu::DataIn(pdu) => (pdu.status.unwrap().1, pdu.data.len()),
            other => (response(other).residual, 0),
        };
        assert_eq!((got, data), (residual, sent), "expected {expected}, data {length}");
    }
}

#[test]
fn write_residuals_follow_expected_length() {
    for (expected, wanted, residual) in [
        (512, Some(512), Residual::None),
        (512, None, Residual::None),
        (1024, Some(512), Residual::Underflow(512)),
        (512, Some(1024), Residual::Overflow(512)),
        (512, Some(0), Residual::Underflow(512)),
    ] {
        let mut peer = peer();
        let ready = one_command(peer.send(&write(5, 1, expected, &pattern(expected as usize))));
        assert_eq!(ready.data.len(), expected as usize);
        peer.target.complete(ready.id, CommandCompletion { wanted, ..CommandCompletion::good() });
        assert_eq!(response(peer.reply()).residual, residual);
    }
}

#[test]
fn write_without_expected_data_overflows() {
    let mut peer = peer();
    let ready = one_command(peer.send(&write(5, 1, 0, &[])));
    assert!(ready.data.is_empty());
    peer.target.complete(ready.id, CommandCompletion::good().wanting(512));
    assert_eq!(response(peer.reply()).residual, Residual::Overflow(512));
}

#[test]
fn sense_data_follows_data_in_a_response() {
    let mut peer = peer();
    let ready = one_command(peer.send(&read(5, 1, 1024)));
    let sense = Bytes::from_static(&[0x70, 0, 3]);
    let completion =
        CommandCompletion { data: pattern(512).into(), ..CommandCompletion::check_condition(sense.clone()) }
            .wanting(1024);
    peer.target.complete(ready.id, completion);
    let mut replies = peer.replies();
    let answer = response(replies.pop().unwrap());
    assert_eq!((answer.status, answer.sense, answer.exp_data_sn), (2, sense, 1));
    let data = data_ins(replies);
    assert_eq!(data.len(), 1);
    assert_eq!((data[0].final_, data[0].status), (true, None));
}

#[test]
fn r2ts_keep_to_max_outstanding_r2t() {
    let mut peer = peer();
    let data = pattern(7000);
    assert!(peer.send(&write(5, 1, 7000, &data[..1000])).is_empty());
    let asked = peer.replies();
    let shape: Vec<_> = asked.iter().map(|p| (r2t(p).r2t_sn, r2t(p).buffer_offset, r2t(p).desired_length)).collect();
    assert_eq!(shape, [(0, 1000, 2048), (1, 3048, 2048)]);
    assert_eq!(r2t(&asked[0]).sn.stat_sn, 100, "an R2T consumes no StatSN");
    let (one, two) = (r2t(&asked[0]).target_transfer_tag, r2t(&asked[1]).target_transfer_tag);
    assert!(peer.send(&data_out(5, one, 0, 1000, &data[1000..2000], false)).is_empty());
    assert!(peer.replies().is_empty());
    assert!(peer.send(&data_out(5, one, 1, 2000, &data[2000..3048], true)).is_empty());
    let third = peer.reply();
    assert_eq!((r2t(&third).r2t_sn, r2t(&third).buffer_offset, r2t(&third).desired_length), (2, 5096, 1904));
    assert!(peer.send(&data_out(5, two, 0, 3048, &data[3048..5096], true)).is_empty());
    let three = r2t(&third).target_transfer_tag;
    let ready = one_command(peer.send(&data_out(5, three, 0, 5096, &data[5096..], true)));
    assert_eq!(ready.data, data);
    peer.target.complete(ready.id, CommandCompletion::good());
    assert_eq!(response(peer.reply()).exp_data_sn, 0, "no Data-In was sent");
}

#[test]
fn unsolicited_data_fills_the_first_burst() {
    let mut peer = Peer::new(Parameters { initial_r2t: false, ..small() }, ConnectionLimits::default());
    let data = pattern(1500);
    let opening = ScsiCommand { final_: false, ..write(5, 1, 1500, &data[..100]) };
    assert!(peer.send(&opening).is_empty());
    assert!(peer.replies().is_empty());
    assert!(peer.send(&data_out(5, NO_TAG, 0, 100, &data[100..600], false)).is_empty());
    assert!(peer.send(&data_out(5, NO_TAG, 1, 600, &data[600..1024], true)).is_empty());
    let asked = peer.reply();
    assert_eq!((r2t(&asked).buffer_offset, r2t(&asked).desired_length), (1024, 476));
    let tag = r2t(&asked).target_transfer_tag;
    assert_eq!(one_command(peer.send(&data_out(5, tag, 0, 1024, &data[1024..], true))).data, data);
}
