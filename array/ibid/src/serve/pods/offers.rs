//! Descriptions of pods that two arrays exchange: at the begin of each session of their link, and
//! after a change of settings.

use super::{PeerPorts, StretchedPods, check, functions, now_ms, reservations};
use bytes::Bytes;
use catalog::{PodImage, PodMediator, PodPeer};
use pods::{Offers, PodConfig};
use serde::{Deserialize, Serialize};
use types::StreamId;

/// The description of a pod.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Offer {
    /// Number of the sender, for its port group.
    number: u8,
    /// Number of iSCSI portals of the sender.
    portals: u16,
    /// The pod was on the sender when it was stretched: an array that does not know it takes part.
    is_origin: bool,
    /// Key of the register.
    register: String,
    /// Number of the last change of settings.
    settings: u64,
    mediator: Option<PodMediator>,
    /// The sender prefers the receiver.
    prefers_receiver: bool,
    /// The objects.
    image: PodImage,
}

impl StretchedPods {
    fn take_peer(&self, stream: StreamId, offer: &Offer) {
        let ports = PeerPorts { number: offer.number, portals: offer.portals };
        self.peers.write().insert(stream, ports);
    }

    fn peer_named(&self, array: &str) -> Result<PodPeer, String> {
        let connections = self.links.connections();
        let link = connections.into_iter().find(|link| link.array == array);
        let link = link.ok_or("the arrays are not connected")?;
        Ok(PodPeer { id: link.array, name: link.name })
    }
}

fn parse(stream: StreamId, offer: &[u8]) -> Result<Offer, String> {
    let offer: Offer = serde_json::from_slice(offer).map_err(|error| format!("a malformed description: {error}"))?;
    match offer.image.stream == stream.number() {
        true => Ok(offer),
        false => Err("a description of another pod".to_owned()),
    }
}

impl Offers for StretchedPods {
    fn adopt(&self, stream: StreamId, array: &str, offer: &[u8]) -> Result<PodConfig, String> {
        let offer = parse(stream, offer)?;
        if !offer.is_origin {
            return Err("this array has left the pod".to_owned());
        }
        if offer.number == self.catalog.array().number {
            return Err(format!(
                "both arrays have the number {}; start one of them with another --number when it is created",
                offer.number
            ));
        }
        self.take_peer(stream, &offer);
        let peer = self.peer_named(array)?;
        let name = offer.image.name.clone();
        let adopted = self.catalog.change(|draft| {
            draft.adopt_pod(&offer.image, peer, now_ms())?;
            draft.set_pod_register(&name, &offer.register)?;
            draft.follow_pod_settings(&name, offer.settings, offer.mediator.clone(), !offer.prefers_receiver)
        });
        let pod = adopted.map_err(|error| error.to_string())?;
        tracing::info!(pod = pod.name, array, "this array takes part in a pod");
        self.config_of(&pod)
    }

    fn offer(&self, stream: StreamId) -> Option<Bytes> {
        let pod = self.find(stream)?;
        let (stretch, array) = (pod.stretch.as_ref()?, self.catalog.array());
        let offer = Offer {
            number: array.number,
            portals: self.portals,
            is_origin: stretch.is_origin,
            register: stretch.register.clone(),
            settings: stretch.settings,
            mediator: stretch.mediator.clone(),
            prefers_receiver: stretch.prefers_peer,
            image: self.catalog.state().pod_image(&pod),
        };
        serde_json::to_vec(&offer).ok().map(Bytes::from)
    }

    fn described(&self, stream: StreamId, offer: &[u8]) {
        let Ok(offer) = parse(stream, offer) else { return };
        let Some(pod) = self.find(stream) else { return };
        let Some(stretch) = pod.stretch.as_ref() else { return };
        self.take_peer(stream, &offer);
        self.refusals.lock().remove(&stream);
        if offer.settings <= stretch.settings {
            return;
        }
        let followed = self.catalog.change(|draft| {
            draft.follow_pod_settings(&pod.name, offer.settings, offer.mediator.clone(), !offer.prefers_receiver)
        });
        let applied = followed.map_err(|error| error.to_string()).and_then(|pod| self.apply_settings(&pod));
        if let Err(error) = applied {
            tracing::error!(pod = pod.name, "the settings of the other array do not count here: {error}");
        }
    }

    fn asked(&self, array: &str, question: &[u8]) -> Vec<u8> {
        functions::answer(self, array, question)
            .or_else(|| reservations::answer(self, array, question))
            .unwrap_or_else(|| check::answer(self, array, question))
    }

    fn refused(&self, stream: StreamId, reason: &str) {
        if let Some(pod) = self.find(stream) {
            tracing::warn!(pod = pod.name, "the other array does not take part: {reason}");
            self.refusals.lock().insert(stream, reason.to_owned());
        }
    }
}
