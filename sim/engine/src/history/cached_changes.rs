//! The contents of the oracle's write cache.

use crate::state::OracleState;
use engine::Op;

/// A change that was answered but may not be durable.
#[derive(Clone, Debug)]
pub(super) struct CachedChange {
    pub(super) op: Op,
    /// Number of changes that were answered before its submission.
    pub(super) since: u64,
    /// Number of changes that were answered before it.
    pub(super) number: u64,
    /// False for a copy that failed and was done in part.
    pub(super) is_whole: bool,
}

/// Changes in the write cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct CachedChanges {
    /// Changes are answered before they are durable.
    pub(super) is_on: bool,
    /// State that is certainly durable.
    pub(super) durable: OracleState,
    /// Later changes in the order of their replies.
    pub(super) changes: Vec<CachedChange>,
}

impl CachedChanges {
    /// Starts with a state that is durable.
    pub(super) fn restart(&mut self, state: OracleState) {
        self.changes.clear();
        if self.is_on {
            self.durable = state;
        }
    }
}
