//! The states of pods on two arrays as text: names for programs, sentences for administrators.

use crate::pod_control::{
    MediatorState, PodArrayView, PodEvent, PodPart, PodState, PodTieRule, PodView, PodWait, PodWaitEvent,
};
use catalog::Pod;
use types::{format_capacity, utc_time};

/// Returns the name of a state.
pub(crate) fn state_name(state: PodState) -> &'static str {
    match state {
        PodState::Sync => "sync",
        PodState::Paused => "paused",
        PodState::Solo => "solo",
        PodState::Resync => "resync",
        PodState::Target => "target",
        PodState::Lost => "lost",
        PodState::Hurt => "hurt",
        PodState::Diverged => "diverged",
        PodState::Leaving => "leaving",
    }
}

/// Returns the name of the part of an array.
pub(crate) fn part_name(part: PodPart) -> &'static str {
    match part {
        PodPart::Online => "online",
        PodPart::Resyncing => "resyncing",
        PodPart::Offline => "offline",
        PodPart::Unknown => "unknown",
    }
}

/// Returns the name of the state of a mediator.
pub(crate) fn mediator_name(state: MediatorState) -> &'static str {
    match state {
        MediatorState::Online => "online",
        MediatorState::Unreachable => "unreachable",
        MediatorState::Unknown => "unknown",
    }
}

/// Returns the name of an event that a pod waits for.
pub(crate) fn wait_name(event: PodWaitEvent) -> &'static str {
    match event {
        PodWaitEvent::Peer => "peer",
        PodWaitEvent::PeerThatMayContinue => "peer_that_may_continue",
        PodWaitEvent::PeerState => "peer_state",
        PodWaitEvent::PeerYields => "peer_yields",
        PodWaitEvent::Mediator => "mediator",
        PodWaitEvent::LeaseEnd => "lease_end",
        PodWaitEvent::Commit => "commit",
        PodWaitEvent::RuleInForce => "rule_in_force",
        PodWaitEvent::Mask => "mask",
        PodWaitEvent::Resync => "resync",
        PodWaitEvent::PeerRoom => "peer_room",
        PodWaitEvent::Room => "room",
        PodWaitEvent::Owner => "owner",
        PodWaitEvent::Administrator => "administrator",
    }
}

/// Returns the name of an event and its words.
pub(crate) fn event_words(event: PodEvent, peer: &str) -> (&'static str, String) {
    match event {
        PodEvent::PeerSilent => ("peer_silent", format!("{peer} is silent")),
        PodEvent::Alone => ("alone", format!("this array serves alone, without {peer}")),
        PodEvent::Yielded => ("yielded", format!("this array has yielded to {peer}")),
        PodEvent::InStep => ("in_step", "both arrays are in step".to_owned()),
        PodEvent::PeerLostLog => ("peer_lost_log", format!("{peer} has lost a part of its log and gets all content")),
        PodEvent::MediatorLost => ("mediator_lost", "the mediator is lost".to_owned()),
        PodEvent::MediatorBack => ("mediator_back", "the mediator is back".to_owned()),
        PodEvent::AdministratorDecides => ("administrator_decides", "an administrator has to decide".to_owned()),
        PodEvent::Diverged => ("diverged", "both arrays have served; this one has stopped".to_owned()),
        PodEvent::RegisterDisagrees => {
            ("register_disagrees", format!("the mediator's register is retired, or names {peer}"))
        }
    }
}

/// Returns this array of a pod.
pub(crate) fn this_array(view: &PodView) -> Option<&PodArrayView> {
    view.arrays.iter().find(|array| array.is_this)
}

/// Returns the other array of a pod.
pub(crate) fn other_array(view: &PodView) -> Option<&PodArrayView> {
    view.arrays.iter().find(|array| !array.is_this)
}

/// Returns the names of this array and the other one.
pub(crate) fn names(view: &PodView) -> (&str, &str) {
    let this = this_array(view).map_or("this array", |array| array.name.as_str());
    (this, other_array(view).map_or("the other array", |array| array.name.as_str()))
}

/// Returns the words of a wait: the event, and a sentence about its end.
pub(crate) fn wait_words(view: &PodView, pod: &str, wait: PodWait) -> (String, String) {
    let (this, peer) = names(view);
    let by_itself = "It ends by itself while the link is up.";
    let (event, ends) = match wait.event {
        PodWaitEvent::Peer if matches!(view.state, PodState::Solo | PodState::Resync) => {
            let ends = format!(
                "It ends when the link to {peer} is back. If {peer} is lost for good, `ibid array disconnect {peer}` and \
                 `ibid pod unstretch {pod} {peer}` remove it from the pod."
            );
            return (format!("a sign of {peer}, which is silent"), ends);
        }
        PodWaitEvent::Peer => {
            let ends = format!(
                "It ends when the link to {peer} is back. If {peer} is lost for good, `ibid pod promote {pod} --force` \
                 serves the pod here."
            );
            return (format!("a sign of {peer}, which is silent"), ends);
        }
        PodWaitEvent::PeerThatMayContinue => {
            let ends = format!(
                "It ends when {peer} is back. If {peer} is lost for good, `ibid pod promote {pod} --force` serves the \
                 pod here."
            );
            return (format!("{peer}, which alone may continue"), ends);
        }
        PodWaitEvent::Mediator => {
            let mediator = view.mediator.as_deref().unwrap_or("none");
            let ends = format!("It ends when the mediator answers, or when the link to {peer} is back.");
            return (format!("an answer of the mediator ({mediator})"), ends);
        }
        PodWaitEvent::Administrator => {
            let ends = format!(
                "If {peer} serves, `ibid pod discard {pod}` replaces the content of {this} by that of {peer}. If both have \
                 stopped, `ibid pod promote {pod} --force` at the array whose content is kept comes first."
            );
            return ("a decision of an administrator".to_owned(), ends);
        }
        PodWaitEvent::Owner => {
            let ends = format!("It ends when {peer} serves the pod and the link is up.");
            return (format!("{peer}, which has to bring {this} into step"), ends);
        }
        PodWaitEvent::PeerRoom => return (format!("free space at {peer}"), room_words(peer)),
        PodWaitEvent::Room => return (format!("free space at {this}"), room_words(this)),
        PodWaitEvent::LeaseEnd => {
            (format!("the end of the time in which {peer} may answer reads"), "It ends after 2 s at most.")
        }
        PodWaitEvent::Resync => (
            "content that is under way".to_owned(),
            "It ends when all of it has arrived (`ibid pod list --replication`).",
        ),
        PodWaitEvent::PeerState => (format!("a report of {peer}"), by_itself),
        PodWaitEvent::PeerYields => (format!("{peer}, which has to yield"), by_itself),
        PodWaitEvent::RuleInForce => ("the tie rule to be stored on both arrays".to_owned(), by_itself),
        PodWaitEvent::Mask => (format!("the list of blocks that {peer} has changed"), by_itself),
        PodWaitEvent::Commit => ("changes that are under way".to_owned(), "It ends by itself."),
    };
    (event, ends.to_owned())
}

fn room_words(array: &str) -> String {
    format!(
        "It ends by itself when {array} has a fiftieth of its capacity free (at least 16 MiB): remove volumes and \
         snapshots there, or enlarge it (`ibid array grow`)."
    )
}

/// Returns the state of a pod, its cause and the next step, in sentences.
pub(crate) fn explanation(view: &PodView, pod: &Pod) -> String {
    let (limit, pod) = (pod.resync_limit, &pod.name);
    let mut sentences = vec![state_sentence(view, pod), format!("This is so since {}.", utc_time(view.since_ms))];
    if let Some(wait) = view.waits_for {
        let (event, ends) = wait_words(view, pod, wait);
        sentences.push(format!("It waits for {event} since {}.", utc_time(wait.since_ms)));
        sentences.push(ends);
    }
    if let Some(limit) = limit.filter(|_| matches!(view.state, PodState::Resync | PodState::Target)) {
        let limit = format_capacity(limit);
        sentences.push(format!("Data come with {limit}/s at most: `ibid pod set {pod} --resync-limit` changes it."));
    }
    if view.waiting_commands > 0 {
        sentences.push(format!("{} commands of hosts wait.", view.waiting_commands));
    }
    if let Some(refusal) = &view.refusal {
        sentences.push(format!("{} does not take part: {refusal}.", names(view).1));
    }
    if view.is_forgettable {
        sentences.push(format!("{} has no such pod any more: `ibid pod forget {pod}` removes it here.", names(view).1));
    }
    if let Some(risk) = &view.risk {
        sentences.push(format!("A forced promotion here: {risk}"));
    }
    sentences.extend(tie_sentences(view));
    sentences.join(" ")
}

fn state_sentence(view: &PodView, pod: &str) -> String {
    let (this, peer) = names(view);
    let percent = |array: Option<&PodArrayView>| {
        let progress = array.and_then(|array| array.progress).map(percent);
        let left = view.seconds_left.map(|seconds| format!("about {} left", time_left(seconds)));
        let parts: Vec<String> = progress.into_iter().chain(left).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    };
    match view.state {
        PodState::Sync => format!("Pod {pod} is in step: {this} and {peer} serve it."),
        PodState::Paused => format!("Pod {pod} is paused: {this} does not serve it, and commands of hosts wait."),
        PodState::Solo => match view.behind_bytes {
            Some(bytes) => format!("{this} serves pod {pod} alone; {peer} lacks {}.", format_capacity(bytes)),
            None => format!("{this} serves pod {pod} alone."),
        },
        PodState::Resync => {
            format!("{this} serves pod {pod} and brings {peer} into step{}.", percent(other_array(view)))
        }
        PodState::Target => {
            format!(
                "{this} receives the content of pod {pod} from {peer}{}, which serves it.",
                percent(this_array(view))
            )
        }
        PodState::Lost => format!("{this} has yielded pod {pod} to {peer} and does not serve it."),
        PodState::Hurt => format!(
            "{this} has lost changes (its log was damaged, or it was put back to an image): it does not serve pod {pod} \
             until it has received the content of {peer}."
        ),
        PodState::Diverged => format!(
            "{this} has served pod {pod} while {peer} did so too, and has stopped: the contents differ, and hosts of \
             {this} have changes that {peer} lacks."
        ),
        PodState::Leaving => format!("Pod {pod} is being removed from one of {this} and {peer}."),
    }
}

/// Formats a time that is left.
pub(crate) fn time_left(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{} s", seconds.max(1)),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// Formats a part of a whole.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", (part * 100.0).floor().clamp(0.0, 100.0))
}

/// Describes the array that would continue alone.
fn tie_sentences(view: &PodView) -> Vec<String> {
    let is_shared = matches!(view.state, PodState::Sync | PodState::Paused);
    if !is_shared {
        return Vec::new();
    }
    let mut sentences = vec![match &view.tie_rule {
        PodTieRule::Mediator => {
            let mediator = view.mediator.as_deref().unwrap_or("unknown");
            format!("If the arrays lose each other, the mediator ({mediator}) decides which one continues.")
        }
        PodTieRule::Only(array) => format!("If the arrays lose each other, only {array} may continue."),
    }];
    if !view.is_rule_in_force {
        sentences.push("This rule is not known to be stored on both arrays yet.".to_owned());
    }
    if let Some(problem) = &view.mediator_problem {
        sentences.push(format!("The mediator does not answer: {problem}."));
    }
    sentences
}
