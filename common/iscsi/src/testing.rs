//! Scripted peers for tests.

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    initiator_connection::{InitiatorLogin, InitiatorLoginConfig, InitiatorLoginProgress, LoginError},
    login::{
        Authentication, Established, LoginAuthority, LoginConfig, LoginProgress, LoginRefusal, LoginStatus,
        SessionKind, SessionRequest, TargetLogin,
    },
    output::Output,
    parameters::Parameters,
    pdu::{DecodeLimits, Decoder, Encode, Pdu, ScsiCommand, WireLun},
    target_connection::{ConnectionLimits, Event, TargetConnection},
};

pub(crate) const INITIATOR: &str = "iqn.1998-01.com.vmware:esx1";
pub(crate) const TARGET: &str = "iqn.2026-11.io.ibid:array";

/// An authority with a fixed answer. Its challenges are a counter.
pub(crate) struct Authority {
    pub(crate) authentication: Result<Authentication, LoginStatus>,
    pub(crate) admission: Result<u16, LoginStatus>,
    pub(crate) admitted: Vec<SessionRequest>,
    pub(crate) random: u8,
}

impl Default for Authority {
    fn default() -> Self {
        Self { authentication: Ok(Authentication::None), admission: Ok(7), admitted: Vec::new(), random: 0 }
    }
}

impl LoginAuthority for Authority {
    fn authentication(&mut self, _: &str, _: &SessionKind) -> Result<Authentication, LoginStatus> {
        self.authentication.clone()
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.random = self.random.wrapping_add(1);
            *byte = self.random;
        }
    }

    fn admit(&mut self, request: &SessionRequest) -> Result<u16, LoginStatus> {
        self.admitted.push(request.clone());
        self.admission
    }
}

/// Returns the login configuration of the test initiator.
pub(crate) fn initiator_config() -> InitiatorLoginConfig {
    InitiatorLoginConfig {
        initiator: INITIATOR.to_owned(),
        initiator_alias: None,
        target: Some(TARGET.to_owned()),
        isid: [0x40, 0, 0, 1, 2, 3],
        cid: 1,
        offer: Parameters { max_receive_segment: 65_536, ..Parameters::offer_of_target() },
        chap: None,
    }
}

/// Results of a login, at the initiator and at the target.
pub(crate) type LoginEnds = (Result<Established, LoginError>, Result<Established, LoginRefusal>);

/// Logs the initiator in at the target.
pub(crate) fn log_in(initiator: InitiatorLoginConfig, target: LoginConfig, authority: &mut Authority) -> LoginEnds {
    let (mut to_target, mut to_initiator) = (Output::default(), Output::default());
    let (mut at_target, mut at_initiator) = (BytesMut::new(), BytesMut::new());
    let mut asking = InitiatorLogin::start(initiator, &mut to_target);
    let mut answering = TargetLogin::new(target);
    let mut accepted = None;
    loop {
        assert!(!to_target.is_empty() || !to_initiator.is_empty(), "neither end has output");
        flow(&mut to_target, &mut at_target);
        match answering.receive(&mut at_target, authority, &mut to_initiator) {
            LoginProgress::Pending => {}
            LoginProgress::Established(established) => accepted = Some(Ok(*established)),
            LoginProgress::Refused(refusal) => accepted = Some(Err(refusal)),
        }
        flow(&mut to_initiator, &mut at_initiator);
        let refused = || Err(LoginRefusal { status: LoginStatus::TargetError, detail: String::new(), initiator: None });
        match asking.receive(&mut at_initiator, &mut to_target) {
            InitiatorLoginProgress::Pending => {}
            InitiatorLoginProgress::Established(established) => {
                return (Ok(*established), accepted.unwrap_or_else(refused));
            }
            InitiatorLoginProgress::Failed(error) => return (Err(error), accepted.unwrap_or_else(refused)),
        }
    }
}

/// Moves all bytes from an output to an input.
pub(crate) fn flow(from: &mut Output, to: &mut BytesMut) {
    while from.has_remaining() {
        let chunk = from.chunk();
        to.extend_from_slice(chunk);
        let length = chunk.len();
        from.advance(length);
    }
}

/// Returns a completed login with these parameters.
pub(crate) fn established(parameters: Parameters, kind: SessionKind) -> Established {
    Established {
        request: SessionRequest {
            initiator: INITIATOR.to_owned(),
            initiator_alias: None,
            kind,
            isid: [0; 6],
            tsih: 0,
            cid: 1,
            user: None,
        },
        tsih: 7,
        parameters,
        cmd_sn: 1,
        max_cmd_sn: 128,
        stat_sn: 100,
    }
}

/// A scripted initiator connected to a target connection. It sends any PDU, valid or not.
pub(crate) struct Peer {
    pub(crate) target: TargetConnection,
    pub(crate) parameters: Parameters,
    decoder: Decoder,
    input: BytesMut,
    replies: BytesMut,
}

impl Peer {
    pub(crate) fn new(parameters: Parameters, limits: ConnectionLimits) -> Self {
        Self::of_kind(parameters, limits, SessionKind::Normal { target: TARGET.to_owned() })
    }

    pub(crate) fn of_kind(parameters: Parameters, limits: ConnectionLimits, kind: SessionKind) -> Self {
        let established = established(parameters.clone(), kind);
        let max_data_segment = parameters.max_send_segment;
        let mut decoder = Decoder::new(DecodeLimits { max_data_segment, max_ahs: 0 });
        decoder.digests = parameters.digests;
        Self {
            target: TargetConnection::new(&established, limits, Output::default()),
            parameters,
            decoder,
            input: BytesMut::new(),
            replies: BytesMut::new(),
        }
    }

    /// Sends a PDU; returns the events of the target.
    pub(crate) fn send(&mut self, pdu: &impl Encode) -> Vec<Event> {
        let mut output = Output::new(self.parameters.digests);
        output.push(pdu);
        self.send_bytes(&output.take_all().concat())
    }

    /// Sends bytes.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.input.extend_from_slice(bytes);
        let mut events = Vec::new();
        self.target.receive(&mut self.input, &mut events);
        events
    }

    /// Returns the PDUs that the target sent since the last call.
    pub(crate) fn replies(&mut self) -> Vec<Pdu> {
        flow(self.target.output(), &mut self.replies);
        let mut pdus = Vec::new();
        while let Some(frame) = self.decoder.next(&mut self.replies).unwrap() {
            assert!(frame.data_digest_ok);
            pdus.push(Pdu::load(frame).unwrap());
        }
        assert!(self.replies.is_empty(), "incomplete PDU");
        pdus
    }

    /// Returns the only PDU that the target sent.
    pub(crate) fn reply(&mut self) -> Pdu {
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies.remove(0)
    }
}

/// A SCSI command without data.
pub(crate) fn command(tag: u32, cmd_sn: u32) -> ScsiCommand {
    ScsiCommand { final_: true, lun: LUN, initiator_task_tag: tag, cmd_sn, ..ScsiCommand::default() }
}

/// A read command.
pub(crate) fn read(tag: u32, cmd_sn: u32, expected_length: u32) -> ScsiCommand {
    ScsiCommand { read: true, expected_length, ..command(tag, cmd_sn) }
}

/// A write command with this immediate data.
pub(crate) fn write(tag: u32, cmd_sn: u32, expected_length: u32, immediate: &[u8]) -> ScsiCommand {
    ScsiCommand { write: true, expected_length, data: Bytes::copy_from_slice(immediate), ..command(tag, cmd_sn) }
}

/// The logical unit that tests use.
pub(crate) const LUN: WireLun = WireLun(0x0001_0000_0000_0000);
