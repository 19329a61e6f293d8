//! The array and its parts: `/arrays`, `/controllers`, `/hardware`, `/ports`,
//! `/network-interfaces`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{
    Array, ArrayPatch, ArraySpace, Controller, DriveWrites, EradicationConfig, ErrorCode, Eth, Hardware,
    NetworkInterface, Port, ScrubConfig,
};
use catalog::ArrayEdit;
use types::format_capacity;

/// Model of the array and its hardware.
const MODEL: &str = "Ibid";

fn show(call: &Call) -> Array {
    let state = call.app.catalog.state();
    let array = state.array();
    let (capacity, space) = call.app.space.of_array(&state);
    let delay = array.settings.eradication_delay_ms;
    Array {
        id: array.id.clone(),
        name: array.name.clone(),
        capacity,
        eradication_config: EradicationConfig {
            disabled_delay: delay,
            enabled_delay: delay,
            eradication_delay: delay,
            manual_eradication: "all-enabled".to_owned(),
        },
        os: "Ibid".to_owned(),
        parity: 1,
        space,
        status: call.app.alerts.status().to_owned(),
        scrub_config: ScrubConfig {
            interval: array.settings.scrub.interval_ms,
            bytes_per_second: array.settings.scrub.bytes_per_second,
        },
        threshold_percent: array.settings.threshold_percent,
        drive_writes: drive_writes(call),
        version: call.app.version.to_owned(),
    }
}

fn drive_writes(call: &Call) -> DriveWrites {
    let writes = call.app.engine.space().drive_writes;
    DriveWrites {
        host: writes.host,
        log: writes.log,
        data: writes.data,
        moved: writes.moved,
        leaves: writes.leaves,
        interior_pages: writes.interior_pages,
        slot_pages: writes.slot_pages,
        directory: writes.directory,
        summaries: writes.summaries,
        manifest: writes.manifest,
        superblock: writes.superblock,
        total: writes.total(),
    }
}

/// Answers `GET /arrays`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids"]])?;
    check_names(call, &call.app.catalog.array().name)?;
    call.app.space.count_if_quick();
    page(vec![show(call)], &call.query, &["name"])
}

/// Answers `PATCH /arrays`: changes name and settings, or the capacity.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    check_names(call, &call.app.catalog.array().name)?;
    let patch: ArrayPatch = call.body()?;
    let scrub = patch.scrub_config.clone().unwrap_or_default();
    let edit = ArrayEdit {
        name: patch.name.clone(),
        eradication_delay_ms: patch.eradication_config.as_ref().and_then(|config| config.eradication_delay),
        threshold_percent: patch.threshold_percent.map(|percent| Some(percent).filter(|percent| *percent != 0)),
        scrub_interval_ms: scrub.interval.map(|interval| Some(interval).filter(|interval| *interval != 0)),
        scrub_bytes_per_second: scrub.bytes_per_second,
    };
    match patch.capacity {
        Some(capacity) if edit == ArrayEdit::default() => grow(call, capacity)?,
        // A call has all of its effects or none, and growth cannot be undone.
        Some(_) => {
            let message = "'capacity' cannot be combined with other fields.";
            return Err(RestError::bad(ErrorCode::InvalidRequest, message));
        }
        None => call.app.catalog.change(|draft| draft.edit_array_settings(&edit))?,
    }
    let patch = serde_json::to_string(&patch).unwrap_or_default();
    tracing::info!(by = call.admin, patch, "array changed");
    Answer::all(vec![show(call)])
}

fn grow(call: &Call, capacity: u64) -> Result<(), RestError> {
    let present = call.app.engine.space().capacity;
    if capacity <= present {
        let present = format_capacity(present);
        let message = format!("The array has {present} already and cannot shrink.");
        return Err(RestError::bad(ErrorCode::CannotShrink, message));
    }
    (call.app.growth)(capacity)
        .map_err(|reason| RestError::bad(ErrorCode::CannotGrow, format!("The array cannot grow: {reason}.")))
}

/// Returns true if the engine has stopped after an error of the drive.
fn is_stopped(call: &Call) -> bool {
    call.app.engine.stopped().is_some()
}

fn check_names(call: &Call, name: &str) -> Result<(), RestError> {
    let names = call.query.list("names").unwrap_or_default();
    match names.iter().find(|asked| !asked.eq_ignore_ascii_case(name)) {
        Some(other) => Err(RestError::about(ErrorCode::ArrayNotFound, other, "Array does not exist.")),
        None => Ok(()),
    }
}

/// Answers `GET /arrays/space`. `refresh=true` counts the space first.
pub(crate) fn space_of_array(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "refresh"]])?;
    let state = call.app.catalog.state();
    let array = state.array();
    check_names(call, &array.name)?;
    if call.query.flag("refresh")? != Some(true) {
        call.app.space.count_if_quick();
    } else if !call.app.space.count() {
        return Err(RestError::Internal("Space accounting failed.".to_owned()));
    }
    let (capacity, space) = call.app.space.of_array(&state);
    let (id, name) = (array.id.clone(), array.name.clone());
    let time = platform::clock::unix_millis();
    let drive_writes = drive_writes(call);
    page(vec![ArraySpace { id, name, capacity, parity: 1, space, drive_writes, time }], &call.query, &["name"])
}

/// Answers `GET /controllers`.
pub(crate) fn controllers(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let controller = Controller {
        name: "CT0".to_owned(),
        mode: "primary".to_owned(),
        model: MODEL.to_owned(),
        status: if is_stopped(call) { "not ready" } else { "ready" }.to_owned(),
        kind: "array_controller".to_owned(),
        version: call.app.version.to_owned(),
    };
    parts(call, vec![controller], |controller| &controller.name)
}

/// Answers `GET /hardware`.
pub(crate) fn hardware(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let controller = Hardware {
        name: "CT0".to_owned(),
        model: MODEL.to_owned(),
        serial: call.app.catalog.array().id.clone(),
        status: if is_stopped(call) { "critical" } else { "ok" }.to_owned(),
        kind: "controller".to_owned(),
    };
    parts(call, vec![controller], |part| &part.name)
}

/// Answers `GET /ports`: one port per portal.
pub(crate) fn ports(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let iqn = call.app.catalog.target_iqn();
    let port = |(index, portal): (usize, &std::net::SocketAddr)| Port {
        name: format!("CT0.ETH{index}"),
        iqn: Some(iqn.clone()),
        nqn: None,
        portal: Some(portal.to_string()),
        wwn: None,
    };
    parts(call, call.app.portals.iter().enumerate().map(port).collect(), |port| &port.name)
}

/// Answers `GET /network-interfaces`: one interface per portal.
pub(crate) fn network_interfaces(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let interface = |(index, portal): (usize, &std::net::SocketAddr)| NetworkInterface {
        name: format!("ct0.eth{index}"),
        enabled: true,
        eth: Eth { address: portal.ip().to_string(), subtype: "physical".to_owned() },
        interface_type: "eth".to_owned(),
        services: vec!["iscsi".to_owned()],
        speed: 0,
    };
    parts(call, call.app.portals.iter().enumerate().map(interface).collect(), |interface| &interface.name)
}

fn parts<T: Clone + serde::Serialize>(
    call: &Call,
    all: Vec<T>,
    name: impl Fn(&T) -> &str,
) -> Result<Answer, RestError> {
    let find = |asked: &str| {
        let found = all.iter().find(|part| name(part).eq_ignore_ascii_case(asked));
        found.cloned().ok_or_else(|| RestError::about(ErrorCode::PartNotFound, asked, "It does not exist."))
    };
    page(select(&call.query, "names", all.iter().cloned(), find)?, &call.query, &["name"])
}
