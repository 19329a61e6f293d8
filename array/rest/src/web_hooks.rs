//! `/alert-webhooks`: alerts as JSON over HTTPS. (Ibid extension.)

use crate::call::{Answer, Call};
use crate::destinations::{self, certificates, invalid, one_name, position, severity};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{AlertWebHook, AlertWebHookPatch, ErrorCode, MASKED_SECRET};
use catalog::{CatalogError, ObjectKind, Role, Secret, Severity, WebHook};
use notify::{Destination, DestinationKind, check_secret, check_url, new_secret};

fn show(call: &Call, hook: &WebHook) -> AlertWebHook {
    AlertWebHook {
        name: hook.name.clone(),
        url: shown_url(call, &hook.url),
        enabled: hook.enabled,
        minimum_notification_severity: hook.minimum.name().to_owned(),
        secret: MASKED_SECRET.to_owned(),
        ca_certificate: hook.ca_certificate.clone(),
        delivery: call.app.delivery.status(DestinationKind::WebHook, &hook.name),
    }
}

/// Hides the path of a URL, which is often a secret, from roles that may not change it.
fn shown_url(call: &Call, url: &str) -> String {
    match (call.role, url.splitn(4, '/').collect::<Vec<_>>().as_slice()) {
        (Role::ArrayAdmin, _) => url.to_owned(),
        (_, [scheme, _, authority, _]) => format!("{scheme}//{authority}/{MASKED_SECRET}"),
        _ => url.to_owned(),
    }
}

fn unknown(name: &str) -> RestError {
    CatalogError::NoSuch { kind: ObjectKind::WebHook, name: name.to_owned() }.into()
}

fn index(hooks: &[WebHook], name: &str) -> Result<usize, RestError> {
    position(hooks, |hook| &hook.name, name).ok_or_else(|| unknown(name))
}

/// Answers `GET /alert-webhooks`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let state = call.app.catalog.state();
    let hooks = &state.delivery().web_hooks;
    let find = |name: &str| index(hooks, name).map(|at| hooks[at].clone());
    let hooks = select(&call.query, "names", hooks.iter().cloned(), find)?;
    page(hooks.iter().map(|hook| show(call, hook)).collect(), &call.query, &["name"])
}

fn check(given: &AlertWebHookPatch) -> Result<(), RestError> {
    if given.url.as_deref().is_some_and(|url| !check_url(url)) {
        return Err(invalid("Invalid URL: must be https://HOST/PATH, without a user."));
    }
    if given.secret.as_deref().is_some_and(|secret| !check_secret(secret)) {
        return Err(invalid("Invalid secret: must be whsec_ and base64 of 24 to 64 bytes."));
    }
    Ok(())
}

/// Answers `POST /alert-webhooks?names=…`. Only this answer shows the secret.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let post: AlertWebHookPatch = call.body()?;
    check(&post)?;
    if post.name.is_some() {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "The name is the parameter 'names'."));
    }
    let url = post.url.clone().ok_or_else(|| RestError::bad(ErrorCode::InvalidRequest, "'url' is required."))?;
    let internal = |error: std::io::Error| RestError::Internal(format!("cannot make a secret: {error}"));
    let secret = post.secret.clone().map_or_else(new_secret, Ok).map_err(internal)?;
    let hook = WebHook {
        name: name.clone(),
        url,
        secret: Secret::new(&secret),
        enabled: post.enabled.unwrap_or(true),
        minimum: severity(post.minimum_notification_severity.as_deref())?.unwrap_or(Severity::Info),
        ca_certificate: certificates(post.ca_certificate.as_deref())?.flatten(),
    };
    let shown = AlertWebHook { secret, ..show(call, &hook) };
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            settings.web_hooks.push(hook);
            Ok::<_, RestError>(())
        })
    })?;
    tracing::info!(by = call.admin, "web hook created: {name}");
    Answer::all(vec![shown])
}

/// Answers `PATCH /alert-webhooks?names=…`.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let patch: AlertWebHookPatch = call.body()?;
    check(&patch)?;
    let minimum = severity(patch.minimum_notification_severity.as_deref())?;
    let ca_certificate = certificates(patch.ca_certificate.as_deref())?;
    let changed = call.change(|draft| {
        draft.edit_delivery(|settings| {
            let at = index(&settings.web_hooks, &name)?;
            let hook = &mut settings.web_hooks[at];
            hook.url = patch.url.clone().unwrap_or_else(|| hook.url.clone());
            hook.secret = patch.secret.as_deref().map_or_else(|| hook.secret.clone(), Secret::new);
            hook.enabled = patch.enabled.unwrap_or(hook.enabled);
            hook.minimum = minimum.unwrap_or(hook.minimum);
            hook.ca_certificate = ca_certificate.unwrap_or(hook.ca_certificate.take());
            hook.name = patch.name.clone().unwrap_or_else(|| hook.name.clone());
            Ok::<_, RestError>(hook.clone())
        })
    })?;
    tracing::info!(by = call.admin, "web hook changed: {name}");
    Answer::all(vec![show(call, &changed)])
}

/// Answers `DELETE /alert-webhooks?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            let hooks = &mut settings.web_hooks;
            names.iter().try_for_each(|name| index(hooks, name).map(|at| drop(hooks.remove(at))))
        })
    })?;
    tracing::info!(by = call.admin, "web hooks deleted: {}", names.join(", "));
    Answer::empty()
}

/// Answers `GET /alert-webhooks/test`: sends a notice to each.
pub(crate) fn test(call: &Call) -> Result<Answer, RestError> {
    destinations::test(call, DestinationKind::WebHook, unknown, |to| match to {
        Destination::WebHook(hook) => (shown_url(call, &hook.url), hook.enabled),
        _ => Default::default(),
    })
}
