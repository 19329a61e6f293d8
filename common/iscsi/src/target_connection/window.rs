//! The command window of a session: order of delivery by CmdSN, and the bound on what is outstanding
//! (RFC 7143 4.2.2.1).
//!
//! It belongs to the session, not to a connection: with several connections they share one.

use std::collections::BTreeMap;

use crate::serial::before;

/// Where a CmdSN lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the next one: deliver.
    Next,
    /// It is in the window, and others are to come before it: hold.
    Early,
    /// It is outside the window, or was received before: ignore.
    ///
    /// RFC 7143 4.2.2.1: The target MUST silently ignore any non-immediate command outside of this range or
    /// non-immediate duplicates within the range.
    Outside,
}

/// CmdSN, ExpCmdSN and MaxCmdSN of a session. `T` is what is held until its turn.
#[derive(Debug)]
pub(super) struct CommandWindow<T> {
    expected: u32,
    depth: u32,
    outstanding: u32,
    /// What came early; none for a number that is taken as received though nothing came. Never longer than the window.
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

    /// MaxCmdSN: each outstanding command narrows the window by one, and since ExpCmdSN goes up by one for each that
    /// begins, MaxCmdSN never goes back.
    pub(super) fn max(&self) -> u32 {
        self.expected.wrapping_add(self.depth - self.outstanding.min(self.depth)).wrapping_sub(1)
    }

    /// Whether the initiator may not send anything but immediate commands.
    pub(super) fn is_closed(&self) -> bool {
        self.outstanding >= self.depth
    }

    pub(super) fn place(&self, cmd_sn: u32) -> Place {
        if before(cmd_sn, self.expected) || before(self.max(), cmd_sn) || self.held.contains_key(&cmd_sn) {
            return Place::Outside;
        }
        if cmd_sn == self.expected { Place::Next } else { Place::Early }
    }

    /// The expected command was delivered.
    pub(super) fn advance(&mut self) {
        self.expected = self.expected.wrapping_add(1);
    }

    /// Keeps an early one until its turn.
    pub(super) fn hold(&mut self, cmd_sn: u32, early: T) {
        self.held.insert(cmd_sn, Some(early));
    }

    /// Takes a number as received, so that nothing waits for it any more.
    pub(super) fn skip(&mut self, cmd_sn: u32) {
        self.held.insert(cmd_sn, None);
    }

    /// The next one whose turn has come.
    pub(super) fn next_held(&mut self) -> Option<T> {
        // Most of the time nothing is held, and then nothing is looked up.
        while !self.held.is_empty() {
            let held = self.held.remove(&self.expected)?;
            self.advance();
            if held.is_some() {
                return held;
            }
        }
        None
    }

    /// A command was delivered and takes up a place until [`Self::release`].
    pub(super) fn occupy(&mut self) {
        self.outstanding += 1;
    }

    /// A command has ended.
    pub(super) fn release(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_delivered_in_order_across_the_wrap() {
        let mut window = CommandWindow::new(u32::MAX - 1, 4);
        assert_eq!(window.max(), 1);
        assert_eq!(window.place(u32::MAX - 2), Place::Outside);
        assert_eq!(window.place(2), Place::Outside);
        for (early, name) in [(0, "third"), (u32::MAX, "second")] {
            assert_eq!(window.place(early), Place::Early);
            window.hold(early, name);
            assert_eq!(window.place(early), Place::Outside, "a duplicate");
        }
        assert_eq!(window.next_held(), None);
        assert_eq!(window.place(u32::MAX - 1), Place::Next);
        window.advance();
        assert_eq!(window.next_held(), Some("second"));
        assert_eq!(window.next_held(), Some("third"));
        assert_eq!(window.next_held(), None);
        assert_eq!(window.expected(), 1);
    }

    #[test]
    fn a_skipped_number_holds_nothing_up() {
        let mut window = CommandWindow::new(10, 8);
        window.hold(12, "c");
        window.skip(10);
        window.skip(11);
        assert_eq!(window.next_held(), Some("c"));
        assert_eq!(window.expected(), 13);
    }

    #[test]
    fn outstanding_commands_close_the_window_and_it_never_shrinks() {
        let mut window = CommandWindow::<()>::new(0, 2);
        let mut last = window.max();
        for _ in 0..2 {
            window.advance();
            window.occupy();
            assert_eq!(window.max(), last);
        }
        assert!(window.is_closed());
        assert_eq!(window.place(window.expected()), Place::Outside);
        for _ in 0..2 {
            window.release();
            assert!(before(last, window.max()));
            last = window.max();
        }
        assert!(!window.is_closed());
    }
}
