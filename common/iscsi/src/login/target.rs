//! The target's side of the login phase (RFC 7143 6.3).

use bytes::BytesMut;

use super::security::Security;
use super::types::{
    Authentication, Established, LoginAuthority, LoginProgress, LoginRefusal, LoginStatus, SessionKind, SessionRequest,
    VERSION,
};
use crate::{
    output::Output,
    parameters::{DEFAULT_COMMAND_WINDOW, Parameters},
    pdu::{DecodeLimits, Decoder, Frame, LoginRequest, LoginResponse, Opcode, Stage, TargetSn},
    text::{self, Assembler, Negotiation, Pairs, name},
};

/// Longest text of one login request over all its PDUs, in bytes.
const MAX_TEXT_LEN: usize = 16 << 10;
/// Most requests in one login. Mutual CHAP needs six; the limit stops initiators that never finish.
const MAX_REQUESTS: u32 = 64;
/// Longest iSCSI name in bytes (RFC 7143 4.2.7.2).
const MAX_NAME_LEN: usize = 223;

/// The login configuration of a portal.
#[derive(Clone, Debug)]
pub struct LoginConfig {
    /// TargetPortalGroupTag of the portal (RFC 7143 13.9).
    pub portal_group_tag: u16,
    /// TargetAlias.
    pub target_alias: Option<String>,
    /// Parameters to offer.
    pub offer: Parameters,
    /// Number of outstanding commands; the same as
    /// [`ConnectionLimits::command_window`](crate::target_connection::ConnectionLimits).
    pub command_window: u32,
}

impl Default for LoginConfig {
    fn default() -> Self {
        Self {
            portal_group_tag: 1,
            target_alias: None,
            offer: Parameters::offer_of_target(),
            command_window: DEFAULT_COMMAND_WINDOW,
        }
    }
}

/// The initiator and session type, from the first request.
#[derive(Debug)]
struct Identity {
    initiator: String,
    initiator_alias: Option<String>,
    kind: SessionKind,
    security: Security,
    negotiation: Negotiation,
}

/// Header fields that the first request fixes for the whole login.
#[derive(Clone, Copy, Debug)]
struct FirstRequest {
    isid: [u8; 6],
    tsih: u16,
    cid: u16,
    cmd_sn: u32,
}

/// A login, from the first byte of a connection to the full feature phase or refusal.
#[derive(Debug)]
pub struct TargetLogin {
    config: LoginConfig,
    decoder: Decoder,
    text: Assembler,
    stage: Stage,
    stat_sn: u32,
    requests: u32,
    first: Option<FirstRequest>,
    /// The name in the first text, whether or not the initiator is admitted.
    claimed_name: Option<String>,
    identity: Option<Identity>,
}

/// Why a login was refused: the status for the initiator and the text for the log.
type Refusal = (LoginStatus, String);

fn refusal(status: LoginStatus, detail: impl Into<String>) -> Refusal {
    (status, detail.into())
}

/// The answer to one complete request.
struct Answer {
    pairs: Pairs,
    transit_to: Option<Stage>,
}

impl TargetLogin {
    /// Creates a login that has received nothing.
    pub fn new(config: LoginConfig) -> Self {
        Self {
            config,
            decoder: Decoder::new(DecodeLimits::default()),
            text: Assembler::new(MAX_TEXT_LEN),
            stage: Stage::Security,
            stat_sn: 0,
            requests: 0,
            first: None,
            claimed_name: None,
            identity: None,
        }
    }

    /// Processes the login requests at the front of `input`. It reads nothing after the last one:
    /// those bytes belong to the full feature phase.
    pub fn receive(
        &mut self,
        input: &mut BytesMut,
        authority: &mut dyn LoginAuthority,
        output: &mut Output,
    ) -> LoginProgress {
        loop {
            let frame = match self.decoder.next(input) {
                Ok(Some(frame)) => frame,
                Ok(None) => return LoginProgress::Pending,
                Err(error) => return self.refused(LoginStatus::InitiatorError, error.to_string()),
            };
            match self.step(frame, authority, output) {
                Ok(None) => {}
                Ok(Some(established)) => return LoginProgress::Established(Box::new(established)),
                Err((status, detail)) => return self.refused(status, detail),
            }
        }
    }

    /// Returns the length in bytes of the PDU at the front of `input`, so that a reader can reserve
    /// space.
    pub fn wanted(&self, input: &[u8]) -> usize {
        self.decoder.wanted(input)
    }

    fn refused(&self, status: LoginStatus, detail: String) -> LoginProgress {
        let initiator = self.claimed_name.clone();
        LoginProgress::Refused(LoginRefusal { status, detail: escape_for_log(&detail), initiator })
    }

    /// Processes one PDU. The response goes to the output, also after an error.
    fn step(
        &mut self,
        frame: Frame,
        authority: &mut dyn LoginAuthority,
        output: &mut Output,
    ) -> Result<Option<Established>, Refusal> {
        // RFC 7143 6.3: a connection that does not begin with a Login Request is closed without a
        // response. The same applies to other PDUs during login, which offer nothing to build a
        // response from.
        if frame.opcode() != Some(Opcode::LoginRequest) {
            return Err(refusal(LoginStatus::InvalidDuringLogin, "not a login request"));
        }
        let mut response = LoginResponse { stage: self.stage, version_active: VERSION, ..LoginResponse::default() };
        response.isid.copy_from_slice(&frame.bhs[8..14]);
        response.initiator_task_tag = frame.initiator_task_tag();
        let loaded = LoginRequest::load(frame);
        let result = match loaded {
            Ok(request) => self.handle(&request, authority, &mut response),
            Err(error) => Err(refusal(LoginStatus::InitiatorError, error.to_string())),
        };
        if let Err((status, _)) = &result {
            response.status = *status as u16;
            response.transit_to = None;
            response.continued = false;
        }
        let cmd_sn = self.first.map_or(0, |first| first.cmd_sn);
        let max_cmd_sn = cmd_sn.wrapping_add(self.config.command_window.saturating_sub(1));
        response.sn = TargetSn { stat_sn: self.stat_sn, exp_cmd_sn: cmd_sn, max_cmd_sn };
        self.stat_sn = self.stat_sn.wrapping_add(1);
        output.push(&response);
        Ok(result?.map(|established| Established { stat_sn: self.stat_sn, max_cmd_sn, ..established }))
    }

    fn handle(
        &mut self,
        request: &LoginRequest,
        authority: &mut dyn LoginAuthority,
        response: &mut LoginResponse,
    ) -> Result<Option<Established>, Refusal> {
        let first = self.check_header(request)?;
        response.stage = self.stage;
        response.tsih = first.tsih;
        let too_much = |error: text::TextError| refusal(LoginStatus::InitiatorError, error.to_string());
        let Some(pairs) = self.text.push(&request.data, request.continued).map_err(too_much)? else {
            return Ok(None);
        };
        let answer = self.answer(request, &pairs, authority)?;
        response.transit_to = answer.transit_to;
        let established = match answer.transit_to {
            Some(Stage::FullFeature) => Some(self.establish(first, authority)?),
            Some(stage) => {
                self.stage = stage;
                None
            }
            None => None,
        };
        if let Some(established) = &established {
            response.tsih = established.tsih;
        }
        response.data = text::encode_pairs(&answer.pairs);
        Ok(established)
    }

    /// Checks the header fields across requests.
    fn check_header(&mut self, request: &LoginRequest) -> Result<FirstRequest, Refusal> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(refusal(LoginStatus::InitiatorError, "login takes too many PDUs"));
        }
        let first = match self.first {
            Some(first) => first,
            None => {
                // RFC 7143 11.13.2: the target chooses the first StatSN; it uses the one that the
                // initiator expects.
                self.stat_sn = request.exp_stat_sn;
                self.stage = request.stage;
                let LoginRequest { isid, tsih, cid, cmd_sn, .. } = *request;
                *self.first.insert(FirstRequest { isid, tsih, cid, cmd_sn })
            }
        };
        // RFC 7143 11.12.5: the initiator's lowest version must not exceed ours.
        if request.version_min > VERSION {
            return Err(refusal(
                LoginStatus::UnsupportedVersion,
                format!("initiator requires version {} or later", request.version_min),
            ));
        }
        if (request.isid, request.cid) != (first.isid, first.cid) {
            return Err(refusal(LoginStatus::InitiatorError, "ISID or CID changed during login"));
        }
        if request.stage != self.stage || request.stage == Stage::FullFeature {
            let detail = format!("request for stage {:?} during stage {:?}", request.stage, self.stage);
            return Err(refusal(LoginStatus::InvalidDuringLogin, detail));
        }
        // RFC 7143 11.12.2: A Login Request with the C bit set to 1 MUST have the T bit set to 0.
        let backwards = request.transit_to.is_some_and(|next| next <= request.stage);
        if backwards || (request.continued && request.transit_to.is_some()) {
            return Err(refusal(LoginStatus::InitiatorError, "invalid stage transition"));
        }
        Ok(first)
    }

    /// Answers a complete text.
    fn answer(
        &mut self,
        request: &LoginRequest,
        pairs: &Pairs,
        authority: &mut dyn LoginAuthority,
    ) -> Result<Answer, Refusal> {
        let mut answers = Pairs::new();
        if self.identity.is_none() {
            self.claimed_name = find(pairs, name::INITIATOR_NAME).and_then(normalise_name);
            let identity = identify_initiator(pairs, authority, &self.config)?;
            if let SessionKind::Normal { .. } = identity.kind {
                // RFC 7143 13.9: the first response of a normal session carries the portal group
                // tag.
                let tag = self.config.portal_group_tag.to_string();
                answers.push((name::TARGET_PORTAL_GROUP_TAG.to_owned(), tag));
                let alias = self.config.target_alias.iter();
                answers.extend(alias.map(|alias| (name::TARGET_ALIAS.to_owned(), alias.clone())));
            }
            self.identity = Some(identity);
        }
        let Some(identity) = &mut self.identity else {
            return Err(refusal(LoginStatus::TargetError, "initiator not identified"));
        };
        let (security, operational): (Pairs, Pairs) = pairs
            .iter()
            .filter(|(key, _)| !is_identity_key(key))
            .cloned()
            .partition(|(key, _)| Security::is_security_key(key));
        if self.stage == Stage::Security {
            answers.extend(identity.security.receive(&security, authority)?);
        } else if !security.is_empty() || !identity.security.is_satisfied() {
            return Err(refusal(
                LoginStatus::AuthenticationFailure,
                "authentication missing or outside the security stage",
            ));
        }
        let offers = operational.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let settled = identity.negotiation.receive_all(offers);
        answers.extend(settled.map_err(|error| refusal(LoginStatus::InitiatorError, error.to_string()))?);
        if self.stage == Stage::Operational {
            answers.extend(identity.negotiation.declaration());
        }
        let transit_to = request.transit_to.filter(|_| identity.security.is_satisfied());
        if request.transit_to.is_some() && transit_to.is_none() && security.is_empty() {
            // The initiator tries to leave the stage without authentication.
            return Err(refusal(LoginStatus::AuthenticationFailure, "authentication is required"));
        }
        Ok(Answer { pairs: answers, transit_to })
    }

    fn establish(&self, first: FirstRequest, authority: &mut dyn LoginAuthority) -> Result<Established, Refusal> {
        let Some(identity) = &self.identity else {
            return Err(refusal(LoginStatus::MissingParameter, "InitiatorName missing"));
        };
        let request = SessionRequest {
            initiator: identity.initiator.clone(),
            initiator_alias: identity.initiator_alias.clone(),
            kind: identity.kind.clone(),
            isid: first.isid,
            tsih: first.tsih,
            cid: first.cid,
            user: identity.security.user.clone(),
        };
        let tsih = authority.admit(&request).map_err(|status| refusal(status, "session refused by the array"))?;
        let parameters = identity.negotiation.finish();
        Ok(Established { request, tsih, parameters, cmd_sn: first.cmd_sn, max_cmd_sn: first.cmd_sn, stat_sn: 0 })
    }
}

/// Longest detail of a refusal, in characters.
const MAX_DETAIL_CHARS: usize = 500;

/// Returns the text with control characters and line separators escaped, so that values from the
/// wire forge no log lines.
fn escape_for_log(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars().take(MAX_DETAIL_CHARS) {
        if is_harmful(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Returns true for characters that end a line or change its order on a screen.
fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns true for keys that identify the initiator and the session.
fn is_identity_key(key: &str) -> bool {
    [name::INITIATOR_NAME, name::INITIATOR_ALIAS, name::TARGET_NAME, name::SESSION_TYPE].contains(&key)
}

/// Reads the initiator and session type from the first text and asks the authority how the
/// initiator must authenticate.
///
/// RFC 7143 13.5: The initiator of the TCP connection MUST provide this key to the remote endpoint
/// at the first login of the Login Phase for every connection.
fn identify_initiator(
    pairs: &Pairs,
    authority: &mut dyn LoginAuthority,
    config: &LoginConfig,
) -> Result<Identity, Refusal> {
    let find = |wanted: &str| find(pairs, wanted);
    let missing = |key: &str| refusal(LoginStatus::MissingParameter, format!("{key} missing or invalid"));
    let initiator = find(name::INITIATOR_NAME).and_then(normalise_name);
    let initiator = initiator.ok_or_else(|| missing(name::INITIATOR_NAME))?;
    let kind = match find(name::SESSION_TYPE) {
        Some("Discovery") => SessionKind::Discovery,
        None | Some("Normal") => {
            let target = find(name::TARGET_NAME).and_then(normalise_name);
            SessionKind::Normal { target: target.ok_or_else(|| missing(name::TARGET_NAME))? }
        }
        Some(other) => {
            return Err(refusal(LoginStatus::SessionTypeNotSupported, format!("SessionType={other} is unknown")));
        }
    };
    let wanted: Authentication = authority
        .authentication(&initiator, &kind)
        .map_err(|status| refusal(status, format!("initiator {initiator}, target {:?}", kind.target())))?;
    let mut offer = config.offer.clone();
    if kind == SessionKind::Discovery {
        // SendTargets is short. Long data segments would only use memory.
        offer.max_receive_segment = offer.max_receive_segment.min(Parameters::default().max_receive_segment);
    }
    Ok(Identity {
        initiator,
        initiator_alias: find(name::INITIATOR_ALIAS).map(str::to_owned),
        negotiation: Negotiation::new(offer, kind == SessionKind::Discovery),
        kind,
        security: Security::new(wanted),
    })
}

/// Returns the value of a key.
fn find<'a>(pairs: &'a Pairs, wanted: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str())
}

/// Normalises an iSCSI name to lower case (RFC 7143 4.2.7.1); `None` if it is empty, too long or
/// malformed.
fn normalise_name(name: &str) -> Option<String> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME_LEN && name.chars().all(|c| !is_harmful(c) && c != ' ');
    fits.then(|| name.to_lowercase())
}
