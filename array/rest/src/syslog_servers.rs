//! `/syslog-servers` and `/syslog-servers/settings`.

use crate::call::{Answer, Call};
use crate::destinations::{self, certificates, invalid, one_name, position, unsupported};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ErrorCode, SyslogServerPatch, SyslogServerSettings, SyslogServerSettingsPatch};
use catalog::{CatalogError, ObjectKind, SyslogServer, SyslogSettings, SyslogSeverity, SyslogTransport};
use notify::{Destination, DestinationKind, SYSLOG_PORT, host_and_port};

/// The only kind of messages.
const SERVICE: &str = "management";
/// Name of the settings.
const SETTINGS_NAME: &str = "syslog";

fn uri(server: &SyslogServer) -> String {
    let host = if server.host.contains(':') { format!("[{}]", server.host) } else { server.host.clone() };
    format!("{}://{host}:{}", server.transport.name(), server.port)
}

fn show(call: &Call, server: &SyslogServer) -> api::SyslogServer {
    api::SyslogServer {
        name: server.name.clone(),
        services: vec![SERVICE.to_owned()],
        uri: uri(server),
        delivery: call.app.delivery.status(DestinationKind::Syslog, &server.name),
    }
}

fn unknown(name: &str) -> RestError {
    CatalogError::NoSuch { kind: ObjectKind::SyslogServer, name: name.to_owned() }.into()
}

fn index(servers: &[SyslogServer], name: &str) -> Result<usize, RestError> {
    position(servers, |server| &server.name, name).ok_or_else(|| unknown(name))
}

fn answer(call: &Call, name: &str) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    let servers = &state.delivery().syslog_servers;
    let at = index(servers, name)?;
    Answer::all(vec![show(call, &servers[at])])
}

/// Answers `GET /syslog-servers`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let state = call.app.catalog.state();
    let servers = &state.delivery().syslog_servers;
    let find = |name: &str| index(servers, name).map(|at| servers[at].clone());
    let servers = select(&call.query, "names", servers.iter().cloned(), find)?;
    page(servers.iter().map(|server| show(call, server)).collect(), &call.query, &["name"])
}

/// Parses `PROTOCOL://HOST:PORT`.
fn parse(uri: &str) -> Result<(SyslogTransport, String, u16), RestError> {
    let parts = uri.split_once("://").and_then(|(scheme, place)| {
        let (host, port) = host_and_port(place.trim_end_matches('/'), SYSLOG_PORT)?;
        Some((SyslogTransport::named(scheme)?, host, port))
    });
    parts.ok_or_else(|| invalid("Invalid URI: must be udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT."))
}

fn check_services(services: Option<&[String]>) -> Result<(), RestError> {
    match services.is_none_or(|services| services == [SERVICE]) {
        true => Ok(()),
        false => Err(unsupported("Only the service 'management' is supported: alerts.")),
    }
}

/// Answers `POST /syslog-servers?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let post: SyslogServerPatch = call.body()?;
    check_services(post.services.as_deref())?;
    if post.name.is_some() {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "The name is the parameter 'names'."));
    }
    let uri = post.uri.as_deref().ok_or_else(|| RestError::bad(ErrorCode::InvalidRequest, "'uri' is required."))?;
    let (transport, host, port) = parse(uri)?;
    let server = SyslogServer { name: name.clone(), transport, host, port };
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            settings.syslog_servers.push(server);
            Ok::<_, RestError>(())
        })
    })?;
    tracing::info!(by = call.admin, "syslog server created: {name}");
    answer(call, &name)
}

/// Answers `PATCH /syslog-servers?names=…`.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let patch: SyslogServerPatch = call.body()?;
    check_services(patch.services.as_deref())?;
    let place = patch.uri.as_deref().map(parse).transpose()?;
    let changed = call.change(|draft| {
        draft.edit_delivery(|settings| {
            let at = index(&settings.syslog_servers, &name)?;
            let server = &mut settings.syslog_servers[at];
            if let Some((transport, host, port)) = place {
                (server.transport, server.host, server.port) = (transport, host, port);
            }
            server.name = patch.name.clone().unwrap_or_else(|| server.name.clone());
            Ok::<_, RestError>(server.name.clone())
        })
    })?;
    tracing::info!(by = call.admin, "syslog server changed: {name}");
    answer(call, &changed)
}

/// Answers `DELETE /syslog-servers?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            let servers = &mut settings.syslog_servers;
            names.iter().try_for_each(|name| index(servers, name).map(|at| drop(servers.remove(at))))
        })
    })?;
    tracing::info!(by = call.admin, "syslog servers deleted: {}", names.join(", "));
    Answer::empty()
}

/// Answers `GET /syslog-servers/test`: sends a message to each.
pub(crate) fn test(call: &Call) -> Result<Answer, RestError> {
    destinations::test(call, DestinationKind::Syslog, unknown, |to| match to {
        Destination::Syslog(_, server) => (uri(server), true),
        _ => Default::default(),
    })
}

fn show_settings(settings: &SyslogSettings) -> SyslogServerSettings {
    SyslogServerSettings {
        name: SETTINGS_NAME.to_owned(),
        ca_certificate: settings.ca_certificate.clone(),
        logging_severity: settings.minimum.name().to_owned(),
        tls_audit_enabled: false,
    }
}

/// Answers `GET /syslog-servers/settings`.
pub(crate) fn settings(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids"]])?;
    page(vec![show_settings(&call.app.catalog.state().delivery().syslog)], &call.query, &["name"])
}

/// Answers `PATCH /syslog-servers/settings`.
pub(crate) fn change_settings(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    let patch: SyslogServerSettingsPatch = call.body()?;
    if patch.tls_audit_enabled == Some(true) {
        return Err(unsupported("This array does not support an audit of TLS."));
    }
    let ca_certificate = certificates(patch.ca_certificate.as_deref())?;
    let parse = |name: &str| {
        SyslogSeverity::named(name)
            .ok_or_else(|| invalid("Invalid logging severity: must be debug, info, notice or warning."))
    };
    let minimum = patch.logging_severity.as_deref().map(parse).transpose()?;
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            let syslog = &mut settings.syslog;
            syslog.minimum = minimum.unwrap_or(syslog.minimum);
            syslog.ca_certificate = ca_certificate.unwrap_or(syslog.ca_certificate.take());
            Ok::<_, RestError>(())
        })
    })?;
    tracing::info!(by = call.admin, "syslog settings changed");
    Answer::all(vec![show_settings(&call.app.catalog.state().delivery().syslog)])
}
