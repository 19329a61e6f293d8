//! `/connections`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ConnectionPost, ErrorCode, Reference};
use catalog::{CatalogError, CatalogState, Draft};
use std::collections::BTreeSet;
use types::ObjectId;

/// Parameters that select connections.
const ENDS: &[&str] = &["host_names", "host_group_names", "volume_names"];

/// One side of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Initiator {
    Host(String),
    Group(String),
}

fn show(state: &CatalogState, host: Option<&str>, group: Option<&str>, volume: ObjectId, lun: u16) -> api::Connection {
    let object = state.volume_or_snapshot_by_id(volume);
    let volume =
        object.map(|object| Reference { id: Some(object.uuid()), name: Some(state.volume_or_snapshot_name(&object)) });
    api::Connection {
        host: host.map(Reference::named).unwrap_or_default(),
        host_group: group.map(Reference::named).unwrap_or_default(),
        lun,
        nsid: None,
        protocol_endpoint: Reference::default(),
        volume: volume.unwrap_or_default(),
    }
}

/// Returns the connections of all hosts, and those of host groups without hosts.
fn all(state: &CatalogState) -> Vec<(ObjectId, api::Connection)> {
    let of_hosts = state.connections().filter_map(|connection| {
        let host = state.host_by_id(connection.host)?;
        let group = state.group_of_host(host);
        let group = group.filter(|group| state.group_lun(group.id, connection.volume).is_some());
        let group = group.map(|group| group.name.as_str());
        Some((connection.volume, show(state, Some(&host.name), group, connection.volume, connection.lun)))
    });
    let empty = state.host_groups().filter(|group| state.hosts_of_group(group.id).next().is_none());
    let of_groups = empty.flat_map(|group| {
        let shared = state.group_connections(group.id);
        shared.map(|shared| (shared.volume, show(state, None, Some(&group.name), shared.volume, shared.lun)))
    });
    of_hosts.chain(of_groups).collect()
}

/// Answers `GET /connections`, for the named hosts, host groups and volumes, or for all.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, ENDS])?;
    let state = call.app.catalog.state();
    let named = |parameter: &str, find: &dyn Fn(&str) -> Result<String, RestError>| match call.query.text(parameter) {
        Some(_) => select(&call.query, parameter, std::iter::empty(), find).map(Some),
        None => Ok(None),
    };
    let hosts = named("host_names", &|name| Ok(state.host(name)?.name.clone()))?;
    let groups = named("host_group_names", &|name| Ok(state.host_group(name)?.name.clone()))?;
    let object = |name: &str| Ok(state.volume_or_snapshot(name)?.id());
    let every = state.volumes().map(|volume| volume.id).chain(state.snapshots().map(|snapshot| snapshot.id));
    let volumes: BTreeSet<ObjectId> = select(&call.query, "volume_names", every, object)?.into_iter().collect();
    let is_in = |names: &Option<Vec<String>>, end: &Reference| {
        names.as_ref().is_none_or(|names| end.name.as_ref().is_some_and(|name| names.contains(name)))
    };
    let shown = all(&state).into_iter().filter(|(volume, connection)| {
        volumes.contains(volume) && is_in(&hosts, &connection.host) && is_in(&groups, &connection.host_group)
    });
    let shown = shown.map(|(_, connection)| connection).collect();
    page(shown, &call.query, &["host.name", "host_group.name", "volume.name"])
}

/// Returns each named host or host group paired with each named volume.
fn pairs(call: &Call) -> Result<Vec<(Initiator, String)>, RestError> {
    call.query.allow(&[ENDS])?;
    let volumes = call.query.required("volume_names")?;
    let initiators: Vec<Initiator> = match (call.query.text("host_names"), call.query.text("host_group_names")) {
        (Some(_), Some(_)) => {
            let message = "'host_names' cannot be combined with 'host_group_names'.";
            return Err(RestError::bad(ErrorCode::InvalidParameter, message));
        }
        (None, Some(_)) => call.query.required("host_group_names")?.into_iter().map(Initiator::Group).collect(),
        _ => call.query.required("host_names")?.into_iter().map(Initiator::Host).collect(),
    };
    let with_all = |initiator: &Initiator| {
        let initiator = initiator.clone();
        volumes.iter().map(move |volume| (initiator.clone(), volume.clone())).collect::<Vec<_>>()
    };
    Ok(initiators.iter().flat_map(with_all).collect())
}

/// Answers `POST /connections?host_names=…&volume_names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    let pairs = pairs(call)?;
    let post: ConnectionPost = call.body()?;
    let lun = match post.lun.map(u16::try_from).transpose() {
        Ok(lun) => lun,
        Err(_) => return Err(CatalogError::BadLun { lun: post.lun.unwrap_or_default() }.into()),
    };
    let connect = |draft: &mut Draft, initiator: &Initiator, volume: &str| match initiator {
        Initiator::Host(host) => draft.connect(host, volume, lun).map(|made| (made.volume, made.lun)),
        Initiator::Group(group) => draft.connect_group(group, volume, lun).map(|made| (made.volume, made.lun)),
    };
    let made = call.change(|draft| {
        let connected = pairs.iter().map(|(initiator, volume)| connect(draft, initiator, volume));
        connected.collect::<Result<Vec<_>, CatalogError>>()
    })?;
    tracing::info!(by = call.admin, "volumes connected: {pairs:?}");
    let state = call.app.catalog.state();
    let shown = pairs.iter().zip(made).map(|((initiator, _), (volume, lun))| match initiator {
        Initiator::Host(host) => show(&state, Some(host), None, volume, lun),
        Initiator::Group(group) => show(&state, None, Some(group), volume, lun),
    });
    Answer::all(shown.collect())
}

/// Answers `DELETE /connections?host_names=…&volume_names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    let pairs = pairs(call)?;
    call.change(|draft| {
        pairs.iter().try_for_each(|(initiator, volume)| match initiator {
            Initiator::Host(host) => draft.disconnect(host, volume).map(|_| ()),
            Initiator::Group(group) => draft.disconnect_group(group, volume),
        })
    })?;
    tracing::info!(by = call.admin, "volumes disconnected: {pairs:?}");
    Answer::empty()
}
