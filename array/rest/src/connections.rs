//! `/connections`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ConnectionPost, Reference};
use catalog::{CatalogError, CatalogState, Connection, HostId};
use std::collections::BTreeSet;
use types::VolumeId;

fn show(state: &CatalogState, connection: &Connection) -> Option<api::Connection> {
    let (host, object) = (state.host_by_id(connection.host)?, state.volume_or_snapshot_by_id(connection.volume)?);
    Some(api::Connection {
        host: Reference::named(&host.name),
        host_group: Reference::default(),
        lun: connection.lun,
        nsid: None,
        protocol_endpoint: Reference::default(),
        volume: Reference { id: Some(object.uuid()), name: Some(state.volume_or_snapshot_name(&object)) },
    })
}

/// Answers `GET /connections`, for the named hosts and volumes or for all.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["host_names", "volume_names"]])?;
    let state = call.app.catalog.state();
    let host = |name: &str| Ok(state.host(name)?.id);
    let object = |name: &str| Ok(state.volume_or_snapshot(name)?.id());
    let hosts = select(&call.query, "host_names", state.hosts().map(|host| host.id), host)?;
    let all = state.connections().map(|connection| connection.volume);
    let volumes = select(&call.query, "volume_names", all, object)?;
    let (hosts, volumes): (BTreeSet<HostId>, BTreeSet<VolumeId>) =
        (hosts.into_iter().collect(), volumes.into_iter().collect());
    let shown = state
        .connections()
        .filter(|connection| hosts.contains(&connection.host) && volumes.contains(&connection.volume))
        .filter_map(|connection| show(&state, &connection))
        .collect();
    page(shown, &call.query, &["host.name", "volume.name"])
}

/// Returns each named host paired with each named volume.
fn pairs(call: &Call) -> Result<Vec<(String, String)>, RestError> {
    let (hosts, volumes) = (call.query.required("host_names")?, call.query.required("volume_names")?);
    let with_all = |host: &String| {
        let host = host.clone();
        volumes.iter().map(move |volume| (host.clone(), volume.clone())).collect::<Vec<_>>()
    };
    Ok(hosts.iter().flat_map(with_all).collect())
}

/// Answers `POST /connections?host_names=…&volume_names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["host_names", "volume_names"]])?;
    let pairs = pairs(call)?;
    let post: ConnectionPost = call.body()?;
    let lun = match post.lun.map(u16::try_from).transpose() {
        Ok(lun) => lun,
        Err(_) => return Err(CatalogError::BadLun { lun: post.lun.unwrap_or_default() }.into()),
    };
    let made = call.app.catalog.change(|draft| {
        let connect = |(host, volume): &(String, String)| draft.connect(host, volume, lun);
        pairs.iter().map(connect).collect::<Result<Vec<_>, CatalogError>>()
    })?;
    tracing::info!(by = call.admin, "volumes connected: {pairs:?}");
    let state = call.app.catalog.state();
    Answer::all(made.iter().filter_map(|connection| show(&state, connection)).collect())
}

/// Answers `DELETE /connections?host_names=…&volume_names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["host_names", "volume_names"]])?;
    let pairs = pairs(call)?;
    call.app
        .catalog
        .change(|draft| pairs.iter().try_for_each(|(host, volume)| draft.disconnect(host, volume).map(|_| ())))?;
    tracing::info!(by = call.admin, "volumes disconnected: {pairs:?}");
    Answer::empty()
}
