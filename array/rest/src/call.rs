//! An authenticated request with its body, and its answer.

use crate::app::App;
use crate::credential::{is_background, session_token};
use crate::error::RestError;
use crate::query::Query;
use crate::slots::ConnectionSlot;
use api::{ErrorCode, Items, MAX_BODY_BYTES, NEXT_TOKEN_HEADER};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for a client to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// An authenticated request.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) query: Query,
    body: Bytes,
    /// The administrator of the session.
    pub(crate) admin: String,
}

/// A request handler. It runs on a thread that may block.
pub(crate) type Action = fn(&Call) -> Result<Answer, RestError>;

impl Call {
    /// Checks the session and the parameters before it reads the body, so that an unauthenticated
    /// client cannot make the server buffer data.
    pub(crate) async fn accept(app: Arc<App>, request: Request) -> Result<Self, RestError> {
        let token = session_token(request.method(), request.headers())?
            .ok_or(RestError::Unauthorized("Log in first: POST /api/2.26/login with the header api-token."))?;
        let now = platform::clock::now();
        let admin = match is_background(request.headers()) {
            true => app.sessions.peek(token, now),
            false => app.sessions.touch(token, now),
        };
        let admin = admin.ok_or(RestError::Unauthorized("The session has expired; log in again."))?;
        if let Some(slot) = request.extensions().get::<Arc<ConnectionSlot>>() {
            slot.authenticate();
        }
        let query = Query::parse(request.uri())?;
        check_context(&query, &app.catalog.array().name)?;
        let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES);
        let body = tokio::time::timeout(BODY_TIMEOUT, body).await.map_err(|_| RestError::TooSlow)?;
        Ok(Self { app, query, body: body.map_err(|_| RestError::TooLarge)?, admin })
    }

    /// Parses the body. An empty body is an empty object.
    pub(crate) fn body<T: DeserializeOwned + Default>(&self) -> Result<T, RestError> {
        if self.body.is_empty() {
            return Ok(T::default());
        }
        let invalid =
            |error: serde_json::Error| RestError::bad(ErrorCode::InvalidRequest, format!("Invalid body: {error}."));
        // Through a map, because serde would accept a list of values in place of an object.
        let object: serde_json::Map<String, Value> = serde_json::from_slice(&self.body).map_err(invalid)?;
        serde_json::from_value(Value::Object(object)).map_err(invalid)
    }

    /// Parses a body that is a list.
    pub(crate) fn list<T: DeserializeOwned>(&self) -> Result<Vec<T>, RestError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| RestError::bad(ErrorCode::InvalidRequest, format!("Invalid body: {error}.")))
    }

    /// Runs the handler on a thread that may block.
    pub(crate) async fn run(self, action: Action) -> Response {
        let done = tokio::task::spawn_blocking(move || action(&self)).await;
        match done {
            Ok(Ok(answer)) => answer.into_response(),
            Ok(Err(error)) => error.into_response(),
            Err(_) => RestError::Internal("The request handler failed.".to_owned()).into_response(),
        }
    }
}

/// Refuses calls for other arrays of a fleet, which must not change this one.
fn check_context(query: &Query, array: &str) -> Result<(), RestError> {
    let names = query.list("context_names").unwrap_or_default();
    match names.iter().find(|name| !name.eq_ignore_ascii_case(array)) {
        Some(other) => Err(RestError::about(ErrorCode::ArrayNotFound, other, "Array does not exist.")),
        None => Ok(()),
    }
}

/// A successful answer.
pub(crate) struct Answer {
    body: Option<Value>,
    next: Option<String>,
}

impl Answer {
    /// A list, or one page of a list.
    pub(crate) fn list<T: Serialize>(items: Items<T>) -> Result<Self, RestError> {
        let next = items.continuation_token.clone();
        let body = serde_json::to_value(items).map_err(|error| RestError::Internal(error.to_string()))?;
        Ok(Self { body: Some(body), next })
    }

    /// A complete list.
    pub(crate) fn all<T: Serialize>(items: Vec<T>) -> Result<Self, RestError> {
        Self::list(Items::all(items))
    }

    /// An empty body, after a deletion.
    pub(crate) fn empty() -> Result<Self, RestError> {
        Ok(Self { body: None, next: None })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = match self.body {
            Some(body) => Json(body).into_response(),
            None => StatusCode::OK.into_response(),
        };
        if let Some(next) = self.next.and_then(|next| HeaderValue::from_str(&next).ok()) {
            response.headers_mut().insert(NEXT_TOKEN_HEADER, next);
        }
        response
    }
}
