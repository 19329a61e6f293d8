//! Connections to other arrays.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// A connection to another array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArrayConnection {
    /// Id of the other array.
    pub id: String,
    /// Name of the other array.
    pub name: String,
    /// Always `encrypted`.
    pub encryption: String,
    /// The address that this array connects to; null if the other array connects.
    pub management_address: Option<String>,
    /// Operating system of the other array.
    pub os: String,
    /// The other array.
    pub remote: Reference,
    /// Address of the other array in the present session.
    pub replication_addresses: Vec<String>,
    /// Always `ip`.
    pub replication_transport: String,
    /// `connected`; `partially_connected` without the data connection; `connecting` without a
    /// session.
    #[cfg_attr(
        feature = "schema",
        schemars(extend("enum" = ["connected", "partially_connected", "connecting"]))
    )]
    pub status: String,
    /// True if the distance simulator limits the rate.
    pub throttled: bool,
    /// Always `sync-replication`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Version of the other array's program; null if it was not seen since the start.
    pub version: Option<String>,
    /// SHA-256 of the certificate of the other array. (This and the next are Ibid extensions.)
    pub certificate: String,
    /// Start of the session or of its absence, in milliseconds since 1970.
    pub since: u64,
    /// Why there is no session.
    pub problem: Option<String>,
    /// The last round trips; null without a session.
    pub rtt: Option<RoundTrips>,
    /// The clock of the other array minus that of this one, in milliseconds.
    pub clock_ahead: Option<i64>,
    /// Bytes sent since the start, before encryption.
    pub sent_bytes: u64,
    /// Bytes received since the start, before encryption.
    pub received_bytes: u64,
    /// Sessions since the start.
    pub sessions: u64,
    /// The simulated distance; null if none is simulated.
    pub simulated_distance: Option<SimulatedDistance>,
}

/// Figures of round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTrips {
    /// The shortest, in microseconds.
    pub min_usec: u64,
    /// The median, in microseconds.
    pub median_usec: u64,
    /// The longest, in microseconds.
    pub max_usec: u64,
}

/// A simulated distance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedDistance {
    /// Added to each round trip, in microseconds.
    pub rtt_usec: u64,
    /// A random part of each round trip, at most, in microseconds.
    pub jitter_usec: u64,
    /// Limit of each direction; null if unlimited.
    pub bytes_per_second: Option<u64>,
    /// The directions that are cut, as this array sees them.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["none", "in", "out", "both"])))]
    pub cut: String,
}

/// A change of a simulated distance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SimulatedDistancePatch {
    /// Added to each round trip, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_usec: Option<u64>,
    /// A random part of each round trip, at most, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_usec: Option<u64>,
    /// Limit of each direction; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// `none`, `in`, `out` or `both`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// Request to connect to another array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ArrayConnectionPost {
    /// The connection key of the other array.
    pub connection_key: String,
    /// Address of the other array's link: HOST, HOST:PORT or [IPv6]:PORT. The default port is 8117.
    pub management_address: String,
    /// Address to use instead, at most one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication_addresses: Option<Vec<String>>,
    /// `ip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication_transport: Option<String>,
    /// `encrypted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<String>,
    /// `sync-replication`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A change of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ArrayConnectionPatch {
    /// New address of the other array's link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub management_address: Option<String>,
    /// The simulated distance. (Ibid extension.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_distance: Option<SimulatedDistancePatch>,
}

/// A connection key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArrayConnectionKey {
    /// The key; empty if there is none, or if the role of the caller may not see it.
    pub connection_key: String,
    /// In milliseconds since 1970; 0 without a key.
    pub created: u64,
    /// In milliseconds since 1970; 0 without a key.
    pub expires: u64,
    /// Address of this array's link, to which the other array connects; null without a key. (Ibid
    /// extension.)
    pub address: Option<String>,
}

/// One TCP connection of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArrayConnectionPath {
    /// Id of the other array.
    pub id: String,
    /// Name of the other array.
    pub name: String,
    /// Always `encrypted`.
    pub encryption: String,
    /// Own address.
    pub local_address: Option<String>,
    /// Own port.
    pub local_port: Option<String>,
    /// Address of the other array.
    pub remote_address: Option<String>,
    /// Port of the other array.
    pub remote_port: Option<String>,
    /// Always `ip`.
    pub replication_transport: String,
    /// As that of the connection.
    pub status: String,
}

/// Request for a link test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ArrayConnectionTestPost {
    /// Time for each direction in milliseconds, 100 to 10000; 1000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
}

/// The result of a link test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArrayConnectionTest {
    /// Name of the other array.
    pub name: String,
    /// Round trips before the test.
    pub rtt: RoundTrips,
    /// Round trips while data was sent.
    pub rtt_under_load: RoundTrips,
    /// Heartbeats sent in this session.
    pub heartbeats: u64,
    /// Heartbeats of this session without an answer.
    pub unanswered: u64,
    /// Rate to the other array.
    pub sent_bytes_per_second: u64,
    /// Rate from the other array.
    pub received_bytes_per_second: u64,
    /// A distance is simulated on this side.
    pub is_simulated: bool,
}
