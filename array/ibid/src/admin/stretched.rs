//! The `ibid pod` commands about pods on two arrays.

use super::confirm::confirm;
use super::pod_reports::{self, Action};
use super::pod_top;
use super::wait::{Reading, wait};
use crate::cli::{ConfirmArgs, StretchedCommand};
use crate::output::{ListForm, either, json, list_as, print, progress, table, time};
use crate::problem::Problem;
use api::{ApiError, ErrorCode, Pod, PodPatch, PodReplication, PodReplicationArray, Reference};
use client::{Client, ClientError};
use std::time::Duration;
use types::format_capacity;

/// Runs an `ibid pod` command about a pod on two arrays.
pub(super) fn run(client: &Client, as_json: bool, command: StretchedCommand) -> Result<(), Problem> {
    let settings = |pod: String, patch: PodPatch| {
        client.change_pods(std::slice::from_ref(&pod), &patch, false)?;
        show(client, as_json, &pod)
    };
    match command {
        StretchedCommand::Stretch { pod, array, mediator, detach } => {
            client.stretch_pod(&pod, &array, mediator.as_deref())?;
            if !detach {
                wait_in_step(client, &pod, &array)?;
            }
            show(client, as_json, &pod)
        }
        StretchedCommand::Unstretch { pod, array, confirm: confirmed, detach } => {
            confirm(confirmed, &format!("Remove pod {pod} from {array}? {array} discards its content of the pod."))?;
            client.unstretch_pod(&pod, &array)?;
            if detach {
                return show(client, as_json, &pod);
            }
            let running = format!("{array} is leaving pod {pod}");
            wait(&running, || Ok(left(&array, reading(client, &pod)?.as_ref())))?;
            if as_json {
                return json(&client.pod_replication(&[pod])?);
            }
            print(&format!("pod {pod} is on this array alone\n"))
        }
        StretchedCommand::Prefer { pod, array } => {
            let preferred = Some(vec![Reference::named(array)]);
            settings(pod, PodPatch { failover_preferences: preferred, ..PodPatch::default() })
        }
        StretchedCommand::Mediator { pod, address } => {
            let mediator = if address == "none" { String::new() } else { address };
            settings(pod, PodPatch { mediator: Some(mediator), ..PodPatch::default() })
        }
        StretchedCommand::Top { pods, once, interval } => {
            pod_top::top(client, as_json, &pods, once, Duration::from_secs(interval))
        }
        StretchedCommand::Why { pod } => {
            let found = reading(client, &pod)?;
            either(as_json, &found, || match &found {
                Some(found) => format!("{}\n", found.explanation),
                None => format!("Pod {pod} is on this array alone; it waits for nothing.\n"),
            })
        }
        StretchedCommand::Verify { pod, detach, status, stop } => {
            pod_reports::verify(client, as_json, &pod, Action::of(detach, status, stop))
        }
        StretchedCommand::Check { pod, array, mediator } => {
            pod_reports::check(as_json, &client.check_pod(&pod, array.as_deref(), mediator.as_deref())?)
        }
        StretchedCommand::Evacuate { check, confirm } => evacuate(client, as_json, check, confirm),
        StretchedCommand::Forget { pod, confirm } => forget(client, as_json, pod, confirm),
        StretchedCommand::Promote { pod, force, confirm: confirmed } => {
            if force {
                // Without force, the array only answers with the risk.
                progress(&risk(client.promote_pod(&pod, false))?);
                confirm(confirmed, &format!("Promote pod {pod} all the same?"))?;
            }
            show_found(as_json, &client.promote_pod(&pod, force)?)
        }
        StretchedCommand::Resign { pod } => show_found(as_json, &client.resign_pod(&pod)?),
        StretchedCommand::Discard { pod, confirm: confirmed } => {
            let question =
                format!("Discard the content of pod {pod} on this array? Changes that only it has are lost.");
            confirm(confirmed, &question)?;
            show_found(as_json, &client.discard_pod(&pod)?)
        }
    }
}

fn evacuate(client: &Client, as_json: bool, only_checks: bool, confirmed: ConfirmArgs) -> Result<(), Problem> {
    let planned = client.evacuate_pods(false)?;
    if only_checks {
        return pod_reports::evacuated(as_json, &planned);
    }
    progress(&pod_reports::plan(&planned));
    confirm(confirmed, "Hand the pods over? Hosts use the other arrays from then on.")?;
    pod_reports::evacuated(as_json, &client.evacuate_pods(true)?)
}

fn forget(client: &Client, as_json: bool, pod: String, confirmed: ConfirmArgs) -> Result<(), Problem> {
    // Without force, the array only answers with the risk.
    progress(&risk(client.forget_pod(&pod, false))?);
    confirm(confirmed, &format!("Remove pod {pod} with its volumes from this array?"))?;
    client.forget_pod(&pod, true)?;
    if as_json { json(&[pod]) } else { print(&format!("pod {pod} was removed from this array\n")) }
}

/// Returns the risk of a promotion from its refusal.
fn risk<T>(refused: Result<T, ClientError>) -> Result<String, Problem> {
    match refused {
        Err(ClientError::Refused(errors)) => match errors.as_slice() {
            [ApiError { code: ErrorCode::ForceRequired, message, .. }] => Ok(message.clone()),
            _ => Err(ClientError::Refused(errors).into()),
        },
        Err(error) => Err(error.into()),
        Ok(_) => Ok("The array states no risk.".to_owned()),
    }
}

fn reading(client: &Client, pod: &str) -> Result<Option<PodReplication>, Problem> {
    Ok(client.pod_replication(&[pod.to_owned()])?.into_iter().next())
}

fn show(client: &Client, as_json: bool, pod: &str) -> Result<(), Problem> {
    show_found(as_json, &client.pod_replication(&[pod.to_owned()])?)
}

fn show_found(as_json: bool, found: &[PodReplication]) -> Result<(), Problem> {
    either(as_json, &found, || found.iter().map(|pod| format!("{}\n", pod.explanation)).collect())
}

/// Waits until both arrays serve a pod.
fn wait_in_step(client: &Client, pod: &str, array: &str) -> Result<(), Problem> {
    progress("the array works by itself: Ctrl-C ends only the wait");
    wait(&format!("pod {pod} is not in step on {array} yet"), || {
        let Some(found) = reading(client, pod)? else {
            return Err(Problem::new(format!("pod {pod} is on this array alone again"))
                .hint("the array's log has the reason; `ibid alert list --all` may have it, too"));
        };
        if let Some(refusal) = &found.refusal {
            return Err(Problem::new(format!("{array} does not take part in pod {pod}: {refusal}"))
                .hint(format!("remove the cause on {array}, or run `ibid pod unstretch {pod} {array}`")));
        }
        Ok(joined(&found))
    })
}

/// Describes the progress of a stretch.
fn joined(found: &PodReplication) -> Reading {
    if found.state == "sync" {
        return Reading::Done;
    }
    let mut parts = vec![format!("{}: {}", found.name, found.state)];
    parts.extend(found.arrays.iter().map(array_text));
    parts.extend(found.behind_bytes.map(|bytes| format!("{} to go", format_capacity(bytes))));
    parts.extend(found.seconds_left.map(|left| format!("about {} left", minutes(Duration::from_secs(left)))));
    let waits = found.waits_for.as_ref().filter(|wait| wait.event != "resync");
    parts.extend(waits.map(|wait| format!("waits for {}", wait.message)));
    let tenths = found.arrays.iter().find_map(|array| array.progress).map_or(0, |part| (part * 10.0) as u64);
    let event = waits.map_or("", |wait| &wait.event);
    Reading::Continues { line: parts.join(", "), step: format!("{} {tenths} {event}", found.state) }
}

/// Describes the progress of a removal.
fn left(array: &str, found: Option<&PodReplication>) -> Reading {
    let Some(found) = found else { return Reading::Done };
    let waits = found.waits_for.as_ref().map(|wait| format!(", waits for {}", wait.message)).unwrap_or_default();
    let line = format!("{}: {}, {array} is leaving{waits}", found.name, found.state);
    Reading::Continues { step: line.clone(), line }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{} s", seconds.max(1)),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Describes an array of a pod.
fn array_text(array: &PodReplicationArray) -> String {
    let progress = array.progress.map(|part| format!(" {:.0} %", (part * 100.0).floor())).unwrap_or_default();
    let sequencer = if array.is_sequencer { " (s)" } else { "" };
    let full = if array.is_full { " (full)" } else { "" };
    format!("{} {}{progress}{sequencer}{full}", array.name, array.status)
}

/// Lists the pods on two arrays among these pods.
pub(super) fn list(client: &Client, form: ListForm, pods: &[Pod]) -> Result<(), Problem> {
    let found = client.pod_replication(&[])?;
    let both: Vec<(&Pod, PodReplication)> =
        pods.iter().filter_map(|pod| Some((pod, found.iter().find(|found| found.id == pod.id)?.clone()))).collect();
    let found: Vec<PodReplication> = both.iter().map(|(_, found)| found.clone()).collect();
    list_as(form, &found, || rows(&both))
}

fn rows(pods: &[(&Pod, PodReplication)]) -> String {
    let row = |(pod, found): &(&Pod, PodReplication)| {
        let this = found.arrays.iter().find(|array| array.is_this);
        let pending = if found.is_tie_rule_in_force { "" } else { " (pending)" };
        let mediator = match found.mediator {
            Some(_) => this.map_or("unknown", |array| &array.mediator_status),
            None => "none",
        };
        let mark = if found.is_distance_simulated { " !" } else { "" };
        vec![
            pod.name.clone(),
            pod.volume_count.to_string(),
            format_capacity(pod.space.total_provisioned),
            found.state.clone(),
            found.arrays.iter().map(array_text).collect::<Vec<_>>().join(", "),
            found.only.as_ref().map_or(found.tie_rule.clone(), |only| format!("only {only}")) + pending,
            found.preferred.clone(),
            mediator.to_owned(),
            found.rtt_usec.map_or_else(|| "-".to_owned(), |rtt| format!("{:.1} ms", rtt as f64 / 1000.0)) + mark,
            found.behind_bytes.map_or_else(|| "-".to_owned(), format_capacity),
            found.seconds_left.map_or_else(|| "-".to_owned(), |left| minutes(Duration::from_secs(left))),
            time(found.since),
        ]
    };
    let head = [
        "NAME",
        "VOLUMES",
        "SIZE",
        "STATE",
        "ARRAYS",
        "TIE RULE",
        "PREFERRED",
        "MEDIATOR",
        "RTT",
        "BEHIND",
        "LEFT",
        "SINCE",
    ];
    let mut text = table(&head, &[1, 2, 8, 9, 10], pods.iter().map(row).collect());
    let has = |is: fn(&PodReplication) -> bool| pods.iter().any(|(_, found)| is(found));
    if has(|found| found.arrays.iter().any(|array| array.is_sequencer)) {
        text += "(s) orders the changes of both arrays\n";
    }
    if has(|found| found.is_distance_simulated) {
        text += "! SIMULATED distance: run `ibid array connections`\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::PodReplicationWait;

    fn array(name: &str, status: &str) -> PodReplicationArray {
        let (name, status) = (name.to_owned(), status.to_owned());
        PodReplicationArray { name, status, mediator_status: "online".to_owned(), ..PodReplicationArray::default() }
    }

    fn resync() -> PodReplication {
        PodReplication {
            name: "dc1".to_owned(),
            state: "resync".to_owned(),
            since: 1_000,
            arrays: vec![
                PodReplicationArray { is_this: true, is_sequencer: true, ..array("alpha", "online") },
                PodReplicationArray { progress: Some(0.629), ..array("beta", "resyncing") },
            ],
            tie_rule: "only".to_owned(),
            only: Some("alpha".to_owned()),
            preferred: "alpha".to_owned(),
            mediator: Some("192.0.2.9".to_owned()),
            rtt_usec: Some(4_100),
            is_distance_simulated: true,
            behind_bytes: Some(11 << 30),
            seconds_left: Some(125),
            ..PodReplication::default()
        }
    }

    #[test]
    fn list_shows_arrays_rule_and_distance() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "id": "1", "name": "dc1", "array_count": 2, "arrays": [], "created": 0, "destroyed": false,
            "eradication_config": {"manual_eradication": ""}, "failover_preferences": [], "footprint": 0,
            "link_source_count": 0, "link_target_count": 0, "mediator": "", "mediator_version": null,
            "promotion_status": "", "quota_limit": null, "requested_promotion_state": "",
            "source": {"id": null, "name": null}, "space": api::Space::default(), "time_remaining": null,
            "volume_count": 3,
        }))
        .unwrap();
        let text = rows(&[(&pod, resync())]);
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: &str| {
            line.split("  ").filter(|word| !word.is_empty()).map(|word| word.trim().to_owned()).collect::<Vec<_>>()
        };
        let expected = [
            "dc1",
            "3",
            "0B",
            "resync",
            "alpha online (s), beta resyncing 62 %",
            "only alpha (pending)",
            "alpha",
            "online",
            "4.1 ms !",
            "11GiB",
            "2 min",
            "1970-01-01T00:00:01Z",
        ];
        assert_eq!(words(lines[1]), expected, "{text}");
        assert_eq!(
            lines[2..],
            ["(s) orders the changes of both arrays", "! SIMULATED distance: run `ibid array connections`"]
        );
        let plain = PodReplication {
            tie_rule: "mediator".to_owned(),
            only: None,
            is_tie_rule_in_force: true,
            mediator: None,
            rtt_usec: None,
            is_distance_simulated: false,
            behind_bytes: None,
            seconds_left: None,
            arrays: vec![array("alpha", "online"), array("beta", "online")],
            ..resync()
        };
        let text = rows(&[(&pod, plain)]);
        let words = words(text.lines().nth(1).unwrap());
        assert_eq!(words[4..10], ["alpha online, beta online", "mediator", "alpha", "none", "-", "-"], "{text}");
        assert_eq!(text.lines().count(), 2, "no marks, no legend");
    }

    #[test]
    fn stretch_shows_progress_until_in_step() {
        let line = |found: &PodReplication| match joined(found) {
            Reading::Continues { line, step } => (line, step),
            Reading::Done => panic!("done"),
        };
        let (text, step) = line(&resync());
        assert_eq!(text, "dc1: resync, alpha online (s), beta resyncing 62 %, 11GiB to go, about 2 min left");
        let mut later = resync();
        later.arrays[1].progress = Some(0.64);
        assert_eq!(line(&later).1, step, "without a terminal, a line for each tenth");
        later.arrays[1].progress = Some(0.7);
        assert_ne!(line(&later).1, step);
        let wait = PodReplicationWait {
            event: "mask".to_owned(),
            message: "the list".to_owned(),
            ..PodReplicationWait::default()
        };
        later.waits_for = Some(wait);
        assert!(line(&later).0.ends_with("waits for the list"));
        later.state = "sync".to_owned();
        assert_eq!(joined(&later), Reading::Done);
    }

    #[test]
    fn time_left_has_one_unit() {
        let times = [Duration::ZERO, Duration::from_secs(119), Duration::from_secs(7300)];
        assert_eq!(times.map(minutes), ["1 s", "119 s", "2 h"]);
    }

    #[test]
    fn removal_is_complete_without_a_second_array() {
        assert_eq!(left("beta", None), Reading::Done);
        let Reading::Continues { line, .. } = left("beta", Some(&resync())) else { panic!("done") };
        assert_eq!(line, "dc1: resync, beta is leaving");
    }

    #[test]
    fn risk_is_read_from_the_refusal() {
        let refused = |code| {
            let message = "Changes may be lost.".to_owned();
            Err::<(), _>(ClientError::Refused(vec![ApiError { code, context: None, message }]))
        };
        assert_eq!(risk(refused(ErrorCode::ForceRequired)).ok().as_deref(), Some("Changes may be lost."));
        assert!(risk(refused(ErrorCode::PodRefused)).is_err(), "another refusal is an error");
    }
}
