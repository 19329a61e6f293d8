//! Runs the connections of a session until it ends. Both sides of a link use it.

use crate::channel::Channel;
use crate::control;
use crate::data::DataConnection;
use crate::hello::{Hello, Purpose};
use crate::peer::Peer;
use crate::pipe::queues;
use crate::pods::{PodChannel, PodSession};
use crate::remote::Remote;
use crate::session::{Session, SessionEnd};
use crate::shared::Shared;
use std::sync::Arc;

/// Begins a session on its control connection. The future runs it until it ends.
pub(crate) fn begin(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    channel: Channel,
    hello: &Hello,
    id: [u8; 16],
) -> (Arc<Session>, impl Future<Output = SessionEnd> + Send + use<>) {
    let (pipe, outgoing, mut incoming) = queues();
    let session = Session::new(id, Remote::new(&channel, hello), outgoing);
    peer.begin(session.clone());
    let (shared, peer, running) = (shared.clone(), peer.clone(), session.clone());
    let run = async move {
        let session = running;
        let own_hello = || shared.hello(Purpose::Control, session.id);
        let (naming, named) = (shared.clone(), peer.clone());
        let renamed = move |name: &str| {
            if named.name() != name {
                let (naming, named, name) = (naming.clone(), named.clone(), name.to_owned());
                tokio::task::spawn_blocking(move || naming.rename(&named, &name));
            }
        };
        let end = tokio::select! {
            end = session.ended() => end,
            end = control::talk(&peer, &session, &mut incoming, &own_hello, &renamed) => end,
            error = pipe.run(channel, peer.distance.subscribe(), peer.traffic.clone()) => {
                // A last message, such as the end of the connection, may still be in the queue.
                match control::talk(&peer, &session, &mut incoming, &own_hello, &renamed).await {
                    SessionEnd::Removed => SessionEnd::Removed,
                    _ => SessionEnd::Lost(error.to_string()),
                }
            }
        };
        session.end(end.clone());
        // The data connection may have had a reason before.
        let end = if end == SessionEnd::Removed { end } else { session.ended().await };
        peer.finish(&session, &end);
        if end == SessionEnd::Removed {
            let (removing, removed) = (shared.clone(), peer.clone());
            match tokio::task::spawn_blocking(move || removing.remove(&removed)).await {
                Ok(Err(error)) => tracing::error!(array = peer.name(), "connection not removed: {error}"),
                _ => tracing::warn!(array = peer.name(), "connection removed by an administrator of the other array"),
            }
        }
        end
    };
    (session, run)
}

/// Runs the data connection of a session until the session ends. Its end ends the session. Returns
/// false if the session has a data connection already.
pub(crate) async fn carry_data(shared: Arc<Shared>, peer: Arc<Peer>, session: Arc<Session>, channel: Channel) -> bool {
    let (pipe, outgoing, mut incoming) = queues();
    let data = DataConnection::new(outgoing, &session.remote);
    if !session.attach(data.clone()) {
        return false;
    }
    tracing::info!(array = peer.name(), remote = %channel.remote, "link established");
    let of_pods = PodSession::new(&peer.record().array, session.clone(), data.clone());
    let pods = PodChannel::begin(of_pods, shared.pod_receiver.get().cloned());
    // The session has its reason before the connection closes: the other array closes its own then,
    // which would be the reason otherwise.
    let talking = async {
        let reason = data.talk(&mut incoming, &pods).await;
        session.end(SessionEnd::Lost(reason));
    };
    tokio::select! {
        _ = session.ended() => {}
        () = talking => {}
        error = pipe.run(channel, peer.distance.subscribe(), peer.traffic.clone()) => {
            session.end(SessionEnd::Lost(error.to_string()));
        }
    }
    true
}
