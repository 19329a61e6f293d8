//! Chance, from the operating system: for identities, tokens and salts.

use std::io;

/// `N` bytes that nobody can guess.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    #[allow(clippy::disallowed_methods, reason = "world is the door to the outside")]
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
