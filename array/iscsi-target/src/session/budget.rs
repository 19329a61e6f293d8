//! Budget of a turn: bounds the work of one session before other sessions are served.

use std::time::{Duration, Instant};

/// Maximum number of PDUs that a turn parses.
pub(crate) const MAX_PDUS: usize = 64;
/// Maximum number of operations that a turn starts or completes.
const MAX_OPERATIONS: u32 = 64;
/// Maximum bytes of operations and answers in a turn. One operation may exceed it.
const MAX_BYTES: u64 = 1 << 20;
/// Time after which a turn starts nothing more.
pub(crate) const MAX_TURN_TIME: Duration = Duration::from_millis(1);

/// The remaining budget of a turn.
#[derive(Debug)]
pub(super) struct TurnBudget {
    operations: u32,
    bytes: u64,
    end: Instant,
}

impl TurnBudget {
    /// Returns the full budget of a turn that starts at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self { operations: MAX_OPERATIONS, bytes: MAX_BYTES, end: now + MAX_TURN_TIME }
    }

    /// Charges one operation, or one completion.
    pub(super) fn charge_operation(&mut self) {
        self.operations = self.operations.saturating_sub(1);
    }

    /// Charges bytes that the thread of the session processes.
    pub(super) fn charge_bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Returns true if nothing more may be started at `now`.
    pub(super) fn is_used_up(&self, now: Instant) -> bool {
        self.operations == 0 || self.bytes == 0 || now >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_ends_by_operations_bytes_or_time() {
        let now = platform::clock::now();
        let mut budget = TurnBudget::new(now);
        (1..MAX_OPERATIONS).for_each(|_| budget.charge_operation());
        assert!(!budget.is_used_up(now));
        budget.charge_operation();
        assert!(budget.is_used_up(now));

        let mut budget = TurnBudget::new(now);
        budget.charge_bytes(MAX_BYTES - 1);
        assert!(!budget.is_used_up(now));
        budget.charge_bytes(32 << 20);
        assert!(budget.is_used_up(now));

        let budget = TurnBudget::new(now);
        assert!(!budget.is_used_up(now + MAX_TURN_TIME - Duration::from_nanos(1)));
        assert!(budget.is_used_up(now + MAX_TURN_TIME));
    }
}
