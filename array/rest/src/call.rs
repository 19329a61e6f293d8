//! An authenticated request with its body, and its answer.

use crate::access_token::Caller;
use crate::app::App;
use crate::audit_text;
use crate::credential::{is_background, session_token};
use crate::error::RestError;
use crate::oauth;
use crate::query::Query;
use crate::slots::ConnectionSlot;
use api::{ErrorCode, Items, MAX_BODY_BYTES, NEXT_TOKEN_HEADER};
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use catalog::{Audit, CatalogError, Draft, Role};
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
    /// The role of the administrator, or of the access token.
    pub(crate) role: Role,
    /// The API client that acts for the administrator, if one does.
    pub(crate) client: Option<String>,
    /// For the audit trail: the method, path, parameters, and source of the call.
    method: Method,
    uri: Uri,
    origin: String,
}

/// A request handler. It runs on a thread that may block.
pub(crate) type Action = fn(&Call) -> Result<Answer, RestError>;

impl Call {
    /// Checks the session, the role and the parameters before it reads the body, so that a client
    /// without them cannot make the server buffer data.
    pub(crate) async fn accept(app: Arc<App>, request: Request, needed: Role) -> Result<Self, RestError> {
        let Caller { admin, role, client } = match oauth::caller(&app, request.headers())? {
            Some(caller) => caller,
            None => caller_of_session(&app, &request)?,
        };
        if role < needed {
            return Err(RestError::NotAllowed { role, needed });
        }
        let slot = request.extensions().get::<Arc<ConnectionSlot>>();
        if let Some(slot) = slot {
            slot.authenticate();
        }
        let source = slot.map(|slot| slot.source().to_string()).unwrap_or_default();
        let origin = client.as_ref().map_or(source.clone(), |client| format!("{source} (API client {client})"));
        let query = Query::parse(request.uri())?;
        check_context(&query, &app.catalog.array().name)?;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES);
        let body = tokio::time::timeout(BODY_TIMEOUT, body).await.map_err(|_| RestError::TooSlow)?;
        let body = body.map_err(|_| RestError::TooLarge)?;
        Ok(Self { app, query, body, admin, role, client, method, uri, origin })
    }

    /// Makes another call for the same administrator, which has the same origin in the audit trail.
    pub(crate) fn derived(&self, method: Method, uri: Uri, body: Bytes) -> Result<Self, RestError> {
        let (app, admin, client) = (self.app.clone(), self.admin.clone(), self.client.clone());
        let (role, origin) = (self.role, self.origin.clone());
        Ok(Self { app, query: Query::parse(&uri)?, body, admin, role, client, method, uri, origin })
    }

    /// Returns the body as it was sent.
    pub(crate) fn raw_body(&self) -> &[u8] {
        &self.body
    }

    /// Changes the catalog, and adds the call to the audit trail in the same step. A call that
    /// changes nothing leaves no entry.
    pub(crate) fn change<T, E: From<CatalogError>>(
        &self,
        edit: impl FnOnce(&mut Draft) -> Result<T, E>,
    ) -> Result<T, E> {
        self.app.catalog.change(|draft| {
            let value = edit(draft)?;
            if draft.is_changed() {
                draft.record_audit(self.audit())?;
            }
            Ok(value)
        })
    }

    /// Adds the call to the audit trail, for a change outside the catalog. An array that is open
    /// for reading only has just the log.
    pub(crate) fn record(&self) {
        let recorded: Result<(), CatalogError> = self.app.catalog.change(|draft| draft.record_audit(self.audit()));
        if let Err(error) = recorded {
            tracing::warn!(by = self.admin, "call not recorded in the audit trail: {error}");
        }
    }

    fn audit(&self) -> Audit {
        Audit {
            id: 0,
            at_ms: platform::clock::unix_millis(),
            admin: self.admin.clone(),
            origin: self.origin.clone(),
            method: self.method.to_string(),
            path: self.uri.path().to_owned(),
            arguments: audit_text::arguments(self.uri.query().unwrap_or_default(), &self.body),
        }
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

/// Returns the administrator of a session. The role may have changed since the login, and the API
/// token may have expired.
fn caller_of_session(app: &App, request: &Request) -> Result<Caller, RestError> {
    let token = session_token(request.method(), request.headers())?
        .ok_or(RestError::Unauthorized("Log in first: POST /api/2.26/login with the header api-token."))?;
    let now = platform::clock::now();
    let name = match is_background(request.headers()) {
        true => app.sessions.peek(token, now),
        false => app.sessions.touch(token, now),
    };
    let state = app.catalog.state();
    let admin = name.and_then(|name| state.admin(&name));
    let admin = admin.filter(|admin| admin.has_valid_token(platform::clock::unix_millis()));
    let admin = admin.ok_or(RestError::Unauthorized("The session has expired; log in again."))?;
    Ok(Caller { admin: admin.name.clone(), role: admin.role, client: None })
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
    /// The JSON text; `None` for an empty body.
    body: Option<Bytes>,
    next: Option<String>,
}

impl Answer {
    /// A list, or one page of a list.
    pub(crate) fn list<T: Serialize>(items: Items<T>) -> Result<Self, RestError> {
        let body = serde_json::to_vec(&items).map_err(|error| RestError::Internal(error.to_string()))?;
        Ok(Self { body: Some(body.into()), next: items.continuation_token })
    }

    /// A complete list.
    pub(crate) fn all<T: Serialize>(items: Vec<T>) -> Result<Self, RestError> {
        Self::list(Items::all(items))
    }

    /// A document that is not a list, as JSON text.
    pub(crate) fn document(text: &'static str) -> Self {
        Self { body: Some(Bytes::from_static(text.as_bytes())), next: None }
    }

    /// Returns the items, and the token of the next page.
    pub(crate) fn into_items(self) -> Result<(Vec<Value>, Option<String>), RestError> {
        let Some(body) = self.body else { return Ok((Vec::new(), self.next)) };
        let list: Items<Value> =
            serde_json::from_slice(&body).map_err(|error| RestError::Internal(error.to_string()))?;
        Ok((list.items, self.next))
    }

    /// An empty body, after a deletion.
    pub(crate) fn empty() -> Result<Self, RestError> {
        Ok(Self { body: None, next: None })
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = match self.body {
            Some(body) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
            None => StatusCode::OK.into_response(),
        };
        if let Some(next) = self.next.and_then(|next| HeaderValue::from_str(&next).ok()) {
            response.headers_mut().insert(NEXT_TOKEN_HEADER, next);
        }
        response
    }
}
