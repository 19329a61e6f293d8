//! Pods that two arrays serve, as the server of this interface needs them: their state, and the
//! requests of administrators. The owner of the pods implements it.

use crate::error::RestError;
use crate::pod_reports::{PodCheckLine, PodEvacuation, PodVerificationView};
use api::ErrorCode;
use catalog::Pod;
use thiserror::Error;

/// Pods that two arrays serve.
///
/// A request returns when the pod has accepted or refused it; its effect may come later, and
/// [`PodControl::view`] shows it.
pub trait PodControl: Send + Sync {
    /// Returns the state of a pod, or `None` if it is on this array alone. Does not block: lists
    /// and alerts call it for each pod.
    fn view(&self, pod: &Pod) -> Option<PodView>;

    /// Brings a pod to a second array, a connected one with exactly this name. `mediator` is
    /// `HOST` or `HOST:PORT`. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the pod stays on this array; nothing has changed then.
    fn stretch(&self, pod: &Pod, array: &str, mediator: Option<&str>) -> Result<(), PodControlError>;

    /// Removes a pod from the other array, which has exactly this name. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the other array keeps the pod.
    fn unstretch(&self, pod: &Pod, array: &str) -> Result<(), PodControlError>;

    /// Prefers an array of the pod, with exactly this name. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the preference stays.
    fn prefer(&self, pod: &Pod, array: &str) -> Result<(), PodControlError>;

    /// Uses the mediator at `HOST` or `HOST:PORT`, or none. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the mediator stays.
    fn set_mediator(&self, pod: &Pod, mediator: Option<&str>) -> Result<(), PodControlError>;

    /// Returns, as sentences, the changes and the safety that a forced promotion may lose now.
    ///
    /// # Errors
    ///
    /// The reason why the pod cannot be promoted.
    fn risk_of_promotion(&self, pod: &Pod) -> Result<String, PodControlError>;

    /// Makes this array serve the pod although the protocol does not allow it. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the pod cannot be promoted.
    fn promote(&self, pod: &Pod) -> Result<(), PodControlError>;

    /// Discards the content of this array, which has diverged. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the content is kept.
    fn discard(&self, pod: &Pod) -> Result<(), PodControlError>;

    /// Hands the pod over to the other array. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why this array continues.
    fn resign(&self, pod: &Pod) -> Result<(), PodControlError>;

    /// Compares settings and states that must match at both arrays; for a pod on this array alone,
    /// at the array that it may come to. Blocks for some seconds.
    ///
    /// # Errors
    ///
    /// No array is named, or the mediator does not answer.
    fn check(
        &self,
        pod: &Pod,
        array: Option<&str>,
        mediator: Option<&str>,
    ) -> Result<Vec<PodCheckLine>, PodControlError>;

    /// Hands all pods over to the other arrays, or only says what that would do. Blocks until they
    /// are in step again.
    fn evacuate(&self, is_made: bool) -> Vec<PodEvacuation>;

    /// Returns, as sentences, the losses if the pod is removed from this array only.
    ///
    /// # Errors
    ///
    /// The reason why the pod stays.
    fn risk_of_forgetting(&self, pod: &Pod) -> Result<String, PodControlError>;

    /// Removes the pod from this array only. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why the pod stays.
    fn forget(&self, pod: &Pod) -> Result<(), PodControlError>;

    /// Begins to compare the content of both arrays. Blocks.
    ///
    /// # Errors
    ///
    /// The reason why it does not begin.
    fn verify(&self, pod: &Pod) -> Result<(), PodControlError>;

    /// Stops that. Does not wait for the other array.
    ///
    /// # Errors
    ///
    /// It does not run.
    fn stop_verify(&self, pod: &Pod) -> Result<(), PodControlError>;

    /// Returns the last comparison that this array has made.
    fn verification(&self, pod: &Pod) -> Option<PodVerificationView>;
}

/// A request about a pod has failed. The texts are for administrators: lower case, without a full
/// stop, such as "the other array is silent".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PodControlError {
    /// The pod is on this array alone.
    #[error("the pod is on this array alone")]
    NotStretched,
    /// The state of the pod does not allow it. If an administrator can do something about it, the
    /// reason says so.
    #[error("{0}")]
    Refused(String),
    /// The array has failed.
    #[error("{0}")]
    System(String),
}

impl PodControlError {
    /// Returns the error of a request: the pod cannot be `done`, such as "promoted".
    pub(crate) fn about(&self, pod: &Pod, done: &str) -> RestError {
        let message = format!("Pod {} cannot be {done}: {self}.", pod.name);
        match self {
            Self::NotStretched => RestError::about(ErrorCode::PodNotStretched, &pod.name, message),
            Self::Refused(_) => RestError::about(ErrorCode::PodRefused, &pod.name, message),
            Self::System(_) => RestError::Internal(message),
        }
    }
}

/// The state of a pod on two arrays, as this array has it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    /// State on this array.
    pub state: PodState,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Both arrays, this one first.
    pub arrays: Vec<PodArrayView>,
    /// The array that may continue without the other.
    pub tie_rule: PodTieRule,
    /// Both arrays are known to have the tie rule.
    pub is_rule_in_force: bool,
    /// Name of the preferred array.
    pub preferred: String,
    /// Address of the mediator, if the pod has one.
    pub mediator: Option<String>,
    /// Why the mediator does not answer this array, if so: lower case, without a full stop.
    pub mediator_problem: Option<String>,
    /// The event that the pod waits for, if it is not in full service.
    pub waits_for: Option<PodWait>,
    /// Why the other array does not take part, if it refuses to: lower case, without a full stop.
    pub refusal: Option<String>,
    /// Round trip to the other array in microseconds; none without a session.
    pub rtt_us: Option<u64>,
    /// The distance to the other array is simulated.
    pub is_distance_simulated: bool,
    /// Bytes that the other array lacks, if this array counts them.
    pub behind_bytes: Option<u64>,
    /// Seconds until it has them, at the present pace, if this array knows it.
    pub seconds_left: Option<u64>,
    /// Commands of hosts that wait for the pod.
    pub waiting_commands: u64,
    /// Bytes that EXTENDED COPY has brought into the pod by way of this array since its start, and
    /// those of them that have crossed the link because the other array did not have them.
    pub copied: (u64, u64),
    /// The stream of changes, if it runs.
    pub flow: Option<PodFlow>,
    /// Bytes that differ between the arrays, and when the first difference was found, in
    /// milliseconds since 1970.
    pub different: Option<(u64, u64)>,
    /// The losses of a forced promotion here, in sentences, if it may be considered.
    pub risk: Option<String>,
    /// The other array is connected and has no such pod, so it can be removed here.
    pub is_forgettable: bool,
    /// Recent events, the newest last: milliseconds since 1970, and the event.
    pub events: Vec<(u64, PodEvent)>,
}

/// The stream of changes between the two arrays of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodFlow {
    /// Records that the other array has not reported as durable.
    pub unheard: u64,
    /// Bytes that the array which follows has lent for records, and that none has used.
    pub room: u64,
    /// Mean time from the order of a record to its durability at this array, and to the report of
    /// the other one, in microseconds.
    pub latency_us: Option<(u64, u64)>,
}

/// One of the two arrays of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodArrayView {
    /// Id of the array.
    pub id: String,
    /// Name of the array.
    pub name: String,
    /// It is this array.
    pub is_this: bool,
    /// Its part in the pod.
    pub status: PodPart,
    /// It orders changes.
    pub is_sequencer: bool,
    /// The mediator as this array of the pod sees it.
    pub mediator: MediatorState,
    /// The part of the content that it has received, 0 to 1, while it receives content.
    pub progress: Option<f64>,
    /// Its content is of this time, in milliseconds since 1970, because it has no newer one.
    pub frozen_at: Option<u64>,
    /// It is out of step, and has too little free space to return.
    pub is_full: bool,
}

/// State of a pod on an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodState {
    /// Both arrays hold the same content and serve.
    Sync,
    /// Neither array is known to serve: commands of hosts wait.
    Paused,
    /// This array serves alone.
    Solo,
    /// This array serves, and brings the other one into step.
    Resync,
    /// This array receives content.
    Target,
    /// This array has yielded to the other.
    Lost,
    /// This array has lost changes: its log was damaged, or it was put back to an image.
    Hurt,
    /// This array has served while the other one did so too.
    Diverged,
    /// The pod is being removed from an array.
    Leaving,
}

/// Part of an array in the service of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodPart {
    /// Serves hosts.
    Online,
    /// Receives content.
    Resyncing,
    /// Does not serve.
    Offline,
    /// Not known.
    Unknown,
}

/// State of a mediator for an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediatorState {
    /// Answers.
    Online,
    /// Does not answer.
    Unreachable,
    /// Not known, or the pod has none.
    Unknown,
}

/// The array that may continue without the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodTieRule {
    /// The mediator decides.
    Mediator,
    /// Only the array with this name.
    Only(String),
}

/// An event that a pod waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodWait {
    /// The event.
    pub event: PodWaitEvent,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// The kinds of events that a pod waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodWaitEvent {
    /// The other array, which is silent.
    Peer,
    /// The other array, which alone may continue.
    PeerThatMayContinue,
    /// A report of the other array in this session.
    PeerState,
    /// The other array, which has to yield.
    PeerYields,
    /// An answer of the mediator.
    Mediator,
    /// The end of the other array's permission to answer reads.
    LeaseEnd,
    /// The end of changes that are under way.
    Commit,
    /// The tie rule, which has to be stored on both arrays.
    RuleInForce,
    /// The other array's list of blocks.
    Mask,
    /// Content that is on its way to the other array, or to this one.
    Resync,
    /// Free space at the other array.
    PeerRoom,
    /// Free space at this array.
    Room,
    /// An array that serves, which has to bring this one into step.
    Owner,
    /// A decision of an administrator.
    Administrator,
}

/// Something that an administrator should know of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodEvent {
    /// The other array is silent.
    PeerSilent,
    /// This array serves alone.
    Alone,
    /// This array has yielded.
    Yielded,
    /// Both arrays are in step.
    InStep,
    /// The other array has lost a part of its log, or its content is unknown: it gets all content.
    PeerLostLog,
    /// The mediator is lost.
    MediatorLost,
    /// The mediator is back.
    MediatorBack,
    /// An administrator has to decide.
    AdministratorDecides,
    /// Both arrays have served; this one has stopped.
    Diverged,
    /// The mediator's register is retired, or names the other array in a later epoch.
    RegisterDisagrees,
}
