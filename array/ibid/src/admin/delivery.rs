//! `ibid delivery`: the destinations of alerts.

use super::secret::{read_secret, read_small_file};
use crate::access::{self, Access};
use crate::cli::{
    DeliveryCommand, DestinationArgs, DestinationArgument, EncryptionArgument, MailServerArgs, SeverityArgument,
};
use crate::output::{either, facts, json, list, print, table, time};
use crate::problem::Problem;
use api::{
    AlertWatcher, AlertWatcherPatch, AlertWebHook, AlertWebHookPatch, DeliveryStatus, SmtpServer, SmtpServerPatch,
    SnmpManager, SnmpManagerPatch, SnmpV2c, SyslogServer, SyslogServerPatch, SyslogServerSettings,
    SyslogServerSettingsPatch, TestResult,
};
use client::{AlertDestination, Client, ClientError};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Runs an `ibid delivery` command.
pub(crate) fn delivery(access: &Access, as_json: bool, command: DeliveryCommand) -> Result<(), Problem> {
    // Files are read before the array is called.
    match command {
        DeliveryCommand::List => all(&access::client(access)?, as_json),
        DeliveryCommand::MailServer(args) => {
            let patch = mail_server(args)?;
            let client = access::client(access)?;
            let server = match patch == SmtpServerPatch::default() {
                true => client.smtp_server()?,
                false => client.change_smtp_server(&patch)?,
            };
            either(as_json, &server, || server_facts(&server))
        }
        DeliveryCommand::SyslogSettings { severity, ca_file } => {
            let ca_certificate = authorities(ca_file)?;
            let patch =
                SyslogServerSettingsPatch { ca_certificate, logging_severity: severity, tls_audit_enabled: None };
            let client = access::client(access)?;
            let settings = match patch == SyslogServerSettingsPatch::default() {
                true => client.syslog_settings()?,
                false => client.change_syslog_settings(&patch)?,
            };
            either(as_json, &settings, || syslog_facts(&settings))
        }
        DeliveryCommand::Add { destination } => change(access, as_json, destination, true),
        DeliveryCommand::Set { destination } => change(access, as_json, destination, false),
        DeliveryCommand::Remove { kind, names } => {
            let client = access::client(access)?;
            match kind {
                DestinationArgument::Mail => client.remove_destinations::<AlertWatcher>(&names)?,
                DestinationArgument::Syslog => client.remove_destinations::<SyslogServer>(&names)?,
                DestinationArgument::Snmp => client.remove_destinations::<SnmpManager>(&names)?,
                DestinationArgument::Webhook => client.remove_destinations::<AlertWebHook>(&names)?,
            }
            if as_json { json(&names) } else { print(&format!("removed {}\n", list(&names))) }
        }
        DeliveryCommand::Test { kind, names } => test(&access::client(access)?, as_json, kind, &names),
    }
}

fn mail_server(args: MailServerArgs) -> Result<SmtpServerPatch, Problem> {
    let encryption = |mode| match mode {
        EncryptionArgument::Starttls => "starttls".to_owned(),
        EncryptionArgument::Tls => "tls".to_owned(),
        EncryptionArgument::None => String::new(),
    };
    Ok(SmtpServerPatch {
        body_prefix: args.body_prefix,
        ca_certificate: authorities(args.ca_file)?,
        encryption_mode: args.encryption.map(encryption),
        password: secret(args.password_file)?,
        relay_host: args.relay,
        sender_domain: args.sender_domain,
        sender_username: args.sender_user,
        subject_prefix: args.subject_prefix,
        user_name: args.user,
    })
}

fn secret(path: Option<PathBuf>) -> Result<Option<String>, Problem> {
    path.as_deref().map(read_secret).transpose()
}

/// Reads certificates. An empty path removes those of the setting.
fn authorities(path: Option<PathBuf>) -> Result<Option<String>, Problem> {
    match path {
        Some(none) if none == Path::new("") => Ok(Some(String::new())),
        path => path.as_deref().map(read_small_file).transpose(),
    }
}

fn severity(argument: Option<SeverityArgument>) -> Option<String> {
    let name = |severity| match severity {
        SeverityArgument::Info => "info",
        SeverityArgument::Warning => "warning",
        SeverityArgument::Critical => "critical",
    };
    argument.map(|severity| name(severity).to_owned())
}

fn change(access: &Access, as_json: bool, destination: DestinationArgs, is_new: bool) -> Result<(), Problem> {
    match destination {
        DestinationArgs::Mail { address, severity: lowest, enabled } => {
            let patch = AlertWatcherPatch { enabled, minimum_notification_severity: severity(lowest) };
            put::<AlertWatcher>(access, as_json, is_new, &address, &patch).map(drop)
        }
        DestinationArgs::Syslog { name, uri } => {
            let patch = SyslogServerPatch { uri, ..SyslogServerPatch::default() };
            put::<SyslogServer>(access, as_json, is_new, &name, &patch).map(drop)
        }
        DestinationArgs::Snmp { name, host, community_file } => {
            let v2c = secret(community_file)?.map(|community| SnmpV2c { community: Some(community) });
            let patch = SnmpManagerPatch { host, v2c, ..SnmpManagerPatch::default() };
            put::<SnmpManager>(access, as_json, is_new, &name, &patch).map(drop)
        }
        DestinationArgs::Webhook { name, uri, severity: lowest, enabled, secret_file, ca_file } => {
            let patch = AlertWebHookPatch {
                name: None,
                url: uri,
                enabled,
                minimum_notification_severity: severity(lowest),
                secret: secret(secret_file)?,
                ca_certificate: authorities(ca_file)?,
            };
            let hook = put::<AlertWebHook>(access, as_json, is_new, &name, &patch)?;
            match is_new && !as_json {
                true => print(&format!("key of its signatures, shown only now: {}\n", hook.secret)),
                false => Ok(()),
            }
        }
    }
}

fn put<T: AlertDestination + Serialize>(
    access: &Access,
    as_json: bool,
    is_new: bool,
    name: &str,
    patch: &T::Patch,
) -> Result<T, Problem> {
    let client = access::client(access)?;
    let done = match is_new {
        true => client.add_destination::<T>(name, patch)?,
        false => client.change_destination::<T>(name, patch)?,
    };
    let verb = if is_new { "added" } else { "changed" };
    either(as_json, &done, || format!("{verb} {name}; `ibid delivery test` sends a message\n"))?;
    Ok(done)
}

/// All destinations.
#[derive(Serialize)]
struct Destinations {
    mail: Vec<AlertWatcher>,
    syslog: Vec<SyslogServer>,
    snmp: Vec<SnmpManager>,
    webhook: Vec<AlertWebHook>,
}

fn all(client: &Client, as_json: bool) -> Result<(), Problem> {
    let all = Destinations {
        mail: client.destinations()?,
        syslog: client.destinations()?,
        snmp: client.destinations()?,
        webhook: client.destinations()?,
    };
    let switched = |enabled: bool, severity: &str| if enabled { severity.to_owned() } else { "off".to_owned() };
    let mut rows = Vec::new();
    for watcher in &all.mail {
        let severity = switched(watcher.enabled, &watcher.minimum_notification_severity);
        rows.push(row("mail", &watcher.name, &watcher.name, severity, &watcher.delivery));
    }
    for server in &all.syslog {
        rows.push(row("syslog", &server.name, &server.uri, "info".to_owned(), &server.delivery));
    }
    for manager in &all.snmp {
        rows.push(row("snmp", &manager.name, &manager.host, "info".to_owned(), &manager.delivery));
    }
    for hook in &all.webhook {
        let severity = switched(hook.enabled, &hook.minimum_notification_severity);
        rows.push(row("webhook", &hook.name, &hook.url, severity, &hook.delivery));
    }
    let head = ["KIND", "NAME", "TO", "FROM SEVERITY", "LAST SUCCESS", "WAITING", "LAST ERROR"];
    either(as_json, &all, || table(&head, &[5], rows))
}

fn row(kind: &str, name: &str, to: &str, severity: String, status: &DeliveryStatus) -> Vec<String> {
    let success = status.last_success.map_or_else(|| "-".to_owned(), time);
    let error = status.last_error.clone().unwrap_or_else(|| "-".to_owned());
    vec![kind.to_owned(), name.to_owned(), to.to_owned(), severity, success, status.waiting.to_string(), error]
}

fn test(client: &Client, as_json: bool, kind: Option<DestinationArgument>, names: &[String]) -> Result<(), Problem> {
    let mut results = Vec::new();
    let mut send = |of: DestinationArgument, send: &dyn Fn() -> Result<Vec<TestResult>, ClientError>| {
        if kind.is_none_or(|kind| kind == of) {
            results.extend(send()?);
        }
        Ok::<_, ClientError>(())
    };
    send(DestinationArgument::Mail, &|| client.test_destinations::<AlertWatcher>(names))?;
    send(DestinationArgument::Syslog, &|| client.test_destinations::<SyslogServer>(names))?;
    send(DestinationArgument::Snmp, &|| client.test_destinations::<SnmpManager>(names))?;
    send(DestinationArgument::Webhook, &|| client.test_destinations::<AlertWebHook>(names))?;
    let row = |result: &TestResult| {
        let name = result.resource.name.clone().unwrap_or_default();
        let outcome = if result.success { "sent".to_owned() } else { format!("failed: {}", result.result_details) };
        vec![result.test_type.clone(), name, result.destination.clone(), outcome]
    };
    let head = ["KIND", "NAME", "TO", "RESULT"];
    either(as_json, &results, || table(&head, &[], results.iter().map(row).collect()))?;
    match results.iter().filter(|result| !result.success).count() {
        _ if results.is_empty() => {
            Err(Problem::new("no destination to test").hint("add one: `ibid delivery add --help` lists the kinds"))
        }
        0 => Ok(()),
        failed => Err(Problem::new(format!("{failed} of {} test messages not sent", results.len()))
            .hint("correct the destination with `ibid delivery set`, or its server")),
    }
}

fn server_facts(server: &SmtpServer) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    facts(&[
        ("relay", text(&server.relay_host)),
        ("encryption", server.encryption_mode.clone().unwrap_or_else(|| "none".to_owned())),
        ("user", text(&server.user_name)),
        ("password", text(&server.password)),
        ("sender domain", text(&server.sender_domain)),
        ("sender user", server.sender_username.clone().unwrap_or_else(|| "the array's name".to_owned())),
        ("subject prefix", text(&server.subject_prefix)),
        ("body prefix", text(&server.body_prefix)),
        ("authorities", trusted(server.ca_certificate.as_ref())),
    ])
}

fn syslog_facts(settings: &SyslogServerSettings) -> String {
    facts(&[
        ("severity", settings.logging_severity.clone()),
        ("authorities", trusted(settings.ca_certificate.as_ref())),
    ])
}

fn trusted(ca: Option<&String>) -> String {
    if ca.is_some() { "only those that were set".to_owned() } else { "the public ones".to_owned() }
}
