//! Login tests: a scripted initiator against the target, and both state machines together.

use bytes::{Bytes, BytesMut};

use super::*;
use crate::{
    chap::{self, ChapSecret},
    initiator_connection::{ChapIdentity, LoginError, MutualChap},
    output::Output,
    pdu::{Decoder, Encode, LoginRequest, LoginResponse, NopOut, Pdu, Stage},
    testing::{Authority, INITIATOR, TARGET, initiator_config, log_in},
    text::{self, Pairs},
};

/// A target that is logged in to by hand.
struct Script {
    login: TargetLogin,
    authority: Authority,
    output: Output,
    progress: LoginProgress,
}

impl Script {
    fn new(authority: Authority) -> Self {
        let login = TargetLogin::new(LoginConfig::default());
        Self { login, authority, output: Output::default(), progress: LoginProgress::Pending }
    }

    fn send(&mut self, pdu: &impl Encode) {
        let mut wire = Output::default();
        wire.push(pdu);
        let mut input = BytesMut::from(&wire.take_all().concat()[..]);
        self.progress = self.login.receive(&mut input, &mut self.authority, &mut self.output);
    }

    /// Sends a request; gives the response and its text.
    fn ask(&mut self, request: LoginRequest, text: &[(&str, &str)]) -> (LoginResponse, Pairs) {
        self.send(&LoginRequest { data: text::encode(text.iter().copied()), ..request });
        let mut wire = BytesMut::from(&self.output.take_all().concat()[..]);
        let frame = Decoder::default().next(&mut wire).unwrap().expect("an answer");
        assert!(wire.is_empty());
        let Pdu::LoginResponse(response) = Pdu::load(frame).unwrap() else { panic!("no login response") };
        let pairs = text::parse(&response.data).unwrap();
        (response, pairs)
    }

    fn refusal(&self) -> &LoginRefusal {
        match &self.progress {
            LoginProgress::Refused(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }
}

fn request(stage: Stage, transit_to: Option<Stage>) -> LoginRequest {
    LoginRequest { stage, transit_to, isid: [1, 2, 3, 4, 5, 6], cid: 9, cmd_sn: 40, ..LoginRequest::default() }
}

fn value<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

const INTRODUCTION: [(&str, &str); 2] = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];

/// A refusal of the first request with this text.
fn first_refusal(authority: Authority, request: LoginRequest, text: &[(&str, &str)]) -> u16 {
    let mut script = Script::new(authority);
    let (response, pairs) = script.ask(request, text);
    assert_eq!(response.status, script.refusal().status as u16);
    assert_eq!(response.transit_to, None);
    assert!(pairs.is_empty());
    response.status
}

#[test]
fn login_at_operational_stage_needs_one_request() {
    let mut script = Script::new(Authority::default());
    let text = [INTRODUCTION[0], INTRODUCTION[1], ("InitialR2T", "No"), ("MaxRecvDataSegmentLength", "131072")];
    let direct = LoginRequest { exp_stat_sn: 5, ..request(Stage::Operational, Some(Stage::FullFeature)) };
    let (response, pairs) = script.ask(direct, &text);
    assert_eq!((response.status, response.stage), (0, Stage::Operational));
    assert_eq!(response.transit_to, Some(Stage::FullFeature));
    assert_eq!((response.tsih, response.sn.stat_sn, response.sn.exp_cmd_sn), (7, 5, 40));
    assert_eq!(response.sn.max_cmd_sn, 40 + 127);
    assert_eq!(value(&pairs, "TargetPortalGroupTag"), Some("1"));
    assert_eq!(value(&pairs, "InitialR2T"), Some("No"));
    assert_eq!(value(&pairs, "MaxRecvDataSegmentLength"), Some("262144"));
    let LoginProgress::Established(established) = &script.progress else { panic!("not established") };
    assert_eq!((established.stat_sn, established.cmd_sn, established.tsih), (6, 40, 7));
    assert_eq!(established.parameters.max_send_segment, 131_072);
    assert!(!established.parameters.initial_r2t);
    assert_eq!(established.request.kind, SessionKind::Normal { target: TARGET.to_owned() });
}

#[test]
fn login_without_negotiation_keeps_defaults() {
    let mut script = Script::new(Authority::default());
    let (response, pairs) = script.ask(request(Stage::Security, Some(Stage::FullFeature)), &INTRODUCTION);
    assert_eq!(response.transit_to, Some(Stage::FullFeature));
    assert_eq!(value(&pairs, "MaxRecvDataSegmentLength"), None);
    let LoginProgress::Established(established) = &script.progress else { panic!("not established") };
    assert_eq!(established.parameters, crate::Parameters::default());
}

#[test]
fn bytes_after_the_login_stay_in_the_input() {
    let mut login = TargetLogin::new(LoginConfig::default());
    let mut wire = Output::default();
    let last = request(Stage::Operational, Some(Stage::FullFeature));
    wire.push(&LoginRequest { data: text::encode(INTRODUCTION), ..last });
    wire.push(&NopOut::default());
    let mut input = BytesMut::from(&wire.take_all().concat()[..]);
    let progress = login.receive(&mut input, &mut Authority::default(), &mut Output::default());
    assert!(matches!(progress, LoginProgress::Established(_)));
    assert_eq!(input.len(), crate::pdu::BHS_LEN);
}

#[test]
fn text_in_two_requests_is_answered_once() {
    let mut script = Script::new(Authority::default());
    let first = LoginRequest { continued: true, ..request(Stage::Operational, None) };
    let (response, pairs) = script.ask(first, &INTRODUCTION);
    assert_eq!((response.status, response.transit_to, pairs.len()), (0, None, 0));
    let (response, pairs) =
        script.ask(request(Stage::Operational, Some(Stage::FullFeature)), &[("ImmediateData", "No")]);
    assert_eq!(response.transit_to, Some(Stage::FullFeature));
    assert_eq!(value(&pairs, "ImmediateData"), Some("No"));
}

#[test]
fn missing_or_wrong_names_return_their_status() {
    let go = || request(Stage::Operational, Some(Stage::FullFeature));
    assert_eq!(first_refusal(Authority::default(), go(), &[("TargetName", TARGET)]), 0x0207);
    assert_eq!(first_refusal(Authority::default(), go(), &[("InitiatorName", INITIATOR)]), 0x0207);
    let odd = [INTRODUCTION[0], INTRODUCTION[1], ("SessionType", "Odd")];
    assert_eq!(first_refusal(Authority::default(), go(), &odd), 0x0209);
    for status in [LoginStatus::NotFound, LoginStatus::AuthorizationFailure, LoginStatus::TargetRemoved] {
        let authority = Authority { authentication: Err(status), ..Authority::default() };
        assert_eq!(first_refusal(authority, go(), &INTRODUCTION), status as u16);
    }
    for status in [LoginStatus::SessionDoesNotExist, LoginStatus::TooManyConnections, LoginStatus::OutOfResources] {
        let authority = Authority { admission: Err(status), ..Authority::default() };
        assert_eq!(first_refusal(authority, go(), &INTRODUCTION), status as u16);
    }
}

#[test]
fn login_phase_violations_return_their_status() {
    let go = request(Stage::Operational, Some(Stage::FullFeature));
    let version = LoginRequest { version_min: 1, version_max: 1, ..go.clone() };
    assert_eq!(first_refusal(Authority::default(), version, &INTRODUCTION), 0x0205);
    let backwards = LoginRequest { transit_to: Some(Stage::Security), ..go.clone() };
    assert_eq!(first_refusal(Authority::default(), backwards, &INTRODUCTION), 0x0200);
    let both = LoginRequest { continued: true, ..go.clone() };
    assert_eq!(first_refusal(Authority::default(), both, &INTRODUCTION), 0x0200);
    let full = LoginRequest { stage: Stage::FullFeature, transit_to: None, ..go.clone() };
    assert_eq!(first_refusal(Authority::default(), full, &INTRODUCTION), 0x020b);
    let mut script = Script::new(Authority::default());
    script.ask(request(Stage::Security, None), &INTRODUCTION);
    let (response, _) = script.ask(LoginRequest { cid: 10, ..request(Stage::Security, None) }, &[]);
    assert_eq!(response.status, 0x0200);
}

#[test]
fn login_with_malformed_text_is_refused() {
    let mut script = Script::new(Authority::default());
    script.send(&LoginRequest { data: Bytes::from_static(b"junk\0"), ..request(Stage::Security, None) });
    assert_eq!(script.refusal().status, LoginStatus::InitiatorError);
}

#[test]
fn non_login_pdu_ends_the_login_silently() {
    let mut script = Script::new(Authority::default());
    script.send(&NopOut::default());
    assert_eq!(script.refusal().status, LoginStatus::InvalidDuringLogin);
    assert!(script.output.is_empty());
}

#[test]
fn endless_login_is_refused() {
    let mut script = Script::new(Authority::default());
    script.ask(request(Stage::Security, None), &INTRODUCTION);
    let endless = (0..100).find(|_| {
        script.ask(request(Stage::Security, None), &[]);
        matches!(script.progress, LoginProgress::Refused(_))
    });
    assert_eq!(endless, Some(63));
}

#[test]
fn both_ends_agree_after_login() {
    let mut authority = Authority::default();
    let (initiator, target) = log_in(initiator_config(), LoginConfig::default(), &mut authority);
    let (initiator, target) = (initiator.unwrap(), target.unwrap());
    assert_eq!(initiator.tsih, 7);
    assert_eq!((initiator.cmd_sn, initiator.stat_sn), (target.cmd_sn, target.stat_sn));
    assert_eq!(initiator.max_cmd_sn, target.max_cmd_sn);
    assert_eq!(initiator.parameters.max_send_segment, target.parameters.max_receive_segment);
    assert_eq!(initiator.parameters.max_receive_segment, target.parameters.max_send_segment);
    assert_eq!(initiator.parameters.digests, target.parameters.digests);
    assert_eq!(authority.admitted.len(), 1);
}

#[test]
fn discovery_login_needs_no_target_name() {
    let config = crate::initiator_connection::InitiatorLoginConfig { target: None, ..initiator_config() };
    let (initiator, target) = log_in(config, LoginConfig::default(), &mut Authority::default());
    assert_eq!(initiator.unwrap().request.kind, SessionKind::Discovery);
    assert_eq!(target.unwrap().request.kind, SessionKind::Discovery);
}

fn account(mutual: bool) -> Authority {
    let mutual = mutual.then(|| ("array".to_owned(), ChapSecret::new("secret of the target")));
    let account = ChapAccount { user: "esx1".to_owned(), secret: ChapSecret::new("secret of the host"), mutual };
    Authority { authentication: Ok(Authentication::Chap(account)), ..Authority::default() }
}

fn identity(secret: &str, target_secret: Option<&str>) -> Option<ChapIdentity> {
    let mutual = target_secret.map(|secret| MutualChap {
        user: Some("array".to_owned()),
        secret: ChapSecret::new(secret),
        identifier: 77,
        challenge: vec![0x5a; 32],
    });
    Some(ChapIdentity { user: "esx1".to_owned(), secret: ChapSecret::new(secret), md5_only: false, mutual })
}

/// A login with these secrets.
fn chap_login(mut authority: Authority, chap: Option<ChapIdentity>) -> crate::testing::LoginEnds {
    let config = crate::initiator_connection::InitiatorLoginConfig { chap, ..initiator_config() };
    log_in(config, LoginConfig::default(), &mut authority)
}

#[test]
fn chap_accepts_the_right_secret() {
    let (initiator, target) = chap_login(account(false), identity("secret of the host", None));
    assert!(initiator.is_ok());
    assert_eq!(target.unwrap().request.user.as_deref(), Some("esx1"));
}

#[test]
fn chap_refuses_wrong_user_or_secret() {
    let (initiator, target) = chap_login(account(false), identity("guess", None));
    assert_eq!(initiator, Err(LoginError::Refused(0x0201)));
    assert_eq!(target.unwrap_err().status, LoginStatus::AuthenticationFailure);
    let (initiator, _) = chap_login(account(false), None);
    assert_eq!(initiator, Err(LoginError::Refused(0x0201)));
    let other = ChapIdentity { user: "esx2".to_owned(), ..identity("secret of the host", None).unwrap() };
    let (initiator, _) = chap_login(account(false), Some(other));
    assert_eq!(initiator, Err(LoginError::Refused(0x0201)));
}

#[test]
fn mutual_chap_authenticates_both_ends() {
    let both = || identity("secret of the host", Some("secret of the target"));
    let (initiator, target) = chap_login(account(true), both());
    assert!(initiator.is_ok() && target.is_ok());
    let (initiator, _) = chap_login(account(true), identity("secret of the host", Some("not the target's")));
    assert_eq!(initiator, Err(LoginError::Authentication("target sent a wrong CHAP response")));
    let (initiator, _) = chap_login(account(false), both());
    assert_eq!(initiator, Err(LoginError::Refused(0x0201)));
    let (initiator, _) = chap_login(Authority::default(), both());
    assert_eq!(initiator, Err(LoginError::Refused(0x0201)), "a target without a secret cannot authenticate");
}

/// AuthMethod and CHAP_A by hand, up to the challenge.
fn challenged(script: &mut Script, algorithms: &str) -> (u8, Vec<u8>, Pairs) {
    let text = [INTRODUCTION[0], INTRODUCTION[1], ("AuthMethod", "CHAP,None")];
    let (_, pairs) = script.ask(request(Stage::Security, None), &text);
    assert_eq!(value(&pairs, "AuthMethod"), Some("CHAP"));
    let (_, pairs) = script.ask(request(Stage::Security, None), &[("CHAP_A", algorithms)]);
    let identifier = value(&pairs, "CHAP_I").unwrap().parse().unwrap();
    let challenge = chap::decode_binary(value(&pairs, "CHAP_C").unwrap()).unwrap();
    (identifier, challenge, pairs)
}

#[test]
fn chap_accepts_md5_when_offered() {
    let mut script = Script::new(account(false));
    let (identifier, challenge, pairs) = challenged(&mut script, "6,5");
    assert_eq!(value(&pairs, "CHAP_A"), Some("5"));
    let proof = chap::Algorithm::Md5.response(identifier, &ChapSecret::new("secret of the host"), &challenge);
    let text = [("CHAP_N", "esx1"), ("CHAP_R", &chap::encode_binary(&proof)[..])];
    let (response, _) = script.ask(request(Stage::Security, Some(Stage::Operational)), &text);
    assert_eq!((response.status, response.transit_to), (0, Some(Stage::Operational)));
}

#[test]
fn reflected_chap_challenge_is_refused() {
    let mut script = Script::new(account(true));
    let (identifier, challenge, _) = challenged(&mut script, "7");
    let proof = chap::Algorithm::Sha256.response(identifier, &ChapSecret::new("secret of the host"), &challenge);
    let (proof, reflected) = (chap::encode_binary(&proof), chap::encode_binary(&challenge));
    let text = [("CHAP_N", "esx1"), ("CHAP_R", &proof[..]), ("CHAP_I", "3"), ("CHAP_C", &reflected[..])];
    let (response, pairs) = script.ask(request(Stage::Security, Some(Stage::Operational)), &text);
    assert_eq!(response.status, 0x0201);
    assert_eq!(value(&pairs, "CHAP_R"), None);
}

#[test]
fn chap_cannot_be_skipped() {
    let skip = request(Stage::Operational, Some(Stage::FullFeature));
    assert_eq!(first_refusal(account(false), skip, &INTRODUCTION), 0x0201);
    let skip = request(Stage::Security, Some(Stage::FullFeature));
    assert_eq!(first_refusal(account(false), skip, &INTRODUCTION), 0x0201);
    let mut script = Script::new(account(false));
    challenged(&mut script, "5,7");
    let (response, _) = script.ask(request(Stage::Security, Some(Stage::FullFeature)), &[]);
    assert_eq!(response.status, 0x0201);
    let mut script = Script::new(account(false));
    challenged(&mut script, "5,7");
    let (response, _) = script.ask(request(Stage::Security, Some(Stage::Operational)), &[("AuthMethod", "None")]);
    assert_eq!(response.status, 0x0201);
}

#[test]
fn values_in_refusals_forge_no_log_lines() {
    let forged = "Disc\n2026-01-01 ERROR forged\u{1b}[0m\u{2028}";
    let introduction = [("InitiatorName", INITIATOR), ("SessionType", forged)];
    let mut script = Script::new(account(false));
    script.ask(request(Stage::Security, None), &introduction);
    let refusal = script.refusal().to_string();
    assert!(refusal.contains(r"Disc\n2026-01-01 ERROR forged\u{1b}[0m\u{2028}"), "{refusal}");
    let mut script = Script::new(account(false));
    script.ask(request(Stage::Security, None), &[INTRODUCTION[0], INTRODUCTION[1], ("AuthMethod", "None\r\nforged")]);
    assert!(!script.refusal().to_string().contains(char::is_control), "{}", script.refusal());
}

#[test]
fn names_with_line_ends_or_changed_order_are_refused() {
    for name in ["iqn.2026-11.org:a\nb", "iqn.2026-11.org:a\u{2028}b", "iqn.2026-11.org:a\u{202e}b"] {
        let mut script = Script::new(Authority::default());
        script.ask(request(Stage::Security, None), &[("InitiatorName", name), INTRODUCTION[1]]);
        let refusal = script.refusal();
        assert_eq!((refusal.status, &refusal.initiator), (LoginStatus::MissingParameter, &None), "{name:?}");
    }
}

#[test]
fn refusal_names_an_initiator_that_is_not_admitted() {
    let mut script =
        Script::new(Authority { authentication: Err(LoginStatus::AuthorizationFailure), ..Authority::default() });
    script.ask(request(Stage::Security, None), &INTRODUCTION);
    assert_eq!(script.refusal().initiator.as_deref(), Some(INITIATOR));
    let mut script = Script::new(Authority::default());
    script.ask(request(Stage::Security, None), &INTRODUCTION[1..]);
    assert_eq!(script.refusal().initiator, None);
}
