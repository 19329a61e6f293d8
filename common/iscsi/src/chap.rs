//! CHAP, one-way and mutual (RFC 7143 12.1.3, RFC 1994).
//!
//! The module has no randomness and no configuration: the caller supplies challenges and secrets.

use std::fmt;

use md5::Md5;
use sha2::{Digest, Sha256};

/// Longest binary value in bytes (RFC 7143 12.1.3: CHAP_C and CHAP_R have at most 1024).
const MAX_BINARY_LEN: usize = 1024;

/// Key names.
pub(crate) mod key {
    pub(crate) const ALGORITHM: &str = "CHAP_A";
    pub(crate) const IDENTIFIER: &str = "CHAP_I";
    pub(crate) const CHALLENGE: &str = "CHAP_C";
    pub(crate) const NAME: &str = "CHAP_N";
    pub(crate) const RESPONSE: &str = "CHAP_R";
}

/// A CHAP secret. `Debug` does not print it.
#[derive(Clone)]
pub struct ChapSecret(Vec<u8>);

impl ChapSecret {
    /// Creates a secret from these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChapSecret(..)")
    }
}

/// Hash algorithms, by their numbers in CHAP_A (IANA "PPP Authentication Algorithms").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Algorithm {
    Md5 = 5,
    Sha256 = 7,
}

impl Algorithm {
    /// CHAP_A value that an initiator offers, the stronger algorithm first.
    pub(crate) const OFFER: &'static str = "7,5";

    pub(crate) fn from_value(value: &str) -> Option<Self> {
        match value {
            "5" => Some(Self::Md5),
            "7" => Some(Self::Sha256),
            _ => None,
        }
    }

    /// Returns the number used in CHAP_A.
    pub(crate) fn value(self) -> String {
        (self as u8).to_string()
    }

    /// Returns the length of the hash in bytes. Challenges have the same length.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }

    /// Computes the response.
    ///
    /// RFC 1994 4.1: The Response Value is the one-way hash calculated over a stream of octets
    /// consisting of the Identifier, followed by (concatenated with) the "secret", followed by the
    /// Challenge Value.
    pub(crate) fn response(self, identifier: u8, secret: &ChapSecret, challenge: &[u8]) -> Vec<u8> {
        match self {
            Self::Md5 => Md5::new()
                .chain_update([identifier])
                .chain_update(&secret.0)
                .chain_update(challenge)
                .finalize()
                .to_vec(),
            Self::Sha256 => Sha256::new()
                .chain_update([identifier])
                .chain_update(&secret.0)
                .chain_update(challenge)
                .finalize()
                .to_vec(),
        }
    }

    /// Returns true if `response` proves knowledge of the secret.
    pub(crate) fn verify(self, identifier: u8, secret: &ChapSecret, challenge: &[u8], response: &[u8]) -> bool {
        equal_in_constant_time(&self.response(identifier, secret, challenge), response)
    }
}

/// Compares in a time that does not depend on where the inputs differ. The length of a hash is not
/// secret.
pub(crate) fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0u8, |difference, (a, b)| difference | (a ^ b));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

/// Returns true if both secrets are equal.
///
/// RFC 7143 9.2.1: the two directions of mutual CHAP need different secrets. With one secret, a
/// peer could obtain the response it needs from the other end.
pub(crate) fn same_secret(a: &ChapSecret, b: &ChapSecret) -> bool {
    equal_in_constant_time(&a.0, &b.0)
}

/// Encodes a binary value as `0x` and hex digits, the form that every implementation reads.
pub(crate) fn encode_binary(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::from("0x"), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Decodes a binary value in hex (`0x`) or base64 (`0b`) (RFC 7143 6.1).
pub(crate) fn decode_binary(value: &str) -> Option<Vec<u8>> {
    let prefix = value.get(..2)?;
    let digits = value.get(2..)?;
    let bytes = match prefix {
        "0x" | "0X" => decode_hex(digits.as_bytes()),
        "0b" | "0B" => decode_base64(digits.as_bytes()),
        _ => None,
    }?;
    (!bytes.is_empty() && bytes.len() <= MAX_BINARY_LEN).then_some(bytes)
}

fn decode_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |c: &u8| (*c as char).to_digit(16).and_then(|value| u8::try_from(value).ok());
    // With an odd number of digits the first digit is a byte of its own.
    let (head, pairs) = digits.split_at(digits.len() % 2);
    let head = head.iter().map(nibble);
    let tail = pairs.chunks_exact(2).map(|pair| Some(nibble(&pair[0])? << 4 | nibble(&pair[1])?));
    head.chain(tail).collect()
}

fn decode_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let padded = digits.len();
    let digits = digits.strip_suffix(b"==").or_else(|| digits.strip_suffix(b"=")).unwrap_or(digits);
    if !padded.is_multiple_of(4) || digits.len() % 4 == 1 || padded - digits.len() != digits.len().wrapping_neg() % 4 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut count) = (0u32, 0);
    for &digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            let [.., byte] = (bits >> count).to_be_bytes();
            out.push(byte);
            bits &= (1 << count) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chap_response_hashes_id_secret_and_challenge() {
        // printf '\x01secret\x02\x03' | md5sum, sha256sum
        let secret = ChapSecret::new("secret");
        let md5 = Algorithm::Md5.response(1, &secret, &[2, 3]);
        assert_eq!(encode_binary(&md5), MD5_OF_EXAMPLE);
        let sha = Algorithm::Sha256.response(1, &secret, &[2, 3]);
        assert_eq!(encode_binary(&sha), SHA256_OF_EXAMPLE);
        assert!(Algorithm::Md5.verify(1, &secret, &[2, 3], &md5));
        assert!(!Algorithm::Md5.verify(2, &secret, &[2, 3], &md5));
        assert!(!Algorithm::Md5.verify(1, &secret, &[2, 3], &md5[..15]));
        assert!(!Algorithm::Sha256.verify(1, &secret, &[2, 3], &md5));
    }

    const MD5_OF_EXAMPLE: &str = "0xf506c24f35d1c70e450edb8fdf933478";
    const SHA256_OF_EXAMPLE: &str = "0x0139bffdf152606a2cbffc12059829afee1ca9ddf6a682afd2c3d9c5572c387b";

    #[test]
    fn binary_values_decode_from_hex_and_base64() {
        assert_eq!(decode_binary("0x00fF10"), Some(vec![0, 255, 16]));
        assert_eq!(decode_binary("0xabc"), Some(vec![0x0a, 0xbc]));
        assert_eq!(decode_binary("0bAP8Q"), Some(vec![0, 255, 16]));
        assert_eq!(decode_binary("0bAP8="), Some(vec![0, 255]));
        assert_eq!(decode_binary("0bAA=="), Some(vec![0]));
        for bad in ["", "0", "0x", "00ff", "0xgg", "0bA", "0bAP8", "0bA===", "0bAP8Q=", "0b*AAA", "é"] {
            assert_eq!(decode_binary(bad), None, "{bad}");
        }
        assert_eq!(decode_binary(&format!("0x{}", "00".repeat(1024))).map(|v| v.len()), Some(1024));
        assert_eq!(decode_binary(&format!("0x{}", "00".repeat(1025))), None);
    }

    #[test]
    fn debug_output_hides_the_secret() {
        assert_eq!(format!("{:?}", ChapSecret::new("hunter2")), "ChapSecret(..)");
    }
}
