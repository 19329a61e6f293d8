//! The paths of the REST API and their handlers.

use crate::app::App;
use crate::call::Call;
use crate::error::RestError;
use crate::routes::{ROUTES, Route};
use crate::{absent, console, events, login, metrics, oauth, rest1};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, on, post};
use std::collections::HashMap;
use std::sync::Arc;

/// Builds the router.
pub(crate) fn router(app: Arc<App>) -> Router {
    let versioned = ROUTES.iter().fold(Router::new(), |router, route| {
        router.route(route.path, on(route.filter(), move |state, request| run(state, request, route)))
    });
    let versioned = versioned
        .route("/events", get(events::stream))
        .route("/login", post(login::login))
        .route("/logout", post(login::logout))
        .fallback(absent::answer)
        .layer(middleware::from_fn_with_state(app.clone(), known_version));
    Router::new()
        .route("/", get(console::root))
        .route("/console", get(console::home))
        .route("/console/", get(console::serve))
        .route("/console/{*path}", get(console::serve))
        .route("/api/api_version", get(login::versions))
        .route("/metrics", get(metrics::metrics))
        .route(api::TOKEN_PATH, post(oauth::token))
        .nest("/api/{version}", versioned)
        .fallback(async || RestError::NotFound)
        .method_not_allowed_fallback(async || RestError::BadMethod)
        .layer(middleware::from_fn(console::protect))
        .with_state(app)
}

async fn run(State(app): State<Arc<App>>, request: Request, route: &'static Route) -> Response {
    match Call::accept(app, request, route.role).await {
        Ok(call) => call.run(route.action).await,
        Err(error) => error.into_response(),
    }
}

/// Hands versions 1.x on, and refuses those that `GET /api/api_version` does not list.
async fn known_version(
    State(app): State<Arc<App>>,
    Path(path): Path<HashMap<String, String>>,
    request: Request,
    next: Next,
) -> Response {
    let version = path.get("version").and_then(|version| version.split_once('.'));
    match version.map(|(major, minor)| (major, minor.parse())) {
        Some(("1", Ok(0..=login::OLD_MINOR_VERSION))) => rest1::answer(app, request).await,
        Some(("2", Ok(0..=api::MINOR_VERSION))) => next.run(request).await,
        _ => RestError::NotFound.into_response(),
    }
}
