//! The kinds of runs.

/// The part of a run that the number of its seed decides.
#[derive(Clone, Copy)]
pub(super) struct PairKind {
    /// An array that serves alone keeps deltas.
    pub(super) uses_delta: bool,
    /// One or both pools can be filled.
    pub(super) is_small: bool,
}
