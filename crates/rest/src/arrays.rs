//! The array and its parts: `/arrays`, `/controllers`, `/hardware`, `/ports`, `/network-interfaces`.

use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use api::{Array, ArraySpace, Controller, EradicationConfig, Eth, Hardware, NetworkInterface, Port, Space};
use catalog::ERADICATION_DELAY_MS;
use serde::Deserialize;

/// What the parts say they are.
const MODEL: &str = "Ibid";

/// The space of something of which `provisioned` bytes are seen by hosts. What of them was written, and how much of
/// that is shared, the engine does not count by volume.
pub(crate) fn space(provisioned: u64) -> Space {
    Space {
        data_reduction: 1.0,
        thin_provisioning: 1.0,
        total_provisioned: provisioned,
        total_reduction: 1.0,
        ..Space::default()
    }
}

fn array_space(app: &App) -> (u64, Space) {
    let pool = app.engine.space();
    let state = app.catalog.state();
    let provisioned = state.volumes().filter(|volume| volume.destroyed_ms.is_none()).map(|volume| volume.bytes).sum();
    let ratio = |of: u64, to: u64| if to == 0 { 1.0 } else { of as f64 / to as f64 };
    // Clients of the dialect take null for an array that is not well: all of these are numbers.
    let space = Space {
        shared: Some(0),
        system: Some(pool.used.saturating_sub(pool.data)),
        thin_provisioning: 1.0 - ratio(pool.data.min(provisioned), provisioned.max(1)),
        total_physical: Some(pool.used),
        total_reduction: ratio(provisioned, pool.data),
        unique: Some(pool.data),
        r#virtual: Some(pool.data),
        ..space(provisioned)
    };
    (pool.capacity, space)
}

/// `GET /arrays`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids"]])?;
    let array = call.app.catalog.array();
    check_names(call, &array.name)?;
    let (capacity, space) = array_space(&call.app);
    let item = Array {
        id: array.id.clone(),
        name: array.name.clone(),
        capacity,
        eradication_config: EradicationConfig {
            disabled_delay: ERADICATION_DELAY_MS,
            enabled_delay: ERADICATION_DELAY_MS,
            eradication_delay: ERADICATION_DELAY_MS,
            manual_eradication: "all-enabled".to_owned(),
        },
        os: "Ibid".to_owned(),
        parity: 1,
        space,
        version: call.app.version.to_owned(),
    };
    page(vec![item], &call.query, &["name"])
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ArrayPatch {
    name: Option<String>,
}

/// `PATCH /arrays`: the array's name.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    check_names(call, &call.app.catalog.array().name)?;
    let patch: ArrayPatch = call.body()?;
    if let Some(name) = &patch.name {
        call.app.catalog.change(|draft| draft.rename_array(name))?;
    }
    Answer::all(vec![api::Reference {
        id: Some(call.app.catalog.array().id.clone()),
        name: Some(call.app.catalog.array().name.clone()),
    }])
}

fn check_names(call: &Call, name: &str) -> Result<(), RestError> {
    let names = call.query.list("names").unwrap_or_default();
    match names.iter().find(|asked| !asked.eq_ignore_ascii_case(name)) {
        Some(other) => Err(RestError::about(other, "Array does not exist.")),
        None => Ok(()),
    }
}

/// `GET /arrays/space`.
pub(crate) fn space_of_array(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids"]])?;
    let array = call.app.catalog.array();
    check_names(call, &array.name)?;
    let (capacity, space) = array_space(&call.app);
    let (id, name) = (array.id.clone(), array.name.clone());
    page(
        vec![ArraySpace { id, name, capacity, parity: 1, space, time: world::clock::unix_millis() }],
        &call.query,
        &["name"],
    )
}

/// `GET /controllers`.
pub(crate) fn controllers(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let controller = Controller {
        name: "CT0".to_owned(),
        mode: "primary".to_owned(),
        model: MODEL.to_owned(),
        status: "ready".to_owned(),
        kind: "array_controller".to_owned(),
        version: call.app.version.to_owned(),
    };
    parts(call, vec![controller], |controller| &controller.name)
}

/// `GET /hardware`.
pub(crate) fn hardware(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names"]])?;
    let controller = Hardware {
        name: "CT0".to_owned(),
        model: MODEL.to_owned(),
        serial: call.app.catalog.array().id.clone(),
        status: "ok".to_owned(),
        kind: "controller".to_owned(),
    };
    parts(call, vec![controller], |part| &part.name)
}

/// `GET /ports`: one for each portal.
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

/// `GET /network-interfaces`: one for each portal.
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
        found.cloned().ok_or_else(|| RestError::about(asked, "It does not exist."))
    };
    page(select(&call.query, "names", all.iter().cloned(), find)?, &call.query, &["name"])
}
