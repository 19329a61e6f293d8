//! Randomness from the operating system, for identities, tokens and salts.

use std::io;

/// Returns `N` unpredictable bytes.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    #[cfg(feature = "simulation")]
    if let Some(bytes) = crate::simulation::random() {
        return Ok(bytes);
    }
    let mut bytes = [0; N];
    #[allow(clippy::disallowed_methods, reason = "only this crate may access the outside")]
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}
