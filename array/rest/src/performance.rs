//! Performance of the array, ports, hosts, volumes and connections; offloads; iSCSI sessions.

use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{ConnectionPerformance, ErrorCode, IscsiSession, OffloadPerformance, Performance, Reference, RefusedLogin};
use catalog::{CatalogState, HostId, VolumeOrSnapshot};
use std::sync::Arc;
use telemetry::{CommandClass, Sample, SessionInfo, Subject};
use types::ObjectId;

/// Parameters that select a time in the past.
const TIMES: &[&str] = &["start_time", "end_time", "resolution"];
/// Maximum number of items that one call may have. More times than that need a coarser resolution.
const MAX_POINTS: usize = 100_000;

fn whole(value: f32) -> u64 {
    value.round() as u64
}

fn show(id: Option<String>, name: String, (time, sample): (u64, Sample)) -> Performance {
    let (read, write) = (sample.read, sample.write);
    let per_op = |bytes: f32, ops: f32| if ops > 0.0 { whole(bytes / ops) } else { 0 };
    Performance {
        id,
        name,
        time,
        bytes_per_op: per_op(read.bytes + write.bytes, read.ops + write.ops),
        bytes_per_read: per_op(read.bytes, read.ops),
        bytes_per_write: per_op(write.bytes, write.ops),
        input_per_sec: whole(write.bytes),
        output_per_sec: whole(read.bytes),
        reads_per_sec: whole(read.ops),
        writes_per_sec: whole(write.ops),
        others_per_sec: whole(sample.other_ops),
        read_bytes_per_sec: whole(read.bytes),
        write_bytes_per_sec: whole(write.bytes),
        queue_depth: sample.queue_depth.ceil() as u64,
        usec_per_read_op: whole(read.usec),
        usec_per_write_op: whole(write.usec),
        usec_per_other_op: whole(sample.other_usec),
        service_usec_per_read_op: whole(read.usec - read.limited_usec),
        service_usec_per_write_op: whole(write.usec - write.limited_usec),
        qos_rate_limit_usec_per_read_op: whole(read.limited_usec),
        qos_rate_limit_usec_per_write_op: whole(write.limited_usec),
        usec_p50_per_read_op: whole(read.p50_usec),
        usec_p99_per_read_op: whole(read.p99_usec),
        usec_p50_per_write_op: whole(write.p50_usec),
        usec_p99_per_write_op: whole(write.p99_usec),
        ..Performance::default()
    }
}

/// An object whose performance is asked for.
#[derive(Clone)]
struct Object {
    id: Option<String>,
    name: String,
    subject: Subject,
}

/// Answers with the performance of `objects`: in the last interval, or in the past if the query has
/// a time.
fn answer(call: &Call, objects: Vec<Object>) -> Result<Answer, RestError> {
    let monitor = &call.app.telemetry.monitor;
    let number = |name: &str| Ok::<_, RestError>(call.query.number(name)?.map(|value| value as u64));
    let (start, end, resolution) = (number("start_time")?, number("end_time")?, number("resolution")?);
    if start.is_none() && end.is_none() {
        let latest = |object: Object| show(object.id, object.name, monitor.latest(&object.subject));
        return page(objects.into_iter().map(latest).collect(), &call.query, &["name"]);
    }
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(u64::MAX));
    if start > end {
        return Err(RestError::bad(ErrorCode::InvalidParameter, "'start_time' is after 'end_time'."));
    }
    let mut items = Vec::new();
    for object in objects {
        let points = monitor.history(&object.subject, start, end, resolution.unwrap_or(0));
        items.extend(points.into_iter().map(|point| show(object.id.clone(), object.name.clone(), point)));
        if items.len() > MAX_POINTS {
            let message = "Too many points in time; ask for fewer objects, a shorter time or a coarser 'resolution'.";
            return Err(RestError::bad(ErrorCode::InvalidParameter, message));
        }
    }
    page(items, &call.query, &["name", "time"])
}

/// Answers `GET /arrays/performance`.
pub(crate) fn of_array(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, TIMES, &["names", "ids", "protocol"]])?;
    let array = call.app.catalog.array();
    let names = call.query.list("names").unwrap_or_default();
    if let Some(other) = names.iter().find(|name| !name.eq_ignore_ascii_case(&array.name)) {
        return Err(RestError::about(ErrorCode::ArrayNotFound, other, "Array does not exist."));
    }
    answer(call, vec![Object { id: Some(array.id.clone()), name: array.name.clone(), subject: Subject::Array }])
}

/// Answers `GET /ports/performance`: one item for each portal. (Ibid extension.)
pub(crate) fn of_ports(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, TIMES, &["names"]])?;
    let ports: Vec<Object> =
        port_names(call).map(|(name, portal)| Object { id: None, name, subject: Subject::Port(portal) }).collect();
    let find = |asked: &str| {
        let found = ports.iter().find(|port| port.name.eq_ignore_ascii_case(asked));
        found.cloned().ok_or_else(|| RestError::about(ErrorCode::PartNotFound, asked, "It does not exist."))
    };
    answer(call, select(&call.query, "names", ports.iter().cloned(), find)?)
}

fn port_names(call: &Call) -> impl Iterator<Item = (String, std::net::SocketAddr)> {
    call.app.portals.iter().enumerate().map(|(index, portal)| (format!("CT0.ETH{index}"), *portal))
}

/// Answers `GET /hosts/performance`.
pub(crate) fn of_hosts(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, TIMES, &["names"]])?;
    let state = call.app.catalog.state();
    let object = |host: &catalog::Host| Object { id: None, name: host.name.clone(), subject: Subject::Host(host.id.0) };
    let find = |name: &str| Ok(object(state.host(name)?));
    answer(call, select(&call.query, "names", state.hosts().map(|host| object(host)), find)?)
}

/// Answers `GET /volumes/performance`.
pub(crate) fn of_volumes(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, TIMES, &["names", "ids", "destroyed"]])?;
    let state = call.app.catalog.state();
    let object = |volume: &Arc<catalog::Volume>| Object {
        id: Some(VolumeOrSnapshot::Volume(volume.clone()).uuid()),
        name: volume.name.clone(),
        subject: Subject::Volume(volume.id),
    };
    let find = |name: &str| Ok(object(state.volume(name)?));
    let destroyed = call.query.flag("destroyed")?;
    let is_wanted =
        |volume: &&Arc<catalog::Volume>| destroyed.is_none_or(|destroyed| volume.destroyed_ms.is_some() == destroyed);
    answer(call, select(&call.query, "names", state.volumes().filter(is_wanted).map(object), find)?)
}

/// Answers `GET /volume-groups/performance`: the volumes of each group together.
pub(crate) fn of_volume_groups(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, TIMES, &["names", "ids", "destroyed"]])?;
    let state = call.app.catalog.state();
    let groups = crate::volume_groups::selected(call, &state)?;
    let object = |group: &Arc<catalog::VolumeGroup>| Object {
        id: Some(crate::references::uuid(&state, group.id.0)),
        name: group.name.clone(),
        subject: Subject::VolumeGroup(group.id.0),
    };
    answer(call, groups.iter().map(object).collect())
}

/// Answers `GET /pods/performance`: the volumes of each pod together.
pub(crate) fn of_pods(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, TIMES, &["names", "ids", "destroyed", "protocol"]])?;
    let state = call.app.catalog.state();
    let pods = crate::pods::selected(call, &state)?;
    let object = |pod: &Arc<catalog::Pod>| Object {
        id: Some(crate::references::uuid(&state, pod.id.0)),
        name: pod.name.clone(),
        subject: Subject::Pod(pod.id.0),
    };
    answer(call, pods.iter().map(object).collect())
}

/// Returns the performance of a subject in the last interval.
pub(crate) fn performance_of(app: &App, subject: &Subject, name: String) -> Performance {
    show(None, name, app.telemetry.monitor.latest(subject))
}

/// Returns the name of the host of an initiator.
pub(crate) fn host_name(state: &CatalogState, initiator: &str) -> Option<String> {
    state.host_of_initiator(initiator).map(|host| host.name.clone())
}

fn host_reference(state: &CatalogState, id: u64) -> Option<Reference> {
    state.host_by_id(HostId(id)).map(|host| Reference { id: None, name: Some(host.name.clone()) })
}

fn volume_reference(state: &CatalogState, id: ObjectId) -> Option<Reference> {
    let object = state.volume_or_snapshot_by_id(id)?;
    Some(Reference { name: Some(state.volume_or_snapshot_name(&object)), id: Some(object.uuid()) })
}

/// Answers `GET /connections/performance`: the hosts and volumes that were active in the last
/// interval. (Ibid extension.)
pub(crate) fn of_connections(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["host_names", "volume_names"]])?;
    let state = call.app.catalog.state();
    let monitor = &call.app.telemetry.monitor;
    let time = monitor.latest(&Subject::Array).0;
    let (hosts, volumes) = (call.query.list("host_names"), call.query.list("volume_names"));
    let is_asked = |names: &Option<Vec<String>>, reference: &Reference| {
        let name = reference.name.as_deref().unwrap_or_default();
        names.as_ref().is_none_or(|names| names.iter().any(|asked| asked.eq_ignore_ascii_case(name)))
    };
    let item = |(subject, sample): (Subject, Sample)| {
        let Subject::HostVolume(host, volume) = subject else { return None };
        let (host, volume) = (host_reference(&state, host)?, volume_reference(&state, volume)?);
        let text = |reference: &Reference| reference.name.clone().unwrap_or_default();
        let name = format!("{}/{}", text(&host), text(&volume));
        let performance = show(None, name, (time, sample));
        Some(ConnectionPerformance { host, volume, performance })
    };
    let items = monitor.active().into_iter().filter_map(item);
    let items = items.filter(|item| is_asked(&hosts, &item.host) && is_asked(&volumes, &item.volume));
    page(items.collect(), &call.query, &["name"])
}

/// Answers `GET /offloads/performance`: VAAI commands since the start, by volume, initiator and
/// primitive. (Ibid extension.)
pub(crate) fn of_offloads(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let state = call.app.catalog.state();
    let mut sums = std::collections::BTreeMap::new();
    for (key, counters) in call.app.telemetry.monitor.registry().all() {
        let sum: &mut telemetry::ActivityTotals = sums.entry((key.volume, key.initiator)).or_default();
        sum.add(&counters.totals());
    }
    let mut items = Vec::new();
    for ((volume, initiator), totals) in sums {
        let Some(volume) = volume_reference(&state, volume) else { continue };
        let host = state.host_of_initiator(&initiator).and_then(|host| host_reference(&state, host.id.0));
        for class in CommandClass::OFFLOADS {
            let totals = totals.get(class);
            if totals.commands > 0 {
                items.push(OffloadPerformance {
                    name: volume.name.clone().unwrap_or_default(),
                    volume: volume.clone(),
                    host: host.clone().unwrap_or_default(),
                    initiator: initiator.to_string(),
                    primitive: class.name().to_owned(),
                    commands: totals.commands,
                    errors: totals.errors,
                    bytes: totals.bytes,
                    usec_per_op: totals.nanoseconds / totals.commands / 1000,
                });
            }
        }
    }
    page(items, &call.query, &["name", "initiator", "primitive"])
}

fn show_session(state: &CatalogState, info: SessionInfo, end: Option<(u64, String)>) -> IscsiSession {
    let host = state.host_of_initiator(&info.initiator).and_then(|host| host_reference(state, host.id.0));
    let (ended, reason) = end.unzip();
    IscsiSession {
        host: host.unwrap_or_default(),
        initiator: info.initiator,
        isid: info.isid,
        tsih: info.tsih,
        initiator_portal: info.peer.to_string(),
        target_portal: info.portal.to_string(),
        since: info.since_ms,
        authenticated: info.is_authenticated,
        parameters: info.parameters.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        ended,
        reason,
    }
}

/// Answers `GET /iscsi-sessions`: the sessions that exist, or with `ended=true` those that ended.
/// (Ibid extension.)
pub(crate) fn sessions(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["ended", "host_names"]])?;
    let state = call.app.catalog.state();
    let table = &call.app.telemetry.sessions;
    let mut items: Vec<IscsiSession> = match call.query.flag("ended")? {
        Some(true) => {
            let ended = table.ended().into_iter();
            ended.map(|session| show_session(&state, session.info, Some((session.ended_ms, session.reason)))).collect()
        }
        _ => table.live().into_iter().map(|session| show_session(&state, session.info, None)).collect(),
    };
    if let Some(hosts) = call.query.list("host_names") {
        let names: Result<Vec<String>, _> =
            hosts.iter().map(|name| state.host(name).map(|host| host.name.clone())).collect();
        let names = names?;
        items.retain(|session| session.host.name.as_ref().is_some_and(|name| names.contains(name)));
    }
    page(items, &call.query, &["initiator", "isid", "since"])
}

/// Answers `GET /iscsi-sessions/refused`: refused logins. (Ibid extension.)
pub(crate) fn refused_logins(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS])?;
    let items = call.app.telemetry.sessions.refused().into_iter().map(|login| RefusedLogin {
        initiator: login.initiator,
        initiator_portal: login.peer.to_string(),
        count: login.count,
        time: login.last_ms,
        reason: login.reason,
    });
    page(items.collect(), &call.query, &["initiator", "initiator_portal"])
}
