//! Delivery of alerts: by mail, to syslog servers, SNMP managers and web hooks.

use crate::Reference;
use serde::{Deserialize, Serialize};

/// State of the delivery to one destination since the array started. (Ibid extension.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryStatus {
    /// Time of the last attempt, in milliseconds since 1970; null if there was none.
    pub last_attempt: Option<u64>,
    /// Time of the last success, in milliseconds since 1970; null if there was none.
    pub last_success: Option<u64>,
    /// Cause of the failure of the last attempt; null if it succeeded.
    pub last_error: Option<String>,
    /// Number of notices that wait.
    pub waiting: u64,
    /// Number of notices that were dropped, after too many attempts or because too many waited.
    pub dropped: u64,
}

/// A mail address that gets alerts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertWatcher {
    /// The mail address.
    pub name: String,
    /// False if it gets nothing at present.
    pub enabled: bool,
    /// `info`, `warning` or `critical`: the lowest severity that is sent.
    pub minimum_notification_severity: String,
    /// State of the delivery. (Ibid extension.)
    #[serde(default)]
    pub delivery: DeliveryStatus,
}

/// Request to add or change a mail address. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AlertWatcherPatch {
    /// Whether it gets alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The lowest severity that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_notification_severity: Option<String>,
}

/// The mail server. The array has one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SmtpServer {
    /// `smtp`.
    pub name: String,
    /// First line of every mail.
    pub body_prefix: Option<String>,
    /// The only authorities that are trusted, in PEM; null for the public ones. (Ibid extension.)
    #[serde(default)]
    pub ca_certificate: Option<String>,
    /// `starttls`, `tls` (an Ibid extension: TLS from the first byte), or null.
    pub encryption_mode: Option<String>,
    /// Password, shown as `****`.
    pub password: Option<String>,
    /// The server, `HOST` or `HOST:PORT`.
    pub relay_host: Option<String>,
    /// Domain of the sender.
    pub sender_domain: Option<String>,
    /// Local part of the sender; the array's name if null.
    pub sender_username: Option<String>,
    /// First words of every subject.
    pub subject_prefix: Option<String>,
    /// User name at the server.
    pub user_name: Option<String>,
}

/// A change of the mail server. Missing fields stay as they are; an empty text removes a setting.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SmtpServerPatch {
    /// First line of every mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_prefix: Option<String>,
    /// The only authorities that are trusted, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
    /// `starttls` or `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_mode: Option<String>,
    /// Password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The server, `HOST` or `HOST:PORT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay_host: Option<String>,
    /// Domain of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_domain: Option<String>,
    /// Local part of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_username: Option<String>,
    /// First words of every subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_prefix: Option<String>,
    /// User name at the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
}

/// A syslog server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyslogServer {
    /// Name.
    pub name: String,
    /// `management`: alerts.
    pub services: Vec<String>,
    /// `udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`.
    pub uri: String,
    /// State of the delivery. (Ibid extension.)
    #[serde(default)]
    pub delivery: DeliveryStatus,
}

/// Request to add or change a syslog server. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SyslogServerPatch {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only `management` is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<String>>,
    /// Protocol, host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

/// Settings of all syslog servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyslogServerSettings {
    /// `syslog`.
    pub name: String,
    /// The only authorities that are trusted for `tls`, in PEM; null for the public ones.
    pub ca_certificate: Option<String>,
    /// The lowest severity that is sent: `debug`, `info`, `notice` or `warning`.
    pub logging_severity: String,
    /// Always false.
    pub tls_audit_enabled: bool,
}

/// A change of these settings. Missing fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SyslogServerSettingsPatch {
    /// The only authorities that are trusted, in PEM; empty for the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
    /// The lowest severity that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging_severity: Option<String>,
    /// Only false is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_audit_enabled: Option<bool>,
}

/// Settings of SNMP v2c.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SnmpV2c {
    /// Community, shown as `****`.
    pub community: Option<String>,
}

/// Settings of SNMP v3; always null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnmpV3 {
    /// Always null.
    pub auth_passphrase: Option<String>,
    /// Always null.
    pub auth_protocol: Option<String>,
    /// Always null.
    pub privacy_passphrase: Option<String>,
    /// Always null.
    pub privacy_protocol: Option<String>,
    /// Always null.
    pub user: Option<String>,
}

/// An SNMP manager, which gets traps.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnmpManager {
    /// Name.
    pub name: String,
    /// `HOST` or `HOST:PORT`.
    pub host: String,
    /// `trap`.
    pub notification: String,
    /// `v2c`.
    pub version: String,
    /// Settings of SNMP v2c.
    pub v2c: SnmpV2c,
    /// Settings of SNMP v3.
    #[serde(default)]
    pub v3: SnmpV3,
    /// State of the delivery. (Ibid extension.)
    #[serde(default)]
    pub delivery: DeliveryStatus,
}

/// Request to add or change an SNMP manager. Missing fields stay as they are.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SnmpManagerPatch {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `HOST` or `HOST:PORT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Only `trap` is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<String>,
    /// Only `v2c` is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Settings of SNMP v2c.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v2c: Option<SnmpV2c>,
}

/// A web hook: an address that gets alerts as JSON. (Ibid extension.)
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertWebHook {
    /// Name.
    pub name: String,
    /// Where alerts are sent, with `https`.
    pub url: String,
    /// False if it gets nothing at present.
    pub enabled: bool,
    /// `info`, `warning` or `critical`: the lowest severity that is sent.
    pub minimum_notification_severity: String,
    /// Key of the signatures; shown only by the answer that creates it, otherwise `****`.
    pub secret: String,
    /// The only authorities that are trusted, in PEM; null for the public ones.
    pub ca_certificate: Option<String>,
    /// State of the delivery.
    #[serde(default)]
    pub delivery: DeliveryStatus,
}

/// Request to add or change a web hook. Missing fields stay as they are.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct AlertWebHookPatch {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where alerts are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether it gets alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The lowest severity that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_notification_severity: Option<String>,
    /// Key of the signatures: `whsec_` and base64 of 24 to 64 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The only authorities that are trusted, in PEM; empty for the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
}

/// The result of a test message to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestResult {
    /// Always null.
    pub component_address: Option<String>,
    /// Name of the array.
    pub component_name: String,
    /// Kind of the test, in words.
    pub description: String,
    /// Address of the destination.
    pub destination: String,
    /// Whether the destination gets alerts.
    pub enabled: bool,
    /// The destination.
    pub resource: Reference,
    /// Cause of the failure; empty if the test succeeded.
    pub result_details: String,
    /// Whether the message was sent.
    pub success: bool,
    /// `mail`, `syslog`, `snmp` or `web_hook`.
    pub test_type: String,
}
