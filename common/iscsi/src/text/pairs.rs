//! Decodes and encodes lists of `key=value` pairs (RFC 7143 6.1), also across several PDUs.

use bytes::{Bytes, BytesMut};
use thiserror::Error;

/// Longest key name.
///
/// RFC 7143 6.1: a key-name has at most 63 characters.
const MAX_KEY_LEN: usize = 63;
/// Longest value in bytes: a binary value of 1024 bytes in hex has 2050 characters (RFC 7143 6.1).
const MAX_VALUE_LEN: usize = 2050;
/// Most pairs in one text, far more than there are keys.
const MAX_PAIRS: usize = 256;

/// Why bytes are not a valid text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TextError {
    /// A pair without `=` or with an invalid key.
    #[error("text is not a key=value pair")]
    Malformed,
    /// A key or value too long, too many pairs, or too much text in total.
    #[error("text too long")]
    TooLong,
    /// Bytes that are not UTF-8.
    #[error("text is not UTF-8")]
    Encoding,
    /// A repeated key.
    #[error("text contains a key twice")]
    Repeated,
}

/// Pairs in order of appearance.
pub(crate) type Pairs = Vec<(String, String)>;

/// Decodes pairs.
///
/// RFC 7143 6.1: ... every key=value pair, including the last or only pair in a LTDS, MUST be
/// followed by one null (0x00) delimiter.
///
/// A missing last delimiter is accepted, because the data segment ends there.
pub(crate) fn parse(bytes: &[u8]) -> Result<Pairs, TextError> {
    let pairs = parse_records(bytes)?;
    let repeated = |(at, (key, _)): (usize, &(String, String))| pairs[..at].iter().any(|(known, _)| known == key);
    if pairs.len() > MAX_PAIRS {
        return Err(TextError::TooLong);
    }
    if pairs.iter().enumerate().any(repeated) { Err(TextError::Repeated) } else { Ok(pairs) }
}

/// Decodes pairs with repeated keys, as in a SendTargets response (RFC 7143 appendix C).
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

/// Encodes pairs.
pub(crate) fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Bytes {
    let mut out = BytesMut::new();
    for (key, value) in pairs {
        for part in [key, "=", value, "\0"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.freeze()
}

/// Encodes owned pairs.
pub(crate) fn encode_pairs(pairs: &Pairs) -> Bytes {
    encode(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// Assembles a text from several PDUs (C bit, RFC 7143 11.10.2).
#[derive(Debug)]
pub(crate) struct Assembler {
    text: BytesMut,
    limit: usize,
}

impl Assembler {
    /// Accepts at most `limit` bytes in total.
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: BytesMut::new(), limit }
    }

    /// Adds the text of one PDU; returns the pairs after the last one.
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

    /// Returns true if the text is incomplete.
    pub(crate) fn is_open(&self) -> bool {
        !self.text.is_empty()
    }
}
