//! `/events`: a stream of server-sent events that names the kinds of objects that have changed.
//!
//! The stream carries no objects. Clients read the lists again that they show.

use crate::app::App;
use crate::call::Call;
use crate::change_feed::{ChangeKind, Changes, StreamPlace, StreamTimes};
use crate::credential::session_token;
use crate::error::RestError;
use api::ErrorCode;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use catalog::Role;
use hyper::body::Frame;
use serde_json::json;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// A client that takes no message for this long has lost its stream.
const STALLED: Duration = Duration::from_secs(60);
/// Pause of a client before it opens a stream again, in milliseconds.
const RETRY_MS: u32 = 3000;
/// Request header with the id of the last message that the client has got.
const LAST_EVENT_ID: &str = "last-event-id";

/// Answers `GET /events`.
pub(crate) async fn stream(State(app): State<Arc<App>>, request: Request) -> Response {
    match open(app, request).await {
        Ok(body) => {
            let mut response = Body::new(body).into_response();
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => error.into_response(),
    }
}

async fn open(app: Arc<App>, request: Request) -> Result<Messages, RestError> {
    let session = session_token(request.method(), request.headers())?.unwrap_or_default().to_owned();
    let last = request.headers().get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
    let call = Call::accept(app.clone(), request, Role::Readonly).await?;
    call.query.allow(&[&["kinds"]])?;
    let wanted = match call.query.list("kinds") {
        None => ChangeKind::ALL.to_vec(),
        Some(names) => names.iter().map(|name| kind(name)).collect::<Result<_, _>>()?,
    };
    let place = app.changes.take_place(&call.admin).ok_or(RestError::TooManyStreams)?;
    let resumed = last.and_then(|id| number_of(&id, app.started_ms));
    let (sender, receiver) = mpsc::channel(1);
    let stream = Stream { app, session, _place: place, wanted, sender };
    tokio::spawn(stream.run(resumed));
    Ok(Messages(receiver))
}

fn kind(name: &str) -> Result<ChangeKind, RestError> {
    ChangeKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let known = ChangeKind::ALL.map(ChangeKind::name).join(", ");
        RestError::bad(ErrorCode::InvalidParameter, format!("'{name}' is not a kind of change; known: {known}."))
    })
}

/// Returns the number of the change in the id of a message, if this run of the program sent it.
fn number_of(id: &str, started_ms: u64) -> Option<u64> {
    let (start, number) = id.split_once('-')?;
    (start.parse() == Ok(started_ms)).then(|| number.parse().ok()).flatten()
}

/// The body of the answer: one message at a time, so a slow client merges changes and holds no
/// memory.
struct Messages(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}

struct Stream {
    app: Arc<App>,
    session: String,
    /// Freed when the stream ends.
    _place: StreamPlace,
    wanted: Vec<ChangeKind>,
    sender: mpsc::Sender<Bytes>,
}

impl Stream {
    /// Sends messages until the client, the session or the server ends.
    async fn run(self, resumed: Option<u64>) {
        let times = *self.app.changes.times.lock();
        let mut changes = self.app.changes.subscribe();
        let mut seen = changes.borrow_and_update().last;
        // A number beyond the latest one is none of this run.
        let mut message = Some(match resumed.filter(|number| *number <= seen) {
            Some(number) => self.change(&changes.borrow(), number),
            None => self.message("resync", seen, &[]),
        });
        let mut sent = platform::clock::now();
        loop {
            if let Some(message) = message.take() {
                if !self.send(message).await {
                    return;
                }
                sent = platform::clock::now();
            }
            let idle = platform::clock::now().saturating_duration_since(sent);
            tokio::select! {
                () = self.sender.closed() => return,
                () = next(&mut changes, &times, idle) => {}
            }
            let now = *changes.borrow_and_update();
            if let Some(reason) = self.end_reason(&now) {
                self.send(format!("event: end\ndata: {}\n\n", json!({"reason": reason}))).await;
                return;
            }
            let is_silent = platform::clock::now().saturating_duration_since(sent) >= times.heartbeat;
            message = match self.wanted_since(&now, seen).is_empty() {
                false => Some(self.change(&now, seen)),
                true => is_silent.then(|| ": heartbeat\n\n".to_owned()),
            };
            seen = now.last;
        }
    }

    fn wanted_since(&self, changes: &Changes, number: u64) -> Vec<ChangeKind> {
        changes.since(number).into_iter().filter(|kind| self.wanted.contains(kind)).collect()
    }

    /// Returns the message with the kinds that changed after the change `number`.
    fn change(&self, changes: &Changes, number: u64) -> String {
        self.message("change", changes.last, &self.wanted_since(changes, number))
    }

    fn message(&self, event: &str, number: u64, kinds: &[ChangeKind]) -> String {
        let kinds: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
        let (started, data) = (self.app.started_ms, json!({"revision": number, "kinds": kinds}));
        format!("retry: {RETRY_MS}\nid: {started}-{number}\nevent: {event}\ndata: {data}\n\n")
    }

    /// Returns why the stream ends, if it does.
    fn end_reason(&self, changes: &Changes) -> Option<&'static str> {
        if changes.is_closed {
            return Some("The array stops.");
        }
        let name = self.app.sessions.peek(&self.session, platform::clock::now());
        let state = self.app.catalog.state();
        let admin = name.and_then(|name| state.admin(&name));
        let is_valid = admin.is_some_and(|admin| admin.has_valid_token(platform::clock::unix_millis()));
        (!is_valid).then_some("The session has ended.")
    }

    /// Returns false if the client has gone or takes no messages.
    async fn send(&self, message: String) -> bool {
        matches!(tokio::time::timeout(STALLED, self.sender.send(message.into())).await, Ok(Ok(())))
    }
}

/// Waits for a change, or until a heartbeat is due. `idle` is the time since the last message.
async fn next(changes: &mut watch::Receiver<Changes>, times: &StreamTimes, idle: Duration) {
    tokio::time::sleep(times.interval.saturating_sub(idle)).await;
    // Fails only if the feed is dropped, which the stream owns.
    let _ = tokio::time::timeout(times.heartbeat.saturating_sub(idle), changes.changed()).await;
}
