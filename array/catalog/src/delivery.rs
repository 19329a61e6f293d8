//! Where alerts are delivered: by mail, to syslog servers, SNMP managers and web hooks.

use crate::name::check_name;
use crate::record::{Record, is_default};
use crate::secret::{Secret, SecretKeys};
use crate::{CatalogError, MAX_CERTIFICATE_BYTES, MAX_DESTINATIONS, ObjectKind};
use serde::{Deserialize, Serialize};

/// Maximum length of an address, a name at a server, or a text of a mail, in bytes.
const MAX_TEXT_BYTES: usize = 255;
/// Maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 2048;

/// Severity of an alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For information.
    #[default]
    Info,
    /// To be handled soon.
    Warning,
    /// To be handled now.
    Critical,
}

impl Severity {
    /// Returns the name in the REST dialect.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// Returns the severity with this name in the REST dialect.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Info, Self::Warning, Self::Critical].into_iter().find(|severity| severity.name() == name)
    }
}

/// TLS of the connection to a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MailEncryption {
    /// TLS after the command STARTTLS (RFC 3207); no mail is sent without it.
    StartTls,
    /// TLS from the first byte (RFC 8314 3.3).
    Tls,
}

/// The mail server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MailServer {
    /// `HOST` or `HOST:PORT`; no mail is sent without it.
    #[serde(skip_serializing_if = "is_default")]
    pub relay_host: Option<String>,
    /// TLS.
    #[serde(skip_serializing_if = "is_default")]
    pub encryption: Option<MailEncryption>,
    /// User name at the server.
    #[serde(skip_serializing_if = "is_default")]
    pub user_name: Option<String>,
    /// Password of the user.
    #[serde(skip_serializing_if = "is_default")]
    pub password: Option<Secret>,
    /// Domain of the sender.
    #[serde(skip_serializing_if = "is_default")]
    pub sender_domain: Option<String>,
    /// Local part of the sender; the array's name without it.
    #[serde(skip_serializing_if = "is_default")]
    pub sender_username: Option<String>,
    /// First words of every subject.
    #[serde(skip_serializing_if = "is_default")]
    pub subject_prefix: Option<String>,
    /// First line of every mail.
    #[serde(skip_serializing_if = "is_default")]
    pub body_prefix: Option<String>,
    /// The only authorities that are trusted, in PEM.
    #[serde(skip_serializing_if = "is_default")]
    pub ca_certificate: Option<String>,
}

/// A mail address that gets alerts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertWatcher {
    /// The mail address.
    pub name: String,
    /// Whether it gets alerts.
    pub enabled: bool,
    /// The lowest severity that is sent.
    pub minimum: Severity,
}

/// Transport of syslog messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyslogTransport {
    /// One datagram for each message (RFC 5426).
    Udp,
    /// A TCP connection with counted messages (RFC 6587 3.4.1).
    Tcp,
    /// The same with TLS (RFC 5425).
    Tls,
}

impl SyslogTransport {
    /// Returns the scheme of a URI.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }

    /// Returns the transport with this scheme.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Udp, Self::Tcp, Self::Tls].into_iter().find(|transport| transport.name() == name)
    }
}

/// A syslog server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyslogServer {
    /// Name.
    pub name: String,
    /// Transport.
    pub transport: SyslogTransport,
    /// Name or address of the machine.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// The lowest severity of syslog messages that are sent. The values are those of RFC 5424 6.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyslogSeverity {
    /// A problem.
    Warning = 4,
    /// The end of a problem as well.
    Notice = 5,
    /// Information as well.
    #[default]
    Info = 6,
    /// Everything.
    Debug = 7,
}

impl SyslogSeverity {
    /// Returns the name in the REST dialect.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Returns the severity with this name in the REST dialect.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Warning, Self::Notice, Self::Info, Self::Debug].into_iter().find(|severity| severity.name() == name)
    }
}

/// Settings of all syslog servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyslogSettings {
    /// The lowest severity that is sent.
    pub minimum: SyslogSeverity,
    /// The only authorities that are trusted, in PEM.
    #[serde(skip_serializing_if = "is_default")]
    pub ca_certificate: Option<String>,
}

/// An SNMP manager, which gets traps of SNMP v2c (RFC 3416 4.2.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnmpManager {
    /// Name.
    pub name: String,
    /// Name or address of the machine.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Community.
    pub community: Secret,
}

/// A web hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebHook {
    /// Name.
    pub name: String,
    /// Where alerts are sent.
    pub url: String,
    /// Key of the signatures.
    pub secret: Secret,
    /// Whether it gets alerts.
    pub enabled: bool,
    /// The lowest severity that is sent.
    pub minimum: Severity,
    /// The only authorities that are trusted, in PEM.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ca_certificate: Option<String>,
}

/// Where alerts are delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeliverySettings {
    /// The mail server.
    pub mail: MailServer,
    /// Mail addresses.
    pub watchers: Vec<AlertWatcher>,
    /// Settings of all syslog servers.
    pub syslog: SyslogSettings,
    /// Syslog servers.
    pub syslog_servers: Vec<SyslogServer>,
    /// SNMP managers.
    pub snmp_managers: Vec<SnmpManager>,
    /// Web hooks.
    pub web_hooks: Vec<WebHook>,
}

impl Record for DeliverySettings {
    const PREFIX: &'static str = "delivery";
    fn key(&self) -> String {
        Self::PREFIX.to_owned()
    }
}

impl DeliverySettings {
    /// Returns whether a secret cannot be read because its key is missing.
    pub fn is_locked(&self) -> bool {
        let secrets = self.mail.password.iter().chain(self.snmp_managers.iter().map(|manager| &manager.community));
        secrets.chain(self.web_hooks.iter().map(|hook| &hook.secret)).any(|secret| secret.expose().is_none())
    }

    /// Returns a copy in the form that is stored, or `None` if a secret in clear text cannot be
    /// sealed because no key exists.
    pub(crate) fn sealed(&self, keys: Option<&SecretKeys>) -> Option<Self> {
        self.edited(|owner, secret| match keys {
            Some(keys) => keys.seal(owner, secret),
            None => secret.expose().is_none().then(|| secret.clone()),
        })
    }

    /// Returns a copy with the secrets that these keys open in clear text.
    pub(crate) fn opened(&self, keys: &SecretKeys) -> Self {
        self.edited(|owner, secret| Some(keys.open(owner, secret))).unwrap_or_else(|| self.clone())
    }

    /// Replaces the secrets. Each is bound to its place, so that a sealed one cannot be moved.
    fn edited(&self, edit: impl Fn(&[u8], &Secret) -> Option<Secret>) -> Option<Self> {
        let mut edited = self.clone();
        if let Some(password) = &mut edited.mail.password {
            *password = edit(b"delivery mail", password)?;
        }
        for manager in &mut edited.snmp_managers {
            manager.community = edit(format!("delivery snmp {}", manager.name).as_bytes(), &manager.community)?;
        }
        for hook in &mut edited.web_hooks {
            hook.secret = edit(format!("delivery web hook {}", hook.name).as_bytes(), &hook.secret)?;
        }
        Some(edited)
    }

    /// Checks limits and lengths. Callers check the forms of addresses.
    pub(crate) fn check(&self) -> Result<(), CatalogError> {
        let mail = &self.mail;
        let texts = [
            &mail.relay_host,
            &mail.user_name,
            &mail.sender_domain,
            &mail.sender_username,
            &mail.subject_prefix,
            &mail.body_prefix,
        ];
        texts.into_iter().flatten().try_for_each(|text| check_text(text, MAX_TEXT_BYTES))?;
        mail.password.iter().try_for_each(check_secret)?;
        if mail.user_name.is_some() && mail.encryption.is_none() {
            return Err(bad("a user name at the mail server requires the encryption mode starttls or tls"));
        }
        let watchers: Vec<&str> = self.watchers.iter().map(|watcher| watcher.name.as_str()).collect();
        check_list(ObjectKind::AlertWatcher, "Alert watcher", &watchers)?;
        watchers.iter().try_for_each(|name| check_text(name, MAX_TEXT_BYTES))?;
        let servers: Vec<&str> = self.syslog_servers.iter().map(|server| server.name.as_str()).collect();
        check_list(ObjectKind::SyslogServer, "Syslog server", &servers)?;
        self.syslog_servers.iter().try_for_each(|server| check_text(&server.host, MAX_TEXT_BYTES))?;
        let managers: Vec<&str> = self.snmp_managers.iter().map(|manager| manager.name.as_str()).collect();
        check_list(ObjectKind::SnmpManager, "SNMP manager", &managers)?;
        for manager in &self.snmp_managers {
            check_text(&manager.host, MAX_TEXT_BYTES)?;
            check_secret(&manager.community)?;
        }
        let hooks: Vec<&str> = self.web_hooks.iter().map(|hook| hook.name.as_str()).collect();
        check_list(ObjectKind::WebHook, "Web hook", &hooks)?;
        for hook in &self.web_hooks {
            check_text(&hook.url, MAX_URL_BYTES)?;
            check_secret(&hook.secret)?;
        }
        servers.iter().chain(&managers).chain(&hooks).try_for_each(|name| check_name(name))?;
        let certificates = self.web_hooks.iter().map(|hook| &hook.ca_certificate);
        let certificates = certificates.chain([&mail.ca_certificate, &self.syslog.ca_certificate]);
        match certificates.flatten().any(|pem| pem.len() > MAX_CERTIFICATE_BYTES) {
            true => Err(bad("certificates of authorities have at most 32 KiB")),
            false => Ok(()),
        }
    }
}

fn bad(reason: &'static str) -> CatalogError {
    CatalogError::BadSetting { reason }
}

/// Control characters could add lines to a message of a protocol.
fn check_text(text: &str, limit: usize) -> Result<(), CatalogError> {
    match !text.is_empty() && text.len() <= limit && !text.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(bad("addresses and texts have 1 to 255 bytes (URLs 2048), without control characters")),
    }
}

fn check_secret(secret: &Secret) -> Result<(), CatalogError> {
    secret.expose().map_or(Ok(()), |secret| check_text(secret, MAX_TEXT_BYTES))
}

fn check_list(kind: ObjectKind, what: &'static str, names: &[&str]) -> Result<(), CatalogError> {
    if names.len() > MAX_DESTINATIONS {
        return Err(CatalogError::LimitReached { what, limit: MAX_DESTINATIONS });
    }
    for (at, name) in names.iter().enumerate() {
        if names[..at].iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(CatalogError::AlreadyExists { kind, name: (*name).to_owned() });
        }
    }
    Ok(())
}
