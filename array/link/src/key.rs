//! Connection keys: a secret that introduces two arrays once.

use parking_lot::Mutex;
use pinned_tls::Fingerprint;
use ring::{digest, hmac};
use std::io;
use std::time::{Duration, Instant};
use thiserror::Error;
use zeroize::Zeroizing;

/// Lifetime of a connection key.
pub const KEY_LIFETIME: Duration = Duration::from_secs(30 * 60);
const SECRET_BYTES: usize = 32;
const CHECK_BYTES: usize = 4;
/// Digits of a group in the text form.
const GROUP_DIGITS: usize = 8;

/// A connection key: 256 random bits.
#[derive(Clone)]
pub struct ConnectionKey(Zeroizing<[u8; SECRET_BYTES]>);

impl std::fmt::Debug for ConnectionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectionKey")
    }
}

/// The text is not a connection key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the connection key is incomplete or mistyped: it has nine groups of eight digits, such as 1f00ab93-…")]
pub struct MistypedKey;

impl ConnectionKey {
    /// Creates a random key.
    pub fn random() -> io::Result<Self> {
        Ok(Self(Zeroizing::new(platform::random::bytes()?)))
    }

    /// Parses the text form. Its check digits find typing errors, so that these do not use up the
    /// key.
    pub fn parse(text: &str) -> Result<Self, MistypedKey> {
        let digits: Zeroizing<String> = Zeroizing::new(text.trim().chars().filter(|c| *c != '-').collect());
        let bytes = Zeroizing::new(types::hex::decode(&digits).ok_or(MistypedKey)?);
        let (secret, check) = bytes.split_at_checked(SECRET_BYTES).ok_or(MistypedKey)?;
        let key = Self(Zeroizing::new(secret.try_into().map_err(|_| MistypedKey)?));
        if key.check() == check { Ok(key) } else { Err(MistypedKey) }
    }

    /// Returns the text form: hexadecimal digits in groups of eight. The last one is a check.
    pub fn text(&self) -> Zeroizing<String> {
        let digits = Zeroizing::new(types::hex::encode(&[&self.0[..], &self.check()].concat()));
        let mut text = Zeroizing::new(String::new());
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && at % GROUP_DIGITS == 0 {
                text.push('-');
            }
            text.push(digit);
        }
        text
    }

    fn check(&self) -> [u8; CHECK_BYTES] {
        let digest = digest::digest(&digest::SHA256, &[b"ibid connection key", &self.0[..]].concat());
        let mut check = [0; CHECK_BYTES];
        check.copy_from_slice(&digest.as_ref()[..CHECK_BYTES]);
        check
    }
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The array that connects.
    Client,
    /// The array whose key is used.
    Server,
}

/// The TLS session that carries the proof of a key. Both sides see the same values, and a third
/// party between two sessions cannot make them equal (RFC 8446 7.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) exporter: [u8; 32],
    pub(crate) client: Fingerprint,
    pub(crate) server: Fingerprint,
}

impl Binding {
    fn message(&self, side: Side) -> Vec<u8> {
        let side: &[u8] = match side {
            Side::Client => b"ibid link: client",
            Side::Server => b"ibid link: server",
        };
        [side, &self.exporter, &self.client, &self.server].concat()
    }

    /// Returns the proof that a side of this session has the key.
    pub(crate) fn prove(&self, key: &ConnectionKey, side: Side) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key.0[..]), &self.message(side)).as_ref().to_vec()
    }

    /// Checks a proof, in constant time.
    pub(crate) fn is_proved(&self, key: &ConnectionKey, side: Side, proof: &[u8]) -> bool {
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key.0[..]), &self.message(side), proof).is_ok()
    }
}

/// A key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum KeyProblem {
    #[error("this array has no connection key; make one with `ibid array connection-key`")]
    Absent,
    #[error("the connection key has been used; make a new one with `ibid array connection-key`")]
    Used,
    #[error("the connection key has expired; make a new one with `ibid array connection-key`")]
    Expired,
    #[error(
        "wrong connection key. The right one is used up by this attempt; make a new one with `ibid array connection-key`"
    )]
    Wrong,
}

/// A key that waits for its use.
#[derive(Clone, Debug)]
pub(crate) struct PendingKey {
    pub(crate) key: ConnectionKey,
    /// In milliseconds since 1970.
    pub(crate) created_ms: u64,
    made: Instant,
}

impl PendingKey {
    fn has_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.made) >= KEY_LIFETIME
    }
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Absent,
    Pending(PendingKey),
    Used,
}

/// The connection key of an array: at most one, in memory only.
#[derive(Debug, Default)]
pub(crate) struct KeySlot(Mutex<Slot>);

impl KeySlot {
    /// Returns the key that waits for its use.
    pub(crate) fn pending(&self, now: Instant) -> Option<PendingKey> {
        match &*self.0.lock() {
            Slot::Pending(pending) if !pending.has_expired(now) => Some(pending.clone()),
            _ => None,
        }
    }

    /// Replaces the key by a new one.
    pub(crate) fn renew(&self, now: Instant, wall_ms: u64) -> io::Result<PendingKey> {
        let pending = PendingKey { key: ConnectionKey::random()?, created_ms: wall_ms, made: now };
        *self.0.lock() = Slot::Pending(pending.clone());
        Ok(pending)
    }

    /// Takes the key for one attempt, good or bad.
    pub(crate) fn take(&self, now: Instant) -> Result<ConnectionKey, KeyProblem> {
        let mut slot = self.0.lock();
        match std::mem::replace(&mut *slot, Slot::Used) {
            Slot::Pending(pending) if pending.has_expired(now) => {
                *slot = Slot::Pending(pending);
                Err(KeyProblem::Expired)
            }
            Slot::Pending(pending) => Ok(pending.key),
            Slot::Used => Err(KeyProblem::Used),
            Slot::Absent => {
                *slot = Slot::Absent;
                Err(KeyProblem::Absent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_text_round_trips_and_finds_typing_errors() {
        let key = ConnectionKey(Zeroizing::new([0xab; 32]));
        let text = key.text();
        assert_eq!((text.len(), text.matches('-').count()), (80, 8));
        let parsed = ConnectionKey::parse(&format!(" {}\n", text.to_uppercase())).unwrap();
        assert_eq!(parsed.0, key.0);
        for wrong in [text.replacen('a', "c", 1), text[..71].to_owned(), String::new(), "x".repeat(72)] {
            assert_eq!(ConnectionKey::parse(&wrong).err(), Some(MistypedKey), "{wrong}");
        }
        assert!(!format!("{key:?}").contains("ab"));
    }

    #[test]
    fn proof_depends_on_key_side_and_session() {
        let binding = Binding { exporter: [1; 32], client: [2; 32], server: [3; 32] };
        let (key, other) = (ConnectionKey(Zeroizing::new([4; 32])), ConnectionKey(Zeroizing::new([5; 32])));
        let proof = binding.prove(&key, Side::Client);
        assert!(binding.is_proved(&key, Side::Client, &proof));
        assert!(!binding.is_proved(&other, Side::Client, &proof));
        assert!(!binding.is_proved(&key, Side::Server, &proof));
        assert!(!binding.is_proved(&key, Side::Client, &proof[..31]));
        for changed in [
            Binding { exporter: [9; 32], ..binding.clone() },
            Binding { client: [9; 32], ..binding.clone() },
            Binding { server: [9; 32], ..binding.clone() },
        ] {
            assert!(!changed.is_proved(&key, Side::Client, &proof));
        }
    }

    #[test]
    fn key_serves_one_attempt_within_its_lifetime() {
        let (slot, now) = (KeySlot::default(), platform::clock::now());
        assert_eq!(slot.take(now).err(), Some(KeyProblem::Absent));
        let made = slot.renew(now, 7).unwrap();
        assert_eq!(slot.pending(now).unwrap().created_ms, 7);
        assert_eq!(slot.take(now).unwrap().0, made.key.0);
        assert_eq!(slot.take(now).err(), Some(KeyProblem::Used));
        assert!(slot.pending(now).is_none());
        slot.renew(now, 8).unwrap();
        let late = now + KEY_LIFETIME;
        assert!(slot.pending(late).is_none());
        assert_eq!(slot.take(late).err(), Some(KeyProblem::Expired));
    }
}
