//! `GET /metrics`: the figures of the array in OpenMetrics, under the names of the public
//! FlashArray exporter. Names that begin with `ibid_` are Ibid's own.
//!
//! The scraper sends an API token as `Authorization: Bearer TOKEN`.

use crate::app::App;
use crate::error::RestError;
use crate::login::find_admin;
use crate::performance::{host_name, performance_of};
use crate::slots::ConnectionSlot;
use api::{Performance, Space};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use catalog::{CatalogState, VolumeOrSnapshot};
use link::LinkStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use telemetry::{CommandClass, Subject};

/// Type of the answer.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Fields of [`Performance`] by metric: (name after the object, help, fields).
const PERFORMANCE: [(&str, &str, &[&str]); 4] = [
    (
        "latency_usec",
        "Latency in microseconds",
        &[
            "usec_per_read_op",
            "usec_per_write_op",
            "usec_per_other_op",
            "service_usec_per_read_op",
            "service_usec_per_write_op",
            "qos_rate_limit_usec_per_read_op",
            "qos_rate_limit_usec_per_write_op",
            "usec_p50_per_read_op",
            "usec_p99_per_read_op",
            "usec_p50_per_write_op",
            "usec_p99_per_write_op",
        ],
    ),
    ("throughput_iops", "Commands per second", &["reads_per_sec", "writes_per_sec", "others_per_sec"]),
    ("bandwidth_bytes", "Bytes per second", &["read_bytes_per_sec", "write_bytes_per_sec"]),
    ("average_bytes", "Mean size of commands in bytes", &["bytes_per_op", "bytes_per_read", "bytes_per_write"]),
];

/// Fields of [`Space`] that are bytes.
const SPACE: [&str; 7] = ["shared", "snapshots", "system", "total_physical", "total_provisioned", "unique", "virtual"];

type Labels = Vec<(&'static str, String)>;

/// A metric with the values of all its label sets.
#[derive(Debug)]
struct Family {
    help: &'static str,
    is_counter: bool,
    values: Vec<(Labels, f64)>,
}

/// All metrics by name.
#[derive(Debug, Default)]
struct Families(BTreeMap<String, Family>);

impl Families {
    fn add(&mut self, name: impl Into<String>, help: &'static str, labels: Labels, value: f64) {
        let family = self.0.entry(name.into()).or_insert(Family { help, is_counter: false, values: Vec::new() });
        family.values.push((labels, value));
    }

    /// Adds to a counter, whose name gets the suffix `_total`.
    fn count(&mut self, name: &str, help: &'static str, labels: Labels, value: u64) {
        self.add(name, help, labels, value as f64);
        if let Some(family) = self.0.get_mut(name) {
            family.is_counter = true;
        }
    }

    fn add_performance(&mut self, object: &str, labels: &Labels, performance: &Performance) {
        let fields = serde_json::to_value(performance).unwrap_or_default();
        for (name, help, dimensions) in PERFORMANCE {
            for dimension in dimensions {
                let mut labels = labels.clone();
                labels.push(("dimension", (*dimension).to_owned()));
                self.add(format!("purefa_{object}_performance_{name}"), help, labels, number(&fields, dimension));
            }
        }
    }

    fn add_space(&mut self, object: &str, labels: &Labels, space: &Space) {
        let fields = serde_json::to_value(space).unwrap_or_default();
        for kind in SPACE {
            // A figure that is not measured has no value.
            if let Some(bytes) = fields.get(kind).and_then(Value::as_f64) {
                let mut labels = labels.clone();
                labels.push(("space", kind.to_owned()));
                self.add(format!("purefa_{object}_space_bytes"), "Space in bytes", labels, bytes);
            }
        }
        let name = format!("purefa_{object}_space_data_reduction_ratio");
        self.add(name, "Data reduction", labels.clone(), space.data_reduction);
    }
}

fn number(fields: &Value, name: &str) -> f64 {
    fields.get(name).and_then(Value::as_f64).unwrap_or_default()
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (name, family) in &self.0 {
            let kind = if family.is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(name, family.help, None, kind)?;
            for (labels, value) in &family.values {
                let sample = metric.encode_family(labels)?;
                if family.is_counter {
                    ConstCounter::new(*value).encode(sample)?;
                } else {
                    ConstGauge::new(*value).encode(sample)?;
                }
            }
        }
        Ok(())
    }
}

fn add_array(families: &mut Families, app: &App, state: &CatalogState) {
    let array = state.array();
    let info = vec![
        ("array_name", array.name.clone()),
        ("system_id", array.id.clone()),
        ("os", "Ibid".to_owned()),
        ("version", app.version.to_owned()),
    ];
    families.add("purefa_info", "Identity of the array", info, 1.0);
    let performance = performance_of(app, &Subject::Array, array.name.clone());
    families.add_performance("array", &Vec::new(), &performance);
    let depth = app.telemetry.monitor.latest(&Subject::Array).1.queue_depth;
    families.add("purefa_array_performance_queue_depth_ops", "Commands in progress", Vec::new(), f64::from(depth));
    let (capacity, space) = app.space.of_array(state);
    families.add_space("array", &Vec::new(), &space);
    let labels = vec![("space", "capacity".to_owned())];
    families.add("purefa_array_space_bytes", "Space in bytes", labels, capacity as f64);
    let used = space.total_physical.unwrap_or_default() as f64 * 100.0 / capacity.max(1) as f64;
    families.add("purefa_array_space_utilization", "Used part of the capacity in percent", Vec::new(), used);
    for alert in app.alerts.all().into_iter().filter(|alert| alert.flagged) {
        let labels = vec![
            ("component_name", alert.component_name),
            ("component_type", alert.component_type),
            ("code", alert.code.to_string()),
            ("issue", alert.issue),
            ("severity", alert.severity),
        ];
        families.add("purefa_alerts_open", "Open alerts", labels, 1.0);
    }
    for (index, portal) in app.portals.iter().enumerate() {
        let performance = performance_of(app, &Subject::Port(*portal), String::new());
        let labels = vec![("name", format!("CT0.ETH{index}")), ("portal", portal.to_string())];
        families.add_performance("port", &labels, &performance);
    }
}

fn add_links(families: &mut Families, app: &App) {
    for link in app.links.connections() {
        let labels = vec![("name", link.name.clone())];
        let is_up = link.status == LinkStatus::Connected;
        families.add("ibid_array_connection_up", "Link to another array", labels.clone(), f64::from(u8::from(is_up)));
        for (dimension, rtt) in link.rtt.iter().flat_map(|rtt| [("min", rtt.min), ("median", rtt.median)]) {
            let mut labels = labels.clone();
            labels.push(("dimension", dimension.to_owned()));
            let help = "Round-trip time in microseconds";
            families.add("ibid_array_connection_rtt_usec", help, labels, rtt.as_micros() as f64);
        }
        for (direction, bytes) in [("sent", link.sent_bytes), ("received", link.received_bytes)] {
            let mut labels = labels.clone();
            labels.push(("direction", direction.to_owned()));
            families.count("ibid_array_connection_bytes", "Bytes since the start", labels, bytes);
        }
        families.count("ibid_array_connection_sessions", "Sessions since the start", labels, link.sessions);
    }
}

fn add_hosts(families: &mut Families, app: &App, state: &CatalogState) {
    for host in state.hosts() {
        let labels = vec![("host", host.name.clone())];
        let performance = performance_of(app, &Subject::Host(host.id.0), host.name.clone());
        families.add_performance("host", &labels, &performance);
        let objects: Vec<VolumeOrSnapshot> = state.luns_of(host.id).map(|(_, object)| object).collect();
        families.add_space("host", &labels, &app.space.of_host(&objects));
    }
    let mut sessions: BTreeMap<(String, String), u32> = BTreeMap::new();
    for session in app.telemetry.sessions.live() {
        let host = host_name(state, &session.info.initiator).unwrap_or_default();
        *sessions.entry((host, session.info.portal.to_string())).or_default() += 1;
    }
    for ((host, portal), count) in sessions {
        let labels = vec![("host", host), ("portal", portal)];
        families.add("ibid_iscsi_sessions", "iSCSI sessions", labels, f64::from(count));
    }
}

fn add_volumes(families: &mut Families, app: &App, state: &CatalogState) {
    let offloads = app.telemetry.monitor.registry().totals();
    for volume in state.volumes().filter(|volume| volume.destroyed_ms.is_none()) {
        let labels = vec![("name", volume.name.clone()), ("serial", volume.serial.clone())];
        let performance = performance_of(app, &Subject::Volume(volume.id), volume.name.clone());
        families.add_performance("volume", &labels, &performance);
        families.add_space("volume", &labels, &app.space.of_volume(volume));
        let Some(totals) = offloads.get(&volume.id) else { continue };
        for class in CommandClass::ALL {
            let (class, totals) = (class.name().to_owned(), totals.get(class));
            let labels = vec![("name", volume.name.clone()), ("class", class)];
            families.count("ibid_volume_commands", "Commands since the start", labels.clone(), totals.commands);
            families.count(
                "ibid_volume_command_errors",
                "Failed commands since the start",
                labels.clone(),
                totals.errors,
            );
            families.count("ibid_volume_command_bytes", "Bytes covered since the start", labels, totals.bytes);
        }
    }
}

fn add_pods(families: &mut Families, app: &App, state: &CatalogState) {
    for pod in state.pods().filter(|pod| pod.destroyed_ms.is_none()) {
        let labels = vec![("name", pod.name.clone())];
        let performance = performance_of(app, &Subject::Pod(pod.id.0), pod.name.clone());
        families.add_performance("pod", &labels, &performance);
        families.add_space("pod", &labels, &crate::pods::space_of(app, state, pod));
    }
}

fn scrape(app: &App) -> Result<String, RestError> {
    let state = app.catalog.state();
    let mut families = Families::default();
    add_array(&mut families, app, &state);
    add_links(&mut families, app);
    add_hosts(&mut families, app, &state);
    add_volumes(&mut families, app, &state);
    add_pods(&mut families, app, &state);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(families));
    let mut answer = String::new();
    text::encode(&mut answer, &registry).map_err(|error| RestError::Internal(error.to_string()))?;
    Ok(answer)
}

/// Answers `GET /metrics`.
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    slot: Extension<Arc<ConnectionSlot>>,
    headers: HeaderMap,
) -> Response {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let Some(token) = bearer else {
        return RestError::Unauthorized("Send an API token: Authorization: Bearer TOKEN.").into_response();
    };
    if let Err(error) = find_admin(&app, slot.source(), token.trim()).await {
        return error.into_response();
    }
    slot.authenticate();
    match tokio::task::spawn_blocking(move || scrape(&app)).await {
        Ok(Ok(body)) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response(),
        Ok(Err(error)) => error.into_response(),
        Err(_) => RestError::Internal("The metrics could not be collected.".to_owned()).into_response(),
    }
}
