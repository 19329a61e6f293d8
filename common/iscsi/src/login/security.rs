//! The security negotiation of the target (RFC 7143 12.1): AuthMethod and CHAP.

use super::types::{Authentication, ChapAccount, LoginAuthority, LoginStatus};
use crate::{
    chap::{self, Algorithm, key},
    text::{Pairs, name, split_list},
};

/// Why authentication failed: the status for the initiator and the text for the log.
pub(super) type Failure = (LoginStatus, String);

/// State of the security negotiation.
#[derive(Debug)]
enum State {
    /// AuthMethod is not negotiated yet.
    Method,
    /// CHAP was chosen; expect CHAP_A.
    Algorithm,
    /// A challenge was sent; expect the response.
    Challenged { algorithm: Algorithm, identifier: u8, challenge: Vec<u8> },
    /// Authentication is complete.
    Done,
}

/// The security negotiation of one login.
#[derive(Debug)]
pub(super) struct Security {
    wanted: Authentication,
    state: State,
    /// The user name that CHAP authenticated.
    pub(super) user: Option<String>,
}

impl Security {
    pub(super) fn new(wanted: Authentication) -> Self {
        Self { wanted, state: State::Method, user: None }
    }

    /// Returns true if the login may leave the security stage: authentication is complete or not
    /// required.
    pub(super) fn is_satisfied(&self) -> bool {
        matches!(self.state, State::Done) || matches!(self.wanted, Authentication::None)
    }

    /// Returns true if the key belongs to the security negotiation.
    pub(super) fn is_security_key(key: &str) -> bool {
        key == name::AUTH_METHOD || key.starts_with("CHAP_")
    }

    /// Processes the security keys of one request and returns the answers.
    pub(super) fn receive(&mut self, keys: &Pairs, authority: &mut dyn LoginAuthority) -> Result<Pairs, Failure> {
        if keys.is_empty() {
            return Ok(Pairs::new());
        }
        let find = |wanted: &str| keys.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
        match std::mem::replace(&mut self.state, State::Method) {
            State::Method => self.choose_method(find(name::AUTH_METHOD)),
            State::Algorithm => self.challenge(find(key::ALGORITHM), authority),
            State::Challenged { algorithm, identifier, challenge } => {
                let Authentication::Chap(account) = self.wanted.clone() else {
                    return Err(failed("CHAP keys, but CHAP is not configured"));
                };
                let answers = verify(&account, algorithm, identifier, &challenge, find)?;
                self.state = State::Done;
                self.user = Some(account.user);
                Ok(answers)
            }
            State::Done => Err(failed("security keys after the security negotiation ended")),
        }
    }

    /// RFC 7143 12.1: the initiator lists its methods; the target picks one or rejects.
    fn choose_method(&mut self, offered: Option<&str>) -> Result<Pairs, Failure> {
        let Some(offered) = offered else { return Err(failed("CHAP keys before AuthMethod")) };
        let (method, next) = match self.wanted {
            Authentication::None => ("None", State::Done),
            Authentication::Chap(_) => ("CHAP", State::Algorithm),
        };
        if !split_list(offered).any(|value| value == method) {
            return Err(failed(&format!("initiator offers AuthMethod={offered}, {method} is required")));
        }
        self.state = next;
        Ok(vec![(name::AUTH_METHOD.to_owned(), method.to_owned())])
    }

    /// RFC 7143 12.1.3: the target answers CHAP_A with its chosen algorithm, CHAP_I and CHAP_C.
    fn challenge(&mut self, offered: Option<&str>, authority: &mut dyn LoginAuthority) -> Result<Pairs, Failure> {
        let Some(offered) = offered else { return Err(failed("CHAP_A is missing")) };
        let Some(algorithm) = split_list(offered).find_map(Algorithm::from_value) else {
            return Err(failed(&format!("CHAP_A={offered} offers no supported algorithm")));
        };
        let mut random = vec![0; 1 + algorithm.len()];
        authority.fill_random(&mut random);
        let (identifier, challenge) = (random[0], random.split_off(1));
        let answers = vec![
            (key::ALGORITHM.to_owned(), algorithm.value()),
            (key::IDENTIFIER.to_owned(), identifier.to_string()),
            (key::CHALLENGE.to_owned(), chap::encode_binary(&challenge)),
        ];
        self.state = State::Challenged { algorithm, identifier, challenge };
        Ok(answers)
    }
}

fn failed(detail: &str) -> Failure {
    (LoginStatus::AuthenticationFailure, detail.to_owned())
}

/// Checks CHAP_N and CHAP_R; answers the initiator's own challenge if it sent one.
fn verify<'a>(
    account: &ChapAccount,
    algorithm: Algorithm,
    identifier: u8,
    challenge: &[u8],
    find: impl Fn(&str) -> Option<&'a str>,
) -> Result<Pairs, Failure> {
    let (Some(user), Some(response)) = (find(key::NAME), find(key::RESPONSE)) else {
        return Err(failed("CHAP_N or CHAP_R is missing"));
    };
    let response = chap::decode_binary(response).ok_or_else(|| failed("CHAP_R is not a binary value"))?;
    let proven = algorithm.verify(identifier, &account.secret, challenge, &response);
    // The hash is computed even for a wrong name, so that timing does not reveal valid names.
    if !chap::equal_in_constant_time(user.as_bytes(), account.user.as_bytes()) || !proven {
        return Err(failed(&format!("CHAP_N={user}: wrong name or secret")));
    }
    let (theirs_id, theirs) = match (find(key::IDENTIFIER), find(key::CHALLENGE)) {
        (None, None) => return Ok(Pairs::new()),
        (Some(id), Some(challenge)) => (id, challenge),
        _ => return Err(failed("CHAP_I and CHAP_C must be sent together")),
    };
    let theirs_id: u8 = theirs_id.parse().map_err(|_| failed("CHAP_I is not a number below 256"))?;
    let theirs = chap::decode_binary(theirs).ok_or_else(|| failed("CHAP_C is not a binary value"))?;
    // A peer without the secret could obtain the response it needs by reflecting our challenge
    // (forbidden by RFC 7143 12.1.3) or, with equal secrets, on another connection (RFC 7143
    // 9.2.1).
    if chap::equal_in_constant_time(&theirs, challenge) {
        return Err(failed("CHAP_C reflects our own challenge"));
    }
    let Some((target_user, target_secret)) = &account.mutual else {
        return Err(failed("initiator requests mutual CHAP, but the target has no secret"));
    };
    if chap::same_secret(target_secret, &account.secret) {
        return Err(failed("mutual CHAP uses the same secret in both directions"));
    }
    let response = algorithm.response(theirs_id, target_secret, &theirs);
    Ok(vec![(key::NAME.to_owned(), target_user.clone()), (key::RESPONSE.to_owned(), chap::encode_binary(&response))])
}
