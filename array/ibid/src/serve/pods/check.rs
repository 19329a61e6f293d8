//! `ibid pod check`: compares settings and states that must match at both arrays of a pod, before
//! and after it is stretched.

use super::{StretchedPods, now_ms};
use catalog::{ANY_INITIATOR, Pod, PodMediator};
use link::{LinkConnection, LinkStatus};
use pods::PodStatus;
use rest::{PodCheckGrade, PodCheckLine, PodControlError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{StreamId, format_capacity};

/// Time for the other array to answer. It asks the mediator in that time.
const PATIENCE: Duration = Duration::from_secs(8);
/// Difference of the clocks from which on times of the two arrays cannot be compared.
const CLOCKS_MS: i64 = 1000;
/// Round trip from which on hosts notice the distance, in microseconds.
const FAR_US: u64 = 10_000;
/// Most volumes and hosts that one line names.
const NAMED: usize = 5;

/// Asks an array about a pod.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CheckQuestion {
    /// Name of the pod at the asking array.
    pod: String,
    /// Number of its stream, if it is on two arrays.
    stream: Option<u32>,
    mediator: Option<PodMediator>,
}

/// The connections of a volume: the LUN at each initiator.
type Luns = BTreeMap<String, u16>;

/// The facts that an array knows of itself and of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CheckFacts {
    version: String,
    number: u8,
    capacity: u64,
    free: u64,
    /// A pod with this name that is not the one that is asked about.
    has_other_pod: bool,
    /// Why the mediator does not answer, or that it does. None without a mediator.
    mediator: Option<Result<(), String>>,
    /// The array takes part in the pod.
    takes_part: bool,
    is_in_step: bool,
    prefers_asking: bool,
    /// Serial numbers of volumes, with their connections.
    volumes: BTreeMap<String, Luns>,
    /// The ids of the arrays that each initiator prefers, if it does.
    #[serde(default)]
    preferred: BTreeMap<String, Vec<String>>,
}

fn line(topic: &'static str, grade: PodCheckGrade, message: impl Into<String>) -> PodCheckLine {
    PodCheckLine { topic, grade, message: message.into() }
}

/// Joins a few of several names.
fn some(names: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMED);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

impl StretchedPods {
    /// Compares both arrays of a pod, or this one with the array that it may be stretched to.
    pub(super) fn check_pod(
        &self,
        pod: &Pod,
        array: Option<&str>,
        mediator: Option<&str>,
    ) -> Result<Vec<PodCheckLine>, PodControlError> {
        let peer = match (&pod.stretch, array) {
            (Some(stretch), _) => stretch.peer.name.clone(),
            (None, Some(array)) => array.to_owned(),
            (None, None) => {
                return Err(PodControlError::Refused(
                    "it is on one array; name the array that it may come to".to_owned(),
                ));
            }
        };
        let connections = self.links.connections();
        let wanted = pod.stretch.as_ref().map(|stretch| stretch.peer.id.clone());
        let is_peer = |link: &&LinkConnection| match &wanted {
            Some(id) => link.array == *id,
            None => link.name.eq_ignore_ascii_case(&peer),
        };
        let Some(link) = connections.iter().find(is_peer) else {
            let text = format!("this array is not connected to {peer}: run `ibid array connect {peer}`");
            return Ok(vec![line("link", PodCheckGrade::Error, text)]);
        };
        let mediator = match mediator {
            Some(address) => Some(self.identify(address)?),
            None => pod.stretch.as_ref().and_then(|stretch| stretch.mediator.clone()),
        };
        let question = CheckQuestion {
            pod: pod.name.clone(),
            stream: pod.stretch.as_ref().map(|stretch| stretch.stream),
            mediator: mediator.clone(),
        };
        let mut lines = vec![of_link(link)];
        if link.status != LinkStatus::Connected {
            return Ok(lines);
        }
        let own = self.check_facts(&link.array, &question);
        let body = serde_json::to_vec(&question).unwrap_or_default();
        let answer = self.running()?.ask(&link.array, &body, PATIENCE);
        let Some(found) = answer.and_then(|answer| serde_json::from_slice::<CheckFacts>(&answer).ok()) else {
            let text = format!("{peer} does not answer; an earlier program cannot: update it");
            lines.push(line("version", PodCheckGrade::Error, text));
            return Ok(lines);
        };
        let this = self.catalog.array().name.clone();
        lines.extend(of_clocks(link, &peer));
        lines.extend(compared((&this, &own), (&peer, &found), pod, mediator.as_ref()));
        Ok(lines)
    }

    /// Returns what this array knows of itself and of a pod that another array asks about.
    pub(super) fn check_facts(&self, array: &str, question: &CheckQuestion) -> CheckFacts {
        let state = self.catalog.state();
        let stream = question.stream.and_then(StreamId::new);
        let is_asked = |pod: &Pod| {
            let stretch = pod.stretch.as_ref().filter(|stretch| stretch.peer.id == array);
            stretch.is_some_and(|stretch| Some(stretch.stream()) == stream)
        };
        let own = state.pods().find(|pod| is_asked(pod)).cloned();
        let named = state.pod(&question.pod).ok();
        let has_other_pod = own.is_none() && named.is_some();
        let status = |pod: &Pod| {
            let stretch = pod.stretch.as_ref()?;
            self.pods()?.status(stretch.stream())
        };
        let space = self.pods().map(|pods| pods.space()).unwrap_or_default();
        let is_in_step = own.as_deref().and_then(status).is_some_and(|status: PodStatus| status.is_in_step);
        let prefers_asking =
            own.as_ref().and_then(|pod| pod.stretch.as_ref()).is_some_and(|stretch| stretch.prefers_peer);
        CheckFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            number: self.catalog.array().number,
            capacity: space.capacity,
            free: space.free(),
            has_other_pod,
            mediator: question.mediator.as_ref().map(|mediator| self.reach(mediator)),
            takes_part: own.is_some(),
            is_in_step,
            prefers_asking,
            volumes: own.iter().flat_map(|pod| self.luns(pod)).collect(),
            preferred: self.preferred(),
        }
    }

    fn luns(&self, pod: &Pod) -> BTreeMap<String, Luns> {
        let state = self.catalog.state();
        let live = state.volumes_of_pod(pod).filter(|volume| volume.destroyed_ms.is_none());
        let serials: BTreeMap<_, _> = live.map(|volume| (volume.id, volume.serial.clone())).collect();
        let hosts: BTreeMap<_, _> = state.hosts().map(|host| (host.id, host.clone())).collect();
        let mut found: BTreeMap<String, Luns> = serials.values().map(|serial| (serial.clone(), Luns::new())).collect();
        for connection in state.connections() {
            let (Some(serial), Some(host)) = (serials.get(&connection.volume), hosts.get(&connection.host)) else {
                continue;
            };
            let luns = found.entry(serial.clone()).or_default();
            luns.extend(host.iqns.iter().map(|iqn| (iqn.clone(), connection.lun)));
        }
        found
    }

    /// Returns the arrays that hosts prefer, by initiator.
    fn preferred(&self) -> BTreeMap<String, Vec<String>> {
        let state = self.catalog.state();
        let with_preference = state.hosts().filter(|host| !host.preferred_arrays.is_empty());
        with_preference
            .flat_map(|host| host.iqns.iter().map(|iqn| (iqn.clone(), host.preferred_arrays.clone())))
            .collect()
    }

    /// Whether a mediator answers this array, as the one that the pod knows.
    fn reach(&self, mediator: &PodMediator) -> Result<(), String> {
        let found = self.identify(&mediator.address).map_err(|error| error.to_string())?;
        match (&found.certificate, &found.instance) == (&mediator.certificate, &mediator.instance) {
            true => Ok(()),
            false => Err("another mediator answers there than the pod's".to_owned()),
        }
    }
}

fn of_link(link: &LinkConnection) -> PodCheckLine {
    let peer = &link.name;
    if link.status != LinkStatus::Connected {
        let problem = link.problem.as_deref().unwrap_or("it is being made");
        return line("link", PodCheckGrade::Error, format!("the link to {peer} is down: {problem}"));
    }
    let rtt = link.rtt.and_then(|rtt| u64::try_from(rtt.median.as_micros()).ok());
    let text =
        rtt.map_or_else(|| "no round trip yet".to_owned(), |us| format!("round trip {:.1} ms", us as f64 / 1000.0));
    match rtt {
        _ if !link.distance.is_none() => {
            let text = format!("{text}, of a SIMULATED distance: end it with `ibid array distance {peer} --off`");
            line("link", PodCheckGrade::Warning, text)
        }
        Some(us) if us > FAR_US => {
            let text = format!("{text}: each write waits for it once or twice; ESXi wants 10 ms at most");
            line("link", PodCheckGrade::Warning, text)
        }
        _ => line("link", PodCheckGrade::Ok, text),
    }
}

fn of_clocks(link: &LinkConnection, peer: &str) -> Option<PodCheckLine> {
    let ahead = link.clock_ahead_ms?;
    Some(match ahead.abs() {
        0..CLOCKS_MS => line("clocks", PodCheckGrade::Ok, format!("{peer} differs by {} ms", ahead.abs())),
        _ => {
            let text = format!(
                "the clock of {peer} is {:.1} s {}: set both by NTP, or times of events cannot be compared",
                ahead.abs() as f64 / 1000.0,
                if ahead > 0 { "ahead" } else { "late" }
            );
            line("clocks", PodCheckGrade::Warning, text)
        }
    })
}

/// Compares what both arrays know.
fn compared(
    (this, own): (&str, &CheckFacts),
    (peer, found): (&str, &CheckFacts),
    pod: &Pod,
    mediator: Option<&PodMediator>,
) -> Vec<PodCheckLine> {
    let mut lines = vec![];
    lines.push(match own.version == found.version {
        true => line("version", PodCheckGrade::Ok, format!("both run {}", own.version)),
        false => line(
            "version",
            PodCheckGrade::Warning,
            format!("{this} runs {}, {peer} {}: update the older one", own.version, found.version),
        ),
    });
    lines.push(match own.number == found.number {
        false => line("numbers", PodCheckGrade::Ok, format!("{this} has {}, {peer} {}", own.number, found.number)),
        true => line(
            "numbers",
            PodCheckGrade::Error,
            format!("both have {}: create one of them again with another --number", own.number),
        ),
    });
    match &pod.stretch {
        Some(stretch) => lines.extend(of_stretch((this, own), (peer, found), stretch.prefers_peer)),
        None => lines.push(match found.has_other_pod {
            false => line("name", PodCheckGrade::Ok, format!("{peer} has no pod {}", pod.name)),
            true => line(
                "name",
                PodCheckGrade::Error,
                format!("{peer} has another pod {}: rename one of them with `ibid pod rename`", pod.name),
            ),
        }),
    }
    lines.push(of_space((this, own), (peer, found)));
    match mediator {
        None => lines.push(line(
            "mediator",
            PodCheckGrade::Warning,
            "none: if the preferred array is lost, the pod is paused; set one with `ibid pod mediator`",
        )),
        Some(mediator) => {
            for (name, facts) in [(this, own), (peer, found)] {
                lines.push(match &facts.mediator {
                    Some(Ok(())) => line("mediator", PodCheckGrade::Ok, format!("{} answers {name}", mediator.address)),
                    Some(Err(problem)) => line("mediator", PodCheckGrade::Error, format!("from {name}: {problem}")),
                    None => line("mediator", PodCheckGrade::Error, format!("{name} does not know it")),
                });
            }
        }
    }
    if pod.stretch.is_some() && found.takes_part {
        lines.extend(of_hosts((this, own), (peer, found)));
    }
    lines
}

fn of_stretch(
    (this, own): (&str, &CheckFacts),
    (peer, found): (&str, &CheckFacts),
    prefers_peer: bool,
) -> Vec<PodCheckLine> {
    if !found.takes_part {
        let text =
            format!("{peer} has no part in it: `ibid pod why` says the reason; `ibid pod unstretch` ends the stretch");
        return vec![line("state", PodCheckGrade::Error, text)];
    }
    let state = match (own.is_in_step, found.is_in_step) {
        (true, true) => line("state", PodCheckGrade::Ok, "both arrays serve"),
        _ => line("state", PodCheckGrade::Warning, "the arrays are not in step: run `ibid pod why` at both"),
    };
    let preference = match prefers_peer != found.prefers_asking {
        true => {
            line("preference", PodCheckGrade::Ok, format!("both prefer {}", if prefers_peer { peer } else { this }))
        }
        false => line(
            "preference",
            PodCheckGrade::Warning,
            format!("{this} and {peer} prefer different arrays: run `ibid pod prefer` again"),
        ),
    };
    vec![state, preference]
}

fn of_space((this, own): (&str, &CheckFacts), (peer, found): (&str, &CheckFacts)) -> PodCheckLine {
    let free = |facts: &CheckFacts| facts.free.saturating_mul(100).checked_div(facts.capacity).unwrap_or(0);
    let text = |name: &str, facts: &CheckFacts| {
        format!("{name} has {} of {} free", format_capacity(facts.free), format_capacity(facts.capacity))
    };
    let both = format!("{}, {}", text(this, own), text(peer, found));
    let is_unequal = own.capacity > found.capacity.saturating_mul(2) || found.capacity > own.capacity.saturating_mul(2);
    match [(this, own), (peer, found)].into_iter().find(|(_, facts)| free(facts) < 5) {
        Some((name, _)) => {
            let text =
                format!("{both}: remove data at {name}, or enlarge it, before it yields the pod for lack of space");
            line("space", PodCheckGrade::Warning, text)
        }
        None if is_unequal => {
            let text = format!("{both}: the smaller one may become full while the other has room");
            line("space", PodCheckGrade::Warning, text)
        }
        None => line("space", PodCheckGrade::Ok, both),
    }
}

/// Compares the connections of hosts.
fn of_hosts((this, own): (&str, &CheckFacts), (peer, found): (&str, &CheckFacts)) -> Vec<PodCheckLine> {
    let (mut one_sided, mut different) = (BTreeSet::new(), BTreeSet::new());
    let none = Luns::new();
    let serials: BTreeSet<&String> = own.volumes.keys().chain(found.volumes.keys()).collect();
    for serial in serials {
        let [own, found] = [own, found].map(|facts| facts.volumes.get(serial).unwrap_or(&none));
        let is_open = |luns: &Luns| luns.contains_key(ANY_INITIATOR);
        for (luns, other, at) in [(own, found, this), (found, own, peer)] {
            for (iqn, lun) in luns {
                match other.get(iqn) {
                    None if !is_open(other) => drop(one_sided.insert(format!("{iqn} (at {at})"))),
                    Some(there) if there != lun => drop(different.insert(iqn.clone())),
                    _ => {}
                }
            }
        }
    }
    let mut lines = Vec::new();
    let initiators = |facts: &CheckFacts| -> BTreeSet<String> {
        facts.volumes.values().flat_map(|luns| luns.keys().cloned()).collect()
    };
    let both = &initiators(own) & &initiators(found);
    let apart: BTreeSet<String> =
        both.into_iter().filter(|iqn| own.preferred.get(iqn) != found.preferred.get(iqn)).collect();
    if !apart.is_empty() {
        let text =
            format!("prefer other arrays at {this} than at {peer}; run `ibid host prefer` at both: {}", some(&apart));
        lines.push(line("hosts", PodCheckGrade::Warning, text));
    }
    if !one_sided.is_empty() {
        let text = format!("connected to one array only, and lost with it: {}", some(&one_sided));
        lines.push(line("hosts", PodCheckGrade::Warning, text));
    }
    if !different.is_empty() {
        let text = format!(
            "see a volume by different LUNs at the two arrays; connect it by the same one: {}",
            some(&different)
        );
        lines.push(line("hosts", PodCheckGrade::Warning, text));
    }
    if lines.is_empty() {
        lines.push(line("hosts", PodCheckGrade::Ok, "each has the same volumes and LUNs at both arrays"));
    }
    lines
}

/// Answers the question of another array.
pub(super) fn answer(stretched: &StretchedPods, array: &str, question: &[u8]) -> Vec<u8> {
    let Ok(question) = serde_json::from_slice::<CheckQuestion>(question) else { return Vec::new() };
    tracing::debug!(array, pod = question.pod, now_ms = now_ms(), "check of a pod answered");
    serde_json::to_vec(&stretched.check_facts(array, &question)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::PodId;

    fn facts(number: u8) -> CheckFacts {
        CheckFacts { version: "1".to_owned(), number, capacity: 1000, free: 500, ..CheckFacts::default() }
    }

    fn pod() -> Pod {
        Pod {
            id: PodId(1),
            name: "p".to_owned(),
            created_ms: 0,
            destroyed_ms: None,
            destroyed_served_ms: 0,
            quota_bytes: None,
            resync_limit: None,
            source: None,
            stretch: None,
        }
    }

    fn grades(lines: &[PodCheckLine]) -> Vec<(&'static str, PodCheckGrade)> {
        lines.iter().map(|line| (line.topic, line.grade)).collect()
    }

    #[test]
    fn equal_arrays_lack_only_a_mediator() {
        let lines = compared(("a", &facts(1)), ("b", &facts(2)), &pod(), None);
        let topics = ["version", "numbers", "name", "space", "mediator"];
        let expected =
            topics.map(|topic| (topic, if topic == "mediator" { PodCheckGrade::Warning } else { PodCheckGrade::Ok }));
        assert_eq!(grades(&lines), expected);
    }

    #[test]
    fn differences_say_what_to_do() {
        let own = CheckFacts { free: 40, ..facts(1) };
        let found = CheckFacts { version: "2".to_owned(), has_other_pod: true, ..facts(1) };
        let lines = compared(("a", &own), ("b", &found), &pod(), None);
        let texts: Vec<&str> = lines.iter().map(|line| line.message.as_str()).collect();
        assert_eq!(texts[0], "a runs 1, b 2: update the older one");
        assert_eq!(texts[1], "both have 1: create one of them again with another --number");
        assert_eq!(texts[2], "b has another pod p: rename one of them with `ibid pod rename`");
        assert!(texts[3].contains("remove data at a"), "{}", texts[3]);
    }

    #[test]
    fn hosts_at_one_array_and_other_luns_are_named() {
        let with = |pairs: &[(&str, u16)]| {
            let luns: Luns = pairs.iter().map(|(iqn, lun)| ((*iqn).to_owned(), *lun)).collect();
            CheckFacts { volumes: BTreeMap::from([("s".to_owned(), luns)]), ..facts(1) }
        };
        let lines = of_hosts(("a", &with(&[("i", 1), ("j", 1)])), ("b", &with(&[("j", 2)])));
        assert_eq!(lines[0].message, "connected to one array only, and lost with it: i (at a)");
        assert!(lines[1].message.ends_with("the same one: j"), "{}", lines[1].message);
        let preferring = |arrays: &[&str]| {
            let arrays = arrays.iter().map(ToString::to_string).collect();
            let preferred = BTreeMap::from([("i".to_owned(), arrays), ("elsewhere".to_owned(), vec![])]);
            CheckFacts { preferred, ..with(&[("i", 1)]) }
        };
        let apart = of_hosts(("a", &preferring(&["1"])), ("b", &preferring(&["1", "2"])));
        let text = "prefer other arrays at a than at b; run `ibid host prefer` at both: i";
        assert_eq!(apart.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), [text]);
        let alike = of_hosts(("a", &preferring(&["1"])), ("b", &preferring(&["1"])));
        assert_eq!(grades(&alike), [("hosts", PodCheckGrade::Ok)]);
        let open = of_hosts(("a", &with(&[("*", 1)])), ("b", &with(&[("*", 1)])));
        assert_eq!(grades(&open), [("hosts", PodCheckGrade::Ok)]);
    }
}
