//! Frames that have arrived, by session.

use crate::wire::{Assembler, MessageParts, WireError};
use bytes::Bytes;
use engine::StreamRecord;
use link::{Frame, Kind};
use std::collections::BTreeMap;

/// The frames that have arrived in a session.
#[derive(Default)]
struct Arrivals {
    assembler: Assembler,
    messages: MessageParts,
    /// The engine has records that were not kicked.
    has_records: bool,
}

/// The sessions, by their ids.
#[derive(Default)]
pub(crate) struct Receiving(BTreeMap<[u8; 16], Arrivals>);

impl Receiving {
    /// A session has begun.
    pub(crate) fn began(&mut self, session: [u8; 16]) {
        self.0.insert(session, Arrivals::default());
    }

    /// A session has ended.
    pub(crate) fn ended(&mut self, session: [u8; 16]) {
        self.0.remove(&session);
    }

    /// Takes a part of a record, whose operations have up to `max_bytes` bytes. Returns the record
    /// when it is complete.
    pub(crate) fn add(
        &mut self,
        session: [u8; 16],
        frame: Frame,
        max_bytes: u32,
    ) -> Result<Option<StreamRecord>, WireError> {
        let arrivals = self.0.entry(session).or_default();
        let record = arrivals.assembler.add(frame, max_bytes)?;
        arrivals.has_records |= record.is_some();
        Ok(record)
    }

    /// Takes a part of a message. Returns the message when it is complete.
    pub(crate) fn add_message(&mut self, session: [u8; 16], frame: &Frame) -> Result<Option<Bytes>, WireError> {
        self.0.entry(session).or_default().messages.add(frame)
    }

    /// Checks that no other frame interrupts a record.
    pub(crate) fn check_order(&self, session: [u8; 16], kind: Kind) -> Result<(), WireError> {
        let is_within = self.0.get(&session).is_some_and(|arrivals| arrivals.assembler.is_within_record());
        if is_within && kind != Kind::RecordPart { Err(WireError::Interrupted) } else { Ok(()) }
    }

    /// Returns true if records were submitted since the last call.
    pub(crate) fn take_records(&mut self, session: [u8; 16]) -> bool {
        self.0.get_mut(&session).is_some_and(|arrivals| std::mem::take(&mut arrivals.has_records))
    }
}
