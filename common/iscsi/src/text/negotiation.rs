//! Negotiates the operational keys, as initiator or target.

use super::key::{Key, Rule, TABLE};
use super::pairs::{Pairs, TextError};
use crate::parameters::Parameters;

/// Answer to an unknown key (RFC 7143 6.2).
pub(crate) const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// Answer to an invalid value.
pub(crate) const REJECT: &str = "Reject";
/// Answer to a key that is irrelevant for the session.
const IRRELEVANT: &str = "Irrelevant";

/// Splits a list at its commas (RFC 7143 6.1).
pub(crate) fn split_list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

/// Returns true if the key is negotiated at login.
pub(crate) fn is_operational(key: &str) -> bool {
    Key::from_name(key).is_some()
}

/// Parses a MaxRecvDataSegmentLength value.
pub(crate) fn parse_segment_length(value: &str) -> Option<u32> {
    match Key::MaxRecvDataSegmentLength.row().2 {
        Rule::Declared(low, high) => parse_number(value, low, high),
        _ => None,
    }
}

/// The negotiation of operational keys at one end.
#[derive(Clone, Debug)]
pub(crate) struct Negotiation {
    ours: Parameters,
    agreed: Parameters,
    discovery: bool,
    offered: u32,
    settled: u32,
}

impl Negotiation {
    /// Starts with the default values; `ours` is our offer.
    pub(crate) fn new(ours: Parameters, discovery: bool) -> Self {
        Self { ours, agreed: Parameters::default(), discovery, offered: 0, settled: 0 }
    }

    /// Returns the offers of an initiator: every key relevant for the session.
    pub(crate) fn offers(&mut self) -> Pairs {
        let keys = TABLE.iter().filter(|row| !(self.discovery && row.3) && row.0 != Key::TaskReporting);
        let keys: Vec<Key> = keys.map(|row| row.0).collect();
        keys.into_iter().map(|key| (key.row().1.to_owned(), self.offer(key))).collect()
    }

    fn offer(&mut self, key: Key) -> String {
        self.offered |= 1 << key as u8;
        match key.row().2 {
            Rule::List => key.list(&self.ours).join(","),
            Rule::And | Rule::Or => yes_no(key.number(&self.ours) != 0).to_owned(),
            Rule::Declared(..) => {
                self.agreed.max_receive_segment = self.ours.max_receive_segment;
                self.ours.max_receive_segment.to_string()
            }
            Rule::Min(..) | Rule::Max(..) => key.number(&self.ours).to_string(),
        }
    }

    /// Declares our MaxRecvDataSegmentLength, once.
    pub(crate) fn declaration(&mut self) -> Option<(String, String)> {
        let key = Key::MaxRecvDataSegmentLength;
        (self.offered & 1 << key as u8 == 0).then(|| (key.row().1.to_owned(), self.offer(key)))
    }

    /// Processes a pair from the peer; returns our answer if it is a fixed word.
    ///
    /// RFC 7143 6.2: Neither the initiator nor the target should attempt to declare or negotiate a
    /// parameter more than once during login, except for responses to specific keys that explicitly
    /// allow repeated key declarations.
    pub(crate) fn receive(&mut self, key: &str, value: &str) -> Result<Option<&'static str>, TextError> {
        // `answer` formats numeric answers.
        let Some(known) = Key::from_name(key) else {
            return Ok(Some(answer_to_unknown(key)));
        };
        let bit = 1 << known as u8;
        if self.settled & bit != 0 {
            return Err(TextError::Repeated);
        }
        self.settled |= bit;
        let is_answer = self.offered & bit != 0;
        if is_answer && [NOT_UNDERSTOOD, REJECT, IRRELEVANT].contains(&value) {
            return Ok(None);
        }
        if self.discovery && known.row().3 && !is_answer {
            return Ok(Some(IRRELEVANT));
        }
        Ok(if self.settle(known, value) { None } else { Some(REJECT) })
    }

    /// Processes pairs from the peer and returns the answers.
    pub(crate) fn receive_all<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Pairs, TextError> {
        let mut answers = Pairs::new();
        for (key, value) in pairs {
            if let Some(word) = self.receive(key, value)? {
                answers.push((key.to_owned(), word.to_owned()));
            } else if let Some(known) = Key::from_name(key)
                && self.offered & (1 << known as u8) == 0
                && let Some(answer) = self.answer(known)
            {
                answers.push((key.to_owned(), answer));
            }
        }
        Ok(answers)
    }

    /// Returns the negotiated value as the answer to an offer; `None` for declarations.
    fn answer(&self, key: Key) -> Option<String> {
        Some(match key.row().2 {
            Rule::List => match key {
                Key::HeaderDigest => digest_name(self.agreed.digests.header).to_owned(),
                Key::DataDigest => digest_name(self.agreed.digests.data).to_owned(),
                _ => key.list(&self.agreed)[0].to_owned(),
            },
            Rule::And | Rule::Or => yes_no(key.number(&self.agreed) != 0).to_owned(),
            Rule::Min(..) | Rule::Max(..) => key.number(&self.agreed).to_string(),
            Rule::Declared(..) => return None,
        })
    }

    /// Combines our value and the peer's. The rules are symmetric, so it does not matter which end
    /// offered. Returns false if the value is invalid; the previous value then still applies.
    fn settle(&mut self, key: Key, value: &str) -> bool {
        let ours = key.number(&self.ours);
        let number = match key.row().2 {
            Rule::List => {
                let supported = key.list(&self.ours);
                let Some(chosen) = split_list(value).find(|v| supported.contains(v)) else { return false };
                key.set_list(&mut self.agreed, chosen);
                return true;
            }
            Rule::And => parse_bool(value).map(|theirs| u32::from(theirs && ours != 0)),
            Rule::Or => parse_bool(value).map(|theirs| u32::from(theirs || ours != 0)),
            Rule::Min(low, high) => parse_number(value, low, high).map(|theirs| theirs.min(ours)),
            Rule::Max(low, high) => parse_number(value, low, high).map(|theirs| theirs.max(ours)),
            Rule::Declared(low, high) => parse_number(value, low, high),
        };
        let Some(number) = number else { return false };
        key.set_number(&mut self.agreed, number);
        true
    }

    /// Returns the negotiated parameters.
    ///
    /// RFC 7143 13.14: FirstBurstLength MUST NOT exceed MaxBurstLength.
    pub(crate) fn finish(&self) -> Parameters {
        let mut agreed = self.agreed.clone();
        agreed.first_burst_length = agreed.first_burst_length.min(agreed.max_burst_length);
        agreed
    }
}

/// RFC 7143 13.25: the marker keys are obsolete. IFMarker and OFMarker are answered with No,
/// IFMarkInt and OFMarkInt with Reject.
fn answer_to_unknown(key: &str) -> &'static str {
    match key {
        "IFMarker" | "OFMarker" => "No",
        "IFMarkInt" | "OFMarkInt" => REJECT,
        _ => NOT_UNDERSTOOD,
    }
}

fn yes_no(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

fn digest_name(on: bool) -> &'static str {
    if on { "CRC32C" } else { "None" }
}

fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// RFC 7143 6.1: a numerical-value is an unsigned integer in decimal or hexadecimal (0x) notation.
pub(crate) fn parse_number(value: &str, low: u32, high: u32) -> Option<u32> {
    let hex = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let digits = hex.unwrap_or(value);
    // `from_str_radix` accepts a sign, the RFC does not.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let radix = if hex.is_some() { 16 } else { 10 };
    u32::from_str_radix(digits, radix).ok().filter(|number| (low..=high).contains(number))
}
