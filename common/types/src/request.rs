//! Names of requests that cross from one array to another, and of their senders.

/// Identifies a request that one array has forwarded to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Distinguishes the process that has forwarded it.
    pub origin: u64,
    /// Ascending within that process.
    pub number: u64,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The initiator, by a number that is the same on every array, for every path.
    pub initiator: u64,
    /// The session of the initiator with this array; 0 if the request belongs to none.
    pub nexus: u64,
}
