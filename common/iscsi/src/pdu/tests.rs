#![expect(clippy::cast_possible_truncation, reason = "the bytes of test patterns wrap around")]

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::{digest::Digests, output::Output};

/// Returns the bytes of a header that is written as hex words.
fn header(words: &[&str]) -> Vec<u8> {
    let digits: Vec<u8> = words.concat().bytes().filter(u8::is_ascii_hexdigit).collect();
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
    assert_eq!(bytes.len(), BHS_LEN);
    bytes
}

/// Checks that the PDU encodes to these bytes and that they decode to the PDU.
fn golden(pdu: impl Encode, wrap: Pdu, words: &[&str], rest: &[u8]) {
    let mut want = header(words);
    want.extend_from_slice(rest);
    let mut output = Output::default();
    output.push(&pdu);
    let wire = output.take_all().concat();
    assert_eq!(wire, want, "{wrap:?}");
    let mut input = BytesMut::from(&want[..]);
    let frame = Decoder::default().next(&mut input).unwrap().unwrap();
    assert!(input.is_empty());
    assert_eq!(Pdu::load(frame).unwrap(), wrap);
}

const LUN: WireLun = WireLun(0x0001_0000_0000_0000);
const SN: TargetSn = TargetSn { stat_sn: 0x11, exp_cmd_sn: 0x22, max_cmd_sn: 0x33 };

#[test]
fn nop_out_bytes() {
    let pdu = NopOut {
        immediate: true,
        lun: LUN,
        initiator_task_tag: 5,
        target_transfer_tag: NO_TAG,
        cmd_sn: 0x1234,
        exp_stat_sn: 0x5678,
        data: Bytes::from_static(b"ping!"),
    };
    let words = [
        "40800000 00000005 00010000 00000000 00000005 ffffffff",
        "00001234 00005678 00000000 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::NopOut(pdu), &words, b"ping!\0\0\0");
}

#[test]
fn nop_in_bytes() {
    let pdu = NopIn {
        lun: LUN,
        initiator_task_tag: NO_TAG,
        target_transfer_tag: 9,
        sn: SN,
        data: Bytes::from_static(b"pong"),
    };
    let words = [
        "20800000 00000004 00010000 00000000 ffffffff 00000009",
        "00000011 00000022 00000033 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::NopIn(pdu), &words, b"pong");
}

#[test]
fn scsi_command_bytes() {
    let mut cdb = [0; 16];
    cdb[..10].copy_from_slice(&[0x2a, 0, 0, 0, 0x10, 0, 0, 0, 8, 0]);
    let pdu = ScsiCommand {
        final_: true,
        write: true,
        attribute: TaskAttribute::Simple,
        lun: LUN,
        initiator_task_tag: 7,
        expected_length: 4096,
        cmd_sn: 2,
        exp_stat_sn: 3,
        cdb,
        data: Bytes::from_static(b"data"),
        ..ScsiCommand::default()
    };
    let words = [
        "01a10000 00000004 00010000 00000000 00000007 00001000",
        "00000002 00000003 2a000000 10000000 08000000 00000000",
    ];
    golden(pdu.clone(), Pdu::ScsiCommand(pdu), &words, b"data");
}

#[test]
fn bidirectional_scsi_command_bytes() {
    let pdu = ScsiCommand {
        immediate: true,
        final_: true,
        read: true,
        write: true,
        attribute: TaskAttribute::HeadOfQueue,
        initiator_task_tag: 7,
        expected_length: 512,
        expected_read: Some(1024),
        cdb: [0x7f; 16],
        extended_cdb: Bytes::from_static(&[1, 2, 3, 4, 5, 6]),
        ..ScsiCommand::default()
    };
    let words = [
        "41e30000 05000000 00000000 00000000 00000007 00000200",
        "00000000 00000000 7f7f7f7f 7f7f7f7f 7f7f7f7f 7f7f7f7f",
    ];
    let ahs = [0, 7, 1, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 5, 2, 0, 0, 0, 4, 0];
    golden(pdu.clone(), Pdu::ScsiCommand(pdu), &words, &ahs);
}

#[test]
fn scsi_response_bytes() {
    let pdu = ScsiResponse {
        status: 2,
        initiator_task_tag: 7,
        sn: SN,
        exp_data_sn: 4,
        residual: Residual::Underflow(0x200),
        bidi_residual: Residual::Overflow(0x10),
        sense: Bytes::from_static(&[0x70, 0, 5]),
        ..ScsiResponse::default()
    };
    let words = [
        "21920002 00000005 00000000 00000000 00000007 00000000",
        "00000011 00000022 00000033 00000004 00000010 00000200",
    ];
    golden(pdu.clone(), Pdu::ScsiResponse(pdu), &words, &[0, 3, 0x70, 0, 5, 0, 0, 0]);
}

#[test]
fn task_management_bytes() {
    let pdu = TaskManagementRequest {
        immediate: true,
        function: TaskFunction::AbortTask,
        lun: LUN,
        initiator_task_tag: 8,
        referenced_task_tag: 7,
        cmd_sn: 10,
        exp_stat_sn: 3,
        ref_cmd_sn: 9,
        exp_data_sn: 0,
    };
    let words = [
        "42810000 00000000 00010000 00000000 00000008 00000007",
        "0000000a 00000003 00000009 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::TaskManagementRequest(pdu), &words, &[]);
    let pdu = TaskManagementResponse { outcome: TaskOutcome::NotSupported, initiator_task_tag: 8, sn: SN };
    let words = [
        "22800500 00000000 00000000 00000000 00000008 00000000",
        "00000011 00000022 00000033 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::TaskManagementResponse(pdu), &words, &[]);
}

#[test]
fn data_out_bytes() {
    let pdu = DataOut {
        final_: true,
        lun: LUN,
        initiator_task_tag: 7,
        target_transfer_tag: 0x55,
        exp_stat_sn: 3,
        data_sn: 2,
        buffer_offset: 0x2000,
        data: Bytes::from_static(&[0xee; 6]),
    };
    let words = [
        "05800000 00000006 00010000 00000000 00000007 00000055",
        "00000000 00000003 00000000 00000002 00002000 00000000",
    ];
    golden(pdu.clone(), Pdu::DataOut(pdu), &words, &[0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0, 0]);
}

#[test]
fn data_in_bytes() {
    let pdu = DataIn {
        final_: true,
        status: Some((0, Residual::Overflow(0x100))),
        lun: LUN,
        initiator_task_tag: 7,
        sn: SN,
        data_sn: 1,
        buffer_offset: 0x1000,
        data: Bytes::from_static(b"abcd"),
        ..DataIn::default()
    };
    let words = [
        "25850000 00000004 00010000 00000000 00000007 ffffffff",
        "00000011 00000022 00000033 00000001 00001000 00000100",
    ];
    golden(pdu.clone(), Pdu::DataIn(pdu), &words, b"abcd");
}

#[test]
fn r2t_bytes() {
    let pdu = R2t {
        lun: LUN,
        initiator_task_tag: 7,
        target_transfer_tag: 0x55,
        sn: SN,
        r2t_sn: 1,
        buffer_offset: 0x4000,
        desired_length: 0x8000,
    };
    let words = [
        "31800000 00000000 00010000 00000000 00000007 00000055",
        "00000011 00000022 00000033 00000001 00004000 00008000",
    ];
    golden(pdu.clone(), Pdu::R2t(pdu), &words, &[]);
}

#[test]
fn async_message_bytes() {
    let pdu = AsyncMessage { lun: LUN, sn: SN, event: AsyncEvent::Scsi { sense: Bytes::from_static(&[0x70, 0]) } };
    let words = [
        "32800000 00000004 00010000 00000000 ffffffff 00000000",
        "00000011 00000022 00000033 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::AsyncMessage(pdu), &words, &[0, 2, 0x70, 0]);
    let event = AsyncEvent::ConnectionDrop { cid: 1, time_to_wait: 2, time_to_retain: 3 };
    let pdu = AsyncMessage { lun: WireLun(0), sn: SN, event };
    let words = [
        "32800000 00000000 00000000 00000000 ffffffff 00000000",
        "00000011 00000022 00000033 02000001 00020003 00000000",
    ];
    golden(pdu.clone(), Pdu::AsyncMessage(pdu), &words, &[]);
}

#[test]
fn text_bytes() {
    let pdu = TextRequest {
        final_: true,
        initiator_task_tag: 1,
        target_transfer_tag: NO_TAG,
        cmd_sn: 4,
        exp_stat_sn: 5,
        data: Bytes::from_static(b"SendTargets=All\0"),
        ..TextRequest::default()
    };
    let words = [
        "04800000 00000010 00000000 00000000 00000001 ffffffff",
        "00000004 00000005 00000000 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::TextRequest(pdu), &words, b"SendTargets=All\0");
    let pdu = TextResponse {
        continued: true,
        initiator_task_tag: 1,
        target_transfer_tag: 2,
        sn: SN,
        data: Bytes::from_static(b"a=b\0"),
        ..TextResponse::default()
    };
    let words = [
        "24400000 00000004 00000000 00000000 00000001 00000002",
        "00000011 00000022 00000033 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::TextResponse(pdu), &words, b"a=b\0");
}

#[test]
fn login_bytes() {
    let pdu = LoginRequest {
        stage: Stage::Operational,
        transit_to: Some(Stage::FullFeature),
        isid: [0x40, 1, 2, 3, 4, 5],
        tsih: 0x0607,
        initiator_task_tag: 9,
        cid: 1,
        cmd_sn: 2,
        exp_stat_sn: 3,
        data: Bytes::from_static(b"a=b\0"),
        ..LoginRequest::default()
    };
    let words = [
        "43870000 00000004 40010203 04050607 00000009 00010000",
        "00000002 00000003 00000000 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::LoginRequest(pdu), &words, b"a=b\0");
    let pdu = LoginResponse {
        stage: Stage::Security,
        transit_to: None,
        continued: true,
        isid: [0x40, 1, 2, 3, 4, 5],
        initiator_task_tag: 9,
        sn: SN,
        status: 0x0201,
        ..LoginResponse::default()
    };
    let words = [
        "23400000 00000000 40010203 04050000 00000009 00000000",
        "00000011 00000022 00000033 02010000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::LoginResponse(pdu), &words, &[]);
}

#[test]
fn logout_bytes() {
    let pdu = LogoutRequest {
        immediate: true,
        reason: LogoutReason::CloseConnection,
        initiator_task_tag: 3,
        cid: 1,
        cmd_sn: 4,
        exp_stat_sn: 5,
    };
    let words = [
        "46810000 00000000 00000000 00000000 00000003 00010000",
        "00000004 00000005 00000000 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::LogoutRequest(pdu), &words, &[]);
    let pdu = LogoutResponse {
        result: LogoutResult::RecoveryNotSupported,
        initiator_task_tag: 3,
        sn: SN,
        time_to_wait: 2,
        time_to_retain: 20,
    };
    let words = [
        "26800200 00000000 00000000 00000000 00000003 00000000",
        "00000011 00000022 00000033 00000000 00020014 00000000",
    ];
    golden(pdu.clone(), Pdu::LogoutResponse(pdu), &words, &[]);
}

#[test]
fn snack_and_reject_bytes() {
    let pdu = Snack { kind: 1, initiator_task_tag: NO_TAG, beg_run: 6, run_length: 7, ..Snack::default() };
    let words = [
        "10810000 00000000 00000000 00000000 ffffffff 00000000",
        "00000000 00000000 00000000 00000000 00000006 00000007",
    ];
    golden(pdu.clone(), Pdu::Snack(pdu), &words, &[]);
    let header = Bytes::from_static(&[0x1e; 48]);
    let pdu = Reject { reason: RejectReason::CommandNotSupported, sn: SN, data_sn: 0, header: header.clone() };
    let words = [
        "3f800500 00000030 00000000 00000000 ffffffff 00000000",
        "00000011 00000022 00000033 00000000 00000000 00000000",
    ];
    golden(pdu.clone(), Pdu::Reject(pdu), &words, &header);
}

#[test]
fn oversized_lengths_fail_from_the_header_alone() {
    let mut decoder = Decoder::new(DecodeLimits { max_data_segment: 512, max_ahs: 8 });
    let mut bhs = [0u8; BHS_LEN];
    set_lengths(&mut bhs, 0, 513);
    let refused = decoder.next(&mut BytesMut::from(&bhs[..]));
    assert_eq!(refused, Err(DecodeError::DataSegmentTooLong { length: 513, limit: 512 }));
    set_lengths(&mut bhs, 12, 0);
    let refused = decoder.next(&mut BytesMut::from(&bhs[..]));
    assert_eq!(refused, Err(DecodeError::AhsTooLong { length: 12, limit: 8 }));
}

#[test]
fn wrong_header_digest_fails_before_data_arrives() {
    let mut decoder = Decoder { digests: Digests { header: true, data: true }, ..Decoder::default() };
    let mut bhs = [0u8; BHS_LEN];
    set_lengths(&mut bhs, 0, 8000);
    let mut input = BytesMut::from(&bhs[..]);
    assert_eq!(decoder.next(&mut input), Ok(None));
    input.extend_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(decoder.next(&mut input), Err(DecodeError::HeaderDigest));
}

#[test]
fn wrong_data_digest_invalidates_only_the_data() {
    let digests = Digests { header: true, data: true };
    let mut output = Output::new(digests);
    output.push(&NopOut { initiator_task_tag: 77, data: Bytes::from_static(b"hello"), ..NopOut::default() });
    let mut wire = output.take_all().concat();
    wire[BHS_LEN + 4] ^= 1;
    let frame = Decoder { digests, ..Decoder::default() }.next(&mut BytesMut::from(&wire[..])).unwrap().unwrap();
    assert!(!frame.data_digest_ok);
    assert_eq!(frame.initiator_task_tag(), 77);
}

#[test]
fn malformed_ahs_error_reports_its_offset() {
    let command = ScsiCommand { extended_cdb: Bytes::from_static(&[1; 8]), ..ScsiCommand::default() };
    let with = |ahs: &'static [u8]| ScsiCommand::load(Frame { ahs: Bytes::from_static(ahs), ..Frame::of(&command) });
    assert_eq!(with(&[0, 0, 1, 0]).unwrap_err(), PduError::Field { byte: 48 });
    assert_eq!(with(&[0, 9, 1, 0]).unwrap_err(), PduError::Field { byte: 48 });
    assert_eq!(with(&[0, 5, 1, 0, 1, 2, 3, 4, 0, 1, 9, 0]).unwrap_err(), PduError::Field { byte: 56 });
}

#[test]
fn residual_compares_wanted_and_expected_length() {
    assert_eq!(Residual::of(512, 512), Residual::None);
    assert_eq!(Residual::of(1024, 512), Residual::Underflow(512));
    assert_eq!(Residual::of(0, 512), Residual::Overflow(512));
    assert_eq!(Residual::of(1, u64::MAX), Residual::Overflow(u32::MAX));
}

proptest! {
    #[test]
    fn decoding_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), header: bool, data: bool) {
        let mut input = BytesMut::from(&bytes[..]);
        let mut decoder = Decoder { digests: Digests { header, data }, ..Decoder::default() };
        while let Ok(Some(frame)) = decoder.next(&mut input) {
            let _ = Pdu::load(frame);
        }
    }

    /// Every split of the stream yields the same PDUs.
    #[test]
    fn splitting_the_stream_changes_no_pdu(
        sizes in prop::collection::vec(0usize..3000, 1..12),
        cuts in prop::collection::vec(1usize..2000, 1..60),
        header: bool,
        data: bool,
    ) {
        let digests = Digests { header, data };
        let mut output = Output::new(digests);
        let sent: Vec<NopOut> = sizes
            .iter()
            .map(|&len| NopOut { cmd_sn: len as u32, data: Bytes::from(vec![len as u8; len]), ..NopOut::default() })
            .collect();
        sent.iter().for_each(|pdu| output.push(pdu));
        let wire = output.take_all().concat();
        let (mut input, mut at, mut got) = (BytesMut::new(), 0usize, Vec::new());
        let mut decoder = Decoder { digests, ..Decoder::default() };
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let end = at.saturating_add(cut).min(wire.len());
            input.extend_from_slice(&wire[at..end]);
            at = end;
            while let Some(frame) = decoder.next(&mut input).unwrap() {
                prop_assert!(frame.data_digest_ok);
                got.push(NopOut::load(frame));
            }
            prop_assert!(at == wire.len() || decoder.wanted(&input) > input.len());
        }
        prop_assert_eq!(got, sent);
    }
}
