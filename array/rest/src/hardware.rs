//! The parts of the array: `/controllers`, `/hardware`, `/drives`, `/ports`,
//! `/network-interfaces`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{Controller, DIALECT_VERSION, Drive, ErrorCode, Eth, Fc, Hardware, NetworkInterface, Port, Reference};

/// Model of the array and its hardware.
const MODEL: &str = "Ibid";

/// Returns true if the engine has stopped after an error of the drive.
fn is_stopped(call: &Call) -> bool {
    call.app.engine.stopped().is_some()
}

/// Answers `GET /controllers`.
pub(crate) fn controllers(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let controller = Controller {
        name: "CT0".to_owned(),
        mode: "primary".to_owned(),
        mode_since: call.app.started_ms,
        model: MODEL.to_owned(),
        status: if is_stopped(call) { "not ready" } else { "ready" }.to_owned(),
        kind: "array_controller".to_owned(),
        version: DIALECT_VERSION.to_owned(),
    };
    parts(call, vec![controller], |controller| &controller.name)
}

/// Answers `GET /hardware`.
pub(crate) fn hardware(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let controller = Hardware {
        name: "CT0".to_owned(),
        details: None,
        identify_enabled: false,
        index: 0,
        model: MODEL.to_owned(),
        serial: call.app.catalog.array().id.clone(),
        slot: None,
        speed: None,
        status: if is_stopped(call) { "critical" } else { "ok" }.to_owned(),
        temperature: None,
        kind: "controller".to_owned(),
        voltage: None,
    };
    parts(call, vec![controller], |part| &part.name)
}

/// Answers `GET /drives`: the file or device of the array.
pub(crate) fn drives(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let stopped = call.app.engine.stopped();
    let drive = Drive {
        name: "CT0.DRV0".to_owned(),
        capacity: call.app.engine.space().size(),
        status: if stopped.is_some() { "failed" } else { "healthy" }.to_owned(),
        details: stopped.map(|error| error.to_string()).unwrap_or_default(),
        protocol: None,
        kind: "virtual".to_owned(),
    };
    parts(call, vec![drive], |drive| &drive.name)
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
        failover: None,
    };
    parts(call, call.app.portals.iter().enumerate().map(port).collect(), |port| &port.name)
}

/// Answers `GET /network-interfaces`: one interface per portal.
pub(crate) fn network_interfaces(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let interface = |(index, portal): (usize, &std::net::SocketAddr)| NetworkInterface {
        name: format!("ct0.eth{index}"),
        enabled: true,
        eth: Eth {
            address: portal.ip().to_string(),
            gateway: None,
            mac_address: None,
            mtu: None,
            netmask: None,
            subinterfaces: Vec::new(),
            subnet: Reference::default(),
            subtype: "physical".to_owned(),
            vlan: None,
        },
        fc: Fc::default(),
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
