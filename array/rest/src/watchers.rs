//! `/alert-watchers` and `/smtp-servers`: alerts by mail.

use crate::call::{Answer, Call};
use crate::destinations::{self, certificates, invalid, position, severity};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{AlertWatcherPatch, MASKED_SECRET, SmtpServer, SmtpServerPatch};
use catalog::{AlertWatcher, CatalogError, MailEncryption, MailServer, ObjectKind, Secret, Severity};
use notify::{Destination, DestinationKind, SMTP_PORT, check_mail_address, host_and_port};

/// Name of the only mail server.
const SERVER_NAME: &str = "smtp";

fn show(call: &Call, watcher: &AlertWatcher) -> api::AlertWatcher {
    api::AlertWatcher {
        name: watcher.name.clone(),
        enabled: watcher.enabled,
        minimum_notification_severity: watcher.minimum.name().to_owned(),
        delivery: call.app.delivery.status(DestinationKind::Mail, &watcher.name),
    }
}

fn unknown(name: &str) -> RestError {
    CatalogError::NoSuch { kind: ObjectKind::AlertWatcher, name: name.to_owned() }.into()
}

fn index(watchers: &[AlertWatcher], name: &str) -> Result<usize, RestError> {
    position(watchers, |watcher| &watcher.name, name).ok_or_else(|| unknown(name))
}

fn answer(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    let watchers = &state.delivery().watchers;
    let shown = names.iter().filter_map(|name| index(watchers, name).ok().and_then(|at| watchers.get(at)));
    Answer::all(shown.map(|watcher| show(call, watcher)).collect())
}

/// Answers `GET /alert-watchers`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let state = call.app.catalog.state();
    let watchers = &state.delivery().watchers;
    let find = |name: &str| index(watchers, name).map(|at| watchers[at].clone());
    let watchers = select(&call.query, "names", watchers.iter().cloned(), find)?;
    page(watchers.iter().map(|watcher| show(call, watcher)).collect(), &call.query, &["name"])
}

/// Answers `POST /alert-watchers?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let post: AlertWatcherPatch = call.body()?;
    let minimum = severity(post.minimum_notification_severity.as_deref())?.unwrap_or(Severity::Info);
    if let Some(wrong) = names.iter().find(|name| !check_mail_address(name)) {
        let message = "Invalid mail address: must be NAME@DOMAIN.";
        return Err(RestError::about(api::ErrorCode::InvalidName, wrong, message));
    }
    let watcher = |name: &String| AlertWatcher { name: name.clone(), enabled: post.enabled.unwrap_or(true), minimum };
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            settings.watchers.extend(names.iter().map(watcher));
            Ok::<_, RestError>(())
        })
    })?;
    tracing::info!(by = call.admin, "alert watchers created: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `PATCH /alert-watchers?names=…`.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let patch: AlertWatcherPatch = call.body()?;
    let minimum = severity(patch.minimum_notification_severity.as_deref())?;
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            for name in &names {
                let at = index(&settings.watchers, name)?;
                let watcher = &mut settings.watchers[at];
                watcher.enabled = patch.enabled.unwrap_or(watcher.enabled);
                watcher.minimum = minimum.unwrap_or(watcher.minimum);
            }
            Ok::<_, RestError>(())
        })
    })?;
    tracing::info!(by = call.admin, "alert watchers changed: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `DELETE /alert-watchers?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            names
                .iter()
                .try_for_each(|name| index(&settings.watchers, name).map(|at| drop(settings.watchers.remove(at))))
        })
    })?;
    tracing::info!(by = call.admin, "alert watchers deleted: {}", names.join(", "));
    Answer::empty()
}

/// Answers `GET /alert-watchers/test`: sends a mail to each.
pub(crate) fn test(call: &Call) -> Result<Answer, RestError> {
    destinations::test(call, DestinationKind::Mail, unknown, |to| match to {
        Destination::Mail(server, watcher) => {
            let relay = server.relay_host.as_deref().unwrap_or("no mail server");
            (format!("{} over {relay}", watcher.name), watcher.enabled)
        }
        _ => Default::default(),
    })
}

fn show_server(server: &MailServer) -> SmtpServer {
    let encryption = |encryption| match encryption {
        MailEncryption::StartTls => "starttls".to_owned(),
        MailEncryption::Tls => "tls".to_owned(),
    };
    SmtpServer {
        name: SERVER_NAME.to_owned(),
        body_prefix: server.body_prefix.clone(),
        ca_certificate: server.ca_certificate.clone(),
        encryption_mode: server.encryption.map(encryption),
        password: server.password.as_ref().map(|_| MASKED_SECRET.to_owned()),
        relay_host: server.relay_host.clone(),
        sender_domain: server.sender_domain.clone(),
        sender_username: server.sender_username.clone(),
        subject_prefix: server.subject_prefix.clone(),
        user_name: server.user_name.clone(),
    }
}

/// Answers `GET /smtp-servers`: the only one.
pub(crate) fn server(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids"]])?;
    check_server_name(call)?;
    page(vec![show_server(&call.app.catalog.state().delivery().mail)], &call.query, &["name"])
}

fn check_server_name(call: &Call) -> Result<(), RestError> {
    match call.query.list("names").unwrap_or_default().iter().find(|name| *name != SERVER_NAME) {
        Some(name) => Err(RestError::about(api::ErrorCode::DestinationNotFound, name, "SMTP server does not exist.")),
        None => Ok(()),
    }
}

/// Answers `PATCH /smtp-servers`.
pub(crate) fn change_server(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    check_server_name(call)?;
    let patch: SmtpServerPatch = call.body()?;
    let ca_certificate = certificates(patch.ca_certificate.as_deref())?;
    let encryption = match patch.encryption_mode.as_deref() {
        None => None,
        Some("") => Some(None),
        Some("starttls") => Some(Some(MailEncryption::StartTls)),
        Some("tls") => Some(Some(MailEncryption::Tls)),
        Some(_) => return Err(invalid("Invalid encryption mode: must be starttls or tls, or empty for none.")),
    };
    check_addresses(&patch)?;
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            let mail = &mut settings.mail;
            set(&mut mail.relay_host, &patch.relay_host);
            set(&mut mail.user_name, &patch.user_name);
            set(&mut mail.sender_domain, &patch.sender_domain);
            set(&mut mail.sender_username, &patch.sender_username);
            set(&mut mail.subject_prefix, &patch.subject_prefix);
            set(&mut mail.body_prefix, &patch.body_prefix);
            mail.encryption = encryption.unwrap_or(mail.encryption);
            mail.ca_certificate = ca_certificate.unwrap_or(mail.ca_certificate.take());
            if let Some(password) = &patch.password {
                mail.password = Some(password).filter(|password| !password.is_empty()).map(Secret::new);
            }
            Ok::<_, RestError>(())
        })
    })?;
    tracing::info!(by = call.admin, "mail server changed");
    Answer::all(vec![show_server(&call.app.catalog.state().delivery().mail)])
}

/// Applies a text of a change; an empty one removes the setting.
fn set(setting: &mut Option<String>, given: &Option<String>) {
    if let Some(given) = given {
        *setting = Some(given.clone()).filter(|text| !text.is_empty());
    }
}

fn check_addresses(patch: &SmtpServerPatch) -> Result<(), RestError> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if given(&patch.relay_host).is_some_and(|relay| host_and_port(&relay, SMTP_PORT).is_none()) {
        return Err(invalid("Invalid relay host: must be HOST or HOST:PORT."));
    }
    let (user, domain) = (given(&patch.sender_username), given(&patch.sender_domain));
    let sender = format!("{}@{}", user.as_deref().unwrap_or("a"), domain.as_deref().unwrap_or("example.org"));
    if check_mail_address(&sender) {
        Ok(())
    } else {
        Err(invalid("Invalid sender: USER@DOMAIN must be a mail address."))
    }
}
