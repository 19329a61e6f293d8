//! Entry points of the fuzz targets, with a short seeded run for `cargo test`.
//!
//! Every function accepts arbitrary bytes. It fails only on a panic or if an invariant is violated:
//! a decoded PDU survives re-encoding, a connection stays within its limits, and every delivered
//! command can be completed.

use bytes::BytesMut;

use crate::{
    chap::ChapSecret,
    digest::Digests,
    login::{
        Authentication, ChapAccount, Established, LoginAuthority, LoginConfig, LoginProgress, LoginStatus, SessionKind,
        SessionRequest, TargetLogin,
    },
    output::Output,
    parameters::Parameters,
    pdu::{Decoder, Encode, Pdu, TaskOutcome},
    target_connection::{CommandCompletion, ConnectionLimits, Event, TargetConnection, TargetRecord},
};

/// Decodes a stream of PDUs. The first byte selects the digests.
pub fn fuzz_pdu(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else { return };
    let mut decoder =
        Decoder { digests: Digests { header: choice & 1 != 0, data: choice & 2 != 0 }, ..Decoder::default() };
    let mut input = BytesMut::from(stream);
    while let Ok(Some(frame)) = decoder.next(&mut input) {
        let data_segment = frame.data.len();
        assert!(data_segment <= decoder.limits.max_data_segment as usize);
        if let Ok(pdu) = Pdu::load(frame) {
            check_encoding(&pdu);
        }
    }
}

/// Checks that a decoded PDU is unchanged after encoding and decoding it again.
fn check_encoding(pdu: &Pdu) {
    match pdu {
        Pdu::NopOut(pdu) => reads_back(pdu, Pdu::NopOut(pdu.clone())),
        Pdu::ScsiCommand(pdu) => reads_back(pdu, Pdu::ScsiCommand(pdu.clone())),
        Pdu::TaskManagementRequest(pdu) => reads_back(pdu, Pdu::TaskManagementRequest(pdu.clone())),
        Pdu::LoginRequest(pdu) => reads_back(pdu, Pdu::LoginRequest(pdu.clone())),
        Pdu::TextRequest(pdu) => reads_back(pdu, Pdu::TextRequest(pdu.clone())),
        Pdu::DataOut(pdu) => reads_back(pdu, Pdu::DataOut(pdu.clone())),
        Pdu::LogoutRequest(pdu) => reads_back(pdu, Pdu::LogoutRequest(pdu.clone())),
        Pdu::Snack(pdu) => reads_back(pdu, Pdu::Snack(pdu.clone())),
        Pdu::NopIn(pdu) => reads_back(pdu, Pdu::NopIn(pdu.clone())),
        Pdu::TextResponse(pdu) => reads_back(pdu, Pdu::TextResponse(pdu.clone())),
        Pdu::R2t(pdu) => reads_back(pdu, Pdu::R2t(pdu.clone())),
        Pdu::Reject(pdu) => reads_back(pdu, Pdu::Reject(pdu.clone())),
        // These types drop bytes that have no meaning: a count without its residual bit, a StatSN
        // without status, bytes after the sense data. They are decoded but not compared.
        Pdu::ScsiResponse(_)
        | Pdu::DataIn(_)
        | Pdu::TaskManagementResponse(_)
        | Pdu::LoginResponse(_)
        | Pdu::LogoutResponse(_)
        | Pdu::AsyncMessage(_) => {}
    }
}

fn reads_back(pdu: &impl Encode, same: Pdu) {
    let mut output = Output::default();
    output.push(pdu);
    let mut wire = BytesMut::from(&output.take_all().concat()[..]);
    // Additional header segments are written in one fixed order, so the length may shrink.
    let frame = Decoder::default().next(&mut wire).ok().flatten();
    assert_eq!(frame.map(Pdu::load), Some(Ok(same)));
    assert!(wire.is_empty());
}

/// Admits every initiator that passes authentication. Fuzz input never contains the secret.
struct FuzzAuthority;

impl LoginAuthority for FuzzAuthority {
    fn authentication(&mut self, initiator: &str, _: &SessionKind) -> Result<Authentication, LoginStatus> {
        match initiator.len() % 3 {
            0 => Ok(Authentication::None),
            1 => Err(LoginStatus::NotFound),
            _ => {
                let mutual = Some(("array".to_owned(), ChapSecret::new("of the array")));
                let account = ChapAccount { user: "host".to_owned(), secret: ChapSecret::new("of the host"), mutual };
                Ok(Authentication::Chap(account))
            }
        }
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }

    fn admit(&mut self, _: &SessionRequest) -> Result<u16, LoginStatus> {
        Ok(1)
    }
}

/// Runs a login from its first byte.
pub fn fuzz_login(data: &[u8]) {
    let mut login = TargetLogin::new(LoginConfig::default());
    let (mut input, mut output) = (BytesMut::from(data), Output::default());
    match login.receive(&mut input, &mut FuzzAuthority, &mut output) {
        LoginProgress::Established(established) => {
            assert_ne!(established.tsih, 0);
            assert!(established.parameters.first_burst_length <= established.parameters.max_burst_length);
            assert!((512..1 << 24).contains(&established.parameters.max_send_segment));
        }
        LoginProgress::Refused(_) | LoginProgress::Pending => {}
    }
    // A response is at most as long as the longest request, and a login has at most 65.
    assert!(output.len() < 1 << 20, "{} bytes of answers", output.len());
}

/// Runs a login from its text alone, as a direct login to the operational stage carries it.
pub fn fuzz_login_text(text: &[u8]) {
    use crate::pdu::{LoginRequest, Stage};
    let mut output = Output::default();
    let data = bytes::Bytes::copy_from_slice(&text[..text.len().min(8192)]);
    let (stage, transit_to) = (Stage::Operational, Some(Stage::FullFeature));
    output.push(&LoginRequest { stage, transit_to, data, ..LoginRequest::default() });
    fuzz_login(&output.take_all().concat());
}

/// Resource limits of the fuzzed connection.
const LIMITS: ConnectionLimits = ConnectionLimits {
    command_window: 8,
    immediate_requests: 4,
    max_write_bytes: 64 << 10,
    write_budget: 128 << 10,
    max_text_bytes: 4096,
};

/// Runs the full feature phase from its first byte. The first two bytes select the parameters and
/// how commands are completed.
pub fn fuzz_target_connection(data: &[u8]) {
    let Some((&[flags, pace], stream)) = data.split_first_chunk::<2>() else { return };
    let established = established(flags);
    let mut connection = TargetConnection::new(&established, LIMITS, Output::default());
    let mut pending: Vec<Event> = Vec::new();
    let mut input = BytesMut::new();
    for part in stream.chunks(usize::from(pace) + 1) {
        input.extend_from_slice(part);
        let mut events = Vec::new();
        connection.receive(&mut input, &mut events);
        pending.append(&mut events);
        // With an odd `pace`, commands are completed after each step, the newest first.
        if pace & 1 != 0 {
            complete_events(&mut connection, &mut pending);
        }
        let tasks = (LIMITS.command_window + LIMITS.immediate_requests) as usize;
        assert!(connection.outstanding() <= tasks, "{} commands", connection.outstanding());
        connection.output().take_all();
    }
    complete_events(&mut connection, &mut pending);
}

fn established(flags: u8) -> Established {
    let parameters = Parameters {
        digests: Digests { header: false, data: flags & 1 != 0 },
        initial_r2t: flags & 2 != 0,
        immediate_data: flags & 4 != 0,
        max_outstanding_r2t: 1 + u16::from(flags >> 6),
        max_burst_length: 16 << 10,
        first_burst_length: 4 << 10,
        ..Parameters::default()
    };
    let kind = if flags & 8 != 0 { SessionKind::Discovery } else { SessionKind::Normal { target: "iqn.t".to_owned() } };
    let request = SessionRequest {
        initiator: "iqn.i".to_owned(),
        initiator_alias: None,
        kind,
        isid: [0; 6],
        tsih: 0,
        cid: 0,
        user: None,
    };
    Established { request, tsih: 1, parameters, cmd_sn: 0, max_cmd_sn: 7, stat_sn: 0 }
}

/// Performs what the connection asks for, the newest event first.
fn complete_events(connection: &mut TargetConnection, pending: &mut Vec<Event>) {
    while let Some(event) = pending.pop() {
        match event {
            Event::Command(command) => {
                assert!(command.data.len() <= LIMITS.max_write_bytes as usize);
                assert_eq!(command.data.len(), command.expected_write.min(LIMITS.max_write_bytes) as usize);
                let completion = match command.cdb[0] % 4 {
                    0 => CommandCompletion::good(),
                    1 => CommandCompletion::read(vec![0xa5; usize::from(command.cdb[1]) * 64]),
                    2 => CommandCompletion::check_condition(vec![0x70; 18]),
                    _ => CommandCompletion::status(8).wanting(u64::from(command.cdb[1])),
                };
                connection.complete(command.id, completion);
            }
            Event::TaskManagement(management) => {
                for &task in &management.tasks {
                    connection.complete(task, CommandCompletion::good());
                }
                connection.complete_task_management(management.id, TaskOutcome::Complete);
            }
            Event::SendTargets { id, .. } => {
                let addresses = vec!["192.0.2.1:3260,1".to_owned(); 40];
                connection.complete_send_targets(id, &[TargetRecord { name: "iqn.t".to_owned(), addresses }]);
            }
            Event::Logout { .. } => {
                let mut last = Vec::new();
                connection.complete_logout(&mut last);
                assert!(matches!(last[..], [Event::Close(_)]));
            }
            Event::Pong | Event::Close(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
