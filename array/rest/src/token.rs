//! API tokens: shown once, kept as a hash.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use catalog::{Admin, Catalog, CatalogError};
use std::io;
use std::path::Path;
use thiserror::Error;

/// The administrator that every array has.
pub const ADMIN: &str = "admin";
/// The file, in the array's directory, with that administrator's token.
pub const ADMIN_TOKEN_FILE: &str = "admin-token";

/// Why there is no token.
#[derive(Debug, Error)]
pub enum TokenError {
    /// No randomness, or no file.
    #[error("the token cannot be written: {0}")]
    Io(#[from] io::Error),
    /// The hash was not computed.
    #[error("the token cannot be hashed: {0}")]
    Hash(String),
    /// The catalogue does not take it.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Makes the administrator `admin`, if the array has none, and writes the token to a file for the owner only. The file
/// comes first: when this is interrupted, the next start finds no administrator and does it again.
pub fn ensure_admin(catalog: &Catalog, directory: &Path, now_ms: u64) -> Result<(), TokenError> {
    if catalog.state().admin(ADMIN).is_some() {
        return Ok(());
    }
    new_admin_token(catalog, directory, now_ms)
}

/// Gives the administrator `admin` a new token in the place of the old one, and writes it to the file.
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

/// A new token: 122 random bits in the form of a UUID, as clients know tokens.
pub(crate) fn generate() -> io::Result<String> {
    let mut bytes = platform::random::bytes::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

/// The Argon2id hash of a token, as a PHC string.
pub(crate) fn hash(token: &str) -> Result<String, TokenError> {
    let salt = platform::random::bytes::<16>()?;
    let hash: Result<PasswordHash, _> = Argon2::default().hash_password_with_salt(token.as_bytes(), &salt);
    hash.map(|hash| hash.to_string()).map_err(|error| TokenError::Hash(error.to_string()))
}

/// True when the token is the one that was hashed.
pub(crate) fn verify(token: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(token.as_bytes(), &hash).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
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
