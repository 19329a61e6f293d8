//! Destinations of notices.

use crate::{Event, Notice, SendError, mail, snmp, syslog, web_hook};
use catalog::{AlertWatcher, DeliverySettings, MailServer, SnmpManager, SyslogServer, SyslogSettings, WebHook};
use std::time::Duration;

/// Maximum time for one attempt.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// Kind of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DestinationKind {
    /// A mail address.
    Mail,
    /// A syslog server.
    Syslog,
    /// An SNMP manager.
    Snmp,
    /// A web hook.
    WebHook,
}

impl DestinationKind {
    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Syslog => "syslog",
            Self::Snmp => "snmp",
            Self::WebHook => "web_hook",
        }
    }
}

/// Kind and name of a destination.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DestinationId {
    /// Kind.
    pub kind: DestinationKind,
    /// Name.
    pub name: String,
}

/// A destination with its settings.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A mail address.
    Mail(MailServer, AlertWatcher),
    /// A syslog server.
    Syslog(SyslogSettings, SyslogServer),
    /// An SNMP manager.
    Snmp(SnmpManager),
    /// A web hook.
    WebHook(WebHook),
}

impl Destination {
    /// Returns all destinations of the settings.
    pub fn all(settings: &DeliverySettings) -> Vec<Self> {
        let mail = settings.watchers.iter().map(|watcher| Self::Mail(settings.mail.clone(), watcher.clone()));
        let syslog = |server: &SyslogServer| Self::Syslog(settings.syslog.clone(), server.clone());
        let snmp = settings.snmp_managers.iter().cloned().map(Self::Snmp);
        let hooks = settings.web_hooks.iter().cloned().map(Self::WebHook);
        mail.chain(settings.syslog_servers.iter().map(syslog)).chain(snmp).chain(hooks).collect()
    }

    /// Returns its kind and name.
    pub fn id(&self) -> DestinationId {
        let (kind, name) = match self {
            Self::Mail(_, watcher) => (DestinationKind::Mail, &watcher.name),
            Self::Syslog(_, server) => (DestinationKind::Syslog, &server.name),
            Self::Snmp(manager) => (DestinationKind::Snmp, &manager.name),
            Self::WebHook(hook) => (DestinationKind::WebHook, &hook.name),
        };
        DestinationId { kind, name: name.clone() }
    }

    /// Returns whether its settings ask for the notice.
    pub fn asks_for(&self, notice: &Notice) -> bool {
        let is_above = |minimum| notice.event == Event::Test || notice.severity() >= minimum;
        match self {
            Self::Mail(_, watcher) => watcher.enabled && is_above(watcher.minimum),
            Self::Syslog(all, _) => syslog::is_asked(all, notice),
            Self::Snmp(_) => true,
            Self::WebHook(hook) => hook.enabled && is_above(hook.minimum),
        }
    }
}

/// Sends a notice to a destination. `uptime_ms` is the time since the start of the array, and
/// `now_ms` the time in milliseconds since 1970.
///
/// # Errors
///
/// The destination did not take the notice within 20 s. A datagram has no answer, so its loss is
/// not noticed.
pub async fn send(to: &Destination, notice: &Notice, now_ms: u64, uptime_ms: u64) -> Result<(), SendError> {
    let sending = async {
        match to {
            Destination::Mail(server, watcher) => mail::send(server, &watcher.name, notice).await,
            Destination::Syslog(all, server) => syslog::send(server, all, notice).await,
            Destination::Snmp(manager) => snmp::send(manager, notice, uptime_ms).await,
            Destination::WebHook(hook) => web_hook::send(hook, notice, now_ms).await,
        }
    };
    let limited = tokio::time::timeout(SEND_TIMEOUT, Box::pin(sending)).await;
    limited.unwrap_or(Err(SendError::Timeout(SEND_TIMEOUT.as_secs())))
}
