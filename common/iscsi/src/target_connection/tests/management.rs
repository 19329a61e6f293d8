//! Tests of pings, task management, texts, logout and rejects.

use super::*;
use crate::target_connection::types::TaskManagement as Management;

fn function(function: TaskFunction, tag: u32, cmd_sn: u32) -> TaskManagementRequest {
    TaskManagementRequest {
        immediate: true,
        function,
        lun: LUN,
        initiator_task_tag: tag,
        referenced_task_tag: NO_TAG,
        cmd_sn,
        exp_stat_sn: 100,
        ref_cmd_sn: 0,
        exp_data_sn: 0,
    }
}

fn abort(tag: u32, cmd_sn: u32, referenced_task_tag: u32, ref_cmd_sn: u32) -> TaskManagementRequest {
    TaskManagementRequest { referenced_task_tag, ref_cmd_sn, ..function(TaskFunction::AbortTask, tag, cmd_sn) }
}

fn outcome(pdu: Pdu) -> TaskOutcome {
    match pdu {
        Pdu::TaskManagementResponse(response) => response.outcome,
        other => panic!("no task management response: {other:?}"),
    }
}

fn handed_up(mut events: Vec<Event>) -> Management {
    assert_eq!(events.len(), 1, "{events:?}");
    match events.remove(0) {
        Event::TaskManagement(management) => management,
        other => panic!("no function: {other:?}"),
    }
}

#[test]
fn aborted_running_command_gets_no_response() {
    let mut peer = peer();
    let ready = one_command(peer.send(&read(1, 1, 512)));
    let management = handed_up(peer.send(&abort(9, 2, 1, 1)));
    assert_eq!((management.function, &management.tasks[..]), (TaskFunction::AbortTask, &[ready.id][..]));
    peer.target.complete(ready.id, CommandCompletion::read(pattern(512)));
    assert!(peer.replies().is_empty());
    peer.target.complete_task_management(management.id, TaskOutcome::Complete);
    assert_eq!(outcome(peer.reply()), TaskOutcome::Complete);
    one_command(peer.send(&command(1, 2)));
}

#[test]
fn abort_of_undelivered_write_completes_at_once() {
    let mut peer = peer();
    assert!(peer.send(&write(1, 1, 1024, &[])).is_empty());
    let tag = r2t(&peer.reply()).target_transfer_tag;
    assert!(peer.send(&abort(9, 2, 1, 1)).is_empty());
    assert_eq!(outcome(peer.reply()), TaskOutcome::Complete);
    assert!(peer.send(&data_out(1, tag, 0, 0, &pattern(1024), true)).is_empty());
    assert!(peer.replies().is_empty());
    assert_eq!(peer.target.outstanding(), 0);
}

#[test]
fn abort_of_unknown_task_returns_no_such_task() {
    let mut peer = peer();
    let ready = one_command(peer.send(&command(1, 1)));
    peer.target.complete(ready.id, CommandCompletion::good());
    peer.replies();
    assert!(peer.send(&abort(9, 2, 1, 1)).is_empty());
    assert_eq!(outcome(peer.reply()), TaskOutcome::NoSuchTask);
    assert!(peer.send(&abort(9, 2, 77, 500)).is_empty());
    assert_eq!(outcome(peer.reply()), TaskOutcome::NoSuchTask);
}

/// RFC 7143 11.6.1: the CmdSN counts as received.
#[test]
fn abort_of_a_lost_command_fills_its_cmd_sn() {
    let mut peer = peer();
    assert!(peer.send(&command(2, 2)).is_empty(), "number 1 is missing");
    let events = peer.send(&abort(9, 3, 1, 1));
    assert_eq!(outcome(peer.reply()), TaskOutcome::Complete);
    assert_eq!(one_command(events).initiator_task_tag, 2);
    assert!(peer.send(&command(1, 1)).is_empty(), "its CmdSN counts as received");
}

#[test]
fn task_sets_hold_earlier_commands_of_the_unit() {
    let mut peer = peer();
    let one = one_command(peer.send(&command(1, 1)));
    let other = ScsiCommand { lun: WireLun(2 << 48), ..command(2, 2) };
    let two = one_command(peer.send(&other));
    assert!(peer.send(&write(3, 3, 1024, &[])).is_empty());
    peer.replies();
    for kind in [TaskFunction::AbortTaskSet, TaskFunction::ClearTaskSet, TaskFunction::LogicalUnitReset] {
        let management = handed_up(peer.send(&function(kind, 50 + u32::from(kind.code()), 4)));
        let want = if kind == TaskFunction::AbortTaskSet { vec![one.id] } else { vec![] };
        assert_eq!((management.function, management.tasks), (kind, want));
        peer.target.complete_task_management(management.id, TaskOutcome::Complete);
        assert_eq!(outcome(peer.reply()), TaskOutcome::Complete);
    }
    assert_eq!(peer.target.outstanding(), 2, "the delivered command and that of the other unit");
    let management = handed_up(peer.send(&function(TaskFunction::TargetWarmReset, 60, 4)));
    assert_eq!(management.tasks, [two.id]);
}

#[test]
fn unsupported_functions_are_answered_directly() {
    let mut peer = peer();
    assert!(peer.send(&function(TaskFunction::TaskReassign, 1, 1)).is_empty());
    assert_eq!(outcome(peer.reply()), TaskOutcome::ReassignNotSupported);
    assert!(peer.send(&function(TaskFunction::Other(42), 2, 1)).is_empty());
    assert_eq!(outcome(peer.reply()), TaskOutcome::NotSupported);
}

#[test]
fn immediate_functions_keep_to_their_limit() {
    let mut peer = Peer::new(small(), ConnectionLimits { immediate_requests: 1, ..ConnectionLimits::default() });
    let first = handed_up(peer.send(&function(TaskFunction::LogicalUnitReset, 1, 1)));
    assert!(peer.send(&function(TaskFunction::LogicalUnitReset, 2, 1)).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::TooManyImmediateCommands);
    peer.target.complete_task_management(first.id, TaskOutcome::NoSuchLun);
    assert_eq!(outcome(peer.reply()), TaskOutcome::NoSuchLun);
    handed_up(peer.send(&function(TaskFunction::LogicalUnitReset, 3, 1)));
}

#[test]
fn aborted_command_holds_the_window_until_completed() {
    let mut peer = Peer::new(small(), ConnectionLimits { command_window: 1, ..ConnectionLimits::default() });
    let ready = one_command(peer.send(&command(1, 1)));
    let management = handed_up(peer.send(&abort(9, 2, 1, 1)));
    assert!(peer.send(&command(2, 2)).is_empty(), "the window is closed");
    peer.target.complete(ready.id, CommandCompletion::good());
    let Pdu::NopIn(nop) = peer.reply() else { panic!("no NOP-In announces the open window") };
    assert_eq!((nop.initiator_task_tag, nop.target_transfer_tag), (NO_TAG, NO_TAG));
    assert_eq!((nop.sn.exp_cmd_sn, nop.sn.max_cmd_sn, nop.sn.stat_sn), (2, 2, 100));
    peer.target.complete_task_management(management.id, TaskOutcome::Complete);
    one_command(peer.send(&command(2, 2)));
}

#[test]
fn initiator_ping_is_echoed() {
    let mut peer = peer();
    let ping = NopOut { initiator_task_tag: 4, target_transfer_tag: NO_TAG, cmd_sn: 1, ..NopOut::default() };
    let data = Bytes::from(pattern(1500));
    assert!(peer.send(&NopOut { data: data.clone(), ..ping.clone() }).is_empty());
    let Pdu::NopIn(pong) = peer.reply() else { panic!("no NOP-In") };
    assert_eq!((pong.initiator_task_tag, pong.target_transfer_tag, pong.sn.exp_cmd_sn), (4, NO_TAG, 2));
    assert_eq!(pong.data, data[..1024], "at most the initiator's MaxRecvDataSegmentLength");
    assert!(peer.send(&NopOut { immediate: true, initiator_task_tag: NO_TAG, ..ping }).is_empty());
    assert!(peer.replies().is_empty(), "no response was requested");
}

#[test]
fn target_sends_one_ping_at_a_time() {
    let mut peer = peer();
    assert!(peer.target.ping());
    assert!(!peer.target.ping());
    let Pdu::NopIn(ping) = peer.reply() else { panic!("no NOP-In") };
    assert_eq!((ping.initiator_task_tag, ping.sn.stat_sn), (NO_TAG, 100));
    let answer = |target_transfer_tag| NopOut {
        immediate: true,
        initiator_task_tag: NO_TAG,
        target_transfer_tag,
        cmd_sn: 1,
        ..NopOut::default()
    };
    assert!(peer.send(&answer(ping.target_transfer_tag + 1)).is_empty());
    assert!(matches!(peer.send(&answer(ping.target_transfer_tag))[..], [Event::Pong]));
    assert!(peer.target.ping());
}

fn text(tag: u32, cmd_sn: u32, target_transfer_tag: u32, data: &[u8]) -> TextRequest {
    TextRequest {
        final_: true,
        initiator_task_tag: tag,
        target_transfer_tag,
        cmd_sn,
        data: Bytes::copy_from_slice(data),
        ..TextRequest::default()
    }
}

fn text_response(pdu: Pdu) -> crate::pdu::TextResponse {
    match pdu {
        Pdu::TextResponse(response) => response,
        other => panic!("no text: {other:?}"),
    }
}

fn scope_of(events: &[Event]) -> (RequestId, SendTargets) {
    match events {
        [Event::SendTargets { id, scope }] => (*id, scope.clone()),
        other => panic!("no SendTargets: {other:?}"),
    }
}

#[test]
fn send_targets_answer_spans_several_pdus() {
    let mut peer = Peer::of_kind(
        Parameters { max_send_segment: 512, ..small() },
        ConnectionLimits::default(),
        SessionKind::Discovery,
    );
    let (id, scope) = scope_of(&peer.send(&text(1, 1, NO_TAG, b"SendTargets=All\0")));
    assert_eq!(scope, SendTargets::All);
    let targets: Vec<TargetRecord> = (0..20)
        .map(|n| TargetRecord { name: format!("iqn.2026-11.io.ibid:{n}"), addresses: vec!["127.0.0.1:3260,1".into()] })
        .collect();
    peer.target.complete_send_targets(id, &targets);
    let (mut all, mut cmd_sn) = (Vec::new(), 2);
    loop {
        let part = text_response(peer.reply());
        assert!(part.data.len() <= 512);
        assert_eq!((part.final_, part.continued), (part.target_transfer_tag == NO_TAG, !part.final_));
        all.extend_from_slice(&part.data);
        if part.final_ {
            break;
        }
        assert!(peer.send(&text(1, cmd_sn, part.target_transfer_tag, b"")).is_empty());
        cmd_sn += 1;
    }
    let pairs = crate::text::parse_records(&all).unwrap();
    assert_eq!(pairs.len(), 40);
    assert_eq!(pairs[38], ("TargetName".to_owned(), targets[19].name.clone()));
    assert_eq!(pairs[39], ("TargetAddress".to_owned(), "127.0.0.1:3260,1".to_owned()));
}

#[test]
fn normal_session_lists_only_its_own_target() {
    let mut peer = peer();
    assert_eq!(scope_of(&peer.send(&text(1, 1, NO_TAG, b"SendTargets=All\0"))).1, SendTargets::ThisSession);
    assert_eq!(scope_of(&peer.send(&text(1, 2, NO_TAG, b"SendTargets=\0"))).1, SendTargets::ThisSession);
    let (id, scope) = scope_of(&peer.send(&text(1, 3, NO_TAG, b"SendTargets=iqn.X\0X-a=b\0InitialR2T=No\0")));
    assert_eq!(scope, SendTargets::Named("iqn.x".to_owned()));
    peer.target.complete_send_targets(id, &[]);
    assert_eq!(&text_response(peer.reply()).data[..], b"X-a=NotUnderstood\0InitialR2T=Reject\0");
}

#[test]
fn split_text_is_assembled_and_limited() {
    let mut peer = Peer::new(small(), ConnectionLimits { max_text_bytes: 64, ..ConnectionLimits::default() });
    let open = |cmd_sn, tag, data: &[u8]| TextRequest { final_: false, continued: true, ..text(1, cmd_sn, tag, data) };
    assert!(peer.send(&open(1, NO_TAG, b"Send")).is_empty());
    let more = text_response(peer.reply());
    assert!(!more.final_ && !more.continued && more.data.is_empty());
    let events = peer.send(&text(1, 2, more.target_transfer_tag, b"Targets=\0"));
    assert_eq!(scope_of(&events).1, SendTargets::ThisSession);
    assert!(peer.send(&open(3, NO_TAG, &[b'a'; 65])).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::ProtocolError);
    assert!(peer.send(&text(1, 4, 0x1234, b"")).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::ProtocolError);
}

#[test]
fn initiator_may_redeclare_its_segment_length() {
    let mut peer = peer();
    assert!(peer.send(&text(1, 1, NO_TAG, b"MaxRecvDataSegmentLength=512\0")).is_empty());
    assert!(text_response(peer.reply()).final_);
    let ready = one_command(peer.send(&read(5, 2, 1024)));
    peer.target.complete(ready.id, CommandCompletion::read(pattern(1024)));
    assert_eq!(data_ins(peer.replies()).len(), 2);
}

fn logout(reason: LogoutReason, cid: u16) -> LogoutRequest {
    LogoutRequest { immediate: true, reason, initiator_task_tag: 8, cid, cmd_sn: 1, exp_stat_sn: 100 }
}

fn logout_result(pdu: Pdu) -> LogoutResult {
    match pdu {
        Pdu::LogoutResponse(response) => response.result,
        other => panic!("no logout response: {other:?}"),
    }
}

#[test]
fn logout_awaits_delivered_commands_and_drops_others() {
    let mut peer = peer();
    let ready = one_command(peer.send(&command(1, 1)));
    assert!(peer.send(&write(2, 2, 1024, &[])).is_empty());
    peer.replies();
    let events = peer.send(&logout(LogoutReason::CloseSession, 0));
    assert!(matches!(events[..], [Event::Logout { reason: LogoutReason::CloseSession }]));
    assert_eq!(peer.target.outstanding(), 1);
    assert!(peer.send(&command(3, 3)).is_empty(), "no PDU is processed after the logout");
    peer.target.complete(ready.id, CommandCompletion::good());
    assert!(peer.replies().is_empty());
    let mut events = Vec::new();
    peer.target.complete_logout(&mut events);
    assert_eq!(logout_result(peer.reply()), LogoutResult::Closed);
    assert!(matches!(events[..], [Event::Close(CloseReason::LoggedOut)]));
}

#[test]
fn invalid_logouts_return_their_result() {
    let mut peer = peer();
    assert!(peer.send(&logout(LogoutReason::CloseConnection, 2)).is_empty());
    assert_eq!(logout_result(peer.reply()), LogoutResult::NoSuchConnection);
    assert!(peer.send(&logout(LogoutReason::RemoveForRecovery, 1)).is_empty());
    assert_eq!(logout_result(peer.reply()), LogoutResult::RecoveryNotSupported);
    assert!(peer.send(&logout(LogoutReason::Other(9), 1)).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::InvalidPduField);
    assert_eq!(peer.send(&logout(LogoutReason::CloseConnection, 1)).len(), 1);
}

#[test]
fn unexpected_pdus_are_rejected() {
    let mut peer = peer();
    assert!(peer.send(&Snack { kind: 1, ..Snack::default() }).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::SnackReject);
    let mut unknown = [0u8; 48];
    unknown[0] = 0x1e;
    assert!(peer.send_bytes(&unknown).is_empty());
    let Pdu::Reject(reject) = peer.reply() else { panic!("no reject") };
    assert_eq!((reject.reason, &reject.header[..]), (RejectReason::CommandNotSupported, &unknown[..]));
    assert!(peer.send(&R2t::default()).is_empty());
    assert_eq!(reject_reason(peer.reply()), RejectReason::ProtocolError);
    let mut discovery = Peer::of_kind(small(), ConnectionLimits::default(), SessionKind::Discovery);
    assert!(discovery.send(&command(1, 1)).is_empty());
    assert_eq!(reject_reason(discovery.reply()), RejectReason::ProtocolError);
}

#[test]
fn asynchronous_messages_consume_a_stat_sn() {
    let mut peer = peer();
    peer.target.send_async(WireLun(0), AsyncEvent::LogoutRequest { time_3: 5 });
    peer.target.send_async(LUN, AsyncEvent::Scsi { sense: Bytes::from_static(&[0x70]) });
    let replies = peer.replies();
    let [Pdu::AsyncMessage(one), Pdu::AsyncMessage(two)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((one.sn.stat_sn, two.sn.stat_sn), (100, 101));
    assert_eq!(two.event, AsyncEvent::Scsi { sense: Bytes::from_static(&[0x70]) });
}
