//! JSON Web Tokens (RFC 7519): ID tokens, signed with RSA (RS256, RFC 7518 3.3), and access tokens,
//! signed with a key of this process (HS256, RFC 7518 3.2).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

/// Maximum length of a token in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Sizes of RSA keys in bits, as `RSA_PKCS1_2048_8192_SHA256` accepts them.
const KEY_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// The algorithm identifier `rsaEncryption` (RFC 8017 A.1).
const RSA_ENCRYPTION: &[u64] = &[1, 2, 840, 113549, 1, 1, 1];

/// An RSA public key.
#[derive(Debug)]
pub(crate) struct PublicKey {
    /// The structure `RSAPublicKey` (RFC 8017 A.1.1).
    der: Vec<u8>,
}

impl PublicKey {
    /// Parses a key with `-----BEGIN PUBLIC KEY-----`.
    pub(crate) fn from_pem(text: &str) -> Option<Self> {
        let info = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).ok()?;
        let der = yasna::parse_der(&info, |reader| {
            reader.read_sequence(|reader| {
                let algorithm = reader.next().read_sequence(|reader| {
                    let algorithm = reader.next().read_oid()?;
                    reader.next().read_null()?;
                    Ok(algorithm)
                })?;
                if algorithm.components().as_slice() != RSA_ENCRYPTION {
                    return Err(yasna::ASN1Error::new(yasna::ASN1ErrorKind::Invalid));
                }
                Ok(reader.next().read_bitvec_bytes()?.0)
            })
        });
        let der = der.ok()?;
        let modulus = yasna::parse_der(&der, |reader| {
            reader.read_sequence(|reader| {
                let modulus = reader.next().read_bigint_bytes()?.0;
                reader.next().read_bigint_bytes()?;
                Ok(modulus)
            })
        });
        let modulus = modulus.ok()?;
        let first = modulus.iter().position(|byte| *byte != 0)?;
        let bits = (modulus.len() - first) * 8 - modulus[first].leading_zeros() as usize;
        KEY_BITS.contains(&bits).then_some(Self { der })
    }
}

/// A token whose signature was not yet verified.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) header: Value,
    pub(crate) claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Parses the three parts of a token.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if text.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let object = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
            serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object)
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(Self { header: object(header)?, claims: object(claims)?, signed, signature })
    }

    /// Returns true if the key signed the token with RS256.
    pub(crate) fn is_signed_by(&self, key: &PublicKey) -> bool {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &key.der);
        self.uses("RS256") && key.verify(self.signed.as_bytes(), &self.signature).is_ok()
    }

    /// Returns true if [`sign`] made the token with this key.
    pub(crate) fn is_sealed_by(&self, key: &hmac::Key) -> bool {
        self.uses("HS256") && hmac::verify(key, self.signed.as_bytes(), &self.signature).is_ok()
    }

    /// Returns a claim that is a text.
    pub(crate) fn text(&self, claim: &str) -> Option<&str> {
        self.claims.get(claim)?.as_str()
    }

    /// Returns a time in seconds since 1970.
    pub(crate) fn seconds(&self, claim: &str) -> Option<f64> {
        self.claims.get(claim)?.as_f64()
    }

    /// Returns true if the token is for this audience (RFC 7519 4.1.3).
    pub(crate) fn is_for(&self, audience: &str) -> bool {
        match self.claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(|one| one == audience),
            Some(one) => one == audience,
            None => false,
        }
    }

    /// No extension of the header is known, so none may be critical (RFC 7515 4.1.11).
    fn uses(&self, algorithm: &str) -> bool {
        self.header.get("alg").is_some_and(|name| name == algorithm) && self.header.get("crit").is_none()
    }
}

/// Returns a token with these claims.
pub(crate) fn sign(key: &hmac::Key, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(key, signed.as_bytes()));
    format!("{signed}.{signature}")
}
