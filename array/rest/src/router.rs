//! The paths of the REST API and their handlers.

use crate::app::App;
use crate::call::{Action, Call};
use crate::error::RestError;
use crate::{
    absent, admins, alerts, arrays, connections, console, contract, hardware, host_groups, hosts, login, metrics,
    performance, protection, scrub, snapshots, tags, volumes,
};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use std::collections::HashMap;
use std::sync::Arc;

/// Builds the router.
pub(crate) fn router(app: Arc<App>) -> Router {
    let versioned = Router::new()
        .route("/login", post(login::login))
        .route("/logout", post(login::logout))
        .route("/admins", on_get(admins::list))
        .route("/admins/api-tokens", on_get(admins::tokens).merge(on_post(admins::new_token)))
        .route("/admins/settings", on_get(admins::settings))
        .route("/alerts", on_get(alerts::list))
        .route("/arrays", on_get(arrays::list).merge(on_patch(arrays::change)))
        .route("/arrays/performance", on_get(performance::of_array))
        .route("/arrays/scrub", on_get(scrub::status).merge(on_post(scrub::start)))
        .route("/arrays/space", on_get(arrays::space_of_array))
        .route("/connections", collection(connections::list, connections::create, connections::remove))
        .route("/connections/performance", on_get(performance::of_connections))
        .route("/container-default-protections", on_get(contract::default_protections))
        .route("/controllers", on_get(hardware::controllers))
        .route("/drives", on_get(hardware::drives))
        .route("/hardware", on_get(hardware::hardware))
        .route(
            "/host-groups",
            collection(host_groups::list, host_groups::create, host_groups::remove)
                .merge(on_patch(host_groups::change)),
        )
        .route("/host-groups/hosts", members())
        .route("/host-groups/space", on_get(host_groups::space))
        .route("/hosts/host-groups", members())
        .route("/hosts", collection(hosts::list, hosts::create, hosts::remove).merge(on_patch(hosts::change)))
        .route("/hosts/performance", on_get(performance::of_hosts))
        .route("/hosts/space", on_get(hosts::space_of_hosts))
        .route("/iscsi-sessions", on_get(performance::sessions))
        .route("/iscsi-sessions/refused", on_get(performance::refused_logins))
        .route("/network-interfaces", on_get(hardware::network_interfaces))
        .route("/offloads/performance", on_get(performance::of_offloads))
        .route("/ports/performance", on_get(performance::of_ports))
        .route("/ports", on_get(hardware::ports))
        .merge(protection_routes())
        .route("/subscriptions", on_get(contract::subscriptions))
        .route("/support", on_get(contract::support))
        .route("/volumes", collection(volumes::list, volumes::create, volumes::remove).merge(on_patch(volumes::change)))
        .route("/volumes/tags", on_get(tags::list).merge(on_delete(tags::remove)))
        .route("/volumes/tags/batch", put(|state, request| run(state, request, tags::put)))
        .route("/volumes/performance", on_get(performance::of_volumes))
        .route("/volumes/space", on_get(volumes::space_of_volumes))
        .route(
            "/volume-snapshots",
            collection(snapshots::list, snapshots::create, snapshots::remove).merge(on_patch(snapshots::change)),
        )
        .fallback(absent::answer)
        .layer(middleware::from_fn(known_version));
    Router::new()
        .route("/", get(console::root))
        .route("/console", get(console::home))
        .route("/console/", get(console::serve))
        .route("/console/{*path}", get(console::serve))
        .route("/api/api_version", get(login::versions))
        .route("/metrics", get(metrics::metrics))
        .nest("/api/{version}", versioned)
        .fallback(async || RestError::NotFound)
        .method_not_allowed_fallback(async || RestError::BadMethod)
        .layer(middleware::from_fn(console::protect))
        .with_state(app)
}

/// The paths of protection groups.
fn protection_routes() -> Router<Arc<App>> {
    Router::new()
        .route(
            "/protection-groups",
            collection(protection::list, protection::create, protection::remove).merge(on_patch(protection::change)),
        )
        .route("/protection-groups/volumes", protected())
        .route("/volumes/protection-groups", protected())
        .route(
            "/protection-group-snapshots",
            collection(protection::list_snapshots, protection::create_snapshots, protection::remove_snapshots)
                .merge(on_patch(protection::change_snapshots)),
        )
}

/// The hosts of host groups. The same under two paths.
fn members() -> MethodRouter<Arc<App>> {
    collection(host_groups::members, host_groups::add_members, host_groups::remove_members)
}

/// The volumes of protection groups. The same under two paths.
fn protected() -> MethodRouter<Arc<App>> {
    collection(protection::members, protection::add_members, protection::remove_members)
}

fn collection(list: Action, create: Action, remove: Action) -> MethodRouter<Arc<App>> {
    on_get(list).merge(on_post(create)).merge(on_delete(remove))
}

fn on_get(action: Action) -> MethodRouter<Arc<App>> {
    get(move |state, request| run(state, request, action))
}

fn on_post(action: Action) -> MethodRouter<Arc<App>> {
    post(move |state, request| run(state, request, action))
}

fn on_delete(action: Action) -> MethodRouter<Arc<App>> {
    delete(move |state, request| run(state, request, action))
}

fn on_patch(action: Action) -> MethodRouter<Arc<App>> {
    patch(move |state, request| run(state, request, action))
}

async fn run(State(app): State<Arc<App>>, request: Request, action: Action) -> Response {
    match Call::accept(app, request).await {
        Ok(call) => call.run(action).await,
        Err(error) => error.into_response(),
    }
}

/// Refuses versions that `GET /api/api_version` does not list.
async fn known_version(Path(path): Path<HashMap<String, String>>, request: Request, next: Next) -> Response {
    let minor = path.get("version").and_then(|version| version.strip_prefix("2.")).and_then(|minor| minor.parse().ok());
    match minor {
        Some(0..=api::MINOR_VERSION) => next.run(request).await,
        _ => RestError::NotFound.into_response(),
    }
}
