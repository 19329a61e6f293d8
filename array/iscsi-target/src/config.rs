//! The limits and timings of the target. Everything that a host can make grow has a bound here.

use std::time::Duration;

/// Settings of the target.
#[derive(Clone, Debug)]
pub struct Config {
    /// The most connections at once, over all portals; more are closed as soon as they are accepted.
    pub max_connections: usize,
    /// How long a login may take, from the first byte to the full feature phase.
    pub login_timeout: Duration,
    /// How long a connection may be silent before it is asked for a sign of life (NOP-In, RFC 7143 11.19).
    pub ping_after: Duration,
    /// How long it then has to answer before it is closed.
    pub pong_within: Duration,
    /// The command window: commands that one session may have under way (MaxCmdSN, RFC 7143 4.2.2.1).
    pub queue_depth: u32,
    /// Write data that the commands of one session may hold; commands above it wait for their R2T.
    pub max_write_bytes: u64,
    /// Bytes of answers that one session may have in memory, under way or waiting for a host that does not read them;
    /// until they are fewer, its next commands wait.
    pub max_unsent_bytes: usize,
    /// How often the use of the pool and of the volumes is compared with their soft thresholds, at least.
    pub space_poll: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            login_timeout: Duration::from_secs(15),
            ping_after: Duration::from_secs(15),
            pong_within: Duration::from_secs(15),
            queue_depth: 128,
            max_write_bytes: 64 << 20,
            max_unsent_bytes: 64 << 20,
            space_poll: Duration::from_secs(1),
        }
    }
}
