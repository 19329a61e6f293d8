//! `/snmp-managers`: alerts as traps of SNMP v2c.

use crate::call::{Answer, Call};
use crate::destinations::{self, invalid, one_name, position, unsupported};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ErrorCode, MASKED_SECRET, SnmpManagerPatch, SnmpV2c, SnmpV3};
use catalog::{CatalogError, ObjectKind, Secret, SnmpManager};
use notify::{Destination, DestinationKind, SNMP_PORT, host_and_port};

fn host(manager: &SnmpManager) -> String {
    match (manager.host.contains(':'), manager.port) {
        (_, SNMP_PORT) => manager.host.clone(),
        (true, port) => format!("[{}]:{port}", manager.host),
        (false, port) => format!("{}:{port}", manager.host),
    }
}

fn show(call: &Call, manager: &SnmpManager) -> api::SnmpManager {
    api::SnmpManager {
        name: manager.name.clone(),
        host: host(manager),
        notification: "trap".to_owned(),
        version: "v2c".to_owned(),
        v2c: SnmpV2c { community: Some(MASKED_SECRET.to_owned()) },
        v3: SnmpV3::default(),
        delivery: call.app.delivery.status(DestinationKind::Snmp, &manager.name),
    }
}

fn unknown(name: &str) -> RestError {
    CatalogError::NoSuch { kind: ObjectKind::SnmpManager, name: name.to_owned() }.into()
}

fn index(managers: &[SnmpManager], name: &str) -> Result<usize, RestError> {
    position(managers, |manager| &manager.name, name).ok_or_else(|| unknown(name))
}

fn answer(call: &Call, name: &str) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    let managers = &state.delivery().snmp_managers;
    let at = index(managers, name)?;
    Answer::all(vec![show(call, &managers[at])])
}

/// Answers `GET /snmp-managers`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let state = call.app.catalog.state();
    let managers = &state.delivery().snmp_managers;
    let find = |name: &str| index(managers, name).map(|at| managers[at].clone());
    let managers = select(&call.query, "names", managers.iter().cloned(), find)?;
    page(managers.iter().map(|manager| show(call, manager)).collect(), &call.query, &["name"])
}

/// Returns the host, the port and the community of a request.
type Given = (Option<(String, u16)>, Option<Secret>);

fn check(given: &SnmpManagerPatch) -> Result<Given, RestError> {
    if given.version.as_deref().is_some_and(|version| version != "v2c") {
        return Err(unsupported("Only SNMP 'v2c' is supported."));
    }
    if given.notification.as_deref().is_some_and(|notification| notification != "trap") {
        return Err(unsupported("Only the notification 'trap' is supported."));
    }
    let parse = |host: &String| {
        host_and_port(host, SNMP_PORT).ok_or_else(|| invalid("Invalid host: must be HOST or HOST:PORT."))
    };
    let community = given.v2c.as_ref().and_then(|v2c| v2c.community.clone());
    Ok((given.host.as_ref().map(parse).transpose()?, community.map(Secret::new)))
}

/// Answers `POST /snmp-managers?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let post: SnmpManagerPatch = call.body()?;
    if post.name.is_some() {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "The name is the parameter 'names'."));
    }
    let (Some((host, port)), Some(community)) = check(&post)? else {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "'host' and 'v2c.community' are required."));
    };
    let manager = SnmpManager { name: name.clone(), host, port, community };
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            settings.snmp_managers.push(manager);
            Ok::<_, RestError>(())
        })
    })?;
    tracing::info!(by = call.admin, "SNMP manager created: {name}");
    answer(call, &name)
}

/// Answers `PATCH /snmp-managers?names=…`.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let patch: SnmpManagerPatch = call.body()?;
    let (place, community) = check(&patch)?;
    let changed = call.change(|draft| {
        draft.edit_delivery(|settings| {
            let at = index(&settings.snmp_managers, &name)?;
            let manager = &mut settings.snmp_managers[at];
            if let Some((host, port)) = place {
                (manager.host, manager.port) = (host, port);
            }
            manager.community = community.unwrap_or_else(|| manager.community.clone());
            manager.name = patch.name.clone().unwrap_or_else(|| manager.name.clone());
            Ok::<_, RestError>(manager.name.clone())
        })
    })?;
    tracing::info!(by = call.admin, "SNMP manager changed: {name}");
    answer(call, &changed)
}

/// Answers `DELETE /snmp-managers?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| {
        draft.edit_delivery(|settings| {
            let managers = &mut settings.snmp_managers;
            names.iter().try_for_each(|name| index(managers, name).map(|at| drop(managers.remove(at))))
        })
    })?;
    tracing::info!(by = call.admin, "SNMP managers deleted: {}", names.join(", "));
    Answer::empty()
}

/// Answers `GET /snmp-managers/test`: sends a trap to each.
pub(crate) fn test(call: &Call) -> Result<Answer, RestError> {
    destinations::test(call, DestinationKind::Snmp, unknown, |to| match to {
        Destination::Snmp(manager) => (host(manager), true),
        _ => Default::default(),
    })
}
