//! `/alerts` and `/arrays/scrub`: what an administrator should know of, and the checking of what is stored.

use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page};
use api::{Alert, Scrub, ScrubPost};
use catalog::VolumeOrSnapshot;
use engine::Space;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::format_capacity;

/// How much of the pool is in use when administrators are warned.
const WARNING_PERCENT: u64 = 80;
/// How much of it is in use when there is not much time left.
const CRITICAL_PERCENT: u64 = 90;
/// How many alerts that are over are kept.
const MAX_CLOSED: usize = 1000;
/// How fast everything is checked where nobody says: 100 MiB per second.
const DEFAULT_SCRUB_PACE: u64 = 100 << 20;
/// The slowest: a mebibyte per second.
const MIN_SCRUB_PACE: u64 = 1 << 20;

/// The kinds of alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Code {
    PoolFills = 1,
    VolumeFills = 2,
    Damage = 3,
    NoRoomBelow = 4,
}

/// Something that is so now.
struct Condition {
    code: Code,
    component: String,
    severity: &'static str,
    summary: String,
    description: &'static str,
    actual: Option<String>,
    expected: Option<String>,
}

/// The alerts since the array was started.
#[derive(Default)]
pub(crate) struct AlertBook(Mutex<Alerts>);

#[derive(Default)]
struct Alerts {
    last: u64,
    open: BTreeMap<(Code, String), Alert>,
    closed: VecDeque<Alert>,
}

impl App {
    /// Looks what is to be alerted of, and keeps account of what comes and goes.
    pub fn look_for_alerts(&self) {
        let new = self.alerts.0.lock().follow(self.conditions(), platform::clock::unix_millis());
        for alert in new {
            tracing::warn!(severity = alert.severity, component = alert.component_name, "alert: {}", alert.summary);
        }
    }

    fn conditions(&self) -> Vec<Condition> {
        let mut found = Vec::new();
        let pool = self.engine.space();
        found.extend(self.pool_fills(&pool));
        found.extend(no_room_below(&pool, &self.catalog.array().name));
        let state = self.catalog.state();
        let with_threshold = state.volumes().filter(|volume| volume.destroyed_ms.is_none());
        for (volume, threshold) in with_threshold.filter_map(|volume| Some((volume, volume.threshold_percent?))) {
            let written = self.engine.volume_space(volume.id).unwrap_or_default().written;
            let percent = percent(written, volume.bytes);
            if percent >= u64::from(threshold) {
                found.push(Condition {
                    code: Code::VolumeFills,
                    component: volume.name.clone(),
                    severity: "warning",
                    summary: format!("volume {} is {percent} % written", volume.name),
                    description: "Make it larger, or have its hosts unmap what they no longer need.",
                    actual: Some(format!("{percent} %")),
                    expected: Some(format!("below {threshold} %")),
                });
            }
        }
        found.extend(self.damage().map(|(volume, what)| Condition {
            code: Code::Damage,
            summary: format!("damaged: {what}"),
            component: volume.unwrap_or(what),
            severity: "critical",
            description: "Reads of it answer with a medium error. Write it again, or copy the volume from a snapshot or a backup; \
                          then a scrub (ibid scrub start) finds it sound.",
            actual: None,
            expected: None,
        }));
        found
    }

    /// Damage that is known, in words, with the volume or snapshot that has it; not what was eradicated meanwhile.
    fn damage(&self) -> impl Iterator<Item = (Option<String>, String)> {
        let state = self.catalog.state();
        self.engine.health().damage.into_iter().filter_map(move |damage| match damage.volume {
            Some(id) => {
                let unit = state.volume_or_snapshot_by_id(id)?;
                let name = state.volume_or_snapshot_name(&unit);
                let kind = if matches!(unit, VolumeOrSnapshot::Volume(_)) { "volume" } else { "snapshot" };
                let what = format!("{kind} {name}: {}", damage.what);
                Some((Some(name), what))
            }
            None => Some((None, damage.what)),
        })
    }

    fn pool_fills(&self, pool: &Space) -> Option<Condition> {
        let percent = percent(pool.used, pool.capacity);
        let own = self.catalog.array().settings.threshold_percent.map_or(WARNING_PERCENT, u64::from);
        let expected = own.min(WARNING_PERCENT);
        (percent >= expected).then(|| Condition {
            code: Code::PoolFills,
            component: self.catalog.array().name.clone(),
            severity: if percent >= CRITICAL_PERCENT { "critical" } else { "warning" },
            summary: format!("the array is {percent} % full: {} are free", format_capacity(pool.free())),
            description: "Grow it (ibid array grow), eradicate what is destroyed, or have hosts unmap what they no longer need.",
            actual: Some(format!("{percent} %")),
            expected: Some(format!("below {expected} %")),
        })
    }
}

/// The pool has room that the file system below does not have: hosts are stopped long before the pool is full.
fn no_room_below(pool: &Space, array: &str) -> Option<Condition> {
    pool.is_refused_below.then(|| Condition {
        code: Code::NoRoomBelow,
        component: array.to_owned(),
        severity: "critical",
        summary: format!(
            "the file system that the array is on is full, while {} are free in the array",
            format_capacity(pool.free())
        ),
        description: "Hosts are told that there is no room, and go on by themselves when there is. Make room on that file system; the \
                      array needs as much as its capacity.",
        actual: None,
        expected: None,
    })
}

impl Alerts {
    /// Takes over what is so now; gives the alerts that are new, or worse than they were.
    fn follow(&mut self, conditions: Vec<Condition>, now_ms: u64) -> Vec<Alert> {
        let mut new = Vec::new();
        let mut present = BTreeSet::new();
        for condition in conditions {
            let key = (condition.code, condition.component.clone());
            if !present.insert(key.clone()) {
                // A scrub and a read have met damage of the same volume.
                continue;
            }
            match self.open.get_mut(&key) {
                Some(known) => {
                    let is_worse = known.severity != condition.severity && condition.severity == "critical";
                    if known.summary != condition.summary || known.severity != condition.severity {
                        (known.summary, known.issue) = (condition.summary.clone(), condition.summary);
                        (known.actual, known.expected) = (condition.actual, condition.expected);
                        known.severity = condition.severity.to_owned();
                        known.updated = now_ms;
                    }
                    new.extend(is_worse.then(|| known.clone()));
                }
                None => {
                    self.last += 1;
                    let alert = opened(self.last, condition, now_ms);
                    new.push(alert.clone());
                    self.open.insert(key, alert);
                }
            }
        }
        let over: Vec<_> = self.open.keys().filter(|key| !present.contains(*key)).cloned().collect();
        for mut alert in over.iter().filter_map(|key| self.open.remove(key)) {
            alert.state = "closed".to_owned();
            (alert.closed, alert.updated, alert.flagged) = (Some(now_ms), now_ms, false);
            self.closed.push_back(alert);
        }
        let surplus = self.closed.len().saturating_sub(MAX_CLOSED);
        self.closed.drain(..surplus);
        new
    }
}

fn opened(number: u64, condition: Condition, now_ms: u64) -> Alert {
    let component_type = match condition.code {
        Code::PoolFills | Code::NoRoomBelow => "array",
        Code::VolumeFills => "volume",
        Code::Damage => "storage",
    };
    Alert {
        id: number.to_string(),
        name: number.to_string(),
        actual: condition.actual,
        category: "array".to_owned(),
        closed: None,
        code: condition.code as u64,
        component_name: condition.component,
        component_type: component_type.to_owned(),
        created: now_ms,
        description: condition.description.to_owned(),
        expected: condition.expected,
        flagged: true,
        issue: condition.summary.clone(),
        knowledge_base_url: None,
        notified: None,
        severity: condition.severity.to_owned(),
        state: "open".to_owned(),
        summary: condition.summary,
        updated: now_ms,
    }
}

fn percent(of: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(of) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// `GET /alerts`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "flagged"]])?;
    call.app.look_for_alerts();
    let mut alerts: Vec<Alert> = {
        let alerts = call.app.alerts.0.lock();
        alerts.closed.iter().chain(alerts.open.values()).cloned().collect()
    };
    if let Some(flagged) = call.query.flag("flagged")? {
        alerts.retain(|alert| alert.flagged == flagged);
    }
    let asked = call.query.list("names").or_else(|| call.query.list("ids"));
    if let Some(asked) = asked {
        if let Some(unknown) = asked.iter().find(|name| !alerts.iter().any(|alert| alert.name == **name)) {
            return Err(RestError::about(unknown, "Alert does not exist."));
        }
        alerts.retain(|alert| asked.contains(&alert.name));
    }
    page(alerts, &call.query, &["created", "id"])
}

/// `GET /arrays/scrub`.
pub(crate) fn scrub_status(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&[]])?;
    let health = call.app.engine.health();
    Answer::all(vec![Scrub {
        running: health.is_scrubbing,
        checked: health.scrubbed,
        used: call.app.engine.space().used,
        completed: health.scrubs,
        damage: call.app.damage().map(|(_, what)| what).collect(),
    }])
}

/// `POST /arrays/scrub`: checks everything that is stored.
pub(crate) fn start_scrub(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&[]])?;
    let post: ScrubPost = call.body()?;
    let pace = post.bytes_per_second.unwrap_or(DEFAULT_SCRUB_PACE);
    if pace < MIN_SCRUB_PACE {
        return Err(RestError::bad("Invalid pace: 1 MiB per second or more."));
    }
    call.app.engine.scrub(pace);
    tracing::info!(by = call.admin, pace, "a scrub was started");
    scrub_status(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(code: Code, component: &str, severity: &'static str, summary: &str) -> Condition {
        let (component, summary) = (component.to_owned(), summary.to_owned());
        Condition { code, component, severity, summary, description: "", actual: None, expected: None }
    }

    #[test]
    fn an_alert_is_told_when_it_comes_and_when_it_becomes_worse() {
        let mut alerts = Alerts::default();
        let mut told = |conditions: Vec<Condition>, at: u64| -> Vec<String> {
            alerts.follow(conditions, at).into_iter().map(|alert| alert.summary).collect()
        };
        let pool = |severity, summary| condition(Code::PoolFills, "array", severity, summary);
        assert_eq!(told(vec![pool("warning", "80 %")], 1), ["80 %"]);
        assert_eq!(told(vec![pool("warning", "85 %")], 2), Vec::<String>::new());
        let damage = condition(Code::Damage, "segment 7", "critical", "damaged: segment 7");
        assert_eq!(told(vec![pool("critical", "90 %"), damage], 3), ["90 %", "damaged: segment 7"]);
        assert_eq!(told(vec![pool("warning", "89 %")], 4), Vec::<String>::new());
        let open: Vec<_> = alerts.open.values().collect();
        assert_eq!((open.len(), open[0].created, open[0].updated, open[0].id.as_str()), (1, 1, 4, "1"));
        let closed = &alerts.closed[0];
        assert_eq!((closed.code, closed.closed, closed.state.as_str()), (3, Some(4), "closed"));
    }

    #[test]
    fn those_that_are_over_are_not_kept_for_ever() {
        let mut alerts = Alerts::default();
        for at in 0..MAX_CLOSED as u64 + 10 {
            alerts.follow(vec![condition(Code::Damage, &at.to_string(), "critical", "")], at);
        }
        alerts.follow(Vec::new(), 9999);
        assert_eq!((alerts.open.len(), alerts.closed.len()), (0, MAX_CLOSED));
        assert_eq!(alerts.closed[0].component_name, "10");
    }

    #[test]
    fn a_file_system_that_is_full_is_alerted_of_while_it_is() {
        let space = |is_refused_below| Space { capacity: 6 << 30, used: 2 << 30, is_refused_below, ..Space::default() };
        let mut alerts = Alerts::default();
        let mut look = |is_full, at| alerts.follow(no_room_below(&space(is_full), "array-1").into_iter().collect(), at);
        assert!(look(false, 1).is_empty());
        let new = look(true, 2);
        assert_eq!((new[0].severity.as_str(), new[0].component_name.as_str()), ("critical", "array-1"));
        assert_eq!(new[0].summary, "the file system that the array is on is full, while 4G are free in the array");
        assert!(look(true, 3).is_empty() && look(false, 4).is_empty());
        assert_eq!(alerts.closed[0].closed, Some(4));
    }
}
