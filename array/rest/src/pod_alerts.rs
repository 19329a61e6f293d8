//! Alerts about pods that two arrays serve.

use crate::alert_condition::{Code, Condition};
use crate::pod_control::{MediatorState, PodEvent, PodState, PodView, PodWaitEvent};
use crate::pod_words::{names, this_array, wait_words};
use catalog::Pod;

/// Time in a state until its alert, in milliseconds. A restart of an array takes less.
const GRACE_MS: u64 = 3000;

/// Returns the conditions of a pod that need an administrator.
pub(crate) fn pod_conditions(pod: &Pod, view: &PodView, now_ms: u64) -> Vec<Condition> {
    let found = [
        alone(pod, view, now_ms),
        not_served(pod, view, now_ms),
        mediator_lost(pod, view),
        refused(pod, view),
        full_resync(pod, view),
        diverged(pod, view),
        full(pod, view),
        different(pod, view),
    ];
    found.into_iter().flatten().collect()
}

fn condition(pod: &Pod, code: Code, severity: &'static str, summary: String) -> Condition {
    Condition {
        code,
        component: pod.name.clone(),
        severity,
        summary,
        description: "Run `ibid pod why POD` on both arrays.",
        actual: None,
        expected: None,
        since: None,
    }
}

/// This array serves alone.
fn alone(pod: &Pod, view: &PodView, now_ms: u64) -> Option<Condition> {
    let is_alone = view.state == PodState::Solo && now_ms.saturating_sub(view.since_ms) >= GRACE_MS;
    let (this, peer) = names(view);
    is_alone.then(|| Condition {
        description: "A loss of this array stops the pod. Check that the other array runs and that the link is up (ibid \
                      array connections); it is brought into step by itself.",
        since: Some(view.since_ms),
        ..condition(pod, Code::PodAlone, "warning", format!("pod {} is served by {this} alone, without {peer}", pod.name))
    })
}

/// This array does not serve, and it is not about to by itself.
fn not_served(pod: &Pod, view: &PodView, now_ms: u64) -> Option<Condition> {
    let (this, peer) = names(view);
    let is_decided = view.waits_for.is_some_and(|wait| wait.event == PodWaitEvent::Administrator);
    let (severity, cause) = match view.state {
        PodState::Paused => ("critical", "it is paused".to_owned()),
        PodState::Hurt => ("critical", format!("{this} has lost changes")),
        PodState::Lost if is_decided => ("critical", format!("it has yielded to {peer}")),
        PodState::Lost => ("warning", format!("it has yielded to {peer}")),
        _ => return None,
    };
    if now_ms.saturating_sub(view.since_ms) < GRACE_MS {
        return None;
    }
    let wait = view.waits_for.map(|wait| format!("; it waits for {}", wait_words(view, &pod.name, wait).0));
    let summary = format!("pod {} is not served by {this}: {cause}{}", pod.name, wait.unwrap_or_default());
    Some(Condition {
        description: "Commands of hosts at this array wait or fail. `ibid pod why POD` says what ends it. If the other array is \
                      lost for good, `ibid pod promote POD --force` serves the pod here.",
        since: Some(view.since_ms),
        ..condition(pod, Code::PodNotServed, severity, summary)
    })
}

/// The mediator does not answer this array.
fn mediator_lost(pod: &Pod, view: &PodView) -> Option<Condition> {
    let mediator = view.mediator.as_ref()?;
    let is_lost = this_array(view).is_some_and(|array| array.mediator == MediatorState::Unreachable);
    if !is_lost && view.mediator_problem.is_none() {
        return None;
    }
    let problem = view.mediator_problem.as_deref().unwrap_or("no answer");
    let lost = |event| matches!(event, PodEvent::MediatorLost);
    let since = view.events.iter().rev().find(|(_, event)| lost(*event)).map(|(at_ms, _)| *at_ms);
    Some(Condition {
        description: "Until it is back, only the array that the tie rule names continues if the arrays lose each other. Check the mediator and \
                      the network to it (ibid mediator check), or choose another one (ibid pod mediator).",
        since,
        ..condition(
            pod,
            Code::PodMediatorLost,
            "warning",
            format!("mediator {mediator} of pod {} does not answer: {problem}", pod.name),
        )
    })
}

/// The other array does not take part.
fn refused(pod: &Pod, view: &PodView) -> Option<Condition> {
    let refusal = view.refusal.as_ref()?;
    let summary = format!("{} does not take part in pod {}: {refusal}", names(view).1, pod.name);
    Some(Condition {
        description: "The pod is on this array alone until the cause is removed there; it is offered again with the next \
                      session. `ibid pod unstretch` ends it.",
        ..condition(pod, Code::PodRefused, "warning", summary)
    })
}

/// The other array gets all content because its own is not known to be in order.
fn full_resync(pod: &Pod, view: &PodView) -> Option<Condition> {
    let decides = |event| matches!(event, PodEvent::PeerLostLog | PodEvent::InStep);
    let (since, newest) = *view.events.iter().rev().find(|(_, event)| decides(*event))?;
    let is_full = newest == PodEvent::PeerLostLog && matches!(view.state, PodState::Solo | PodState::Resync);
    let peer = names(view).1;
    is_full.then(|| Condition {
        description: "Its log was damaged, or it is not the array that had the pod. If it was not replaced or restored, check \
                      its drive. It is in step when all content has arrived.",
        since: Some(since),
        ..condition(
            pod,
            Code::PodFullResync,
            "warning",
            format!("{peer} has lost a part of its log and gets all content of pod {}", pod.name),
        )
    })
}

/// Both arrays have served.
fn diverged(pod: &Pod, view: &PodView) -> Option<Condition> {
    let (this, peer) = names(view);
    (view.state == PodState::Diverged).then(|| Condition {
        description: "Decide which content to keep. If the other array serves, discard that of this one (ibid pod discard); if both have \
                      stopped, promote the array whose content is kept first (ibid pod promote).",
        since: Some(view.since_ms),
        ..condition(
            pod,
            Code::PodDiverged,
            "critical",
            format!("pod {} has diverged: {this} has changes that {peer} lacks, and has stopped", pod.name),
        )
    })
}

/// An array has no room, so the other one serves alone.
fn full(pod: &Pod, view: &PodView) -> Option<Condition> {
    let array = view.arrays.iter().find(|array| array.is_full)?;
    let (this, peer) = names(view);
    let serves = if array.is_this { peer } else { this };
    Some(Condition {
        description: "The array with room serves alone, and a loss of it stops the pod. Remove volumes and snapshots of the full \
                      array, or enlarge it (ibid array grow); it is brought into step by itself.",
        ..condition(
            pod,
            Code::PodFull,
            "warning",
            format!("{} has too little free space for pod {}: {serves} serves it alone", array.name, pod.name),
        )
    })
}

/// A comparison has found that the arrays differ.
fn different(pod: &Pod, view: &PodView) -> Option<Condition> {
    let (bytes, found_ms) = view.different?;
    let (this, peer) = names(view);
    Some(Condition {
        description: "ibid pod verify POD --status lists the ranges. Nothing is repaired: decide which array has the right content. \
                      The alert closes when a later verification finds no difference.",
        since: Some(found_ms),
        ..condition(
            pod,
            Code::PodDifferent,
            "critical",
            format!("pod {} differs between {this} and {peer}: {}", pod.name, types::format_capacity(bytes)),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_control::{PodArrayView, PodPart, PodTieRule, PodWait};
    use catalog::PodId;

    fn view(state: PodState) -> PodView {
        let array = |name: &str, is_this| PodArrayView {
            id: name.to_owned(),
            name: name.to_owned(),
            is_this,
            status: PodPart::Unknown,
            is_sequencer: is_this,
            mediator: MediatorState::Online,
            progress: None,
            frozen_at: None,
            is_full: false,
        };
        PodView {
            state,
            since_ms: 10_000,
            arrays: vec![array("alpha", true), array("beta", false)],
            tie_rule: PodTieRule::Mediator,
            is_rule_in_force: true,
            preferred: "alpha".to_owned(),
            mediator: Some("m".to_owned()),
            mediator_problem: None,
            waits_for: None,
            refusal: None,
            rtt_us: None,
            is_distance_simulated: false,
            behind_bytes: None,
            seconds_left: None,
            waiting_commands: 0,
            copied: (0, 0),
            flow: None,
            different: None,
            risk: None,
            is_forgettable: false,
            events: Vec::new(),
        }
    }

    fn found(view: &PodView, now_ms: u64) -> Vec<(Code, &'static str, String, Option<u64>)> {
        let pod = Pod {
            id: PodId(1),
            name: "p".to_owned(),
            created_ms: 0,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            quota_bytes: None,
            resync_limit: None,
            source: None,
            stretch: None,
        };
        let conditions = pod_conditions(&pod, view, now_ms);
        conditions.into_iter().map(|found| (found.code, found.severity, found.summary, found.since)).collect()
    }

    #[test]
    fn states_with_service_on_both_raise_none() {
        for state in [PodState::Sync, PodState::Resync, PodState::Target, PodState::Leaving] {
            assert_eq!(found(&view(state), u64::MAX), [], "{state:?}");
        }
    }

    #[test]
    fn short_absence_raises_no_alert() {
        for state in [PodState::Solo, PodState::Paused, PodState::Lost, PodState::Hurt] {
            assert_eq!(found(&view(state), 12_999), [], "{state:?}");
            assert_eq!(found(&view(state), 13_000).len(), 1, "{state:?}");
        }
    }

    #[test]
    fn absence_is_described_with_its_cause() {
        let alone =
            (Code::PodAlone, "warning", "pod p is served by alpha alone, without beta".to_owned(), Some(10_000));
        assert_eq!(found(&view(PodState::Solo), 20_000), [alone]);
        let mut paused = view(PodState::Paused);
        paused.waits_for = Some(PodWait { event: PodWaitEvent::Peer, since_ms: 1 });
        let summary = "pod p is not served by alpha: it is paused; it waits for a sign of beta, which is silent";
        let expected = (Code::PodNotServed, "critical", summary.to_owned(), Some(10_000));
        assert_eq!(found(&paused, 20_000), [expected]);
        let severity = |view: &PodView| found(view, 20_000)[0].1;
        let mut lost = view(PodState::Lost);
        assert_eq!(severity(&lost), "warning", "the other array serves");
        lost.waits_for = Some(PodWait { event: PodWaitEvent::Administrator, since_ms: 1 });
        assert_eq!(severity(&lost), "critical");
        let diverged = found(&view(PodState::Diverged), 10_000);
        assert_eq!((diverged[0].0, diverged[0].1), (Code::PodDiverged, "critical"));
    }

    #[test]
    fn lost_mediator_has_the_time_of_the_event() {
        let mut view = view(PodState::Sync);
        view.events = vec![(7, PodEvent::MediatorLost), (8, PodEvent::MediatorBack), (9, PodEvent::MediatorLost)];
        view.arrays[0].mediator = MediatorState::Unreachable;
        let summary = "mediator m of pod p does not answer: no answer".to_owned();
        assert_eq!(found(&view, 10_000), [(Code::PodMediatorLost, "warning", summary, Some(9))]);
        view.mediator = None;
        assert_eq!(found(&view, 10_000), [], "a pod without a mediator has none to lose");
    }

    #[test]
    fn full_array_is_named_at_both() {
        let mut view = view(PodState::Resync);
        view.arrays[1].is_full = true;
        let summary = "beta has too little free space for pod p: alpha serves it alone".to_owned();
        assert_eq!(found(&view, 0), [(Code::PodFull, "warning", summary, None)]);
        (view.state, view.arrays[0].is_full, view.arrays[1].is_full) = (PodState::Target, true, false);
        let summary = "alpha has too little free space for pod p: beta serves it alone".to_owned();
        assert_eq!(found(&view, 0), [(Code::PodFull, "warning", summary, None)]);
    }

    #[test]
    fn known_difference_raises_an_alert() {
        let view = PodView { different: Some((8192, 5)), ..view(PodState::Sync) };
        let summary = "pod p differs between alpha and beta: 8KiB".to_owned();
        assert_eq!(found(&view, 0), [(Code::PodDifferent, "critical", summary, Some(5))]);
    }

    #[test]
    fn refusal_and_full_resync_raise_alerts() {
        let mut view = view(PodState::Resync);
        view.refusal = Some("a pod has this name".to_owned());
        view.events = vec![(5, PodEvent::InStep), (6, PodEvent::PeerLostLog), (7, PodEvent::Alone)];
        let refused = "beta does not take part in pod p: a pod has this name".to_owned();
        let full = "beta has lost a part of its log and gets all content of pod p".to_owned();
        let refused = (Code::PodRefused, "warning", refused, None);
        assert_eq!(found(&view, 0), [refused.clone(), (Code::PodFullResync, "warning", full, Some(6))]);
        view.events.push((8, PodEvent::InStep));
        assert_eq!(found(&view, 0), [refused]);
    }
}
