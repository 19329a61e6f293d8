//! Time. Code above takes it as a value where it can, so that a test says what time it is.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Now, on the clock that never goes back. It is the clock that tokio's timers go by: in a test that pauses it, it jumps with
/// them.
pub fn now() -> Instant {
    #[allow(clippy::disallowed_methods, reason = "world is the door to the outside")]
    tokio::time::Instant::now().into_std()
}

/// Now, in milliseconds since 1970: for what people read, never for measuring.
pub fn unix_millis() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "world is the door to the outside")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
