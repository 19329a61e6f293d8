//! The REST API as clients see it: mostly without sockets; `wire` tests TLS with the real client.

mod array_connections;
mod browser;
mod delivery;
mod dialect;
mod events;
mod groups;
mod inventory;
mod lists;
mod oauth;
mod openapi;
mod performance;
mod pods;
mod policies;
mod rest1;
mod roles;
mod snapshots;
mod space;
mod stretched;
mod wire;

use crate::app::App;
use crate::measurements::Telemetry;
use crate::router::router;
use crate::slots::ConnectionSlots;
use crate::source::Source;
use crate::token;
use api::{API_TOKEN_HEADER, AUTH_TOKEN_HEADER};
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use axum::{Extension, Router};
use catalog::{ArrayInit, Catalog, SecretKeys};
use engine::Service;
use engine::model::ModelEngine;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use tower::ServiceExt;

pub(crate) const GIB: u64 = 1 << 30;
/// API token of every array in these tests.
pub(crate) const TOKEN: &str = "11111111-2222-4333-8444-555555555555";

/// An array with an administrator and no other objects.
pub(crate) fn app() -> Arc<App> {
    app_with(Telemetry::default())
}

/// An array with these measurements.
pub(crate) fn app_with(telemetry: Telemetry) -> Arc<App> {
    let engine: Arc<dyn Service> = Arc::new(ModelEngine::default());
    let founding = ArrayInit { name: "array-1".into(), number: 1, identity: *b"sixteen bytes ok", now_ms: 1_000 };
    let catalog = Arc::new(Catalog::open(engine.clone(), &founding).unwrap());
    catalog.unlock(SecretKeys::new(&[[1; 32]])).unwrap();
    token::store(&catalog, token::ADMIN, TOKEN, 1_000).unwrap();
    let grown = engine.clone();
    let growth: crate::Growth = Box::new(move |capacity| grown.grow(capacity).map_err(|error| error.to_string()));
    let drive = crate::Drive { growth, is_encrypted: false };
    let portals = vec!["127.0.0.1:3260".parse().unwrap()];
    App::new(catalog.clone(), engine, portals, telemetry, "0.0.0", drive, links(catalog))
}

/// The links of an array, in a directory that lives as long as they do.
fn links(catalog: Arc<Catalog>) -> Arc<link::Links> {
    let directory = platform::TemporaryDirectory::new(None, "ibid-rest").unwrap();
    let path = directory.path().to_owned();
    let local = move || {
        let (array, _) = (catalog.array(), &directory);
        link::LocalArray { id: array.id.clone(), name: array.name.clone(), number: array.number }
    };
    link::Links::open(&path, "0.0.0", Box::new(local)).unwrap()
}

/// The REST API without sockets.
pub(crate) struct Rest {
    runtime: tokio::runtime::Runtime,
    router: Router,
    pub(crate) session: String,
}

impl Rest {
    /// Creates an array and logs in.
    pub(crate) fn new() -> Self {
        Self::of(app())
    }

    /// Logs in to this array.
    pub(crate) fn of(app: Arc<App>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut rest = Self { runtime, router: router(app), session: String::new() };
        let (status, session) = rest.login(TOKEN);
        assert_eq!(status, 200);
        rest.session = session;
        rest
    }

    /// Returns the HTTP status and the text of the metrics.
    pub(crate) fn metrics(&self, token: Option<&str>) -> (u16, String) {
        let mut request = Request::get("/metrics");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let slot = Arc::<ConnectionSlots>::default().accept(Source::network(IpAddr::from([127, 0, 0, 1])));
        let router = self.router.clone().layer(Extension(slot));
        self.runtime.block_on(async {
            let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        })
    }

    /// Logs in. Returns the HTTP status and the session token.
    pub(crate) fn login(&self, token: &str) -> (u16, String) {
        self.login_from([127, 0, 0, 1], token)
    }

    /// Logs in from an address. Returns the HTTP status and the session token.
    pub(crate) fn login_from(&self, address: [u8; 4], token: &str) -> (u16, String) {
        let response = self.runtime.block_on(self.send_login(address, token));
        let session = response.headers().get(AUTH_TOKEN_HEADER).map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), session.unwrap_or_default())
    }

    /// Starts a login from an address. The future returns its HTTP status.
    pub(crate) fn begin_login(&self, address: [u8; 4], token: &str) -> impl Future<Output = u16> + Unpin + use<> {
        let response = self.send_login(address, token);
        Box::pin(async move { response.await.status().as_u16() })
    }

    fn send_login(&self, address: [u8; 4], token: &str) -> impl Future<Output = Response> + use<> {
        let slot = Arc::<ConnectionSlots>::default().accept(Source::network(IpAddr::from(address)));
        let request = Request::post("/api/2.26/login").header(API_TOKEN_HEADER, token).body(Body::empty()).unwrap();
        let router = self.router.clone().layer(Extension(slot));
        async move { router.oneshot(request).await.unwrap() }
    }

    /// Calls `/api/{path}` and encodes blanks. Returns the HTTP status and the body.
    pub(crate) fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/{}", path.replace(' ', "%20").replace('>', "%3E")))
            .header(AUTH_TOKEN_HEADER, &self.session)
            .body(Body::from(body.to_owned()))
            .unwrap();
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
            (status, body)
        })
    }

    /// Returns the items of a successful answer.
    #[track_caller]
    pub(crate) fn items(&self, method: &str, path: &str, body: &str) -> Vec<Value> {
        let (status, body) = self.call(method, &format!("2.26/{path}"), body);
        assert_eq!(status, 200, "{body}");
        body["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the errors of a refused call, as `context: message`.
    #[track_caller]
    pub(crate) fn refused(&self, method: &str, path: &str, body: &str) -> Vec<String> {
        let (status, body) = self.call(method, &format!("2.26/{path}"), body);
        assert_eq!(status, 400, "{body}");
        let text = |error: &Value| {
            let message = error["message"].as_str().unwrap();
            error["context"].as_str().map_or(message.to_owned(), |context| format!("{context}: {message}"))
        };
        body["errors"].as_array().unwrap().iter().map(text).collect()
    }

    /// Creates volumes of 1 GiB.
    pub(crate) fn volume(&self, names: &str) -> Vec<Value> {
        self.items("POST", &format!("volumes?names={names}"), &format!(r#"{{"provisioned":{GIB}}}"#))
    }
}

/// Returns a field of each item.
pub(crate) fn each(items: &[Value], field: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    items.iter().map(|item| text(&item[field])).collect()
}
