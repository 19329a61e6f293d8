//! Ends of forwarded requests.

/// Why the array that orders does not carry out a forward. It has had no effect, and has none
/// later. The host repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is older than a forward may be.
    TooOld,
    /// Its initiator has changed the volume by way of the array that orders since it was sent.
    OtherPathUsed,
    /// Its host has given it up.
    Cancelled,
    /// More forwards wait than there is room for.
    TooMany,
}

/// Why a forwarded request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// It was not carried out.
    Refused(Refusal),
    /// The arrays have parted before its outcome was known: it may have happened.
    Undecided,
    /// The array that orders has carried it out, and reports this error.
    Error(E),
}

/// A request of a host that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended<W, E> {
    /// The caller's part of it.
    pub waiting: W,
    /// Its result.
    pub result: Result<(), Failure<E>>,
}
