//! Limits and timeouts of the target. They bound every resource that a host can consume.

use std::time::Duration;

/// Limits and timeouts of the target.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Maximum number of connections before login and of discovery sessions. The oldest gives way
    /// to a new one.
    pub max_anonymous: usize,
    /// As `max_anonymous`, for each source address.
    pub max_anonymous_per_source: usize,
    /// Maximum number of sessions without discovery sessions. Further logins are refused.
    pub max_sessions: usize,
    /// As `max_sessions`, for each initiator name.
    pub max_sessions_per_host: usize,
    /// Longest duration of a discovery session.
    pub discovery_timeout: Duration,
    /// Time limit of a login, from the accepted connection to the full feature phase.
    pub login_timeout: Duration,
    /// Idle time after which the target pings the initiator (NOP-In, RFC 7143 11.19).
    pub ping_after: Duration,
    /// Time limit for the answer to a ping; then the connection is closed.
    pub pong_within: Duration,
    /// Command window: the number of commands that one session may have in progress (MaxCmdSN,
    /// RFC 7143 4.2.2.1).
    pub queue_depth: u32,
    /// Maximum bytes of write data per session. Commands above it wait for their R2T.
    pub max_write_bytes: u64,
    /// Maximum bytes of answers per session, in progress or not yet read by the host. Further
    /// commands wait until there are fewer.
    pub max_unsent_bytes: usize,
    /// Bytes of input, write data and answers that all connections hold together. Each host may
    /// hold 32 MiB beyond it, each connection 64 KiB, and four sessions 34 MiB.
    pub wire_bytes: u64,
    /// Time that initiators have for a logout before the target shuts down. Whole seconds reach
    /// them.
    pub logout_within: Duration,
    /// Longest interval between checks of the soft thresholds of the pool and the volumes.
    pub space_poll: Duration,
}

impl Default for TargetConfig {
    fn default() -> Self {
        Self {
            max_anonymous: 1024,
            max_anonymous_per_source: 256,
            max_sessions: 8192,
            max_sessions_per_host: 128,
            discovery_timeout: Duration::from_secs(60),
            login_timeout: Duration::from_secs(15),
            ping_after: Duration::from_secs(15),
            pong_within: Duration::from_secs(15),
            queue_depth: 128,
            max_write_bytes: 64 << 20,
            max_unsent_bytes: 64 << 20,
            wire_bytes: 160 << 20,
            logout_within: Duration::from_secs(2),
            space_poll: Duration::from_secs(1),
        }
    }
}
