//! API tokens: shown once, stored as a hash.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use catalog::{Admin, Catalog, CatalogError};
use std::io;
use std::path::Path;
use thiserror::Error;

/// The name of the administrator of every array.
pub const ADMIN: &str = "admin";
/// The file in the array's directory with the token of [`ADMIN`].
pub const ADMIN_TOKEN_FILE: &str = "admin-token";

/// A token cannot be created or stored.
#[derive(Debug, Error)]
pub enum TokenError {
    /// Random bytes cannot be read, or the file cannot be written.
    #[error("cannot write the API token: {0}")]
    Io(#[from] io::Error),
    /// The hash cannot be computed.
    #[error("cannot hash the API token: {0}")]
    Hash(String),
    /// The catalog refuses the change.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Creates the administrator [`ADMIN`] if it does not exist, and writes its token to a file that
/// only the owner can read. The file is written first: after an interruption, the next start finds
/// no administrator and repeats both steps.
pub fn ensure_admin(catalog: &Catalog, directory: &Path, now_ms: u64) -> Result<(), TokenError> {
    if catalog.state().admin(ADMIN).is_some() {
        return Ok(());
    }
    new_admin_token(catalog, directory, now_ms)
}

/// Replaces the token of [`ADMIN`] and writes it to the file.
pub fn new_admin_token(catalog: &Catalog, directory: &Path, now_ms: u64) -> Result<(), TokenError> {
    let token = generate()?;
    let file = directory.join(ADMIN_TOKEN_FILE);
    platform::files::replace(&file, format!("{token}\n").as_bytes(), platform::files::Access::Owner)?;
    store(catalog, ADMIN, &token, now_ms)
}

/// Stores the hash of an administrator's token.
pub(crate) fn store(catalog: &Catalog, admin: &str, token: &str, now_ms: u64) -> Result<(), TokenError> {
    let admin = Admin { name: admin.to_owned(), token_hash: hash(token)?, token_created_ms: now_ms };
    Ok(catalog.change(|draft| draft.put_admin(admin))?)
}

/// Generates a token: 122 random bits as a UUID, the form that existing clients expect.
pub(crate) fn generate() -> io::Result<String> {
    let mut bytes = platform::random::bytes::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// Returns the Argon2id hash of a token as a PHC string.
pub(crate) fn hash(token: &str) -> Result<String, TokenError> {
    let salt = platform::random::bytes::<16>()?;
    let hash: Result<PasswordHash, _> = Argon2::default().hash_password_with_salt(token.as_bytes(), &salt);
    hash.map(|hash| hash.to_string()).map_err(|error| TokenError::Hash(error.to_string()))
}

/// Returns whether the token matches the hash.
pub(crate) fn verify(token: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(token.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_verified_against_its_hash() {
        let token = generate().unwrap();
        assert_eq!(token.len(), 36);
        let stored = hash(&token).unwrap();
        assert!(stored.starts_with("$argon2id$") && !stored.contains(&token));
        assert!(verify(&token, &stored));
        assert!(!verify(&generate().unwrap(), &stored));
        assert!(!verify("", &stored));
        assert!(!verify(&token, "not a hash"));
        assert_ne!(hash(&token).unwrap(), stored, "each hash has its own salt");
    }
}
