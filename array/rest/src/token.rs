//! API tokens: shown once, stored as a hash.
//!
//! A token has 122 random bits, so it cannot be guessed, and a fast keyed hash protects it. Arrays
//! of earlier versions stored Argon2id, which takes 19 MiB and tens of milliseconds. Such a hash is
//! replaced by the first login.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordVerifier};
use catalog::{Admin, Catalog, CatalogError, Role};
use ring::hmac::{self, HMAC_SHA256};
use std::io;
use std::path::Path;
use thiserror::Error;
use types::hex;

/// The name of the administrator of every array.
pub const ADMIN: &str = "admin";
/// The file in the array's directory with the token of [`ADMIN`].
pub const ADMIN_TOKEN_FILE: &str = "admin-token";
/// Maximum size of that file, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 4096;
/// Length of a generated token. A shorter text in the file is not taken as a token.
const MIN_TOKEN_CHARS: usize = 36;
/// Begins a stored hash: the algorithm. The key and the hash follow in hexadecimal digits, after a
/// dollar sign each.
const KEYED_HASH: &str = "$hmac-sha256$";
/// Begins a hash that an earlier version stored.
const SLOW_HASH: &str = "$argon2";

/// Maximum number of slow hashes that are computed at a time, because each takes 19 MiB and tens of
/// milliseconds of a processor that also serves hosts.
pub(crate) const MAX_SLOW_VERIFICATIONS: usize = 2;

/// A token cannot be created or stored.
#[derive(Debug, Error)]
pub enum TokenError {
    /// Random bytes cannot be read, or the file cannot be written.
    #[error("cannot write the API token: {0}")]
    Io(#[from] io::Error),
    /// The catalog refuses the change.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Writes a token for [`ADMIN`] to a file that only the owner can read, unless the file exists.
/// [`ensure_admin`] stores its hash once the array exists.
pub fn prepare_admin_token(directory: &Path) -> Result<(), TokenError> {
    if present_token(directory)?.is_none() {
        write(directory, &generate()?)?;
    }
    Ok(())
}

/// Creates the administrator [`ADMIN`] if it does not exist, with the token of the file. Writes the
/// file if it does not exist; never changes it otherwise.
pub fn ensure_admin(catalog: &Catalog, directory: &Path, now_ms: u64) -> Result<(), TokenError> {
    if catalog.state().admin(ADMIN).is_some() {
        return Ok(());
    }
    match present_token(directory)? {
        Some(token) => store(catalog, ADMIN, &token, now_ms),
        None => new_admin_token(catalog, directory, now_ms),
    }
}

/// Replaces the token of [`ADMIN`] and writes it to the file.
pub fn new_admin_token(catalog: &Catalog, directory: &Path, now_ms: u64) -> Result<(), TokenError> {
    let token = generate()?;
    write(directory, &token)?;
    store(catalog, ADMIN, &token, now_ms)
}

/// Reads the token from the file.
fn present_token(directory: &Path) -> Result<Option<String>, TokenError> {
    let text = platform::files::read_text(&directory.join(ADMIN_TOKEN_FILE), MAX_TOKEN_FILE_BYTES)?;
    Ok(text.map(|text| text.trim().to_owned()).filter(|token| token.len() >= MIN_TOKEN_CHARS))
}

fn write(directory: &Path, token: &str) -> Result<(), TokenError> {
    let file = directory.join(ADMIN_TOKEN_FILE);
    Ok(platform::files::replace(&file, format!("{token}\n").as_bytes(), platform::files::Access::Owner)?)
}

/// Stores the hash of an administrator's token, which does not expire. Creates the administrator if
/// it does not exist.
pub(crate) fn store(catalog: &Catalog, admin: &str, token: &str, now_ms: u64) -> Result<(), TokenError> {
    let token_hash = hash(token)?;
    Ok(catalog.change(|draft| {
        let role = draft.state().admin(admin).map_or_else(Role::default, |admin| admin.role);
        let name = admin.to_owned();
        draft.put_admin(Admin { name, token_hash, token_created_ms: now_ms, token_expires_ms: None, role })
    })?)
}

/// Replaces the slow hash of a token by a fast one, unless the token has been replaced since
/// `admin` was read.
pub(crate) fn replace_slow_hash(catalog: &Catalog, admin: &Admin, token: &str) -> Result<(), TokenError> {
    let replacement = Admin { token_hash: hash(token)?, ..admin.clone() };
    Ok(catalog.change(|draft| match draft.state().admin(&admin.name) {
        Some(current) if current.token_hash == admin.token_hash => draft.put_admin(replacement),
        _ => Ok(()),
    })?)
}

/// Generates a token: 122 random bits as a UUID, the form that existing clients expect.
pub(crate) fn generate() -> io::Result<String> {
    let mut bytes = platform::random::bytes::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(&bytes);
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// Returns the keyed hash of a token, with a random key of its own.
pub(crate) fn hash(token: &str) -> io::Result<String> {
    let key = platform::random::bytes::<32>()?;
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, &key), token.as_bytes());
    Ok(format!("{KEYED_HASH}{}${}", hex::encode(&key), hex::encode(tag.as_ref())))
}

/// Returns whether the token matches the keyed hash. Takes microseconds, and equally long for any
/// token of one length. False for a slow hash.
pub(crate) fn matches(token: &str, hash: &str) -> bool {
    let parts = hash.strip_prefix(KEYED_HASH).and_then(|parts| parts.split_once('$'));
    let bytes = parts.and_then(|(key, tag)| Some((hex::decode(key)?, hex::decode(tag)?)));
    bytes.is_some_and(|(key, tag)| hmac::verify(&hmac::Key::new(HMAC_SHA256, &key), token.as_bytes(), &tag).is_ok())
}

/// Returns whether an earlier version stored the hash.
pub(crate) fn is_slow(hash: &str) -> bool {
    hash.starts_with(SLOW_HASH)
}

/// Returns whether the token matches the slow hash. Takes 19 MiB and tens of milliseconds.
pub(crate) fn matches_slowly(token: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(token.as_bytes(), &hash).is_ok())
}

/// Returns a hash as earlier versions stored it.
#[cfg(test)]
pub(crate) fn slow_hash(token: &str) -> String {
    use argon2::PasswordHasher;
    let hash: PasswordHash = Argon2::default().hash_password_with_salt(token.as_bytes(), b"sixteen bytes ok").unwrap();
    hash.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_verified_against_its_hash() {
        let token = generate().unwrap();
        assert_eq!(token.len(), 36);
        let stored = hash(&token).unwrap();
        assert!(stored.starts_with("$hmac-sha256$") && !stored.contains(&token));
        assert!(matches(&token, &stored) && !is_slow(&stored));
        assert!(!matches(&generate().unwrap(), &stored));
        assert!(!matches("", &stored));
        for damaged in
            ["not a hash", "$hmac-sha256$00", "$hmac-sha256$0$0", "$hmac-sha256$$", &stored[..stored.len() - 2]]
        {
            assert!(!matches(&token, damaged), "{damaged}");
        }
        assert_ne!(hash(&token).unwrap(), stored, "each hash has its own key");
    }

    #[test]
    fn hash_of_a_fixed_key_is_hmac_sha256() {
        // RFC 4231 4.3.
        let stored = "$hmac-sha256$4a656665$5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert!(matches("what do ya want for nothing?", stored));
    }

    #[test]
    fn slow_hash_is_verified() {
        let stored = slow_hash("token");
        assert!(is_slow(&stored) && matches_slowly("token", &stored) && !matches_slowly("other", &stored));
        assert!(!matches("token", &stored));
    }
}
