//! REST 1.x for older clients. Each call is made of calls of REST 2, so that rules, roles, the
//! audit trail and errors are the same.

mod args;
pub(crate) mod calls;
mod groups;
mod hosts;
mod volumes;

use crate::app::App;
use crate::call::Call;
use crate::error::RestError;
use crate::login::open;
use crate::routes::ROUTES;
use crate::slots::ConnectionSlot;
use api::{AUTH_TOKEN_HEADER, ErrorCode};
use args::Args;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Query as Decoded, Request};
use axum::http::header::{COOKIE, HeaderName, HeaderValue, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use catalog::Role;
use serde_json::{Value, json};
use std::sync::Arc;

/// The cookie of a session. It is not that of the console, which has rules of its own.
const COOKIE_NAME: &str = "session";
/// Maximum size of the body of a login in bytes.
const MAX_LOGIN_BYTES: usize = 4096;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 1000;

/// Answers a call of REST 1.x. The path is below the version.
pub(crate) async fn answer(app: Arc<App>, request: Request) -> Response {
    let held = session_of(request.headers());
    match dispatch(app, request, held.clone()).await {
        Ok((body, session)) => {
            let mut response = Json(body).into_response();
            // Existing clients forget the cookie with an answer that does not set it again.
            let session = session.or(held).unwrap_or_default();
            let cookie = format!("{COOKIE_NAME}={session}; Path=/api; Secure; HttpOnly; SameSite=Strict");
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
        Err(error) => refusal(error).await,
    }
}

/// Returns the answer of an error: a list of messages.
async fn refusal(error: RestError) -> Response {
    let response = error.into_response();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let one = |error: &Value| json!({"ctx": error["context"], "code": error["code"], "msg": error["message"]});
    let errors: Vec<Value> = match body["errors"].as_array() {
        Some(errors) => errors.iter().map(one).collect(),
        None => vec![one(&body)],
    };
    (status, Json(errors)).into_response()
}

/// Returns the session token in the cookie or the header.
fn session_of(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let cookie = pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, token)| token);
    let header = headers.get(AUTH_TOKEN_HEADER).and_then(|token| token.to_str().ok());
    header.or(cookie).map(ToOwned::to_owned)
}

/// Makes the call. Returns the body, and the token of a new session.
async fn dispatch(
    app: Arc<App>,
    mut request: Request,
    held: Option<String>,
) -> Result<(Value, Option<String>), RestError> {
    // A browser attaches the cookie to requests that other pages cause; no browser needs REST 1.
    let headers = request.headers();
    if headers.contains_key(ORIGIN) || headers.contains_key(HeaderName::from_static("sec-fetch-site")) {
        return Err(RestError::Forbidden);
    }
    let path = request.uri().path().trim_matches('/').to_owned();
    match (request.method().as_str(), path.as_str()) {
        ("POST", "auth/session") => return log_in(&app, request).await,
        ("POST", "auth/apitoken") => {
            let message = "The array has no passwords; log in with an API token (`ibid token`).";
            return Err(RestError::bad(ErrorCode::Unsupported, message));
        }
        _ => {}
    }
    let token = held.ok_or(RestError::Unauthorized("Log in first: POST /api/1.19/auth/session with an api_token."))?;
    if let Ok(value) = HeaderValue::from_str(&token) {
        request.headers_mut().insert(AUTH_TOKEN_HEADER, value);
    }
    request.headers_mut().remove(COOKIE);
    let method = request.method().clone();
    let Decoded(query) = Decoded::<Vec<(String, String)>>::try_from_uri(request.uri())
        .map_err(|error| RestError::bad(ErrorCode::InvalidParameter, format!("Invalid query: {error}.")))?;
    // The arguments are checked by each call, not as parameters of REST 2.
    *request.uri_mut() = Uri::from_static("/");
    let call = Call::accept(app, request, Role::Readonly).await?;
    if (method.as_str(), path.as_str()) == ("DELETE", "auth/session") {
        let admin = call.admin.clone();
        call.app.sessions.close(&token);
        return Ok((json!({"username": admin}), None));
    }
    let args = Args::new(query, call.raw_body())?;
    let done = tokio::task::spawn_blocking(move || {
        let mut request = Request1 { call: &call, args };
        let parts: Vec<String> = path.split('/').map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let described = calls::find(method.as_str(), &parts).ok_or(RestError::NotFound)?;
        request.args.allow(described.args)?;
        let body = request.run(method.as_str(), &parts)?;
        request.args.finish().map(|()| body)
    });
    let body = done.await.map_err(|_| RestError::Internal("The request handler failed.".to_owned()))??;
    Ok((body, None))
}

async fn log_in(app: &Arc<App>, request: Request) -> Result<(Value, Option<String>), RestError> {
    let slot = request.extensions().get::<Arc<ConnectionSlot>>().cloned();
    let slot = slot.ok_or_else(|| RestError::Internal("The connection is unknown.".to_owned()))?;
    let body = axum::body::to_bytes(request.into_body(), MAX_LOGIN_BYTES).await.map_err(|_| RestError::TooLarge)?;
    let mut args = Args::new(Vec::new(), &body)?;
    let token = args.text("api_token")?.unwrap_or_default();
    args.finish()?;
    let (admin, session) = open(app, slot.source(), &token).await?;
    slot.authenticate();
    Ok((json!({"username": admin}), Some(session)))
}

/// Decodes `%xx` of a part of the path. Names need none of it, so anything else stays as it is.
fn decoded(part: &str) -> String {
    let decode = Decoded::<Vec<(String, String)>>::try_from_uri(&format!("/?x={part}").parse().unwrap_or_default());
    decode.ok().and_then(|Decoded(pairs)| pairs.into_iter().next()).map_or_else(|| part.to_owned(), |(_, text)| text)
}

/// A call of REST 1.x.
struct Request1<'a> {
    call: &'a Call,
    args: Args,
}

/// The parameters of a call of REST 2.
type Parameters<'a> = &'a [(&'a str, &'a str)];

impl Request1<'_> {
    fn run(&mut self, method: &str, path: &[&str]) -> Result<Value, RestError> {
        match path.first().copied() {
            Some("volume") => self.volume(method, &path[1..]),
            Some("host") => self.host(method, &path[1..]),
            Some("hgroup") => self.host_group(method, &path[1..]),
            Some("pgroup") => self.protection_group(method, &path[1..]),
            Some("array") => self.array(method, &path[1..]),
            Some("port") if method == "GET" && path.len() == 1 => self.ports(),
            _ => Err(RestError::NotFound),
        }
    }

    /// Makes a call of REST 2 and returns all its items.
    fn items(&self, method: &str, path: &str, query: Parameters<'_>, body: &Value) -> Result<Vec<Value>, RestError> {
        let route = ROUTES.iter().find(|route| route.method == method && route.path == path);
        let route = route.ok_or(RestError::BadMethod)?;
        if self.call.role < route.role {
            return Err(RestError::NotAllowed { role: self.call.role, needed: route.role });
        }
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| RestError::Internal(error.to_string()))?;
        let (mut all, mut token) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let next = token.iter().map(|token: &String| ("continuation_token", token.as_str()));
            let pairs: Vec<String> =
                query.iter().copied().chain(next).map(|(name, value)| format!("{name}={}", encoded(value))).collect();
            let uri = format!("{path}?{}", pairs.join("&"));
            let uri: Uri =
                uri.parse().map_err(|_| RestError::bad(ErrorCode::InvalidRequest, "The call is too long."))?;
            let (items, next) = (route.action)(&self.call.derived(method.clone(), uri, body.clone())?)?.into_items()?;
            all.extend(items);
            token = next;
            if token.is_none() {
                break;
            }
        }
        Ok(all)
    }

    fn get(&self, path: &str, query: Parameters<'_>) -> Result<Vec<Value>, RestError> {
        self.items("GET", path, query, &Value::Null)
    }

    /// Makes a call whose answer is one item.
    fn one(&self, method: &str, path: &str, query: Parameters<'_>, body: &Value) -> Result<Value, RestError> {
        Ok(self.items(method, path, query, body)?.into_iter().next().unwrap_or_default())
    }

    /// Takes `action`, if it is `wanted`. Another action is refused.
    fn action(&mut self, wanted: &str) -> Result<bool, RestError> {
        match self.args.text("action")? {
            None => Ok(false),
            Some(action) if action == wanted => Ok(true),
            Some(action) => {
                let message = format!("The action '{action}' is not supported here.");
                Err(RestError::bad(ErrorCode::Unsupported, message))
            }
        }
    }

    fn array(&mut self, method: &str, path: &[&str]) -> Result<Value, RestError> {
        match (method, path) {
            ("GET", []) if self.action("monitor")? => {
                Ok(Value::Array(self.get("/arrays/performance", &[])?.iter().map(performance).collect()))
            }
            ("GET", []) if self.args.flag("space")? => {
                let capacity = self.one("GET", "/arrays", &[], &Value::Null)?["capacity"].clone();
                let show = |item: &Value| {
                    let mut shown = space(item);
                    shown["hostname"] = item["name"].clone();
                    shown["capacity"] = capacity.clone();
                    shown
                };
                Ok(Value::Array(self.get("/arrays/space", &[])?.iter().map(show).collect()))
            }
            ("GET", []) => {
                let array = self.one("GET", "/arrays", &[], &Value::Null)?;
                let revision = &array["program_version"];
                Ok(
                    json!({"array_name": array["name"], "id": array["id"], "version": array["version"], "revision": revision}),
                )
            }
            ("GET", ["connection"]) => Ok(json!([])),
            ("PUT", []) => {
                let name = self.args.text("name")?;
                self.args.finish()?;
                let array = self.one("PATCH", "/arrays", &[], &json!({"name": name}))?;
                Ok(json!({"array_name": array["name"]}))
            }
            _ => Err(RestError::NotFound),
        }
    }

    fn ports(&self) -> Result<Value, RestError> {
        let show = |port: &Value| json!({"name": port["name"], "iqn": port["iqn"], "portal": port["portal"], "wwn": null, "nqn": null, "failover": null});
        Ok(Value::Array(self.get("/ports", &[])?.iter().map(show).collect()))
    }
}

/// Returns the names of the list in `names`, for a query.
fn joined(names: &[String]) -> String {
    names.join(",")
}

/// Encodes a value of a query (RFC 3986 2.3).
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b',' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Converts a time in milliseconds since 1970.
fn time(millis: &Value) -> Value {
    millis.as_u64().map_or(Value::Null, |millis| Value::String(types::utc_time(millis)))
}

/// Adds the time until eradication, in seconds.
fn with_time_remaining(mut shown: Value, item: &Value) -> Value {
    shown["time_remaining"] = item["time_remaining"].as_u64().map_or(Value::Null, |millis| json!(millis / 1000));
    shown
}

/// Returns the space of an item under the names of REST 1.
fn space(item: &Value) -> Value {
    let space = &item["space"];
    json!({
        "name": item["name"], "size": space["total_provisioned"], "volumes": space["unique"],
        "snapshots": space["snapshots"], "shared_space": space["shared"], "system": space["system"],
        "total": space["total_physical"], "data_reduction": space["data_reduction"],
        "total_reduction": space["total_reduction"], "thin_provisioning": space["thin_provisioning"],
    })
}

/// Returns the performance of an item under the names of REST 1.
fn performance(item: &Value) -> Value {
    let mut shown = json!({"name": item["name"], "time": time(&item["time"]), "input_per_sec": item["write_bytes_per_sec"],
        "output_per_sec": item["read_bytes_per_sec"]});
    for field in ["reads_per_sec", "writes_per_sec", "usec_per_read_op", "usec_per_write_op", "queue_depth"] {
        shown[field] = item[field].clone();
    }
    shown
}
