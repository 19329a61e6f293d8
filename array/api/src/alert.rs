//! Alerts and scrubs.

use serde::{Deserialize, Serialize};

/// A condition that needs an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alert {
    /// Number of the alert, as text.
    pub id: String,
    /// The same as `id`; clients select alerts by it.
    pub name: String,
    /// Measured value, if there is one.
    pub actual: Option<String>,
    /// `array`.
    pub category: String,
    /// Time of closing, in milliseconds since 1970.
    pub closed: Option<u64>,
    /// Kind of alert.
    pub code: u64,
    /// Name of the affected object.
    pub component_name: String,
    /// `array`, `volume`, `storage`, `host` or `pod`.
    pub component_type: String,
    /// Time of opening, in milliseconds since 1970.
    pub created: u64,
    /// Recommended action.
    pub description: String,
    /// Expected value, if there is one.
    pub expected: Option<String>,
    /// True while the alert is open.
    pub flagged: bool,
    /// The same as `summary`.
    pub issue: String,
    /// Always null.
    pub knowledge_base_url: Option<String>,
    /// Time of the first delivery to a destination, in milliseconds since 1970; null if there was
    /// none.
    pub notified: Option<u64>,
    /// `info`, `warning` or `critical`.
    pub severity: String,
    /// `open` or `closed`.
    pub state: String,
    /// The condition, in one line.
    pub summary: String,
    /// Time of the last change, in milliseconds since 1970.
    pub updated: u64,
}

/// Progress and result of scrubs. (Ibid extension.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scrub {
    /// True while a scrub is running.
    pub running: bool,
    /// Bytes verified by the running scrub or the last one.
    pub checked: u64,
    /// Bytes in use, which a scrub verifies.
    pub used: u64,
    /// Number of scrubs completed since the array started.
    pub completed: u64,
    /// Since when the last scrub waits for its audit of counts, in milliseconds since 1970; null if
    /// it does not. The array repeats the audit by itself.
    pub audit_postponed: Option<u64>,
    /// Known damage, newest last.
    pub damage: Vec<String>,
    /// End of the last scrub, in milliseconds since 1970; null if there was none.
    pub last: Option<u64>,
    /// Time at which the next scrub is due, in milliseconds since 1970; null without a schedule.
    pub next: Option<u64>,
}

/// Request to start a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ScrubPost {
    /// Bytes to verify per second; the default is the setting of the array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}
