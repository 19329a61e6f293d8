//! Accepts the connections of other arrays.

use crate::channel::{Channel, OPENING_TIMEOUT};
use crate::distance::Cut;
use crate::error::LinkError;
use crate::frame::{Frame, Kind};
use crate::hello::{Hello, HelloError, Purpose};
use crate::key::{Binding, KeyProblem, Side};
use crate::message::{Cause, Refusal};
use crate::peer::Peer;
use crate::running;
use crate::shared::Shared;
use platform::clock;
use platform::net::{Listener, Stream};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Pause after a failed accept, for example when no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection was not accepted.
#[derive(Debug, Error)]
enum NotAccepted {
    #[error("TLS failed: {0}")]
    Tls(std::io::Error),
    #[error("not completed in {} s", OPENING_TIMEOUT.as_secs())]
    TooSlow,
    #[error("too many connections of unknown origin")]
    Evicted,
    #[error("{0}")]
    Failed(LinkError),
    #[error("refused: {}", .0.text)]
    Refused(Refusal),
    #[error("cut by the distance simulator")]
    Cut,
}

impl From<LinkError> for NotAccepted {
    fn from(error: LinkError) -> Self {
        Self::Failed(error)
    }
}

fn refused(cause: Cause, text: impl Into<String>) -> NotAccepted {
    NotAccepted::Refused(Refusal::new(cause, text))
}

/// An accepted connection of a connected array.
enum Accepted {
    Control(Channel, Hello),
    Data(Channel, Arc<crate::session::Session>),
}

/// Accepts connections for as long as the array runs.
pub(crate) async fn accept(shared: Arc<Shared>, listener: Listener, config: Arc<ServerConfig>) {
    loop {
        match listener.accept().await {
            Ok((stream, source)) => {
                tokio::spawn(serve(shared.clone(), stream, source, config.clone()));
            }
            Err(error) => {
                if let Some(withheld) = shared.log.admit(clock::now()) {
                    tracing::warn!(withheld, "accept of a link failed: {error}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: Stream, source: SocketAddr, config: Arc<ServerConfig>) {
    let stranger = shared.strangers.admit(source.ip());
    let identified = tokio::select! {
        identified = tokio::time::timeout(OPENING_TIMEOUT, identify(&shared, stream, config)) => {
            identified.unwrap_or(Err(NotAccepted::TooSlow))
        }
        () = stranger.evicted() => Err(NotAccepted::Evicted),
    };
    drop(stranger);
    match identified {
        Ok(None) => {}
        Ok(Some((peer, Accepted::Control(channel, hello)))) => run_control(shared, peer, channel, hello).await,
        Ok(Some((peer, Accepted::Data(channel, session)))) => {
            running::carry_data(shared, peer, session, channel).await;
        }
        Err(error) => {
            if let Some(withheld) = shared.log.admit(clock::now()) {
                tracing::info!(%source, withheld, "connection of another array not accepted: {error}");
            }
        }
    }
}

async fn run_control(shared: Arc<Shared>, peer: Arc<Peer>, channel: Channel, hello: Hello) {
    let Ok(id) = platform::random::bytes() else { return };
    shared.note_name(&peer, &hello.name).await;
    // The session exists before the other array learns its id, with which it adds the data
    // connection. The queue is empty, so the answer is the first frame.
    let (session, run) = running::begin(&shared, &peer, channel, &hello, id);
    if session.control.try_send(shared.hello(Purpose::Control, id).encode()).is_ok() {
        run.await;
    }
}

/// Identifies the array that connects. Returns `None` after an introduction.
async fn identify(
    shared: &Arc<Shared>,
    stream: Stream,
    config: Arc<ServerConfig>,
) -> Result<Option<(Arc<Peer>, Accepted)>, NotAccepted> {
    let mut channel = Channel::accept(stream, config).await.map_err(NotAccepted::Tls)?;
    let outcome = greet(shared, &mut channel).await;
    if let Err(NotAccepted::Refused(refusal)) = &outcome {
        channel.writer.refuse(refusal).await;
    }
    Ok(match outcome? {
        None => None,
        Some((peer, hello, None)) => Some((peer, Accepted::Control(channel, hello))),
        Some((peer, _, Some(session))) => Some((peer, Accepted::Data(channel, session))),
    })
}

type Greeted = Option<(Arc<Peer>, Hello, Option<Arc<crate::session::Session>>)>;

async fn greet(shared: &Arc<Shared>, channel: &mut Channel) -> Result<Greeted, NotAccepted> {
    let frame = channel.reader.expect(Kind::Hello).await?;
    let hello = Hello::decode(&frame.body).map_err(|error| {
        let cause = if matches!(error, HelloError::Protocol { .. }) { Cause::Protocol } else { Cause::Other };
        refused(cause, error.to_string())
    })?;
    if channel.peer == shared.identity.fingerprint {
        return Err(refused(Cause::Conflict, LinkError::Itself.to_string()));
    }
    let known = shared.find_certificate(&channel.peer);
    match (known, hello.purpose) {
        (Some(peer), Purpose::Introduction) => {
            Err(refused(Cause::Conflict, LinkError::AlreadyConnected(peer.name()).to_string()))
        }
        (None, Purpose::Introduction) => introduce(shared, channel, &hello).await.map(|()| None),
        (None, _) => Err(refused(
            Cause::NotConnected,
            "this array is not connected to yours, or no longer; remove the connection (`ibid array disconnect`) and \
             connect again",
        )),
        (Some(peer), _) if peer.record().array != crate::shared::uuid_text(&hello.array) => {
            Err(refused(Cause::Conflict, "the certificate belongs to an array with another id"))
        }
        (Some(peer), _) if peer.distance.borrow().cut != Cut::None => Err(NotAccepted::Cut),
        (Some(peer), Purpose::Control) => Ok(Some((peer, hello, None))),
        (Some(peer), Purpose::Data) => {
            let session = peer.session().filter(|session| session.id == hello.session && session.data().is_none());
            let session = session.ok_or_else(|| refused(Cause::Other, "the session has ended; begin a new one"))?;
            let answer = shared.hello(Purpose::Data, session.id).encode();
            channel.writer.send(&answer).await.map_err(LinkError::from)?;
            Ok(Some((peer, hello, Some(session))))
        }
    }
}

/// Lets another array prove the connection key, and pins its certificate.
async fn introduce(shared: &Arc<Shared>, channel: &mut Channel, hello: &Hello) -> Result<(), NotAccepted> {
    let proof = channel.reader.expect(Kind::Introduce).await?;
    let by_key = |problem: KeyProblem| refused(Cause::Key, problem.to_string());
    let key = shared.keys.take(clock::now()).map_err(by_key)?;
    let binding = Binding { exporter: channel.exporter, client: channel.peer, server: shared.identity.fingerprint };
    if !binding.is_proved(&key, Side::Client, &proof.body) {
        tracing::warn!(remote = %channel.remote, "wrong connection key: the key of this array is used up");
        return Err(by_key(KeyProblem::Wrong));
    }
    let conflict = |error: LinkError| refused(Cause::Conflict, error.to_string());
    shared.check_new(hello, &channel.peer).map_err(conflict)?;
    let own = shared.hello(Purpose::Introduction, [0; 16]).encode();
    channel.writer.send(&own).await.map_err(LinkError::from)?;
    let proof = Frame::new(Kind::Accept, binding.prove(&key, Side::Server));
    channel.writer.send(&proof).await.map_err(LinkError::from)?;
    // The other array stores the connection first.
    let confirmed = channel.reader.expect(Kind::Accept).await?;
    if !binding.is_proved(&key, Side::Client, &confirmed.body) {
        return Err(by_key(KeyProblem::Wrong));
    }
    let (adding, hello, certificate) = (shared.clone(), hello.clone(), channel.peer);
    let added = tokio::task::spawn_blocking(move || adding.add(&hello, &certificate, None)).await;
    let peer = added.map_err(|error| LinkError::System(error.to_string()))?.map_err(conflict)?;
    let proof = Frame::new(Kind::Accept, binding.prove(&key, Side::Server));
    channel.writer.send(&proof).await.map_err(LinkError::from)?;
    tracing::info!(array = peer.name(), remote = %channel.remote, "connected by another array");
    Ok(())
}
