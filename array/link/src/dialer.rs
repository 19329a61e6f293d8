//! Makes the connections to another array, and makes them again when they are lost.

use crate::address::resolve;
use crate::channel::{Channel, OPENING_TIMEOUT};
use crate::distance::Cut;
use crate::error::LinkError;
use crate::frame::Frame;
use crate::frame::Kind;
use crate::hello::{Hello, Purpose};
use crate::identity::PROTOCOL;
use crate::key::{Binding, ConnectionKey, Side};
use crate::message::Refusal;
use crate::peer::Peer;
use crate::running;
use crate::session::SessionEnd;
use crate::shared::Shared;
use pinned_tls::Fingerprint;
use platform::clock;
use std::sync::Arc;
use std::time::Duration;

/// Pause after the first failed attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Longest pause after a session: the other array can be reached, and one of the two serves the
/// pods of both alone if the next session does not begin within a second.
const LONGEST_AFTER_SESSION: Duration = Duration::from_millis(500);
/// A session that lasted this long makes the pauses short again.
const STABLE: Duration = Duration::from_secs(5);

/// The pauses between attempts.
struct Pauses(Duration);

impl Pauses {
    /// Returns the pause after an attempt that has failed.
    fn after_failure(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// Returns the pause after a session that lasted some time.
    fn after_session(&mut self, lasted: Duration) -> Duration {
        self.0 = if lasted >= STABLE { FIRST_PAUSE } else { self.0.min(LONGEST_AFTER_SESSION) };
        self.after_failure()
    }
}

async fn open(shared: &Shared, address: &str, pinned: Option<Fingerprint>) -> Result<Channel, LinkError> {
    let config =
        pinned_tls::client(&shared.identity, PROTOCOL, pinned).map_err(|error| LinkError::System(error.to_string()))?;
    let addresses = tokio::time::timeout(OPENING_TIMEOUT, resolve(address)).await;
    let addresses = addresses.map_err(|_| LinkError::TimedOut(address.to_owned()))??;
    Channel::connect(address, &addresses, config).await
}

/// Says hello, and returns the answer.
async fn greet(channel: &mut Channel, hello: &Hello) -> Result<Hello, LinkError> {
    channel.writer.send(&hello.encode()).await?;
    answer(channel).await
}

async fn answer(channel: &mut Channel) -> Result<Hello, LinkError> {
    let frame = channel.reader.expect(Kind::Hello).await?;
    Hello::decode(&frame.body).map_err(|error| LinkError::Protocol(error.to_string()))
}

async fn in_time<T>(address: &str, opening: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    let opened = tokio::time::timeout(OPENING_TIMEOUT, opening).await;
    opened.unwrap_or_else(|_| Err(LinkError::TimedOut(address.to_owned())))
}

/// Introduces this array to the one at `address`, with the key of that. Each side pins the
/// certificate of the other.
pub(crate) async fn introduce(
    shared: &Arc<Shared>,
    address: &str,
    key: &ConnectionKey,
    expected: Option<&str>,
) -> Result<Arc<Peer>, LinkError> {
    let mut channel = open(shared, address, None).await?;
    let own = shared.identity.fingerprint;
    // Before the key is used up.
    if channel.peer == own {
        return Err(LinkError::Itself);
    }
    if let Some(known) = shared.find_certificate(&channel.peer) {
        return Err(LinkError::AlreadyConnected(known.name()));
    }
    let binding = Binding { exporter: channel.exporter, client: own, server: channel.peer };
    let hello = in_time(address, async {
        channel.writer.send(&shared.hello(Purpose::Introduction, [0; 16]).encode()).await?;
        channel.writer.send(&Frame::new(Kind::Introduce, binding.prove(key, Side::Client))).await?;
        let hello = answer(&mut channel).await?;
        let proof = channel.reader.expect(Kind::Accept).await?;
        match binding.is_proved(key, Side::Server, &proof.body) {
            true => Ok(hello),
            false => Err(LinkError::Unproved(address.to_owned())),
        }
    })
    .await?;
    let checked = match expected.filter(|expected| !expected.eq_ignore_ascii_case(&hello.name)) {
        Some(expected) => Err(LinkError::OtherName { expected: expected.to_owned(), found: hello.name.clone() }),
        None => shared.check_new(&hello, &channel.peer),
    };
    if let Err(error) = checked {
        channel.writer.refuse(&Refusal::new(crate::message::Cause::Conflict, error.to_string())).await;
        return Err(error);
    }
    let (adding, certificate, place) = (shared.clone(), channel.peer, address.to_owned());
    let added = tokio::task::spawn_blocking(move || adding.add(&hello, &certificate, Some(place))).await;
    let peer = added.map_err(|error| LinkError::System(error.to_string()))??;
    let confirmed = in_time(address, async {
        channel.writer.send(&Frame::new(Kind::Accept, binding.prove(key, Side::Client))).await?;
        // The other array has stored the connection, too.
        channel.reader.expect(Kind::Accept).await
    });
    if let Err(error) = confirmed.await {
        let (removing, removed) = (shared.clone(), peer.clone());
        let _ = tokio::task::spawn_blocking(move || removing.remove(&removed)).await;
        return Err(error);
    }
    tracing::info!(array = peer.name(), address, "connected to another array");
    Ok(peer)
}

/// Keeps the link to an array until the connection is removed.
pub(crate) async fn keep(shared: Arc<Shared>, peer: Arc<Peer>) {
    let mut pauses = Pauses(FIRST_PAUSE);
    while !peer.is_removed() {
        let began = clock::now();
        let end = tokio::select! {
            end = attempt(&shared, &peer) => end,
            () = peer.removed() => return,
        };
        let pause = match end {
            Ok(SessionEnd::Lost(_)) => pauses.after_session(clock::now().saturating_duration_since(began)),
            Ok(SessionEnd::Removed | SessionEnd::Stopped) => return,
            Err(error) => {
                let problem = error.to_string();
                if peer.set_problem(problem.clone()) {
                    tracing::warn!(array = peer.name(), "no link: {problem}");
                }
                pauses.after_failure()
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = peer.removed() => return,
        }
    }
}

/// Makes a session and runs it.
async fn attempt(shared: &Arc<Shared>, peer: &Arc<Peer>) -> Result<SessionEnd, LinkError> {
    let mut distance = peer.distance.subscribe();
    if distance.borrow().cut != Cut::None {
        peer.set_problem("cut by the distance simulator".to_owned());
        let _ = distance.wait_for(|distance| distance.cut == Cut::None).await;
    }
    let record = peer.record();
    let address = record.address.clone().ok_or(LinkError::NoSuch)?;
    let pinned = record.fingerprint().ok_or(LinkError::NoSuch)?;
    let mut channel = open(shared, &address, Some(pinned)).await?;
    let own = shared.hello(Purpose::Control, [0; 16]);
    let hello = in_time(&address, greet(&mut channel, &own)).await?;
    if crate::shared::uuid_text(&hello.array) != record.array {
        return Err(LinkError::Protocol("it has another id than the connected array".to_owned()));
    }
    let mut data = open(shared, &address, Some(pinned)).await?;
    in_time(&address, greet(&mut data, &shared.hello(Purpose::Data, hello.session))).await?;
    shared.note_name(peer, &hello.name).await;
    let (session, run) = running::begin(shared, peer, channel, &hello, hello.session);
    // A task of its own, so that work for its frames delays no heartbeat.
    let carrying = tokio::spawn(running::carry_data(shared.clone(), peer.clone(), session, data));
    let end = run.await;
    // It ends with the session.
    let _ = carrying.await;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_session_begins_soon_after_short_ones() {
        let mut pauses = Pauses(FIRST_PAUSE);
        let short = Duration::from_millis(10);
        let found: Vec<_> = (0..5).map(|_| pauses.after_session(short).as_millis()).collect();
        assert_eq!(found, [100, 200, 400, 500, 500]);
        let failed: Vec<_> = (0..5).map(|_| pauses.after_failure().as_millis()).collect();
        assert_eq!(failed, [1000, 2000, 4000, 5000, 5000]);
        assert_eq!(pauses.after_session(short), LONGEST_AFTER_SESSION);
        assert_eq!(pauses.after_session(STABLE), FIRST_PAUSE);
    }
}
