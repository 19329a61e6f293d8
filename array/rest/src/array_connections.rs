//! `/array-connections`: connections to other arrays, their keys, paths and tests.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{
    ArrayConnection, ArrayConnectionKey, ArrayConnectionPatch, ArrayConnectionPath, ArrayConnectionPost,
    ArrayConnectionTest, ArrayConnectionTestPost, ErrorCode, Reference, RoundTrips, SimulatedDistance,
    SimulatedDistancePatch,
};
use catalog::{Pod, Role};
use link::{Cut, Distance, KeyText, LinkConnection, LinkError, LinkStatus, Rtt};
use std::sync::Arc;
use std::time::Duration;

/// The only kind of connection.
const KIND: &str = "sync-replication";
const TRANSPORT: &str = "ip";
const ENCRYPTED: &str = "encrypted";
/// Time of a link test in milliseconds: if none is given, the shortest and the longest.
const TEST_MS: u64 = 1000;
const TEST_LIMITS_MS: std::ops::RangeInclusive<u64> = 100..=10_000;

/// Returns the error of a call, about the array of this name if it has one.
fn failed(error: LinkError, name: Option<&str>) -> RestError {
    let code = match &error {
        LinkError::NoSuch => ErrorCode::ArrayConnectionNotFound,
        LinkError::AlreadyConnected(_) | LinkError::NameTaken(_) | LinkError::Itself => {
            ErrorCode::ArrayConnectionExists
        }
        LinkError::TooMany(_) => ErrorCode::LimitReached,
        LinkError::Address(_) | LinkError::Key(_) | LinkError::Distance(_) => ErrorCode::InvalidSetting,
        LinkError::Store(_) | LinkError::System(_) => return RestError::Internal(error.to_string()),
        _ => ErrorCode::ArrayConnectionFailed,
    };
    let mut message = error.to_string();
    // Messages are sentences.
    if let Some(first) = message.get(..1) {
        message.replace_range(..1, &first.to_uppercase());
    }
    if !message.ends_with('.') {
        message.push('.');
    }
    match name {
        Some(name) => RestError::about(code, name, message),
        None => RestError::bad(code, message),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn round_trips(rtt: Rtt) -> RoundTrips {
    RoundTrips { min_usec: micros(rtt.min), median_usec: micros(rtt.median), max_usec: micros(rtt.max) }
}

fn status(status: LinkStatus) -> String {
    let name = match status {
        LinkStatus::Connected => "connected",
        LinkStatus::PartlyConnected => "partially_connected",
        LinkStatus::Connecting => "connecting",
    };
    name.to_owned()
}

fn show_distance(distance: &Distance) -> Option<SimulatedDistance> {
    (!distance.is_none()).then(|| SimulatedDistance {
        rtt_usec: distance.rtt_us,
        jitter_usec: distance.jitter_us,
        bytes_per_second: distance.bytes_per_second,
        cut: distance.cut.name().to_owned(),
    })
}

fn show(link: LinkConnection) -> ArrayConnection {
    ArrayConnection {
        remote: Reference { id: Some(link.array.clone()), name: Some(link.name.clone()) },
        id: link.array,
        name: link.name,
        encryption: ENCRYPTED.to_owned(),
        management_address: link.address,
        os: "Ibid".to_owned(),
        replication_addresses: link.ends.iter().map(|(_, remote)| remote.to_string()).collect(),
        replication_transport: TRANSPORT.to_owned(),
        status: status(link.status),
        throttled: link.distance.bytes_per_second.is_some(),
        kind: KIND.to_owned(),
        version: link.version,
        certificate: link.certificate,
        since: link.since_ms,
        problem: link.problem,
        rtt: link.rtt.map(round_trips),
        clock_ahead: link.clock_ahead_ms,
        sent_bytes: link.sent_bytes,
        received_bytes: link.received_bytes,
        sessions: link.sessions,
        simulated_distance: show_distance(&link.distance),
    }
}

fn selected(call: &Call) -> Result<Vec<LinkConnection>, RestError> {
    let links = &call.app.links;
    let find = |name: &str| links.connection(name).map_err(|error| failed(error, Some(name)));
    select(&call.query, "names", links.connections().into_iter(), find)
}

fn one_name(call: &Call) -> Result<String, RestError> {
    match call.query.required("names")?.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(RestError::bad(ErrorCode::InvalidParameter, "'names' must be one array.")),
    }
}

fn shown(call: &Call, name: &str) -> Result<Answer, RestError> {
    let link = call.app.links.connection(name).map_err(|error| failed(error, Some(name)))?;
    Answer::all(vec![show(link)])
}

/// Runs a future of the links. The handler is on a thread that may block.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

/// Answers `GET /array-connections`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    page(selected(call)?.into_iter().map(show).collect(), &call.query, &["name"])
}

/// Answers `GET /array-connections/path`: one path for each connection with a session.
pub(crate) fn paths(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let path = |link: LinkConnection| {
        let (local, remote) = link.ends?;
        Some(ArrayConnectionPath {
            id: link.array,
            name: link.name,
            encryption: ENCRYPTED.to_owned(),
            local_address: Some(local.ip().to_string()),
            local_port: Some(local.port().to_string()),
            remote_address: Some(remote.ip().to_string()),
            remote_port: Some(remote.port().to_string()),
            replication_transport: TRANSPORT.to_owned(),
            status: status(link.status),
        })
    };
    page(selected(call)?.into_iter().filter_map(path).collect(), &call.query, &["name"])
}

/// Answers `POST /array-connections`. `names` may state the name that the other array must have.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let expected = call.query.list("names").map(|_| one_name(call)).transpose()?;
    let post: ArrayConnectionPost = call.body()?;
    let unsupported = |message: &str| Err(RestError::bad(ErrorCode::Unsupported, message));
    if post.kind.as_deref().is_some_and(|kind| kind != KIND) {
        return unsupported("Only the type 'sync-replication' is supported.");
    }
    // A public client sends the type in this field.
    if post.replication_transport.as_deref().is_some_and(|transport| ![TRANSPORT, KIND].contains(&transport)) {
        return unsupported("Only the replication_transport 'ip' is supported.");
    }
    if post.encryption.as_deref().is_some_and(|encryption| encryption != ENCRYPTED) {
        return unsupported("Links are always encrypted: omit 'encryption', or set it to 'encrypted'.");
    }
    let address = match post.replication_addresses.as_deref() {
        None | Some([]) => &post.management_address,
        Some([address]) => address,
        Some(_) => return unsupported("A link has one address: give at most one of 'replication_addresses'."),
    };
    for (field, value) in [("connection_key", &post.connection_key), ("management_address", address)] {
        if value.is_empty() {
            return Err(RestError::bad(ErrorCode::InvalidRequest, format!("'{field}' is required.")));
        }
    }
    let connected = wait(call.app.links.connect(address, &post.connection_key, expected.as_deref()));
    let link = connected.map_err(|error| failed(error, None))?;
    call.record();
    tracing::info!(by = call.admin, "connected to array {}", link.name);
    Answer::all(vec![show(link)])
}

fn changed(distance: Distance, patch: &SimulatedDistancePatch) -> Result<Distance, RestError> {
    let invalid = || RestError::bad(ErrorCode::InvalidSetting, "Invalid cut: must be none, in, out or both.");
    let cut = patch.cut.as_deref().map(|name| Cut::named(name).ok_or_else(invalid)).transpose()?;
    Ok(Distance {
        rtt_us: patch.rtt_usec.unwrap_or(distance.rtt_us),
        jitter_us: patch.jitter_usec.unwrap_or(distance.jitter_us),
        bytes_per_second: patch
            .bytes_per_second
            .map_or(distance.bytes_per_second, |rate| Some(rate).filter(|rate| *rate != 0)),
        cut: cut.unwrap_or(distance.cut),
    })
}

/// Answers `PATCH /array-connections?names=…`.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let patch: ArrayConnectionPatch = call.body()?;
    let links = &call.app.links;
    let about = |error: LinkError| failed(error, Some(&name));
    let link = links.connection(&name).map_err(about)?;
    match (&patch.simulated_distance, &patch.management_address) {
        (Some(_), Some(_)) => {
            return Err(RestError::bad(ErrorCode::InvalidRequest, "Change the address and the distance in two calls."));
        }
        (Some(distance), None) => links.set_distance(&name, changed(link.distance, distance)?).map_err(about)?,
        (None, Some(address)) => links.set_address(&name, address).map_err(about)?,
        (None, None) => return Err(RestError::bad(ErrorCode::InvalidRequest, "Nothing to change.")),
    }
    call.record();
    tracing::info!(by = call.admin, "connection to array {name} changed");
    shown(call, &name)
}

/// Answers `DELETE /array-connections?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    check_pods(call, &name)?;
    wait(call.app.links.disconnect(&name)).map_err(|error| failed(error, Some(&name)))?;
    call.record();
    tracing::info!(by = call.admin, "disconnected from array {name}");
    Answer::empty()
}

/// Refuses to remove the connection to an array that is reachable and has a part in a pod.
fn check_pods(call: &Call, name: &str) -> Result<(), RestError> {
    let link = call.app.links.connection(name).map_err(|error| failed(error, Some(name)))?;
    let state = call.app.catalog.state();
    let is_shared = |pod: &&Arc<Pod>| pod.stretch.as_ref().is_some_and(|stretch| stretch.peer.id == link.array);
    let shared = state.stretched_pods().find(is_shared).filter(|_| link.status == LinkStatus::Connected);
    match shared {
        None => Ok(()),
        Some(pod) => Err(RestError::about(
            ErrorCode::PodStretched,
            name,
            format!("Pod {0} is on both arrays. Remove one first: `ibid pod unstretch {0} {name}`.", pod.name),
        )),
    }
}

fn show_key(call: &Call, key: &KeyText) -> ArrayConnectionKey {
    ArrayConnectionKey {
        connection_key: key.text.to_string(),
        created: key.created_ms,
        expires: key.expires_ms,
        address: call.app.links.listening().map(|address| address.to_string()),
    }
}

/// Answers `GET /array-connections/connection-key`: the key that waits for its use, or a new one.
/// Clients that gather facts with any role expect one item, so roles that cannot connect arrays get
/// an empty key.
pub(crate) fn key(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["encrypted"]])?;
    call.query.flag("encrypted")?;
    let may_see = call.role >= Role::ArrayAdmin && call.app.links.listening().is_some();
    let key = match may_see {
        false => ArrayConnectionKey { connection_key: String::new(), created: 0, expires: 0, address: None },
        true => {
            let key = call.app.links.key().map_err(|error| failed(error, None))?;
            if key.is_new {
                call.record();
            }
            show_key(call, &key)
        }
    };
    page(vec![key], &call.query, &["created"])
}

/// Answers `POST /array-connections/connection-key`: a new key, in place of any other. (Ibid
/// extension.)
pub(crate) fn new_key(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[])?;
    let key = call.app.links.new_key().map_err(|error| failed(error, None))?;
    call.record();
    tracing::info!(by = call.admin, "connection key made");
    Answer::all(vec![show_key(call, &key)])
}

/// Answers `POST /array-connections/test?names=…`. (Ibid extension.)
pub(crate) fn test(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let name = one_name(call)?;
    let duration = call.body::<ArrayConnectionTestPost>()?.duration.unwrap_or(TEST_MS);
    if !TEST_LIMITS_MS.contains(&duration) {
        let message = "Invalid duration: must be 100 to 10000 milliseconds.";
        return Err(RestError::bad(ErrorCode::InvalidSetting, message));
    }
    let links = &call.app.links;
    let about = |error: LinkError| failed(error, Some(&name));
    let link = links.connection(&name).map_err(about)?;
    let test = wait(links.test(&name, Duration::from_millis(duration))).map_err(about)?;
    Answer::all(vec![ArrayConnectionTest {
        name: link.name,
        rtt: round_trips(test.rtt),
        rtt_under_load: round_trips(test.loaded_rtt),
        heartbeats: test.heartbeats,
        unanswered: test.unanswered,
        sent_bytes_per_second: test.sent.rate(),
        received_bytes_per_second: test.received.rate(),
        is_simulated: !link.distance.is_none(),
    }])
}
