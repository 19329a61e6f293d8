//! Reports about pods on two arrays, as their owner makes them.

/// The last comparison of the content of a pod on both arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVerificationView {
    /// State.
    pub state: PodVerificationState,
    /// Begin, in milliseconds since 1970.
    pub started_ms: u64,
    /// End, or the last time when it was stored.
    pub ended_ms: u64,
    /// Bytes that were compared.
    pub compared: u64,
    /// Bytes to compare.
    pub total: u64,
    /// Bytes that differ, listed or not.
    pub different: u64,
    /// When the first difference was found, in milliseconds since 1970.
    pub found_ms: u64,
    /// Ranges that differ.
    pub differences: Vec<PodDifferenceView>,
}

/// State of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVerificationState {
    /// It compares.
    Running,
    /// It waits until both arrays serve again.
    Waiting,
    /// It has compared everything.
    Complete,
    /// An administrator has stopped it.
    Stopped,
    /// It has ended early, for this reason: lower case, without a full stop.
    Ended(String),
}

/// A range that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDifferenceView {
    /// Name of the volume or snapshot.
    pub volume: String,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The difference.
    pub kind: PodDifferenceKind,
}

/// The difference of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodDifferenceKind {
    /// The contents differ.
    Content,
    /// This array cannot read its content.
    UnreadableHere,
    /// The other array cannot read its content.
    UnreadableThere,
}

/// The result of one comparison of two arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCheckLine {
    /// The topic: one word.
    pub topic: &'static str,
    /// The result.
    pub grade: PodCheckGrade,
    /// The finding, and what to do: lower case, without a full stop.
    pub message: String,
}

/// The grade of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCheckGrade {
    /// As it should be.
    Ok,
    /// Works, with a limit.
    Warning,
    /// Does not work.
    Error,
}

/// The hand-over of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvacuation {
    /// Name of the pod.
    pub pod: String,
    /// The result.
    pub result: PodEvacuationResult,
    /// The result in words: lower case, without a full stop.
    pub message: String,
}

/// The result of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodEvacuationResult {
    /// The other array orders changes.
    HandedOver,
    /// It did so before, or serves alone.
    NotNeeded,
    /// It stays.
    Refused,
}
