//! The stream of changes.

use super::*;
use crate::change_feed::{ChangeKind, MAX_STREAMS_OF_ADMIN, StreamTimes};
use hyper::body::Body as _;
use std::pin::Pin;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

/// An array whose streams send at once, and a heartbeat after this time.
fn served(heartbeat: Duration) -> (Arc<App>, Rest) {
    let app = app();
    *app.changes.times.lock() = StreamTimes { interval: Duration::ZERO, heartbeat };
    let rest = Rest::of(app.clone());
    (app, rest)
}

/// An open stream.
struct Events {
    body: Body,
    status: u16,
}

impl Rest {
    fn events(&self, parameters: &str, last: &str) -> Events {
        let request = Request::get(format!("/api/2.26/events{parameters}")).header(AUTH_TOKEN_HEADER, &self.session);
        let request = request.header("last-event-id", last).body(Body::empty()).unwrap();
        let response = self.runtime.block_on(self.router.clone().oneshot(request)).unwrap();
        let status = response.status().as_u16();
        if status == 200 {
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            assert_eq!(response.headers()["cache-control"], "no-store");
        }
        Events { status, body: response.into_body() }
    }

    /// Returns the next message, or `None` at the end.
    fn next(&self, events: &mut Events) -> Option<String> {
        let frame = std::future::poll_fn(|context| Pin::new(&mut events.body).poll_frame(context));
        let frame = self.runtime.block_on(frame)?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    /// Returns the next message in parts: id, event and kinds.
    #[track_caller]
    fn message(&self, events: &mut Events) -> (String, String, Vec<String>) {
        let text = self.next(events).unwrap();
        assert!(text.ends_with("\n\n"), "{text}");
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
        let data: Value = serde_json::from_str(&field("data: ")).unwrap();
        let kinds = data["kinds"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap().to_owned()).collect();
        assert!(field("id: ").ends_with(&format!("-{}", data["revision"])), "{text}");
        (field("id: "), field("event: "), kinds)
    }
}

#[test]
fn stream_reports_kinds_that_changed() {
    let (app, rest) = served(LONG);
    let mut events = rest.events("", "");
    let (_, event, kinds) = rest.message(&mut events);
    assert_eq!((event.as_str(), kinds.len()), ("resync", 0));
    rest.volume("one");
    let (_, event, kinds) = rest.message(&mut events);
    // The record of the array has the numbers of new objects.
    assert_eq!((event.as_str(), kinds.join(" ")), ("change", "arrays audits volumes".to_owned()));
    rest.items("POST", "hosts?names=h", r#"{"iqns":["iqn.2026-11.org.example:a"]}"#);
    assert_eq!(rest.message(&mut events).2, ["arrays", "audits", "hosts"]);
    rest.items("POST", "connections?host_names=h&volume_names=one", "");
    assert_eq!(rest.message(&mut events).2, ["audits", "connections"]);
    rest.items("POST", "volume-snapshots?source_names=one", "");
    assert!(rest.message(&mut events).2.contains(&"volume-snapshots".to_owned()));
    rest.items("POST", "protection-groups?names=g", "");
    assert_eq!(rest.message(&mut events).2, ["arrays", "audits", "protection-groups"]);
    rest.items("POST", "host-groups?names=hg", "");
    assert_eq!(rest.message(&mut events).2, ["arrays", "audits", "host-groups"]);
    rest.login(TOKEN);
    assert_eq!(rest.message(&mut events).2, ["sessions"]);
    app.telemetry.sessions.refuse("iqn.2026-11.org.example:b", "192.0.2.1:9".parse().unwrap(), "unknown", 7);
    app.read_performance(5_000);
    assert!(rest.message(&mut events).2.contains(&"iscsi-sessions".to_owned()));
    app.count_space();
    app.read_performance(7_000);
    assert_eq!(rest.message(&mut events).2, ["space"]);
}

#[test]
fn refused_calls_and_reads_are_no_changes() {
    let (app, rest) = served(LONG);
    app.count_space();
    app.read_performance(1_000);
    let mut events = rest.events("", "");
    rest.message(&mut events);
    rest.refused("POST", "volumes?names=.", r#"{"provisioned":1048576}"#);
    rest.items("GET", "volumes", "");
    app.read_performance(3_000);
    app.changes.note(&[ChangeKind::Admins]);
    assert_eq!(rest.message(&mut events).2, ["admins"]);
}

#[test]
fn slow_stream_merges_its_changes() {
    let (_, rest) = served(LONG);
    let mut events = rest.events("", "");
    let first = rest.message(&mut events).0;
    for n in 0..20 {
        rest.volume(&format!("v{n}"));
    }
    rest.items("POST", "hosts?names=h", r#"{"iqns":["iqn.2026-11.org.example:a"]}"#);
    let mut seen = Vec::new();
    let mut count = 0;
    let mut last = first.clone();
    while !seen.contains(&"hosts".to_owned()) {
        let (id, _, kinds) = rest.message(&mut events);
        (last, count) = (id, count + 1);
        seen.extend(kinds);
    }
    assert!(count <= 3 && seen.contains(&"volumes".to_owned()), "{count} messages: {seen:?}");
    let number = |id: &str| id.split_once('-').unwrap().1.parse::<u64>().unwrap();
    assert_eq!(number(&last), number(&first) + 21);
}

#[test]
fn stream_continues_after_the_last_id() {
    let (_, rest) = served(LONG);
    let mut events = rest.events("", "");
    let (id, ..) = rest.message(&mut events);
    drop(events);
    assert_eq!(rest.message(&mut rest.events("", &id)).1, "change", "nothing was missed");
    rest.volume("one");
    let (next, event, kinds) = rest.message(&mut rest.events("", &id));
    assert_eq!((event.as_str(), kinds.join(" ")), ("change", "arrays audits volumes".to_owned()));
    let (_, event, kinds) = rest.message(&mut rest.events("", &next));
    assert_eq!((event.as_str(), kinds.len()), ("change", 0));
    let (run, number) = next.split_once('-').unwrap();
    for other in [format!("7-{number}"), format!("{run}-999999"), "x".to_owned(), format!("{run}-")] {
        assert_eq!(rest.message(&mut rest.events("", &other)).1, "resync", "{other}");
    }
}

#[test]
fn stream_has_only_the_kinds_asked_for() {
    let (_, rest) = served(LONG);
    let mut events = rest.events("?kinds=hosts,volumes", "");
    rest.message(&mut events);
    rest.login(TOKEN);
    rest.volume("one");
    assert_eq!(rest.message(&mut events).2, ["volumes"]);
    assert!(rest.refused("GET", "events?kinds=volume", "")[0].contains("known: admins, alert-delivery"));
    assert!(rest.refused("GET", "events?names=x", "")[0].contains("not supported here"));
}

#[test]
fn stream_ends_with_its_session() {
    let (app, mut rest) = served(LONG);
    let mut events = rest.events("", "");
    rest.message(&mut events);
    let end = |rest: &Rest, events: &mut Events, reason: &str| loop {
        let text = rest.next(events).unwrap();
        if text.starts_with("event: end") {
            assert!(text.contains(reason), "{text}");
            assert_eq!(rest.next(events), None);
            break;
        }
    };
    assert!(app.sessions.close(&rest.session));
    end(&rest, &mut events, "session has ended");
    assert_eq!(rest.events("", "").status, 401);
    // The end of the token ends the session, too.
    rest.session = rest.login(TOKEN).1;
    rest.items("POST", "admins?names=reader", r#"{"role":{"name":"readonly"}}"#);
    let made = rest.items("POST", "admins/api-tokens?names=reader", "");
    let admin = rest.session.clone();
    rest.session = rest.login(made[0]["api_token"]["token"].as_str().unwrap()).1;
    let mut events = rest.events("", "");
    rest.message(&mut events);
    rest.session = admin;
    rest.items("DELETE", "admins?names=reader", "");
    end(&rest, &mut events, "session has ended");
    let mut events = rest.events("", "");
    rest.message(&mut events);
    app.changes.close();
    end(&rest, &mut events, "array stops");
}

#[test]
fn heartbeats_do_not_prolong_a_session() {
    let (app, rest) = served(Duration::from_millis(1));
    let mut events = rest.events("", "");
    rest.message(&mut events);
    assert_eq!(rest.next(&mut events).unwrap(), ": heartbeat\n\n");
    let session = app.sessions.list(platform::clock::now()).len();
    assert_eq!(session, 1);
    let later = platform::clock::now() + crate::session::IDLE;
    assert_eq!(app.sessions.peek(&rest.session, later), None);
}

#[test]
fn streams_of_an_administrator_are_bounded() {
    let (_, rest) = served(LONG);
    let mut open: Vec<_> = (0..MAX_STREAMS_OF_ADMIN).map(|_| rest.events("", "")).collect();
    assert!(open.iter().all(|events| events.status == 200));
    let (status, body) = rest.call("GET", "2.26/events", "");
    assert_eq!((status, body["errors"][0]["code"].as_str()), (503, Some("limit_reached")));
    open.pop();
    // The task of the stream notices the end of its client.
    rest.runtime.block_on(async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
    let mut events = rest.events("", "");
    assert_eq!(rest.message(&mut events).1, "resync");
}
