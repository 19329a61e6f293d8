//! Reads and writes lists of `key=value` pairs (RFC 7143 6.1), also when several PDUs carry one.

use bytes::{Bytes, BytesMut};
use thiserror::Error;

/// Longest key name.
///
/// RFC 7143 6.1: a key-name has at most 63 characters.
const MAX_KEY_LEN: usize = 63;
/// Longest value; binary values in hex are the longest ones (RFC 7143 6.1: 1024 bytes, so 2050 characters).
const MAX_VALUE_LEN: usize = 2050;
/// Most pairs in one text: far more than there are keys.
const MAX_PAIRS: usize = 256;

/// Why bytes are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TextError {
    /// A pair without `=`, or with an impossible key.
    #[error("text that is no key=value pair")]
    Malformed,
    /// A key or value that is too long, too many pairs, or too much text in all.
    #[error("text too long")]
    TooLong,
    /// Bytes that are not UTF-8.
    #[error("text that is not UTF-8")]
    Encoding,
    /// A key that comes twice.
    #[error("a key was given twice")]
    Repeated,
}

/// Pairs in the order they were given.
pub(crate) type Pairs = Vec<(String, String)>;

/// Reads pairs.
///
/// RFC 7143 6.1: ... every key=value pair, including the last or only pair in a LTDS, MUST be followed by one null
/// (0x00) delimiter.
///
/// A missing last delimiter is forgiven: the data segment ends there all the same.
pub(crate) fn parse(bytes: &[u8]) -> Result<Pairs, TextError> {
    let pairs = parse_records(bytes)?;
    let repeated = |(at, (key, _)): (usize, &(String, String))| pairs[..at].iter().any(|(known, _)| known == key);
    if pairs.len() > MAX_PAIRS {
        return Err(TextError::TooLong);
    }
    if pairs.iter().enumerate().any(repeated) { Err(TextError::Repeated) } else { Ok(pairs) }
}

/// Reads pairs whose keys may repeat, as in the answer to SendTargets (RFC 7143 appendix C).
pub(crate) fn parse_records(bytes: &[u8]) -> Result<Pairs, TextError> {
    let text = std::str::from_utf8(bytes).map_err(|_| TextError::Encoding)?;
    let mut pairs = Pairs::new();
    for pair in text.split('\0').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(TextError::Malformed)?;
        if key.is_empty() || !key.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(TextError::Malformed);
        }
        if key.len() > MAX_KEY_LEN || value.len() > MAX_VALUE_LEN {
            return Err(TextError::TooLong);
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// Writes pairs.
pub(crate) fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Bytes {
    let mut out = BytesMut::new();
    for (key, value) in pairs {
        for part in [key, "=", value, "\0"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.freeze()
}

/// Writes pairs that are owned.
pub(crate) fn encode_pairs(pairs: &Pairs) -> Bytes {
    encode(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// Puts a text together that comes in several PDUs (the C bit, RFC 7143 11.10.2).
#[derive(Debug)]
pub(crate) struct Assembler {
    text: BytesMut,
    limit: usize,
}

impl Assembler {
    /// Takes at most `limit` bytes in all.
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: BytesMut::new(), limit }
    }

    /// Takes the text of one PDU; gives the pairs when it was the last one.
    pub(crate) fn push(&mut self, part: &[u8], continued: bool) -> Result<Option<Pairs>, TextError> {
        if self.text.len() + part.len() > self.limit {
            return Err(TextError::TooLong);
        }
        self.text.extend_from_slice(part);
        if continued {
            return Ok(None);
        }
        parse(&self.text.split()).map(Some)
    }

    /// Whether a part has come and not the last one.
    pub(crate) fn is_open(&self) -> bool {
        !self.text.is_empty()
    }
}
