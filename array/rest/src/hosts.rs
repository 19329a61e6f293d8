//! `/hosts`.

use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ErrorCode, HostPatch, HostPost, MASKED_SECRET, NamedSpace, PortConnectivity, Reference};
use catalog::{CatalogError, CatalogState, Chap, Draft, Host, HostEdit, HostId, Secret, VolumeOrSnapshot};
use std::sync::Arc;

/// The personalities of the dialect. `esxi` changes the OPTIMAL UNMAP GRANULARITY that the host
/// sees; the others change nothing.
const PERSONALITIES: [&str; 7] = ["aix", "esxi", "hitachi-vsp", "hpux", "oracle-vm-server", "solaris", "vms"];

fn show(app: &App, state: &CatalogState, host: &Host) -> api::Host {
    let objects: Vec<VolumeOrSnapshot> = state.luns_of(host.id).map(|(_, object)| object).collect();
    let masked = |half: &Option<(String, Secret)>| half.as_ref().map(|_| MASKED_SECRET.to_owned());
    let user = |half: &Option<(String, Secret)>| half.as_ref().map(|(user, _)| user.clone());
    api::Host {
        name: host.name.clone(),
        chap: api::Chap {
            host_password: masked(&host.chap.host),
            host_user: user(&host.chap.host),
            target_password: masked(&host.chap.target),
            target_user: user(&host.chap.target),
        },
        connection_count: objects.len() as u64,
        host_group: state.group_of_host(host).map(|group| Reference::named(&group.name)).unwrap_or_default(),
        iqns: host.iqns.clone(),
        is_local: true,
        nqns: Vec::new(),
        personality: host.personality.clone(),
        port_connectivity: PortConnectivity::default(),
        preferred_arrays: host.preferred_arrays.iter().map(|id| array_by_id(app, state, id)).collect(),
        space: app.space.of_host(&objects),
        vlan: "any".to_owned(),
        wwns: Vec::new(),
    }
}

fn answer(call: &Call, ids: &[HostId]) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    let hosts = ids.iter().filter_map(|id| state.host_by_id(*id));
    Answer::all(hosts.map(|host| show(&call.app, &state, host)).collect())
}

/// Answers `GET /hosts`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    call.app.space.count_if_quick();
    let state = call.app.catalog.state();
    let find = |name: &str| Ok(state.host(name)?.clone());
    let hosts = select(&call.query, "names", state.hosts().cloned(), find)?;
    page(hosts.iter().map(|host| show(&call.app, &state, host)).collect(), &call.query, &["name"])
}

/// Answers `GET /hosts/space`.
pub(crate) fn space_of_hosts(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    call.app.space.count_if_quick();
    let (state, time) = (call.app.catalog.state(), platform::clock::unix_millis());
    let find = |name: &str| Ok(state.host(name)?.clone());
    let hosts = select(&call.query, "names", state.hosts().cloned(), find)?;
    let space = |host: &Arc<Host>| {
        let objects: Vec<VolumeOrSnapshot> = state.luns_of(host.id).map(|(_, object)| object).collect();
        NamedSpace { name: host.name.clone(), space: call.app.space.of_host(&objects), time }
    };
    page(hosts.iter().map(space).collect(), &call.query, &["name"])
}

/// Answers `POST /hosts?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let post: HostPost = call.body()?;
    iscsi_only(post.nqns.as_deref(), post.wwns.as_deref())?;
    let edit = HostEdit {
        name: None,
        iqns: post.iqns,
        chap: post.chap.map(|chap| merge(&Chap::default(), &chap)).transpose()?,
        personality: personality(post.personality)?,
        preferred_arrays: arrays(call, post.preferred_arrays.as_deref())?,
    };
    let now_ms = platform::clock::unix_millis();
    let ids = call.change(|draft| {
        let create = |name: &String| draft.create_host(name, &edit, now_ms).map(|host| host.id);
        names.iter().map(create).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    tracing::info!(by = call.admin, "hosts created: {}", names.join(", "));
    answer(call, &ids)
}

/// Answers `PATCH /hosts?names=…`.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let patch: HostPatch = call.body()?;
    iscsi_only(patch.nqns.as_deref(), patch.wwns.as_deref())?;
    let personality = personality(patch.personality.clone())?;
    let preferred_arrays = arrays(call, patch.preferred_arrays.as_deref())?;
    if patch.iqns.is_some() && (patch.add_iqns.is_some() || patch.remove_iqns.is_some()) {
        return Err(RestError::bad(
            ErrorCode::InvalidRequest,
            "'iqns' cannot be combined with 'add_iqns' or 'remove_iqns'.",
        ));
    }
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one host at a time can be renamed."));
    }
    let ids = call.change(|draft| {
        let mut ids = Vec::new();
        for name in &names {
            let host = draft.state().host(name)?.clone();
            let edit = HostEdit {
                name: patch.name.clone(),
                iqns: initiators(&host, &patch)?,
                chap: patch.chap.as_ref().map(|chap| merge(&host.chap, chap)).transpose()?,
                personality: personality.clone(),
                preferred_arrays: preferred_arrays.clone(),
            };
            let changed = draft.edit_host(name, &edit)?.clone();
            if let Some(group) = &patch.host_group {
                set_group(draft, &changed, group)?;
            }
            ids.push(changed.id);
        }
        Ok::<_, RestError>(ids)
    })?;
    tracing::info!(by = call.admin, "hosts changed: {}", names.join(", "));
    answer(call, &ids)
}

/// Answers `DELETE /hosts?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    call.change(|draft| names.iter().try_for_each(|name| draft.delete_host(name).map(|_| ())))?;
    tracing::info!(by = call.admin, "hosts deleted: {}", names.join(", "));
    Answer::empty()
}

/// Returns a reference to an array. The name of one that is not connected any more is not known.
fn array_by_id(app: &App, state: &CatalogState, id: &str) -> Reference {
    let own = Some(state.array().name.clone()).filter(|_| state.array().id == id);
    let connected = || app.links.connections().into_iter().find(|link| link.array == id).map(|link| link.name);
    Reference { id: Some(id.to_owned()), name: own.or_else(connected) }
}

/// Returns the ids of arrays that a host is to prefer: this one, and those that are connected.
fn arrays(call: &Call, arrays: Option<&[Reference]>) -> Result<Option<Vec<String>>, RestError> {
    let Some(arrays) = arrays else { return Ok(None) };
    let state = call.app.catalog.state();
    let own = (state.array().id.clone(), state.array().name.clone());
    let connected = call.app.links.connections().into_iter().map(|link| (link.array, link.name));
    let known: Vec<(String, String)> = std::iter::once(own).chain(connected).collect();
    let find = |array: &Reference| {
        let is_meant = |(id, name): &&(String, String)| match (&array.id, &array.name) {
            (Some(wanted), _) => wanted == id,
            (None, wanted) => wanted.as_ref().is_some_and(|wanted| wanted.eq_ignore_ascii_case(name)),
        };
        known.iter().find(is_meant).map(|(id, _)| id.clone()).ok_or_else(|| {
            let (code, message) =
                (ErrorCode::ArrayConnectionNotFound, "A preferred array is this array or a connected one.");
            match array.name.as_ref().or(array.id.as_ref()) {
                Some(given) => RestError::about(code, given, message),
                None => RestError::bad(code, message),
            }
        })
    };
    arrays.iter().map(find).collect::<Result<_, _>>().map(Some)
}

/// Adds a host to a host group, or removes it from its group if the name is empty.
fn set_group(draft: &mut Draft, host: &Host, group: &Reference) -> Result<(), RestError> {
    let Some(wanted) = &group.name else {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "'host_group' requires a name."));
    };
    let present = draft.state().group_of_host(host).map(|group| group.name.clone());
    match present {
        Some(present) if wanted.is_empty() => draft.remove_from_host_group(&present, &host.name)?,
        Some(present) if present.eq_ignore_ascii_case(wanted) => {}
        None if wanted.is_empty() => {}
        _ => draft.add_to_host_group(wanted, &host.name)?,
    }
    Ok(())
}

fn initiators(host: &Host, patch: &HostPatch) -> Result<Option<Vec<String>>, RestError> {
    if patch.iqns.is_some() || (patch.add_iqns.is_none() && patch.remove_iqns.is_none()) {
        return Ok(patch.iqns.clone());
    }
    let mut iqns = host.iqns.clone();
    for gone in patch.remove_iqns.iter().flatten() {
        let Some(at) = iqns.iter().position(|iqn| iqn.eq_ignore_ascii_case(gone)) else {
            return Err(RestError::about(ErrorCode::IqnNotFound, gone, "IQN could not be found on the host."));
        };
        iqns.remove(at);
    }
    iqns.extend(patch.add_iqns.iter().flatten().cloned());
    Ok(Some(iqns))
}

fn personality(personality: Option<String>) -> Result<Option<Option<String>>, RestError> {
    match personality {
        None => Ok(None),
        Some(none) if none.is_empty() => Ok(Some(None)),
        Some(known) if PERSONALITIES.contains(&known.as_str()) => Ok(Some(Some(known))),
        Some(_) => Err(RestError::bad(
            ErrorCode::InvalidSetting,
            format!("Invalid personality: must be one of {}.", PERSONALITIES.join(", ")),
        )),
    }
}

fn iscsi_only(nqns: Option<&[String]>, wwns: Option<&[String]>) -> Result<(), RestError> {
    match nqns.into_iter().chain(wwns).all(<[String]>::is_empty) {
        true => Ok(()),
        false => Err(RestError::bad(ErrorCode::Unsupported, "Only iSCSI initiators ('iqns') are supported.")),
    }
}

/// Merges a CHAP change into the stored settings. An empty user name removes its direction.
fn merge(held: &Chap, given: &api::Chap) -> Result<Chap, RestError> {
    Ok(Chap {
        host: half(held.host.as_ref(), given.host_user.as_deref(), given.host_password.as_deref(), "host")?,
        target: half(held.target.as_ref(), given.target_user.as_deref(), given.target_password.as_deref(), "target")?,
    })
}

fn half(
    held: Option<&(String, Secret)>,
    user: Option<&str>,
    secret: Option<&str>,
    side: &str,
) -> Result<Option<(String, Secret)>, RestError> {
    let missing = |what: &str| {
        let code = match (side, what) {
            ("host", "user") => ErrorCode::HostUserMissing,
            ("host", _) => ErrorCode::HostPasswordMissing,
            (_, "user") => ErrorCode::TargetUserMissing,
            _ => ErrorCode::TargetPasswordMissing,
        };
        RestError::bad(code, format!("Invalid CHAP settings: '{side}_{what}' is missing."))
    };
    match (user, secret) {
        (None, None) => Ok(held.cloned()),
        (Some(""), _) => Ok(None),
        (user, secret) => {
            let user = user.or(held.map(|(user, _)| user.as_str())).ok_or_else(|| missing("user"))?;
            let secret = secret.map(Secret::new).or(held.map(|(_, secret)| secret.clone()));
            Ok(Some((user.to_owned(), secret.ok_or_else(|| missing("password"))?)))
        }
    }
}
