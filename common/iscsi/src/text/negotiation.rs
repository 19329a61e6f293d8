//! Settling the operational keys, as the end that asks and as the end that answers.

use super::key::{Key, Rule, TABLE};
use super::pairs::{Pairs, TextError};
use crate::parameters::Parameters;

/// Answer to a key that is not known (RFC 7143 6.2).
pub(crate) const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// Answer to a value that is not possible.
pub(crate) const REJECT: &str = "Reject";
/// Answer to a key that has no meaning for this session.
const IRRELEVANT: &str = "Irrelevant";

/// The values of a list, which is separated by commas (RFC 7143 6.1).
pub(crate) fn split_list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

/// Whether this key is settled at login.
pub(crate) fn is_operational(key: &str) -> bool {
    Key::from_name(key).is_some()
}

/// The value of MaxRecvDataSegmentLength.
pub(crate) fn parse_segment_length(value: &str) -> Option<u32> {
    match Key::MaxRecvDataSegmentLength.row().2 {
        Rule::Declared(low, high) => parse_number(value, low, high),
        _ => None,
    }
}

/// One negotiation of operational keys, from our side.
#[derive(Clone, Debug)]
pub(crate) struct Negotiation {
    ours: Parameters,
    agreed: Parameters,
    discovery: bool,
    offered: u32,
    settled: u32,
}

impl Negotiation {
    /// Nothing is settled yet: the defaults hold, and `ours` is what we are ready for.
    pub(crate) fn new(ours: Parameters, discovery: bool) -> Self {
        Self { ours, agreed: Parameters::default(), discovery, offered: 0, settled: 0 }
    }

    /// What an initiator offers: every key that means something for this session.
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

    /// Our declaration of MaxRecvDataSegmentLength, once.
    pub(crate) fn declaration(&mut self) -> Option<(String, String)> {
        let key = Key::MaxRecvDataSegmentLength;
        (self.offered & 1 << key as u8 == 0).then(|| (key.row().1.to_owned(), self.offer(key)))
    }

    /// Takes a pair of the peer; gives our answer when one is due.
    ///
    /// RFC 7143 6.2: Neither the initiator nor the target should attempt to declare or negotiate a parameter more than
    /// once during login, except for responses to specific keys that explicitly allow repeated key declarations.
    pub(crate) fn receive(&mut self, key: &str, value: &str) -> Result<Option<&'static str>, TextError> {
        // An answer that is a number is formatted by the caller's `answer`; fixed words come from here.
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

    /// Takes pairs of the peer, and gives the answers that are due.
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

    /// The value that was settled, as the answer to an offer; none for declarations.
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

    /// Makes one value of ours and theirs. The rules are symmetric, so it does not matter who asked. False when the
    /// value is not possible; what held before then goes on to hold.
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

    /// What was agreed on.
    ///
    /// RFC 7143 13.14: FirstBurstLength MUST NOT exceed MaxBurstLength.
    pub(crate) fn finish(&self) -> Parameters {
        let mut agreed = self.agreed.clone();
        agreed.first_burst_length = agreed.first_burst_length.min(agreed.max_burst_length);
        agreed
    }
}

/// RFC 7143 13.25: the marker keys are obsolete. The answer to IFMarker and OFMarker is No, that to IFMarkInt and
/// OFMarkInt is Reject.
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

/// RFC 7143 6.1: numerical-value: an unsigned integer, in decimal or hexadecimal (0x) notation.
pub(crate) fn parse_number(value: &str, low: u32, high: u32) -> Option<u32> {
    let hex = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let digits = hex.unwrap_or(value);
    // `from_str_radix` takes a sign, the RFC does not.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let radix = if hex.is_some() { 16 } else { 10 };
    u32::from_str_radix(digits, radix).ok().filter(|number| (low..=high).contains(number))
}
