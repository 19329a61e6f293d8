//! Removal of a stream.

/// How far the removal of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Its deltas lose their pages.
    Wanted,
    /// Slots are being loaded for that.
    Loading,
    /// One of the slots cannot be read now.
    Stuck,
    /// The checkpoint of this number, and each later one, does not list it.
    With(u64),
}
