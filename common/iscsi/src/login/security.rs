//! The security negotiation of the target (RFC 7143 12.1): AuthMethod and CHAP.

use super::types::{Authentication, ChapAccount, LoginAuthority, LoginStatus};
use crate::{
    chap::{self, Algorithm, key},
    text::{Pairs, REJECT, name, split_list},
};

/// Why the initiator could not be authenticated: what it is told, and what the log should say.
pub(super) type Failure = (LoginStatus, String);

/// How far the initiator has proven itself.
#[derive(Debug)]
enum State {
    /// AuthMethod has not been settled.
    Method,
    /// CHAP was chosen; CHAP_A is to come.
    Algorithm,
    /// A challenge was sent.
    Challenged { algorithm: Algorithm, identifier: u8, challenge: Vec<u8> },
    /// All that was wanted has been proven.
    Done,
}

/// The security negotiation of one login.
#[derive(Debug)]
pub(super) struct Security {
    wanted: Authentication,
    state: State,
    /// The name that CHAP has proven.
    pub(super) user: Option<String>,
}

impl Security {
    pub(super) fn new(wanted: Authentication) -> Self {
        Self { wanted, state: State::Method, user: None }
    }

    /// Whether the login may go on: either all is proven, or nothing needs to be.
    pub(super) fn is_satisfied(&self) -> bool {
        matches!(self.state, State::Done) || matches!(self.wanted, Authentication::None)
    }

    /// Whether this key belongs to the security negotiation.
    pub(super) fn knows(key: &str) -> bool {
        key == name::AUTH_METHOD || key.starts_with("CHAP_")
    }

    /// Takes the security keys of one request and gives the answers.
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
                    return Err(failed("CHAP keys without CHAP"));
                };
                let answers = verify(&account, algorithm, identifier, &challenge, find)?;
                self.state = State::Done;
                self.user = Some(account.user);
                Ok(answers)
            }
            State::Done => Err(failed("security keys after the end of the security negotiation")),
        }
    }

    /// RFC 7143 12.1: the initiator lists the methods it can use, and the target picks one, or rejects.
    fn choose_method(&mut self, offered: Option<&str>) -> Result<Pairs, Failure> {
        let Some(offered) = offered else { return Err(failed("CHAP keys before AuthMethod")) };
        let (method, next) = match self.wanted {
            Authentication::None => ("None", State::Done),
            Authentication::Chap(_) => ("CHAP", State::Algorithm),
        };
        if !split_list(offered).any(|value| value == method) {
            return Err(failed(&format!("initiator offers AuthMethod={offered}, {method} is wanted")));
        }
        self.state = next;
        Ok(vec![(name::AUTH_METHOD.to_owned(), method.to_owned())])
    }

    /// RFC 7143 12.1.3: the target answers CHAP_A with the algorithm it chose, CHAP_I and CHAP_C.
    fn challenge(&mut self, offered: Option<&str>, authority: &mut dyn LoginAuthority) -> Result<Pairs, Failure> {
        let Some(offered) = offered else { return Err(failed("CHAP_A is missing")) };
        let Some(algorithm) = split_list(offered).find_map(Algorithm::from_value) else {
            return Err(failed(&format!("CHAP_A={offered}: {REJECT}")));
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

/// Checks CHAP_N and CHAP_R, and answers the initiator's own challenge when there is one.
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
    let response = chap::decode_binary(response).ok_or_else(|| failed("CHAP_R is no binary value"))?;
    let proven = algorithm.verify(identifier, &account.secret, challenge, &response);
    // The hash is computed for a wrong name as well, so that the time taken does not tell which names exist.
    if !chap::equal_in_constant_time(user.as_bytes(), account.user.as_bytes()) || !proven {
        return Err(failed(&format!("CHAP_N={user}: wrong name or secret")));
    }
    let (theirs_id, theirs) = match (find(key::IDENTIFIER), find(key::CHALLENGE)) {
        (None, None) => return Ok(Pairs::new()),
        (Some(id), Some(challenge)) => (id, challenge),
        _ => return Err(failed("CHAP_I without CHAP_C, or the reverse")),
    };
    let theirs_id: u8 = theirs_id.parse().map_err(|_| failed("CHAP_I is no number below 256"))?;
    let theirs = chap::decode_binary(theirs).ok_or_else(|| failed("CHAP_C is no binary value"))?;
    // A peer that does not know the secret could have us compute the response it needs: by sending our challenge back
    // (RFC 7143 12.1.3 forbids it), or, were both secrets the same, on another connection (RFC 7143 9.2.1).
    if chap::equal_in_constant_time(&theirs, challenge) {
        return Err(failed("CHAP_C is our own challenge, reflected"));
    }
    let Some((target_user, target_secret)) = &account.mutual else {
        return Err(failed("initiator wants mutual CHAP, the target has no secret"));
    };
    if chap::same_secret(target_secret, &account.secret) {
        return Err(failed("mutual CHAP with one secret for both directions"));
    }
    let response = algorithm.response(theirs_id, target_secret, &theirs);
    Ok(vec![(key::NAME.to_owned(), target_user.clone()), (key::RESPONSE.to_owned(), chap::encode_binary(&response))])
}
