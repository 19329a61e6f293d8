//! Reports about pods on two arrays.

use super::wait::{Reading, wait};
use crate::output::{either, progress, table};
use crate::problem::Problem;
use api::{PodCheck, PodDifference, PodHandOver, PodVerification};
use client::Client;
use types::format_capacity;

/// Exit code if the arrays differ.
const DIFFERENT: u8 = 3;
/// Exit code if a check has warnings only, or pods stay.
const WARNED: u8 = 3;

/// The work of `ibid pod verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Begin { waits: bool },
    Status,
    Stop,
}

impl Action {
    /// Returns the action of these options.
    pub(super) fn of(detaches: bool, shows: bool, stops: bool) -> Self {
        match (shows, stops) {
            (true, _) => Self::Status,
            (_, true) => Self::Stop,
            _ => Self::Begin { waits: !detaches },
        }
    }
}

/// Runs `ibid pod verify`.
pub(super) fn verify(client: &Client, as_json: bool, pod: &str, action: Action) -> Result<(), Problem> {
    let reading = || Ok::<_, Problem>(client.pod_verifications(&[pod.to_owned()])?.into_iter().next());
    let found = match action {
        Action::Status => reading()?,
        Action::Stop => client.stop_verify_pod(pod)?.into_iter().next(),
        Action::Begin { waits: false } => client.verify_pod(pod)?.into_iter().next(),
        Action::Begin { waits: true } => {
            client.verify_pod(pod)?;
            progress("the array works by itself: Ctrl-C ends only the wait");
            wait(&format!("pod {pod} is being compared"), || Ok(compared(reading()?.as_ref())))?;
            reading()?
        }
    };
    either(as_json, &found, || match &found {
        Some(found) => text(found),
        None => format!("Pod {pod} was not compared by this array.\n"),
    })?;
    let Some(found) = found else { return Ok(()) };
    let has_waited = matches!(action, Action::Begin { waits: true });
    match has_waited || matches!(action, Action::Status) {
        true if found.different_bytes > 0 && found.ended.is_some() => {
            Err(Problem::new(format!("the arrays of pod {pod} differ"))
                .hint("docs/pods.md says how to choose the content to keep")
                .exit_code(DIFFERENT))
        }
        true if has_waited && found.state != "complete" => {
            Err(Problem::new(format!("pod {pod} was not compared to its end")).hint("run the command again"))
        }
        _ => Ok(()),
    }
}

/// Shows the results of `ibid pod check`.
pub(super) fn check(as_json: bool, lines: &[PodCheck]) -> Result<(), Problem> {
    either(as_json, &lines, || {
        let row = |line: &PodCheck| vec![line.status.to_uppercase(), line.topic.clone(), line.message.clone()];
        table(&["RESULT", "TOPIC", "FOUND"], &[], lines.iter().map(row).collect())
    })?;
    let has = |status: &str| lines.iter().any(|line| line.status == status);
    match (has("error"), has("warning")) {
        (true, _) => Err(Problem::new("the check has found errors")),
        (_, true) => Err(Problem::new("the check has found warnings").exit_code(WARNED)),
        _ => Ok(()),
    }
}

/// Describes what `ibid pod evacuate` will do.
pub(super) fn plan(planned: &[PodHandOver]) -> String {
    let line = |pod: &PodHandOver| format!("{}: {}", pod.name, pod.message);
    match planned {
        [] => "No pod is on two arrays.".to_owned(),
        planned => planned.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

/// Shows the results of `ibid pod evacuate`.
pub(super) fn evacuated(as_json: bool, pods: &[PodHandOver]) -> Result<(), Problem> {
    either(as_json, &pods, || {
        let row = |pod: &PodHandOver| vec![pod.name.clone(), pod.status.replace('_', " "), pod.message.clone()];
        table(&["POD", "RESULT", "REASON"], &[], pods.iter().map(row).collect())
    })?;
    let stay = pods.iter().filter(|pod| pod.status == "refused").count();
    match stay {
        0 => Ok(()),
        _ => Err(Problem::new(format!("{stay} pods stay on this array"))
            .hint("remove the reasons, then run it again")
            .exit_code(WARNED)),
    }
}

fn compared(found: Option<&PodVerification>) -> Reading {
    let Some(found) = found.filter(|found| found.ended.is_none()) else { return Reading::Done };
    let tenths = (found.compared_bytes * 10).checked_div(found.total_bytes).unwrap_or(0);
    let differences = found.differences.len();
    Reading::Continues { line: found.explanation.clone(), step: format!("{} {tenths} {differences}", found.state) }
}

fn text(found: &PodVerification) -> String {
    let mut text = format!("{}\n", found.explanation);
    if !found.differences.is_empty() {
        let row = |found: &PodDifference| {
            let kind = match found.kind.as_str() {
                "content" => "differs".to_owned(),
                kind => kind.replace('_', " "),
            };
            vec![found.volume.clone(), found.offset.to_string(), format_capacity(found.length), kind]
        };
        text +=
            &table(&["VOLUME", "OFFSET", "LENGTH", "DIFFERENCE"], &[1, 2], found.differences.iter().map(row).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> PodVerification {
        PodVerification {
            state: "running".to_owned(),
            explanation: "The content is being compared.".to_owned(),
            compared_bytes: 25,
            total_bytes: 100,
            ..PodVerification::default()
        }
    }

    #[test]
    fn comparison_is_shown_by_tenths_until_its_end() {
        let Reading::Continues { line, step } = compared(Some(&running())) else { panic!("done") };
        assert_eq!((line.as_str(), step.as_str()), ("The content is being compared.", "running 2 0"));
        let ended = PodVerification { ended: Some(1), ..running() };
        assert_eq!(compared(Some(&ended)), Reading::Done);
        assert_eq!(compared(None), Reading::Done, "the pod is on this array alone");
    }

    #[test]
    fn plan_names_each_pod() {
        let pod = |name: &str| PodHandOver {
            name: name.to_owned(),
            status: "refused".to_owned(),
            message: "it stays".to_owned(),
        };
        assert_eq!(plan(&[pod("a"), pod("b")]), "a: it stays\nb: it stays");
        assert_eq!(plan(&[]), "No pod is on two arrays.");
    }

    #[test]
    fn differences_are_listed_with_volume_and_range() {
        let found = |kind: &str| PodDifference {
            volume: "dc1::vm1".to_owned(),
            offset: 4096,
            length: 8192,
            kind: kind.to_owned(),
        };
        let with = PodVerification { differences: vec![found("content"), found("unreadable_there")], ..running() };
        let text = text(&with);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["VOLUME", "OFFSET", "LENGTH", "DIFFERENCE"]);
        assert_eq!(lines[2], ["dc1::vm1", "4096", "8KiB", "differs"]);
        assert_eq!(lines[3], ["dc1::vm1", "4096", "8KiB", "unreadable", "there"]);
    }
}
