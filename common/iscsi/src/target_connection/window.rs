//! The command window of a session: delivery order by CmdSN and the limit on outstanding commands
//! (RFC 7143 4.2.2.1).
//!
//! The window belongs to the session; several connections of a session would share it.

use std::collections::BTreeMap;

use crate::serial::before;

/// Position of a CmdSN relative to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CmdSnPosition {
    /// Next in order: deliver.
    Next,
    /// In the window, but not next: hold.
    Early,
    /// Outside the window or a duplicate: ignore.
    ///
    /// RFC 7143 4.2.2.1: The target MUST silently ignore any non-immediate command outside of this
    /// range or non-immediate duplicates within the range.
    Outside,
}

/// The CmdSN state of a session. `T` is a held request.
#[derive(Debug)]
pub(super) struct CommandWindow<T> {
    expected: u32,
    depth: u32,
    outstanding: u32,
    /// Requests that arrived early. `None` marks a skipped number that counts as received. At most
    /// as long as the window.
    held: BTreeMap<u32, Option<T>>,
}

impl<T> CommandWindow<T> {
    pub(super) fn new(expected: u32, depth: u32) -> Self {
        Self { expected, depth: depth.max(1), outstanding: 0, held: BTreeMap::new() }
    }

    /// ExpCmdSN.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// MaxCmdSN. Each outstanding command narrows the window by one and each start advances
    /// ExpCmdSN by one, so MaxCmdSN never decreases.
    pub(super) fn max(&self) -> u32 {
        self.expected.wrapping_add(self.depth - self.outstanding.min(self.depth)).wrapping_sub(1)
    }

    /// Returns true if the initiator may send only immediate commands.
    pub(super) fn is_closed(&self) -> bool {
        self.outstanding >= self.depth
    }

    pub(super) fn position(&self, cmd_sn: u32) -> CmdSnPosition {
        if before(cmd_sn, self.expected) || before(self.max(), cmd_sn) || self.held.contains_key(&cmd_sn) {
            return CmdSnPosition::Outside;
        }
        if cmd_sn == self.expected { CmdSnPosition::Next } else { CmdSnPosition::Early }
    }

    /// Advances ExpCmdSN after a delivery.
    pub(super) fn advance(&mut self) {
        self.expected = self.expected.wrapping_add(1);
    }

    /// Holds an early request until it is next.
    pub(super) fn hold(&mut self, cmd_sn: u32, early: T) {
        self.held.insert(cmd_sn, Some(early));
    }

    /// Marks a number as received, so that delivery does not wait for it.
    pub(super) fn skip(&mut self, cmd_sn: u32) {
        self.held.insert(cmd_sn, None);
    }

    /// Removes and returns the next held request that is in order.
    pub(super) fn next_held(&mut self) -> Option<T> {
        // Usually nothing is held, and the lookup is skipped.
        while !self.held.is_empty() {
            let held = self.held.remove(&self.expected)?;
            self.advance();
            if held.is_some() {
                return held;
            }
        }
        None
    }

    /// Returns the held requests.
    pub(super) fn held(&self) -> impl Iterator<Item = &T> {
        self.held.values().flatten()
    }

    /// Occupies a place in the window until [`Self::release`].
    pub(super) fn occupy(&mut self) {
        self.outstanding += 1;
    }

    /// Frees a place in the window.
    pub(super) fn release(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stay_ordered_across_cmd_sn_wrap() {
        let mut window = CommandWindow::new(u32::MAX - 1, 4);
        assert_eq!(window.max(), 1);
        assert_eq!(window.position(u32::MAX - 2), CmdSnPosition::Outside);
        assert_eq!(window.position(2), CmdSnPosition::Outside);
        for (early, name) in [(0, "third"), (u32::MAX, "second")] {
            assert_eq!(window.position(early), CmdSnPosition::Early);
            window.hold(early, name);
            assert_eq!(window.position(early), CmdSnPosition::Outside, "a duplicate");
        }
        assert_eq!(window.next_held(), None);
        assert_eq!(window.position(u32::MAX - 1), CmdSnPosition::Next);
        window.advance();
        assert_eq!(window.next_held(), Some("second"));
        assert_eq!(window.next_held(), Some("third"));
        assert_eq!(window.next_held(), None);
        assert_eq!(window.expected(), 1);
    }

    #[test]
    fn skipped_cmd_sn_does_not_block_delivery() {
        let mut window = CommandWindow::new(10, 8);
        window.hold(12, "c");
        window.skip(10);
        window.skip(11);
        assert_eq!(window.next_held(), Some("c"));
        assert_eq!(window.expected(), 13);
    }

    #[test]
    fn full_window_closes_and_max_cmd_sn_never_decreases() {
        let mut window = CommandWindow::<()>::new(0, 2);
        let mut last = window.max();
        for _ in 0..2 {
            window.advance();
            window.occupy();
            assert_eq!(window.max(), last);
        }
        assert!(window.is_closed());
        assert_eq!(window.position(window.expected()), CmdSnPosition::Outside);
        for _ in 0..2 {
            window.release();
            assert!(before(last, window.max()));
            last = window.max();
        }
        assert!(!window.is_closed());
    }
}
