//! `ibid pod evacuate`: hands all pods over to the other arrays, so that this one can be stopped;
//! and the losses of a forced promotion.

use super::StretchedPods;
use catalog::{Pod, PodStretch};
use platform::clock;
use pod::{Request, Role};
use pods::{PodStatus, Pods};
use rest::{PodEvacuation, PodEvacuationResult};
use std::sync::Arc;
use std::time::Duration;
use types::{StreamId, utc_time};

/// Time for a pod to be served by the other array.
const HAND_OVER: Duration = Duration::from_secs(10);
/// Time for it to be in step again, so that this array can be stopped.
const IN_STEP: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

impl StretchedPods {
    /// Hands pods over, or says what that would do. One that cannot be handed over does not stop
    /// the others. Blocks.
    pub(super) fn evacuate_pods(&self, is_made: bool) -> Vec<PodEvacuation> {
        let state = self.catalog.state();
        let Some(pods) = self.pods() else { return Vec::new() };
        let stretched: Vec<_> = state.stretched_pods().cloned().collect();
        let mut begun = Vec::new();
        for pod in stretched {
            let Some(stretch) = pod.stretch.clone() else { continue };
            let found = judged(&pods, &stretch);
            let asked = match found {
                Err(reason) => Err(reason),
                Ok(result) if !is_made || result == PodEvacuationResult::NotNeeded => Ok(result),
                Ok(result) => {
                    pods.request(stretch.stream(), Request::Resign).map(|()| result).map_err(|error| error.to_string())
                }
            };
            begun.push((pod, stretch, asked));
        }
        begun.into_iter().map(|(pod, stretch, asked)| self.evacuated(&pods, &pod, &stretch, asked, is_made)).collect()
    }

    fn evacuated(
        &self,
        pods: &Arc<Pods>,
        pod: &Pod,
        stretch: &PodStretch,
        asked: Result<PodEvacuationResult, String>,
        is_made: bool,
    ) -> PodEvacuation {
        let peer = &stretch.peer.name;
        let waited = match asked {
            Ok(PodEvacuationResult::HandedOver) if is_made => handed_over(pods, stretch.stream(), peer),
            other => other,
        };
        let (result, message) = match waited {
            Ok(PodEvacuationResult::HandedOver) if is_made => {
                (PodEvacuationResult::HandedOver, format!("{peer} orders its changes, and both arrays serve it"))
            }
            Ok(PodEvacuationResult::HandedOver) => {
                (PodEvacuationResult::HandedOver, format!("{peer} would take it over"))
            }
            Ok(result) => (result, format!("{peer} serves it already")),
            Err(reason) => (PodEvacuationResult::Refused, reason),
        };
        PodEvacuation { pod: pod.name.clone(), result, message }
    }

    /// Returns the changes that a forced promotion may lose, in sentences.
    pub(super) fn risk_of(status: &PodStatus, stretch: &PodStretch) -> String {
        let peer = &stretch.peer.name;
        let since = utc_time(status.since_ms.max(stretch.since_ms));
        let content = match status.role {
            _ if status.is_hurt => {
                "This array has lost changes that were acknowledged: its log was damaged, or it was put back to an image."
                    .to_owned()
            }
            Role::Sync | Role::Lost => {
                format!("This array has everything that was acknowledged until it lost {peer}, at {since}.")
            }
            Role::Target if status.is_whole => {
                format!("This array has everything that {peer} had sent when it was lost, and that was all of its content.")
            }
            Role::Target => format!("This array has received a part of the content of {peer}; the rest is missing."),
            Role::Diverged => {
                format!("This array has what its own hosts have written; what hosts have written at {peer} only is lost.")
            }
            _ => "The content of this array may lack acknowledged changes.".to_owned(),
        };
        format!(
            "{content} If {peer} serves the pod, or has served it since, its changes are lost, and hosts that use both \
             arrays see two different contents. Make sure that {peer} does not serve."
        )
    }

    /// Returns the losses of a removal of a pod from this array, in sentences, if it is allowed.
    pub(super) fn risk_of_removal(status: &PodStatus, stretch: &PodStretch) -> Result<String, String> {
        let peer = &stretch.peer.name;
        if status.is_in_step || status.is_alone {
            return Err(format!("this array serves it; `ibid pod unstretch` removes it from {peer}"));
        }
        if status.has_session && !status.is_peer_without {
            return Err(format!("{peer} still has it: run `ibid pod unstretch` there"));
        }
        let known = match status.is_peer_without {
            true => format!("{peer} is connected, and says that this pod is not on two arrays any more."),
            false => format!(
                "{peer} is not connected, so this array cannot know whether it has the pod. If it does not, the last copy \
                 is lost."
            ),
        };
        let content = match status.role {
            Role::Diverged => "This array has changes that no other has.",
            Role::Sync if !status.is_hurt => "This array may have the newest content.",
            _ => "The content of this array is not the newest.",
        };
        Ok(format!(
            "{known} {content} The volumes of the pod, their snapshots and connections are removed from this array."
        ))
    }
}

/// Judges whether a pod can be handed over.
fn judged(pods: &Pods, stretch: &PodStretch) -> Result<PodEvacuationResult, String> {
    let peer = &stretch.peer.name;
    let status = pods.status(stretch.stream()).ok_or("the pod is not served by this array; its log has the reason")?;
    match status.role {
        Role::Sync if status.is_in_step && status.is_peer_full => {
            Err(format!("{peer} has too little free space for it"))
        }
        Role::Sync if status.is_in_step && status.is_sequencer => Ok(PodEvacuationResult::HandedOver),
        Role::Sync if status.is_in_step => Ok(PodEvacuationResult::NotNeeded),
        Role::Solo if status.is_alone => {
            Err(format!("this array serves it alone: {peer} lacks content, and would not serve; wait until both do"))
        }
        Role::Lost | Role::Target => Ok(PodEvacuationResult::NotNeeded),
        Role::Local | Role::Left => Ok(PodEvacuationResult::NotNeeded),
        _ => Err("nothing is decided about it; `ibid pod why` says what it waits for".to_owned()),
    }
}

/// Waits until the other array orders the changes of a pod, and both serve.
fn handed_over(pods: &Pods, stream: StreamId, peer: &str) -> Result<PodEvacuationResult, String> {
    let status = || pods.status(stream);
    let orders = |status: &PodStatus| status.is_sequencer && status.is_in_step;
    let until = clock::lease_time() + HAND_OVER;
    while status().as_ref().is_some_and(orders) {
        if clock::lease_time() > until {
            return Err(format!("{peer} has not taken it over in time"));
        }
        clock::sleep(LOOK);
    }
    let until = clock::lease_time() + IN_STEP;
    while status().is_some_and(|status| !status.is_in_step) {
        if clock::lease_time() > until {
            return Err(format!("{peer} serves it, and has not brought this array into step in time"));
        }
        clock::sleep(LOOK);
    }
    match status() {
        Some(status) if status.is_sequencer => Err("this array orders its changes again".to_owned()),
        _ => Ok(PodEvacuationResult::HandedOver),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::PodPeer;

    fn stretch() -> PodStretch {
        let peer = serde_json::json!({"id": "b", "name": "beta"});
        let peer: PodPeer = serde_json::from_value(peer).unwrap();
        serde_json::from_value(serde_json::json!({"stream": 5, "next_content": 1, "peer": peer, "since_ms": 0}))
            .unwrap()
    }

    fn status(role: Role) -> PodStatus {
        PodStatus { role, since_ms: 1000, ..PodStatus::default() }
    }

    #[test]
    fn risk_of_a_promotion_states_the_content_first() {
        let risk = |status: &PodStatus| StretchedPods::risk_of(status, &stretch());
        let lost = risk(&status(Role::Lost));
        assert!(lost.starts_with(
            "This array has everything that was acknowledged until it lost beta, at 1970-01-01T00:00:01Z."
        ));
        let hurt = PodStatus { is_hurt: true, ..status(Role::Lost) };
        assert!(risk(&hurt).starts_with("This array has lost changes that were acknowledged"), "{}", risk(&hurt));
        let whole = PodStatus { is_whole: true, ..status(Role::Target) };
        assert!(risk(&whole).contains("all of its content") && risk(&status(Role::Target)).contains("a part of"));
    }

    #[test]
    fn pod_is_removed_only_where_it_is_not_served() {
        let risk = |status: &PodStatus| StretchedPods::risk_of_removal(status, &stretch());
        let with = |edit: fn(&mut PodStatus)| {
            let mut status = status(Role::Lost);
            edit(&mut status);
            risk(&status)
        };
        assert!(with(|status| status.is_in_step = true).is_err() && with(|status| status.is_alone = true).is_err());
        assert!(with(|status| status.has_session = true).unwrap_err().contains("beta still has it"));
        let known = with(|status| (status.has_session, status.is_peer_without) = (true, true)).unwrap();
        assert!(known.starts_with("beta is connected, and says"), "{known}");
        assert!(with(|_| ()).unwrap().contains("the last copy is lost"));
    }
}
