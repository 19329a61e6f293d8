//! Requests of administrators about pods on two arrays, and the view of them.

use super::{StretchedPods, now_ms, registers};
use catalog::{Pod, PodMediator, PodPeer, PodStretch};
use link::{LinkConnection, LinkStatus};
use platform::clock;
use pod::{Alert, Request, Role, WaitsFor};
use pods::{PodError, PodStatus, Pods};
use rest::{
    MediatorState, PodArrayView, PodCheckLine, PodControl, PodControlError, PodEvacuation, PodEvent, PodFlow, PodPart,
    PodState, PodTieRule, PodVerificationView, PodView, PodWait, PodWaitEvent,
};
use std::sync::Arc;
use std::time::Duration;

/// Time for both arrays to agree that a mediator decides no more.
const LEAVE: Duration = Duration::from_secs(15);
/// Time for a mediator to say its name.
const IDENTIFY: Duration = Duration::from_secs(5);

fn refused(reason: impl Into<String>) -> PodControlError {
    PodControlError::Refused(reason.into())
}

fn of_pod(error: PodError) -> PodControlError {
    match error {
        PodError::Unknown => PodControlError::NotStretched,
        PodError::Refused(reason) => refused(reason),
        PodError::Failed(reason) => PodControlError::System(reason),
    }
}

/// As [`of_pod`], of a request whose failures are reasons that an administrator can remove.
fn in_words(error: PodError) -> PodControlError {
    match error {
        PodError::Failed(reason) => refused(reason),
        error => of_pod(error),
    }
}

fn of_catalog(error: catalog::CatalogError) -> PodControlError {
    refused(error.to_string())
}

impl StretchedPods {
    pub(super) fn running(&self) -> Result<Arc<Pods>, PodControlError> {
        self.pods().ok_or_else(|| PodControlError::System("the array is starting or stopping".to_owned()))
    }

    fn link_named(&self, name: &str) -> Result<LinkConnection, PodControlError> {
        self.links.connection(name).map_err(|_| {
            refused(format!("there is no connection to an array {name}; `ibid array connections` lists them"))
        })
    }

    fn request(&self, pod: &Pod, request: Request) -> Result<(), PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        self.running()?.request(stretch.stream(), request).map_err(of_pod)
    }

    /// Asks a mediator for its certificate and instance, which the pod then knows.
    pub(super) fn identify(&self, address: &str) -> Result<PodMediator, PodControlError> {
        let identified =
            async { tokio::time::timeout(IDENTIFY, registers::identify(address, self.links.identity())).await };
        match tokio::runtime::Handle::current().block_on(identified) {
            Ok(found) => found.map_err(refused),
            Err(_) => Err(refused(format!("the mediator {address} does not answer"))),
        }
    }

    /// Checks that two arrays can have the reservations of the pod's volumes. All are asked, so
    /// that their persistent reservations are stored for both arrays.
    fn check_reservations(&self, pod: &Pod) -> Result<(), PodControlError> {
        let target = self.target.lock();
        let Some(target) = target.as_ref() else { return Ok(()) };
        let state = self.catalog.state();
        let alone: Vec<_> = state.volumes_of_pod(pod).filter(|volume| !(target.can_share)(volume.id)).collect();
        match alone.first() {
            None => Ok(()),
            Some(volume) => Err(refused(format!(
                "a host holds volume {} by RESERVE(6), which two arrays do not share, or more nexuses are registered there \
                 than two arrays can have; release it there first",
                volume.name
            ))),
        }
    }

    /// Ends the use of a mediator, and waits until it decides no more: the register at another one
    /// knows nothing of the epochs of before.
    fn leave_mediator(&self, pod: &Pod) -> Result<(), PodControlError> {
        let changed = self.catalog.change(|draft| draft.set_pod_mediator(&pod.name, None)).map_err(of_catalog)?;
        self.take_settings(&changed)?;
        let (pods, stretch) = (self.running()?, changed.stretch.as_ref().ok_or(PodControlError::NotStretched)?);
        let until = clock::lease_time() + LEAVE;
        let decides = |status: PodStatus| status.is_in_step && (status.only.is_none() || !status.is_rule_in_force);
        while pods.status(stretch.stream()).is_some_and(decides) {
            if clock::lease_time() > until {
                return Err(refused(format!(
                    "it has no mediator now, and the arrays have not agreed on that in time; `ibid pod why {}` says \
                     what they wait for, then set the mediator again",
                    pod.name
                )));
            }
            clock::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn take_settings(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.apply_settings(pod).map_err(PodControlError::System)?;
        if let Some(stretch) = &pod.stretch {
            self.running()?.describe(stretch.stream());
        }
        Ok(())
    }
}

impl PodControl for StretchedPods {
    fn view(&self, pod: &Pod) -> Option<PodView> {
        let stretch = pod.stretch.as_ref()?;
        let status = self.pods()?.status(stretch.stream()).unwrap_or_default();
        let link = self.links.connections().into_iter().find(|link| link.array == stretch.peer.id);
        let refusal = self.refusals.lock().get(&stretch.stream()).cloned();
        let own = self.catalog.array();
        let different = self.pods()?.difference(stretch.stream());
        let view = view(&(own.id.clone(), own.name.clone()), stretch, &status, link.as_ref(), refusal);
        let is_promotable =
            matches!(view.state, PodState::Paused | PodState::Lost | PodState::Hurt | PodState::Diverged);
        let copied = self.pods()?.copied(stretch.stream());
        let risk = is_promotable.then(|| Self::risk_of(&status, stretch));
        let forgettable = status.is_peer_without && !status.is_in_step && !status.is_alone;
        Some(PodView { different, risk, is_forgettable: forgettable, copied: (copied.copied, copied.crossed), ..view })
    }

    fn stretch(&self, pod: &Pod, array: &str, mediator: Option<&str>) -> Result<(), PodControlError> {
        let link = self.link_named(array)?;
        if link.status != LinkStatus::Connected {
            let problem = link.problem.unwrap_or_else(|| "the link is being made".to_owned());
            return Err(refused(format!("array {array} is not reachable: {problem}")));
        }
        self.check_reservations(pod)?;
        let mediator = mediator.map(|address| self.identify(address)).transpose()?;
        let system = |error: std::io::Error| PodControlError::System(error.to_string());
        let number = u32::from_le_bytes(platform::random::bytes().map_err(system)?) >> 1;
        let register = types::hex::encode(&platform::random::bytes::<16>().map_err(system)?);
        let peer = PodPeer { id: link.array, name: link.name };
        let name = pod.name.clone();
        let stretched = self.catalog.change(|draft| {
            draft.stretch_pod(&name, number.max(1), peer, now_ms())?;
            draft.set_pod_register(&name, &register)?;
            draft.set_pod_mediator(&name, mediator)
        });
        let stretched = stretched.map_err(of_catalog)?;
        let started = self.config_of(&stretched).map_err(PodControlError::System);
        let started = started.and_then(|config| self.running()?.start(config).map_err(of_pod));
        if started.is_err() {
            // The pod has no stream: it is as it was, but for the ids of its content.
            let undone = self.catalog.change(|draft| draft.unstretch_pod(&name).map(|_| ()));
            undone.err().iter().for_each(|error| tracing::error!(pod = name, "not undone: {error}"));
        }
        started
    }

    fn unstretch(&self, pod: &Pod, array: &str) -> Result<(), PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        if !array.eq_ignore_ascii_case(&stretch.peer.name) {
            return Err(refused(format!("the other array of the pod is {}", stretch.peer.name)));
        }
        let (pods, stream) = (self.running()?, stretch.stream());
        let status = pods.status(stream).unwrap_or_default();
        let is_connected = self.links.connections().iter().any(|link| link.array == stretch.peer.id);
        let is_refused = self.refusals.lock().contains_key(&stream);
        if status.role == Role::Solo && (is_refused || !is_connected) {
            return pods.abandon(stream).map_err(of_pod);
        }
        if status.role == Role::Solo {
            return Err(refused(format!(
                "{array} is not in step; wait for it, or remove the connection with `ibid array disconnect {array}` if \
                 it is gone for good"
            )));
        }
        if !status.is_sequencer {
            return Err(refused(format!("{array} orders its changes now: remove the other array there")));
        }
        pods.request(stream, Request::Unstretch).map_err(of_pod)
    }

    fn prefer(&self, pod: &Pod, array: &str) -> Result<(), PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        let is_peer = array.eq_ignore_ascii_case(&stretch.peer.name);
        if !is_peer && !array.eq_ignore_ascii_case(&self.catalog.array().name) {
            return Err(refused(format!("array {array} has no part in the pod")));
        }
        let changed = self.catalog.change(|draft| draft.set_pod_preference(&pod.name, is_peer)).map_err(of_catalog)?;
        self.take_settings(&changed)
    }

    fn set_mediator(&self, pod: &Pod, mediator: Option<&str>) -> Result<(), PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        let status = self.running()?.status(stretch.stream()).unwrap_or_default();
        if status.role == Role::Sync && !status.is_in_step {
            // An earlier mediator could decide for one array, and this one for the other.
            let hint = format!("`ibid pod why {}` says for what it waits", pod.name);
            return Err(refused(format!("it is paused, and the other array cannot agree to another mediator; {hint}")));
        }
        let mediator = mediator.map(|address| self.identify(address)).transpose()?;
        if stretch.mediator.is_some() && mediator.is_some() && mediator != stretch.mediator {
            self.leave_mediator(pod)?;
        }
        let changed = self.catalog.change(|draft| draft.set_pod_mediator(&pod.name, mediator)).map_err(of_catalog)?;
        self.take_settings(&changed)
    }

    fn risk_of_promotion(&self, pod: &Pod) -> Result<String, PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        let status = self.running()?.status(stretch.stream()).ok_or(PodControlError::NotStretched)?;
        if status.is_in_step || status.is_alone {
            return Err(refused("this array serves it"));
        }
        if status.role == Role::Target && !status.is_whole {
            let peer = &stretch.peer.name;
            return Err(refused(format!("its content here is a mixture: a part of that of {peer} has arrived")));
        }
        Ok(Self::risk_of(&status, stretch))
    }

    fn promote(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, Request::Force)
    }

    fn discard(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, Request::Discard)
    }

    fn resign(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, Request::Resign)
    }

    fn check(
        &self,
        pod: &Pod,
        array: Option<&str>,
        mediator: Option<&str>,
    ) -> Result<Vec<PodCheckLine>, PodControlError> {
        self.check_pod(pod, array, mediator)
    }

    fn evacuate(&self, is_made: bool) -> Vec<PodEvacuation> {
        self.evacuate_pods(is_made)
    }

    fn risk_of_forgetting(&self, pod: &Pod) -> Result<String, PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        let status = self.running()?.status(stretch.stream()).ok_or(PodControlError::NotStretched)?;
        Self::risk_of_removal(&status, stretch).map_err(refused)
    }

    fn forget(&self, pod: &Pod) -> Result<(), PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        self.running()?.forget_pod(stretch.stream()).map_err(in_words)
    }

    fn verify(&self, pod: &Pod) -> Result<(), PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        self.running()?.verify(stretch.stream()).map_err(in_words)
    }

    fn stop_verify(&self, pod: &Pod) -> Result<(), PodControlError> {
        let stretch = pod.stretch.as_ref().ok_or(PodControlError::NotStretched)?;
        self.running()?.stop_verify(stretch.stream()).map_err(in_words)
    }

    fn verification(&self, pod: &Pod) -> Option<PodVerificationView> {
        let status = self.pods()?.verification(pod.stretch.as_ref()?.stream())?;
        Some(self.verification_view(pod, status))
    }
}

fn flow_of(status: &PodStatus) -> Option<PodFlow> {
    status.flow.map(|flow| PodFlow {
        unheard: flow.position.saturating_sub(flow.heard),
        room: flow.room,
        latency_us: flow.latency.map(|(own, peer)| (micros(own), micros(peer))),
    })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn state_of(status: &PodStatus) -> PodState {
    match status.role {
        _ if status.is_hurt => PodState::Hurt,
        Role::Sync if status.is_in_step => PodState::Sync,
        Role::Solo if status.resync.is_some() => PodState::Resync,
        Role::Solo if status.is_alone => PodState::Solo,
        Role::Sync | Role::Solo => PodState::Paused,
        Role::Target => PodState::Target,
        Role::Lost => PodState::Lost,
        Role::Diverged => PodState::Diverged,
        Role::Local | Role::Left => PodState::Leaving,
    }
}

fn parts_of(state: PodState) -> (PodPart, PodPart) {
    match state {
        PodState::Sync => (PodPart::Online, PodPart::Online),
        PodState::Paused => (PodPart::Unknown, PodPart::Unknown),
        PodState::Solo => (PodPart::Online, PodPart::Offline),
        PodState::Resync => (PodPart::Online, PodPart::Resyncing),
        PodState::Target => (PodPart::Resyncing, PodPart::Online),
        PodState::Lost | PodState::Hurt | PodState::Diverged => (PodPart::Offline, PodPart::Unknown),
        PodState::Leaving => (PodPart::Online, PodPart::Offline),
    }
}

fn view(
    (id, name): &(String, String),
    stretch: &PodStretch,
    status: &PodStatus,
    link: Option<&LinkConnection>,
    refusal: Option<String>,
) -> PodView {
    let state = state_of(status);
    let (own, peer) = parts_of(state);
    let is_sequencer = status.is_sequencer && matches!(status.role, Role::Sync | Role::Solo);
    let ago = |time: Duration| now_ms().saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let progress = status.resync.and_then(|(sent, total)| (total > 0).then(|| (sent as f64 / total as f64).min(1.0)));
    let mediator = match (&stretch.mediator, &status.mediator_problem) {
        (None, _) => MediatorState::Unknown,
        (Some(_), None) => MediatorState::Online,
        (Some(_), Some(_)) => MediatorState::Unreachable,
    };
    let this = PodArrayView {
        id: id.clone(),
        name: name.clone(),
        is_this: true,
        status: own,
        is_sequencer,
        mediator,
        progress: None,
        frozen_at: None,
        is_full: status.is_full,
    };
    let other = PodArrayView {
        id: stretch.peer.id.clone(),
        name: stretch.peer.name.clone(),
        is_this: false,
        status: peer,
        is_sequencer: !is_sequencer,
        mediator: MediatorState::Unknown,
        progress,
        frozen_at: None,
        is_full: status.is_peer_full,
    };
    PodView {
        state,
        since_ms: status.since_ms.max(stretch.since_ms),
        arrays: vec![this, other],
        tie_rule: match status.only {
            None => PodTieRule::Mediator,
            Some(true) => PodTieRule::Only(name.clone()),
            Some(false) => PodTieRule::Only(stretch.peer.name.clone()),
        },
        is_rule_in_force: status.is_rule_in_force,
        preferred: if stretch.prefers_peer { stretch.peer.name.clone() } else { name.clone() },
        mediator: stretch.mediator.as_ref().map(|mediator| mediator.address.clone()),
        mediator_problem: status.mediator_problem.clone(),
        waits_for: status.waits_for.and_then(|(event, time)| {
            let event = if status.is_full { PodWaitEvent::Room } else { event_of(event)? };
            Some(PodWait { event, since_ms: ago(time) })
        }),
        refusal,
        rtt_us: link.and_then(|link| link.rtt).and_then(|rtt| u64::try_from(rtt.median.as_micros()).ok()),
        is_distance_simulated: link.is_some_and(|link| !link.distance.is_none()),
        behind_bytes: status.resync.map(|(sent, total)| total.saturating_sub(sent)),
        seconds_left: status.resync_left.map(|left| left.as_secs()),
        waiting_commands: status.waiting as u64,
        copied: (0, 0),
        flow: flow_of(status),
        different: None,
        risk: None,
        is_forgettable: false,
        events: status.alerts.iter().map(|(at, alert)| (*at, shown(*alert))).collect(),
    }
}

fn event_of(waits_for: WaitsFor) -> Option<PodWaitEvent> {
    Some(match waits_for {
        WaitsFor::Peer => PodWaitEvent::Peer,
        WaitsFor::PeerThatMayContinue => PodWaitEvent::PeerThatMayContinue,
        WaitsFor::PeerState => PodWaitEvent::PeerState,
        WaitsFor::PeerYields => PodWaitEvent::PeerYields,
        WaitsFor::Mediator => PodWaitEvent::Mediator,
        WaitsFor::LeaseEnd(_) => PodWaitEvent::LeaseEnd,
        WaitsFor::Commit => PodWaitEvent::Commit,
        WaitsFor::RuleInForce => PodWaitEvent::RuleInForce,
        WaitsFor::Mask => PodWaitEvent::Mask,
        WaitsFor::Resync => PodWaitEvent::Resync,
        WaitsFor::PeerRoom => PodWaitEvent::PeerRoom,
        WaitsFor::Owner => PodWaitEvent::Owner,
        WaitsFor::Person => PodWaitEvent::Administrator,
        WaitsFor::Nothing => return None,
    })
}

fn shown(alert: Alert) -> PodEvent {
    match alert {
        Alert::PeerSilent => PodEvent::PeerSilent,
        Alert::Alone => PodEvent::Alone,
        Alert::Yielded => PodEvent::Yielded,
        Alert::InStep => PodEvent::InStep,
        Alert::PeerLostLog => PodEvent::PeerLostLog,
        Alert::MediatorLost => PodEvent::MediatorLost,
        Alert::MediatorBack => PodEvent::MediatorBack,
        Alert::PersonDecides => PodEvent::AdministratorDecides,
        Alert::Diverged => PodEvent::Diverged,
        Alert::RegisterDisagrees => PodEvent::RegisterDisagrees,
    }
}
