//! The initiator's side of the login phase (RFC 7143 6.3).

use bytes::BytesMut;
use thiserror::Error;

use crate::{
    chap::{self, Algorithm, ChapSecret, key},
    login::{Established, SessionKind, SessionRequest, VERSION},
    output::Output,
    parameters::Parameters,
    pdu::{DecodeLimits, Decoder, Frame, LoginRequest, LoginResponse, Opcode, Stage},
    text::{self, Assembler, Negotiation, Pairs, name},
};

/// Longest text of one login response over all its PDUs, in bytes.
const MAX_TEXT_LEN: usize = 16 << 10;
/// Most responses in one login.
const MAX_RESPONSES: u32 = 64;
/// Task tag of all login requests.
const TASK_TAG: u32 = 0;
/// CmdSN of the first command.
const FIRST_CMD_SN: u32 = 1;

/// An initiator's login configuration.
#[derive(Clone, Debug)]
pub struct InitiatorLoginConfig {
    /// InitiatorName.
    pub initiator: String,
    /// InitiatorAlias.
    pub initiator_alias: Option<String>,
    /// TargetName; `None` for a discovery session.
    pub target: Option<String>,
    /// ISID.
    pub isid: [u8; 6],
    /// CID.
    pub cid: u16,
    /// Parameters to offer.
    pub offer: Parameters,
    /// CHAP credentials, if the initiator has any.
    pub chap: Option<ChapIdentity>,
}

/// The CHAP credentials of an initiator.
#[derive(Clone, Debug)]
pub struct ChapIdentity {
    /// CHAP_N to send.
    pub user: String,
    /// The initiator's secret.
    pub secret: ChapSecret,
    /// Offer only MD5. tgt interprets algorithm 7, which is SHA-256, as SHA-1.
    pub md5_only: bool,
    /// Set to authenticate the target too.
    pub mutual: Option<MutualChap>,
}

/// How to authenticate the target in mutual CHAP.
#[derive(Clone, Debug)]
pub struct MutualChap {
    /// CHAP_N that the target must send; `None` accepts any.
    pub user: Option<String>,
    /// The target's secret.
    pub secret: ChapSecret,
    /// CHAP_I to send.
    pub identifier: u8,
    /// CHAP_C to send. It must be unpredictable and must not be reused.
    pub challenge: Vec<u8>,
}

/// The progress of a login.
#[derive(Debug)]
pub enum InitiatorLoginProgress {
    /// More responses must arrive from the target.
    Pending,
    /// The full feature phase begins.
    Established(Box<Established>),
    /// Close the connection.
    Failed(LoginError),
}

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoginError {
    /// The target refused the login with this Status-Class and Status-Detail.
    #[error("target refused the login with status {0:#06x}")]
    Refused(u16),
    /// The target redirects to this TargetAddress.
    #[error("target moved to {0}")]
    Moved(String),
    /// Authentication failed at either end.
    #[error("authentication failed: {0}")]
    Authentication(&'static str),
    /// The target violated the protocol.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
}

/// The next step of the security negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    Method,
    Challenge,
    /// Expect the target's response in mutual CHAP.
    Proof(Algorithm),
    Done,
}

/// A login, from the first byte of a connection to the full feature phase or failure.
#[derive(Debug)]
pub struct InitiatorLogin {
    config: InitiatorLoginConfig,
    decoder: Decoder,
    incoming: Assembler,
    negotiation: Negotiation,
    security: Security,
    stage: Stage,
    exp_stat_sn: u32,
    max_cmd_sn: u32,
    responses: u32,
}

impl InitiatorLogin {
    /// Starts a login and puts the first request into `output`.
    pub fn start(config: InitiatorLoginConfig, output: &mut Output) -> Self {
        let login = Self {
            decoder: Decoder::new(DecodeLimits::default()),
            incoming: Assembler::new(MAX_TEXT_LEN),
            negotiation: Negotiation::new(config.offer.clone(), config.target.is_none()),
            security: Security::Method,
            stage: Stage::Security,
            exp_stat_sn: 0,
            max_cmd_sn: FIRST_CMD_SN,
            responses: 0,
            config,
        };
        let mut pairs = vec![(name::INITIATOR_NAME.to_owned(), login.config.initiator.clone())];
        let alias = login.config.initiator_alias.iter();
        pairs.extend(alias.map(|alias| (name::INITIATOR_ALIAS.to_owned(), alias.clone())));
        match &login.config.target {
            None => pairs.push((name::SESSION_TYPE.to_owned(), "Discovery".to_owned())),
            Some(target) => {
                pairs.push((name::SESSION_TYPE.to_owned(), "Normal".to_owned()));
                pairs.push((name::TARGET_NAME.to_owned(), target.clone()));
            }
        }
        let methods = match &login.config.chap {
            None => "None",
            Some(ChapIdentity { mutual: None, .. }) => "CHAP,None",
            // An initiator that authenticates the target requires CHAP.
            Some(ChapIdentity { mutual: Some(_), .. }) => "CHAP",
        };
        pairs.push((name::AUTH_METHOD.to_owned(), methods.to_owned()));
        let transit_to = login.config.chap.is_none().then_some(Stage::Operational);
        login.send(&pairs, transit_to, output);
        login
    }

    /// Processes the login responses at the front of `input`. It reads nothing after the last one.
    pub fn receive(&mut self, input: &mut BytesMut, output: &mut Output) -> InitiatorLoginProgress {
        loop {
            let step = match self.decoder.next(input) {
                Ok(None) => return InitiatorLoginProgress::Pending,
                Ok(Some(frame)) => self.step(frame, output),
                Err(_) => Err(LoginError::Protocol("malformed login response")),
            };
            match step {
                Ok(None) => {}
                Ok(Some(established)) => return InitiatorLoginProgress::Established(Box::new(established)),
                Err(error) => return InitiatorLoginProgress::Failed(error),
            }
        }
    }

    /// Returns the length in bytes of the PDU at the front of `input`, so that a reader can reserve
    /// space.
    pub fn wanted(&self, input: &[u8]) -> usize {
        self.decoder.wanted(input)
    }

    fn send(&self, pairs: &Pairs, transit_to: Option<Stage>, output: &mut Output) {
        output.push(&LoginRequest {
            stage: self.stage,
            transit_to,
            isid: self.config.isid,
            initiator_task_tag: TASK_TAG,
            cid: self.config.cid,
            cmd_sn: FIRST_CMD_SN,
            exp_stat_sn: self.exp_stat_sn,
            data: text::encode_pairs(pairs),
            ..LoginRequest::default()
        });
    }

    fn step(&mut self, frame: Frame, output: &mut Output) -> Result<Option<Established>, LoginError> {
        if frame.opcode() != Some(Opcode::LoginResponse) {
            return Err(LoginError::Protocol("not a login response"));
        }
        self.responses += 1;
        if self.responses > MAX_RESPONSES {
            return Err(LoginError::Protocol("login takes too many PDUs"));
        }
        let response = LoginResponse::load(frame).map_err(|_| LoginError::Protocol("malformed login response"))?;
        self.exp_stat_sn = response.sn.stat_sn.wrapping_add(1);
        self.max_cmd_sn = response.sn.max_cmd_sn;
        let text = self.incoming.push(&response.data, response.continued);
        let Some(pairs) = text.map_err(|_| LoginError::Protocol("malformed text"))? else {
            self.send(&Pairs::new(), None, output);
            return Ok(None);
        };
        if response.status != 0 {
            return Err(refused(response.status, &pairs));
        }
        if response.version_active != VERSION {
            return Err(LoginError::Protocol("unsupported protocol version"));
        }
        if response.stage != self.stage {
            return Err(LoginError::Protocol("login response for another stage"));
        }
        match self.stage {
            Stage::Security => self.security_step(&response, &pairs, output)?,
            _ => return self.operational_step(&response, &pairs, output),
        }
        Ok(None)
    }

    fn security_step(
        &mut self,
        response: &LoginResponse,
        pairs: &Pairs,
        output: &mut Output,
    ) -> Result<(), LoginError> {
        let find = |wanted: &str| pairs.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
        let mut answers = Pairs::new();
        match self.security {
            Security::Method => match (find(name::AUTH_METHOD), &self.config.chap) {
                (Some("CHAP"), Some(identity)) => {
                    let offer = if identity.md5_only { Algorithm::Md5.value() } else { Algorithm::OFFER.to_owned() };
                    answers.push((key::ALGORITHM.to_owned(), offer));
                    self.security = Security::Challenge;
                }
                (Some("None"), None | Some(ChapIdentity { mutual: None, .. })) => self.security = Security::Done,
                (None, None) => self.security = Security::Done,
                _ => {
                    return Err(LoginError::Authentication(
                        "target chose an authentication method that was not offered",
                    ));
                }
            },
            Security::Challenge => answers = self.answer_challenge(find)?,
            Security::Proof(algorithm) => self.check_proof(algorithm, find)?,
            Security::Done => {}
        }
        match response.transit_to {
            Some(Stage::Operational) if self.security == Security::Done => {
                self.stage = Stage::Operational;
                self.offer(output);
            }
            Some(_) => return Err(LoginError::Authentication("target left the security stage without authentication")),
            None => {
                let ready = !matches!(self.security, Security::Method | Security::Challenge);
                self.send(&answers, ready.then_some(Stage::Operational), output);
            }
        }
        Ok(())
    }

    /// Builds CHAP_N and CHAP_R for the target's challenge, and our challenge for mutual CHAP.
    fn answer_challenge<'a>(&mut self, find: impl Fn(&str) -> Option<&'a str>) -> Result<Pairs, LoginError> {
        let Some(identity) = &self.config.chap else {
            return Err(LoginError::Authentication("no CHAP secret configured"));
        };
        let challenge = (|| {
            let algorithm = Algorithm::from_value(find(key::ALGORITHM)?)?;
            let identifier: u8 = find(key::IDENTIFIER)?.parse().ok()?;
            Some((algorithm, identifier, chap::decode_binary(find(key::CHALLENGE)?)?))
        })();
        let Some((algorithm, identifier, challenge)) = challenge else {
            return Err(LoginError::Authentication("target sent no valid CHAP challenge"));
        };
        let response = algorithm.response(identifier, &identity.secret, &challenge);
        let mut answers = vec![
            (key::NAME.to_owned(), identity.user.clone()),
            (key::RESPONSE.to_owned(), chap::encode_binary(&response)),
        ];
        self.security = match &identity.mutual {
            None => Security::Done,
            Some(mutual) => {
                if chap::same_secret(&mutual.secret, &identity.secret) || mutual.challenge == challenge {
                    return Err(LoginError::Authentication("mutual CHAP needs different secrets and challenges"));
                }
                answers.push((key::IDENTIFIER.to_owned(), mutual.identifier.to_string()));
                answers.push((key::CHALLENGE.to_owned(), chap::encode_binary(&mutual.challenge)));
                Security::Proof(algorithm)
            }
        };
        Ok(answers)
    }

    fn check_proof<'a>(
        &mut self,
        algorithm: Algorithm,
        find: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<(), LoginError> {
        let Some(mutual) = self.config.chap.as_ref().and_then(|identity| identity.mutual.as_ref()) else {
            return Err(LoginError::Authentication("no target secret configured"));
        };
        let (Some(user), Some(response)) = (find(key::NAME), find(key::RESPONSE).and_then(chap::decode_binary)) else {
            return Err(LoginError::Authentication("target sent no CHAP response"));
        };
        let named = mutual.user.as_deref().is_none_or(|wanted| wanted == user);
        if !named || !algorithm.verify(mutual.identifier, &mutual.secret, &mutual.challenge, &response) {
            return Err(LoginError::Authentication("target sent a wrong CHAP response"));
        }
        self.security = Security::Done;
        Ok(())
    }

    fn offer(&mut self, output: &mut Output) {
        let offers = self.negotiation.offers();
        self.send(&offers, Some(Stage::FullFeature), output);
    }

    fn operational_step(
        &mut self,
        response: &LoginResponse,
        pairs: &Pairs,
        output: &mut Output,
    ) -> Result<Option<Established>, LoginError> {
        let declared = [name::TARGET_PORTAL_GROUP_TAG, name::TARGET_ALIAS, name::TARGET_ADDRESS];
        let settled = pairs.iter().filter(|(key, _)| !declared.contains(&key.as_str()));
        let answers = self.negotiation.receive_all(settled.map(|(key, value)| (key.as_str(), value.as_str())));
        let answers = answers.map_err(|_| LoginError::Protocol("key negotiated twice"))?;
        match response.transit_to {
            Some(Stage::FullFeature) => Ok(Some(self.establish(response.tsih))),
            Some(_) => Err(LoginError::Protocol("invalid stage transition")),
            None => {
                self.send(&answers, Some(Stage::FullFeature), output);
                Ok(None)
            }
        }
    }

    fn establish(&self, tsih: u16) -> Established {
        let kind = match &self.config.target {
            None => SessionKind::Discovery,
            Some(target) => SessionKind::Normal { target: target.clone() },
        };
        let request = SessionRequest {
            initiator: self.config.initiator.clone(),
            initiator_alias: self.config.initiator_alias.clone(),
            kind,
            isid: self.config.isid,
            tsih: 0,
            cid: self.config.cid,
            user: self.config.chap.as_ref().map(|identity| identity.user.clone()),
        };
        Established {
            request,
            tsih,
            parameters: self.negotiation.finish(),
            cmd_sn: FIRST_CMD_SN,
            max_cmd_sn: self.max_cmd_sn,
            stat_sn: self.exp_stat_sn,
        }
    }
}

/// RFC 7143 11.13.5: class 1 is a redirection and carries the new address.
fn refused(status: u16, pairs: &Pairs) -> LoginError {
    let address = pairs.iter().find(|(key, _)| key == name::TARGET_ADDRESS);
    match (status >> 8, address) {
        (1, Some((_, address))) => LoginError::Moved(address.clone()),
        _ => LoginError::Refused(status),
    }
}
