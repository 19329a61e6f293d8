//! Pods on two arrays, which a double serves.

use super::array_connections::{key, listening_app, runtime, wait_connected};
use super::*;
use crate::{
    MediatorState, PodArrayView, PodCheckGrade, PodCheckLine, PodControl, PodControlError, PodDifferenceKind,
    PodDifferenceView, PodEvacuation, PodEvacuationResult, PodEvent, PodPart, PodState, PodTieRule,
    PodVerificationState, PodVerificationView, PodView, PodWait, PodWaitEvent,
};
use catalog::Pod;
use parking_lot::Mutex;
use serde_json::json;

/// A double of the pods: one state for the pod `p`, and the requests in order.
#[derive(Default)]
pub(super) struct Double {
    pub(super) view: Mutex<Option<PodView>>,
    pub(super) requests: Mutex<Vec<String>>,
    refusal: Mutex<Option<PodControlError>>,
    verification: Mutex<Option<PodVerificationView>>,
}

impl Double {
    fn request(&self, pod: &Pod, text: String) -> Result<(), PodControlError> {
        if let Some(refusal) = self.refusal.lock().clone() {
            return Err(refusal);
        }
        self.requests.lock().push(format!("{}: {text}", pod.name));
        Ok(())
    }
}

impl PodControl for Double {
    fn view(&self, pod: &Pod) -> Option<PodView> {
        self.view.lock().clone().filter(|_| pod.name == "p")
    }
    fn stretch(&self, pod: &Pod, array: &str, mediator: Option<&str>) -> Result<(), PodControlError> {
        self.request(pod, format!("stretch to {array} with {mediator:?}"))
    }
    fn unstretch(&self, pod: &Pod, array: &str) -> Result<(), PodControlError> {
        self.request(pod, format!("unstretch from {array}"))
    }
    fn prefer(&self, pod: &Pod, array: &str) -> Result<(), PodControlError> {
        self.request(pod, format!("prefer {array}"))
    }
    fn set_mediator(&self, pod: &Pod, mediator: Option<&str>) -> Result<(), PodControlError> {
        self.request(pod, format!("mediator {mediator:?}"))
    }
    fn risk_of_promotion(&self, _pod: &Pod) -> Result<String, PodControlError> {
        match self.refusal.lock().clone() {
            Some(refusal) => Err(refusal),
            None => Ok("The last 3 s may be lost.".to_owned()),
        }
    }
    fn promote(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, "promote".to_owned())
    }
    fn discard(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, "discard".to_owned())
    }
    fn resign(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, "resign".to_owned())
    }
    fn check(
        &self,
        pod: &Pod,
        array: Option<&str>,
        mediator: Option<&str>,
    ) -> Result<Vec<PodCheckLine>, PodControlError> {
        self.request(pod, format!("check {array:?} {mediator:?}"))?;
        let line = |topic, grade, message: &str| PodCheckLine { topic, grade, message: message.to_owned() };
        Ok(vec![line("link", PodCheckGrade::Ok, "fine"), line("space", PodCheckGrade::Error, "remove data")])
    }
    fn evacuate(&self, is_made: bool) -> Vec<PodEvacuation> {
        let result = if is_made { PodEvacuationResult::HandedOver } else { PodEvacuationResult::Refused };
        vec![PodEvacuation { pod: "p".to_owned(), result, message: "it has one array".to_owned() }]
    }
    fn risk_of_forgetting(&self, pod: &Pod) -> Result<String, PodControlError> {
        self.risk_of_promotion(pod)
    }
    fn forget(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, "forget".to_owned())
    }
    fn verify(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, "verify".to_owned())
    }
    fn stop_verify(&self, pod: &Pod) -> Result<(), PodControlError> {
        self.request(pod, "stop verify".to_owned())
    }
    fn verification(&self, pod: &Pod) -> Option<PodVerificationView> {
        self.verification.lock().clone().filter(|_| pod.name == "p")
    }
}

fn array(name: &str, is_this: bool) -> PodArrayView {
    PodArrayView {
        id: format!("id of {name}"),
        name: name.to_owned(),
        is_this,
        status: PodPart::Online,
        is_sequencer: is_this,
        mediator: MediatorState::Online,
        progress: None,
        frozen_at: None,
        is_full: false,
    }
}

pub(super) fn in_step() -> PodView {
    PodView {
        state: PodState::Sync,
        since_ms: 1_000,
        arrays: vec![array("array-1", true), array("beta", false)],
        tie_rule: PodTieRule::Mediator,
        is_rule_in_force: true,
        preferred: "array-1".to_owned(),
        mediator: Some("192.0.2.9".to_owned()),
        mediator_problem: None,
        waits_for: None,
        refusal: None,
        rtt_us: Some(4_100),
        is_distance_simulated: true,
        behind_bytes: None,
        seconds_left: None,
        waiting_commands: 0,
        copied: (0, 0),
        flow: None,
        different: None,
        risk: None,
        is_forgettable: false,
        events: vec![(500, PodEvent::InStep)],
    }
}

/// An array with the pods p, which is on two arrays with this state, and q, which is not.
fn stretched(view: PodView) -> (Rest, Arc<Double>, Arc<App>) {
    let (app, double) = (app(), Arc::<Double>::default());
    app.set_pod_control(double.clone());
    let rest = Rest::of(app.clone());
    rest.items("POST", "pods?names=p,q", "");
    *double.view.lock() = Some(view);
    (rest, double, app)
}

#[test]
fn pod_shows_both_arrays() {
    let mut view = in_step();
    view.state = PodState::Resync;
    view.tie_rule = PodTieRule::Only("array-1".to_owned());
    view.arrays[1].status = PodPart::Resyncing;
    view.arrays[1].progress = Some(0.62);
    view.arrays[1].frozen_at = Some(900);
    view.arrays[1].mediator = MediatorState::Unreachable;
    let (rest, _, _) = stretched(view);
    let pods = rest.items("GET", "pods", "");
    let expected = json!([
        {"id": "id of array-1", "name": "array-1", "frozen_at": null, "mediator_status": "online",
         "member": {"id": "id of array-1", "name": "array-1", "resource_type": "arrays"},
         "pre_elected": true, "progress": null, "status": "online"},
        {"id": "id of beta", "name": "beta", "frozen_at": 900, "mediator_status": "unreachable",
         "member": {"id": "id of beta", "name": "beta", "resource_type": "arrays"},
         "pre_elected": false, "progress": 0.62, "status": "resyncing"},
    ]);
    assert_eq!((&pods[0]["arrays"], &pods[0]["array_count"]), (&expected, &json!(2)));
    assert_eq!(pods[0]["failover_preferences"], json!([{"id": "id of array-1", "name": "array-1"}]));
    assert_eq!((&pods[0]["mediator"], &pods[0]["promotion_status"]), (&json!("192.0.2.9"), &json!("promoted")));
    assert_eq!((&pods[1]["array_count"], &pods[1]["mediator"]), (&json!(1), &json!("purestorage")));
    let pairs = rest.items("GET", "pods/arrays", "");
    let pairs: Vec<_> =
        pairs.iter().map(|pair| format!("{} {}", pair["group"]["name"], pair["member"]["name"])).collect();
    assert_eq!(pairs, [r#""p" "array-1""#, r#""p" "beta""#, r#""q" "array-1""#]);
    assert_eq!(rest.items("GET", "pods/arrays?member_names=BETA", "").len(), 1);
    assert_eq!(rest.items("GET", "pods/arrays?group_names=q&member_names=beta", "").len(), 0);
    assert!(rest.items("GET", "pod-replica-links", "").is_empty());
}

#[test]
fn replication_names_state_and_cause() {
    let mut view = in_step();
    view.state = PodState::Paused;
    view.waiting_commands = 7;
    view.copied = (3 << 20, 1 << 20);
    view.waits_for = Some(PodWait { event: PodWaitEvent::PeerThatMayContinue, since_ms: 61_000 });
    view.events.push((60_000, PodEvent::PeerSilent));
    let (rest, double, _) = stretched(view);
    let found = rest.items("GET", "pods/replication", "");
    assert_eq!(each(&found, "name"), ["p"]);
    let found = &found[0];
    for (field, value) in [
        ("state", json!("paused")),
        ("since", json!(1_000)),
        ("tie_rule", json!("mediator")),
        ("only", Value::Null),
        ("is_tie_rule_in_force", json!(true)),
        ("preferred", json!("array-1")),
        ("mediator", json!("192.0.2.9")),
        ("rtt_usec", json!(4_100)),
        ("is_distance_simulated", json!(true)),
        ("behind_bytes", Value::Null),
        ("seconds_left", Value::Null),
        ("unheard_records", Value::Null),
        ("waiting_commands", json!(7)),
        ("copied_bytes", json!(3 << 20)),
        ("crossed_bytes", json!(1 << 20)),
    ] {
        assert_eq!(found[field], value, "{field}");
    }
    assert_eq!(
        (&found["waits_for"]["event"], &found["waits_for"]["message"], &found["waits_for"]["since"]),
        (&json!("peer_that_may_continue"), &json!("beta, which alone may continue"), &json!(61_000))
    );
    let explanation = found["explanation"].as_str().unwrap();
    for part in [
        "Pod p is paused: array-1 does not serve it, and commands of hosts wait. This is so since 1970-01-01T00:00:01Z.",
        "It waits for beta, which alone may continue since 1970-01-01T00:01:01Z.",
        "`ibid pod promote p --force` serves the pod here.",
        "7 commands of hosts wait.",
        "the mediator (192.0.2.9) decides which one continues.",
    ] {
        assert!(explanation.contains(part), "{part}: {explanation}");
    }
    assert_eq!(found["events"][1], json!({"time": 60_000, "event": "peer_silent", "message": "beta is silent"}));
    let beta = json!({"id": "id of beta", "name": "beta", "is_this": false, "is_sequencer": false, "status": "online",
        "mediator_status": "online", "progress": null, "frozen_at": null, "is_full": false});
    assert_eq!(found["arrays"][1], beta);
    assert!(rest.items("GET", "pods/replication?names=q", "").is_empty());
    assert_eq!(rest.refused("GET", "pods/replication?names=x", ""), ["x: Pod does not exist."]);
    double.view.lock().as_mut().unwrap().tie_rule = PodTieRule::Only("beta".to_owned());
    let only = rest.items("GET", "pods/replication?names=p", "").remove(0);
    assert_eq!((&only["tie_rule"], &only["only"]), (&json!("only"), &json!("beta")));
}

#[test]
fn every_state_and_wait_has_words() {
    use PodState::*;
    use PodWaitEvent as Wait;
    let (rest, double, _) = stretched(in_step());
    let waits = [
        Wait::Peer,
        Wait::PeerThatMayContinue,
        Wait::PeerState,
        Wait::PeerYields,
        Wait::Mediator,
        Wait::LeaseEnd,
        Wait::Commit,
        Wait::RuleInForce,
        Wait::Mask,
        Wait::Resync,
        Wait::Owner,
        Wait::Administrator,
    ];
    let mut texts = Vec::new();
    for state in [Sync, Paused, Solo, Resync, Target, Lost, Hurt, Diverged, Leaving] {
        double.view.lock().as_mut().unwrap().state = state;
        texts.push(rest.items("GET", "pods/replication", "")[0]["explanation"].as_str().unwrap().to_owned());
    }
    for event in waits {
        double.view.lock().as_mut().unwrap().waits_for = Some(PodWait { event, since_ms: 0 });
        let wait = rest.items("GET", "pods/replication", "")[0]["waits_for"].clone();
        assert!(wait["ends"].as_str().unwrap().ends_with('.'), "{wait}");
        texts.push(wait["message"].as_str().unwrap().to_owned());
    }
    let count = texts.len();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), count, "each has words of its own: {texts:?}");
}

#[test]
fn preference_and_mediator_are_changed() {
    let (rest, double, _) = stretched(in_step());
    let set = |body: Value| rest.items("PATCH", "pods?names=p", &body.to_string());
    set(json!({"failover_preferences": [{"name": "BETA"}]}));
    set(json!({"failover_preferences": [{"id": "id of beta"}]}));
    set(json!({"mediator": "192.0.2.10:8118"}));
    set(json!({"mediator": ""}));
    set(json!({"mediator": "purestorage"}));
    // The present values change nothing.
    set(json!({"failover_preferences": [{"name": "array-1"}], "mediator": "192.0.2.9"}));
    let expected = [
        "p: prefer beta",
        "p: prefer beta",
        r#"p: mediator Some("192.0.2.10:8118")"#,
        "p: mediator None",
        "p: mediator None",
    ];
    assert_eq!(*double.requests.lock(), expected);
    let audits = rest.items("GET", "audits?filter=command='/pods'", "");
    assert_eq!(each(&audits, "subcommand"), ["POST", "PATCH", "PATCH", "PATCH", "PATCH", "PATCH"]);
    let refused =
        |pods: &str, body: Value| rest.refused("PATCH", &format!("pods?names={pods}"), &body.to_string()).remove(0);
    let none = refused("p", json!({"failover_preferences": []}));
    assert_eq!(none, "p: A pod on two arrays prefers exactly one of them: array-1 or beta.");
    assert_eq!(
        refused("p", json!({"failover_preferences": [{"name": "c"}]})),
        "p: A pod prefers one of its arrays: array-1 or beta."
    );
    assert!(refused("p", json!({"mediator": "x", "name": "r"})).contains("in a call each"));
    assert!(refused("p,q", json!({"mediator": "x"})).contains("stretch the pod first"));
    assert!(refused("q", json!({"failover_preferences": [{"name": "beta"}]})).contains("stretch the pod first"));
    *double.refusal.lock() = Some(PodControlError::Refused("the mediator does not answer".to_owned()));
    assert_eq!(refused("p", json!({"mediator": "x"})), "p: Pod p cannot be changed: the mediator does not answer.");
    *double.refusal.lock() = Some(PodControlError::System("input/output error".to_owned()));
    assert_eq!(rest.call("PATCH", "2.26/pods?names=p", r#"{"mediator":"x"}"#).0, 500);
}

#[test]
fn pod_on_two_arrays_is_not_destroyed() {
    let (rest, double, _) = stretched(in_step());
    let refused = rest.refused("PATCH", "pods?names=p", r#"{"destroyed":true}"#).remove(0);
    assert!(refused.starts_with("p: Pod is on two arrays"), "{refused}");
    let renamed = rest.items("PATCH", "pods?names=p", r#"{"quota_limit":2147483648}"#);
    assert_eq!(renamed[0]["quota_limit"], 2 * GIB, "other changes are those of any pod");
    *double.view.lock() = None;
    assert_eq!(rest.items("PATCH", "pods?names=p", r#"{"destroyed":true}"#)[0]["destroyed"], true);
}

#[test]
fn pod_is_promoted_resigned_and_discarded() {
    let (rest, double, _) = stretched(in_step());
    let post = |path: &str| rest.items("POST", path, "");
    let risk = rest.call("POST", "2.26/pods/promote?names=p", "");
    assert_eq!((risk.0, &risk.1["errors"][0]["code"]), (400, &json!("force_required")));
    assert_eq!(risk.1["errors"][0]["message"], "A promotion of pod p has to be forced. The last 3 s may be lost.");
    assert!(double.requests.lock().is_empty());
    assert_eq!(each(&post("pods/promote?names=P&force=true"), "state"), ["sync"]);
    post("pods/resign?names=p");
    post("pods/discard?names=p");
    assert_eq!(*double.requests.lock(), ["p: promote", "p: resign", "p: discard"]);
    let audits = rest.items("GET", "audits?filter=command='/pods/*'", "");
    assert_eq!(each(&audits, "command"), ["/pods/promote", "/pods/resign", "/pods/discard"]);
    assert_eq!(rest.refused("POST", "pods/resign?names=p,q", ""), ["'names' must be one pod."]);
    *double.refusal.lock() = Some(PodControlError::Refused("the other array is silent".to_owned()));
    for (path, done) in [("promote?force=true&", "promoted"), ("resign?", "handed over"), ("discard?", "discarded")] {
        let refused = rest.refused("POST", &format!("pods/{path}names=p"), "");
        assert_eq!(refused, [format!("p: Pod p cannot be {done}: the other array is silent.")]);
    }
    *double.refusal.lock() = Some(PodControlError::NotStretched);
    let alone = rest.call("POST", "2.26/pods/resign?names=q", "").1;
    assert_eq!(alone["errors"][0]["code"], "pod_not_stretched");
    assert_eq!(rest.items("GET", "audits", "").len(), audits.len() + 1, "a refused request leaves no entry");
    let plain = Rest::new();
    plain.items("POST", "pods?names=p", "");
    let refused = plain.refused("POST", "pods/promote?names=p&force=true", "");
    assert_eq!(refused, ["p: Pod p cannot be changed: the pod is on this array alone."]);
}

#[test]
fn arrays_join_and_leave_a_pod() {
    let runtime = runtime();
    let (app, _) = listening_app("array-1", b"the first array.", &runtime);
    let (other, address) = listening_app("beta", b"the other array.", &runtime);
    let double = Arc::<Double>::default();
    app.set_pod_control(double.clone());
    let (rest, beta) = (Rest::of(app), Rest::of(other));
    rest.items("POST", "pods?names=p,q", "");
    let stretch = "pods/arrays?group_names=p&member_names=Beta";
    let unknown = rest.refused("POST", stretch, "").remove(0);
    assert_eq!(unknown, "Beta: Pod p cannot be stretched to Beta: this array is not connected to it.");
    let post = json!({"management_address": address, "connection_key": key(&beta)});
    rest.items("POST", "array-connections", &post.to_string());
    wait_connected(&rest);
    let made = rest.items("POST", &format!("{stretch}&mediator=192.0.2.9"), "");
    assert_eq!((&made[0]["group"]["name"], &made[0]["member"]["name"]), (&json!("p"), &json!("beta")));
    assert_eq!(rest.refused("DELETE", stretch, ""), ["Beta: Pod p is not on array Beta."]);
    *double.view.lock() = Some(in_step());
    assert_eq!(rest.refused("POST", stretch, ""), ["Beta: Beta already belongs to pod p."]);
    let third = rest.refused("POST", "pods/arrays?group_names=p&member_names=c", "").remove(0);
    assert!(third.contains("it is on two arrays, and beta is one of them"), "{third}");
    let this = rest.refused("DELETE", "pods/arrays?group_names=p&member_names=array-1", "").remove(0);
    assert!(this.contains("run `ibid pod unstretch p array-1` there"), "{this}");
    assert_eq!(rest.call("DELETE", &format!("2.26/{stretch}"), "").0, 200);
    assert_eq!(*double.requests.lock(), [r#"p: stretch to beta with Some("192.0.2.9")"#, "p: unstretch from beta"]);
    let audits = rest.items("GET", "audits?filter=command='/pods/arrays'", "");
    assert_eq!(each(&audits, "subcommand"), ["POST", "DELETE"]);
    assert!(
        rest.refused("POST", "pods/arrays?group_names=p,q&member_names=beta", "")[0].contains("one pod and one array")
    );
    *double.refusal.lock() = Some(PodControlError::Refused("it has no space".to_owned()));
    let refused = rest.refused("POST", "pods/arrays?group_names=q&member_names=beta", "");
    assert_eq!(refused, ["q: Pod q cannot be stretched to beta: it has no space."]);
    rest.items("PATCH", "pods?names=q", r#"{"destroyed":true}"#);
    let destroyed = rest.refused("POST", "pods/arrays?group_names=q&member_names=beta", "");
    assert_eq!(destroyed, ["q: Pod has been destroyed."]);
}

#[test]
fn changed_pods_are_reported_to_streams() {
    let (_, double, app) = stretched(in_step());
    let last = |app: &App| app.changes.subscribe().borrow().last;
    app.read_performance(1);
    app.read_performance(2);
    let before = last(&app);
    let change = |edit: &dyn Fn(&mut PodView)| edit(double.view.lock().as_mut().unwrap());
    change(&|view| (view.rtt_us, view.behind_bytes, view.waiting_commands) = (Some(5), Some(6), 7));
    change(&|view| (view.seconds_left, view.copied) = (Some(8), (9, 9)));
    app.read_performance(3);
    assert_eq!(last(&app), before, "figures of the moment are no change");
    change(&|view| view.state = PodState::Paused);
    app.read_performance(4);
    let changes = *app.changes.subscribe().borrow();
    assert_eq!(changes.since(before).iter().map(|kind| kind.name()).collect::<Vec<_>>(), ["pods"]);
}

#[test]
fn states_of_pods_raise_and_close_alerts() {
    let mut view = in_step();
    view.mediator_problem = Some("connection refused".to_owned());
    let (rest, double, _) = stretched(view);
    let open = || {
        let alerts = rest.items("GET", "alerts?filter=state='open'", "");
        alerts
            .iter()
            .map(|alert| {
                format!("{} {} {} {}", alert["code"], alert["severity"], alert["component_type"], alert["summary"])
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(open(), [r#"19 "warning" "pod" "mediator 192.0.2.9 of pod p does not answer: connection refused""#]);
    *double.view.lock() = Some(in_step());
    assert_eq!(open(), Vec::<String>::new());
}

#[test]
fn verification_is_begun_shown_and_stopped() {
    let (rest, double, _) = stretched(in_step());
    assert!(rest.items("GET", "pods/verify", "").is_empty());
    let found = PodDifferenceView {
        volume: "p::v".to_owned(),
        offset: 4096,
        length: 8192,
        kind: PodDifferenceKind::UnreadableThere,
    };
    let view = PodVerificationView {
        state: PodVerificationState::Running,
        started_ms: 1,
        ended_ms: 2,
        compared: 1 << 20,
        total: 4 << 20,
        different: 0,
        found_ms: 0,
        differences: vec![],
    };
    *double.verification.lock() = Some(view.clone());
    let text = "The content of pod p is being compared: 25 % of 4MiB. No difference is known.";
    assert_eq!(each(&rest.items("POST", "pods/verify?names=p", ""), "explanation"), [text]);
    let ended = PodVerificationView {
        state: PodVerificationState::Complete,
        different: 8192,
        found_ms: 1000,
        differences: vec![found],
        ..view.clone()
    };
    *double.verification.lock() = Some(ended);
    let shown = rest.items("GET", "pods/verify", "").remove(0);
    let text = "All content of pod p was compared (4MiB). The arrays differ in 8KiB since 1970-01-01T00:00:01Z or earlier. \
                Nothing was repaired: decide which array has the right content.";
    assert_eq!((&shown["explanation"], &shown["ended"], &shown["found"]), (&json!(text), &json!(2), &json!(1000)));
    let range = json!({"volume": "p::v", "offset": 4096, "length": 8192, "kind": "unreadable_there"});
    assert_eq!(shown["differences"], json!([range]));
    let clean = PodVerificationView { state: PodVerificationState::Complete, ..view };
    *double.verification.lock() = Some(clean);
    let text = "All content of pod p was compared (4MiB). Both arrays hold the same.";
    assert_eq!(each(&rest.items("DELETE", "pods/verify?names=p", ""), "explanation"), [text]);
    assert_eq!(*double.requests.lock(), ["p: verify", "p: stop verify"]);
    assert_eq!(rest.refused("POST", "pods/verify?names=p,q", ""), ["'names' must be one pod."]);
}

#[test]
fn pods_are_checked_evacuated_and_forgotten() {
    let (rest, double, _) = stretched(in_step());
    let lines = rest.items("GET", "pods/check?names=q&member_names=beta&mediator=m", "");
    assert_eq!(
        (each(&lines, "status"), each(&lines, "topic")),
        (vec!["ok".to_owned(), "error".to_owned()], vec!["link".to_owned(), "space".to_owned()])
    );
    assert_eq!(each(&rest.items("GET", "pods/evacuate", ""), "status"), ["refused"]);
    assert_eq!(each(&rest.items("POST", "pods/evacuate", ""), "status"), ["handed_over"]);
    let refused = rest.refused("POST", "pods/forget?names=p", "");
    assert_eq!(refused, ["p: The removal of pod p from this array has to be forced. The last 3 s may be lost."]);
    assert!(rest.items("POST", "pods/forget?names=p&force=true", "").is_empty());
    assert_eq!(*double.requests.lock(), ["q: check Some(\"beta\") Some(\"m\")", "p: forget"]);
    let audits = rest.items("GET", "audits", "");
    let commands = each(&audits, "command");
    assert!(
        commands.contains(&"/pods/evacuate".to_owned()) && commands.contains(&"/pods/forget".to_owned()),
        "{commands:?}"
    );
}

#[test]
fn explanation_has_the_risk_of_a_promotion() {
    let mut view = in_step();
    (view.state, view.risk, view.is_forgettable) = (PodState::Lost, Some("Much is lost.".to_owned()), true);
    let (rest, ..) = stretched(view);
    let text = rest.items("GET", "pods/replication", "")[0]["explanation"].as_str().unwrap().to_owned();
    assert!(text.contains("A forced promotion here: Much is lost."), "{text}");
    assert!(text.contains("`ibid pod forget p` removes it here"), "{text}");
}
