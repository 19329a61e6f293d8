//! Secrets of CHAP and of the delivery of alerts: in clear text in memory, because protocols need
//! them, and sealed when stored.
//!
//! A secret is sealed with AES-256-GCM. The nonce is derived from the secret and its owner, as in a
//! synthetic initialisation vector (RFC 5297): sealing needs no randomness, and two secrets never
//! share a nonce.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use serde::{Deserialize, Serialize};
use std::fmt;
use types::hex;

/// A secret. It is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(Form);

/// A secret that an earlier version stored is a string, a sealed one an object.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Clear(String),
    Sealed {
        /// Nonce, ciphertext and tag in hexadecimal digits.
        sealed: String,
    },
}

impl Secret {
    /// Creates a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(Form::Clear(secret.into()))
    }

    /// Returns the secret in clear text, for its protocol only. Returns `None` if the key that it
    /// was sealed with is missing.
    pub fn expose(&self) -> Option<&str> {
        match &self.0 {
            Form::Clear(secret) => Some(secret),
            Form::Sealed { .. } => None,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(****)")
    }
}

/// The keys of stored secrets. The first seals; all of them open.
pub struct SecretKeys(Vec<SecretKey>);

struct SecretKey {
    cipher: LessSafeKey,
    nonces: hmac::Key,
}

impl SecretKeys {
    /// Length of a key in bytes.
    pub const KEY_BYTES: usize = 32;

    /// Creates the keys from random bytes.
    pub fn new(keys: &[[u8; Self::KEY_BYTES]]) -> Self {
        Self(keys.iter().filter_map(SecretKey::new).collect())
    }

    /// Seals a secret of `owner`. A secret that is sealed already remains as it is. Returns `None`
    /// without a key.
    pub(crate) fn seal(&self, owner: &[u8], secret: &Secret) -> Option<Secret> {
        let Form::Clear(clear) = &secret.0 else { return Some(secret.clone()) };
        let sealed = self.0.first()?.seal(owner, clear)?;
        Some(Secret(Form::Sealed { sealed: hex::encode(&sealed) }))
    }

    /// Opens a sealed secret of `owner`. It remains as it is if no key opens it.
    pub(crate) fn open(&self, owner: &[u8], secret: &Secret) -> Secret {
        let Form::Sealed { sealed } = &secret.0 else { return secret.clone() };
        let bytes = hex::decode(sealed).unwrap_or_default();
        self.0.iter().find_map(|key| key.open(owner, &bytes)).map_or_else(|| secret.clone(), Secret::new)
    }
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKeys(****)")
    }
}

impl SecretKey {
    fn new(key: &[u8; SecretKeys::KEY_BYTES]) -> Option<Self> {
        let derive = |purpose: &[u8]| hmac::sign(&hmac::Key::new(HMAC_SHA256, key), purpose);
        let cipher = UnboundKey::new(&AES_256_GCM, derive(b"ibid CHAP secrets").as_ref()).ok()?;
        let nonces = hmac::Key::new(HMAC_SHA256, derive(b"ibid nonces of CHAP secrets").as_ref());
        Some(Self { cipher: LessSafeKey::new(cipher), nonces })
    }

    fn seal(&self, owner: &[u8], secret: &str) -> Option<Vec<u8>> {
        let mut context = hmac::Context::with_key(&self.nonces);
        // The length separates the two parts.
        context.update(&(owner.len() as u64).to_le_bytes());
        context.update(owner);
        context.update(secret.as_bytes());
        let nonce: [u8; NONCE_LEN] = context.sign().as_ref().first_chunk().copied()?;
        let mut bytes = secret.as_bytes().to_vec();
        let aad = Aad::from(owner);
        self.cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes).ok()?;
        Some([&nonce[..], &bytes].concat())
    }

    fn open(&self, owner: &[u8], sealed: &[u8]) -> Option<String> {
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let clear = self.cipher.open_in_place(nonce, Aad::from(owner), &mut bytes).ok()?;
        String::from_utf8(clear.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_secret_opens_with_its_key_and_owner_only() {
        let keys = SecretKeys::new(&[[1; 32]]);
        let secret = Secret::new("a secret of a host");
        let sealed = keys.seal(b"host 1", &secret).unwrap();
        assert_eq!(sealed.expose(), None);
        assert!(!serde_json::to_string(&sealed).unwrap().contains("secret"));
        assert_eq!(keys.open(b"host 1", &sealed), secret);
        assert_eq!(keys.open(b"host 2", &sealed), sealed);
        assert_eq!(SecretKeys::new(&[[2; 32]]).open(b"host 1", &sealed), sealed);
        assert_eq!(SecretKeys::new(&[]).open(b"host 1", &sealed), sealed);
        assert_eq!(SecretKeys::new(&[]).seal(b"host 1", &secret), None);
        // A new key in front of the old one.
        let both = SecretKeys::new(&[[2; 32], [1; 32]]);
        assert_eq!(both.open(b"host 1", &sealed), secret);
        assert_ne!(both.seal(b"host 1", &secret).unwrap(), sealed);
    }

    #[test]
    fn changed_ciphertext_does_not_open() {
        let keys = SecretKeys::new(&[[1; 32]]);
        let Secret(Form::Sealed { sealed }) = keys.seal(b"h", &Secret::new("twelve bytes")).unwrap() else {
            panic!("sealed")
        };
        for at in 0..sealed.len() {
            let mut digits = sealed.clone().into_bytes();
            digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
            let changed = Secret(Form::Sealed { sealed: String::from_utf8(digits).unwrap() });
            assert_eq!(keys.open(b"h", &changed).expose(), None, "digit {at}");
        }
        for text in ["", "00", "zz", &sealed[..sealed.len() - 2]] {
            let changed = Secret(Form::Sealed { sealed: text.to_owned() });
            assert_eq!(keys.open(b"h", &changed).expose(), None, "{text}");
        }
    }
}
