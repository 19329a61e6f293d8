//! Records with messages, and the values that both arrays store with them.

use super::{Mode, Open, World};
use crate::history::SimViolation;
use crate::pair::bug::PairBug;
use crate::pair::catalog::values_of;
use crate::pair::contents::Entry;
use engine::{Change, FollowedRecord, LogOp, Op, StreamRecord, Tag};

impl World<'_> {
    /// Returns the values that a node stores with a record that it has ordered.
    pub(super) fn values_told(
        &mut self,
        node: usize,
        tag: Tag,
        record: &StreamRecord,
        skipped: &[LogOp],
    ) -> Result<Vec<Change>, SimViolation> {
        let Some(change) = self.told.remove(&(node, tag)) else {
            let is_silent = record.message.is_empty();
            return if is_silent {
                Ok(Vec::new())
            } else {
                Err(SimViolation::new("a record has a message of another"))
            };
        };
        let is_right = record.message == change.message
            && record.ops.len() == change.changes.len()
            && skipped.is_empty()
            && change.position.is_none_or(|position| position == record.position);
        if !is_right {
            return Err(SimViolation(format!("{change:?} became the record {record:?}")));
        }
        self.totals.messages += u64::from(!record.message.is_empty());
        Ok(change.values)
    }

    /// True if a change with a condition may be refused with these words.
    pub(super) fn is_condition(&self, words: &str) -> bool {
        words == "the next position of the stream is another one"
            || (words == "a delta is not empty" && self.mode == Mode::Solo)
    }

    /// Submits a record that the peer has ordered, with the values of its message.
    pub(super) fn submit_followed(&mut self, node: usize, record: StreamRecord) -> Result<(), SimViolation> {
        let StreamRecord { period, position, ops, message, .. } = record.clone();
        let values = values_of(&message);
        self.nodes[node].given(Entry { message, values: values.clone(), ..Entry::new(period, position, ops) });
        let is_apart = self.bug == Some(PairBug::ValueNotWithRecord);
        let (now, later) = if is_apart { (Vec::new(), values) } else { (values, Vec::new()) };
        if !later.is_empty() {
            self.late_values.push((node, later));
        }
        self.submit(node, Op::Follow(Box::new(FollowedRecord { record, values: now })), Open::Follow).map(drop)
    }

    /// Submits values that are stored apart from their records.
    pub(super) fn submit_late_values(&mut self) -> Result<(), SimViolation> {
        if self.late_values.is_empty() || self.rng.percent(80) {
            return Ok(());
        }
        for (node, values) in std::mem::take(&mut self.late_values) {
            if self.nodes[node].is_up() {
                self.submit(node, Op::Change(values), Open::Own)?;
            }
        }
        Ok(())
    }
}
