//! The durable state of the state machine: which of its values are on the drive.
//!
//! A value is stored by itself, or with a record of the stream that carries a note. A record may
//! wait for its turn while a later value is stored, so both have keys of their own, and the value
//! with the higher number counts.

use engine::{Change, KeyValue};
use pod::{Role, STORED_BYTES, Stored};
use std::collections::BTreeMap;
use types::{Period, Position, StreamId};

/// Keys of the values.
const PREFIX: &str = "stretch/";

fn key(stream: StreamId, kind: &str) -> Vec<u8> {
    format!("{PREFIX}{:08x}/{kind}", stream.number()).into_bytes()
}

fn state_key(stream: StreamId) -> Vec<u8> {
    key(stream, "state")
}

fn noted_key(stream: StreamId) -> Vec<u8> {
    key(stream, "noted")
}

/// Prefix of images that have come with records, by position.
fn image_prefix(stream: StreamId) -> Vec<u8> {
    key(stream, "image/")
}

fn image_key(stream: StreamId, position: Position) -> Vec<u8> {
    key(stream, &format!("image/{:016x}", position.0))
}

/// Returns the key of the last verification of a pod.
pub(crate) fn verification_key(stream: StreamId) -> Vec<u8> {
    key(stream, "verify")
}

/// Returns the last verification of a pod as it was stored, if there was one.
pub(crate) fn verification(values: &dyn KeyValue, stream: StreamId) -> Option<Vec<u8>> {
    values.get(&verification_key(stream))
}

/// Returns the change that stores an image with its record.
pub(crate) fn put_image(stream: StreamId, position: Position, image: &[u8]) -> Change {
    Change::Put { key: image_key(stream, position), value: image.to_vec() }
}

/// Returns the images that are stored, oldest first, with their keys.
pub(crate) fn images(values: &dyn KeyValue, stream: StreamId) -> Vec<(Vec<u8>, Vec<u8>)> {
    values.scan(&image_prefix(stream))
}

/// Returns the changes that remove everything of a pod.
pub(crate) fn remove_all(values: &dyn KeyValue, stream: StreamId) -> Vec<Change> {
    values.scan(&key(stream, "")).into_iter().map(|(key, _)| Change::Remove { key }).collect()
}

fn value(number: u64, state: &Stored) -> Vec<u8> {
    [&number.to_le_bytes()[..], &state.encode()].concat()
}

fn read(bytes: &[u8]) -> Result<(u64, Stored), String> {
    let (number, state) = bytes.split_first_chunk::<8>().ok_or("a value of a pod is too short")?;
    let state = Stored::decode(state).map_err(|error| error.to_string())?;
    Ok((u64::from_le_bytes(*number), state))
}

/// Returns the stored state of a pod with its number, if there is one.
///
/// # Errors
///
/// A value is not one of this version.
pub(crate) fn load(values: &dyn KeyValue, stream: StreamId) -> Result<Option<(u64, Stored)>, String> {
    let found = [state_key(stream), noted_key(stream)].into_iter().filter_map(|key| values.get(&key));
    let found = found.map(|bytes| read(&bytes)).collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().max_by_key(|(number, _)| *number))
}

/// Returns the change that stores the first state of a pod.
pub(crate) fn put_first(stream: StreamId, state: &Stored) -> Change {
    Change::Put { key: state_key(stream), value: value(1, state) }
}

/// Returns the change that stores a numbered state.
pub(crate) fn put(stream: StreamId, (number, state): &(u64, Stored)) -> Change {
    Change::Put { key: state_key(stream), value: value(*number, state) }
}

/// Returns the state of an array whose content of the pod does not count any more, unless that is
/// so already.
pub(crate) fn hurt((number, state): &(u64, Stored)) -> Option<(u64, Stored)> {
    let can_hurt = matches!(state.role, Role::Sync | Role::Solo | Role::Target | Role::Lost);
    // The first value is that of a pod which has not begun.
    (can_hurt && !state.is_hurt && *number > 1).then(|| (number + 1, Stored { is_hurt: true, ..state.clone() }))
}

/// The values of one state machine.
pub(crate) struct Persist {
    stream: StreamId,
    /// Number of the last value of the state machine before.
    base: u64,
    /// The state on the drive.
    on_drive: Stored,
    /// States that may not be on the drive, by generation.
    states: BTreeMap<u64, Stored>,
    /// The newest state, with its generation.
    newest: Option<(u64, Stored)>,
    /// Highest generation on the drive.
    durable: u64,
    /// A value that is being stored by itself.
    storing: Option<u64>,
    /// Values that are in records: generation, period and position.
    logged: Vec<(u64, Period, Position)>,
}

impl Persist {
    /// Begins after the value with this number.
    pub(crate) fn after(stream: StreamId, (base, on_drive): (u64, Stored)) -> Self {
        let (newest, states) = (None, BTreeMap::new());
        Self { stream, base, on_drive, states, newest, durable: 0, storing: None, logged: Vec::new() }
    }

    /// Returns the values of a state machine that begins with the state on the drive. Nothing is
    /// being stored.
    pub(crate) fn begun_again(&self) -> Self {
        let used = self.states.last_key_value().map_or(self.durable, |(generation, _)| *generation);
        Self::after(self.stream, (self.base + used, self.on_drive.clone()))
    }

    /// Returns the change that stores this state last: no later one of these values follows.
    pub(crate) fn store_last(&self, state: &Stored) -> Change {
        let used = self.states.last_key_value().map_or(self.durable, |(generation, _)| *generation);
        Change::Put { key: state_key(self.stream), value: value(self.base + used + 1, state) }
    }

    /// Returns the state on the drive.
    pub(crate) fn on_drive(&self) -> &Stored {
        &self.on_drive
    }

    /// A value is being stored by itself.
    pub(crate) fn is_storing(&self) -> bool {
        self.storing.is_some()
    }

    /// A new state has to be stored.
    pub(crate) fn want(&mut self, generation: u64, state: Stored) {
        self.states.insert(generation, state.clone());
        if self.newest.as_ref().is_none_or(|(newest, _)| generation > *newest) {
            self.newest = Some((generation, state));
        }
    }

    /// Returns the change that stores the newest state, if nothing else stores it.
    pub(crate) fn next_store(&mut self) -> Option<Change> {
        let (generation, state) = self.newest.as_ref()?;
        let in_records = self.logged.iter().map(|(generation, ..)| *generation).max().unwrap_or_default();
        if self.storing.is_some() || *generation <= self.durable.max(in_records) {
            return None;
        }
        self.storing = Some(*generation);
        Some(Change::Put { key: state_key(self.stream), value: value(self.base + generation, state) })
    }

    /// The value has been stored, or not.
    pub(crate) fn stored(&mut self, has_succeeded: bool) {
        let generation = self.storing.take().filter(|_| has_succeeded);
        self.note_durable(generation.unwrap_or_default());
    }

    fn note_durable(&mut self, generation: u64) {
        if generation <= self.durable {
            return;
        }
        self.durable = generation;
        let later = self.states.split_off(&(generation + 1));
        if let Some(state) = std::mem::replace(&mut self.states, later).remove(&generation) {
            self.on_drive = state;
        }
    }

    /// Returns the change that stores a state with a record. If the record is `own`, it is the only
    /// one that may store the state: without the record, the state is wrong. A follower's state
    /// holds with and without its record.
    pub(crate) fn log(
        &mut self,
        generation: u64,
        state: &Stored,
        (period, position): (Period, Position),
        is_own: bool,
    ) -> Change {
        if is_own {
            self.states.insert(generation, state.clone());
        } else {
            self.want(generation, state.clone());
        }
        self.logged.push((generation, period, position));
        Change::Put { key: noted_key(self.stream), value: value(self.base + generation, state) }
    }

    /// The log is durable up to a position of a period.
    pub(crate) fn durable_to(&mut self, of: Period, to: Position) {
        let is_durable = |(_, period, position): &(u64, Period, Position)| *period == of && *position <= to;
        let newest = self.logged.iter().filter(|logged| is_durable(logged)).map(|(generation, ..)| *generation).max();
        self.logged.retain(|logged| !is_durable(logged));
        self.note_durable(newest.unwrap_or_default());
    }

    /// Returns the places of records that store a state and may not be durable, in their order.
    pub(crate) fn records(&self) -> impl Iterator<Item = (Period, Position)> + '_ {
        self.logged.iter().map(|(_, period, position)| (*period, *position))
    }

    /// The stream was closed: records that are not durable may never be.
    pub(crate) fn forget_records(&mut self) {
        self.logged.clear();
    }

    /// Returns the highest generation on the drive.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }
}

const _: () = assert!(STORED_BYTES < 256);

#[cfg(test)]
mod tests {
    use super::*;
    use pod::Side;

    fn persist() -> Persist {
        Persist::after(StreamId::new(5).unwrap(), (10, Stored::local(Side::A)))
    }

    fn number(change: &Change) -> u64 {
        let Change::Put { value, .. } = change else { panic!("{change:?}") };
        read(value).unwrap().0
    }

    #[test]
    fn newest_state_is_stored_once() {
        let (mut persist, state) = (persist(), Stored::local(Side::A));
        (1..=3).for_each(|generation| persist.want(generation, state.clone()));
        assert_eq!(persist.next_store().map(|change| number(&change)), Some(13));
        persist.want(4, state);
        assert_eq!(persist.next_store(), None, "one at a time");
        persist.stored(true);
        assert_eq!((persist.durable(), persist.next_store().map(|change| number(&change))), (3, Some(14)));
        persist.stored(false);
        assert_eq!(persist.next_store().map(|change| number(&change)), Some(14), "again after a failure");
    }

    #[test]
    fn state_of_an_own_record_is_never_stored_without_it() {
        let (mut persist, state) = (persist(), Stored::local(Side::B));
        persist.log(1, &state, (Period(7), Position(3)), true);
        persist.forget_records();
        assert_eq!(persist.next_store(), None);
        let again = persist.begun_again();
        assert_eq!((again.base, again.on_drive().sequencer), (11, Side::A));
        persist.want(2, state.clone());
        assert_eq!(persist.next_store().map(|change| number(&change)), Some(12));
        persist.stored(true);
        assert_eq!(persist.on_drive(), &state);
    }

    #[test]
    fn record_stores_its_state_unless_the_stream_ends() {
        let (mut persist, state) = (persist(), Stored::local(Side::A));
        let place = (Period(7), Position(3));
        assert_eq!(number(&persist.log(1, &state, place, false)), 11);
        assert_eq!(persist.next_store(), None);
        persist.durable_to(Period(7), Position(2));
        persist.durable_to(Period(8), Position(9));
        assert_eq!(persist.durable(), 0);
        persist.durable_to(Period(7), Position(3));
        assert_eq!(persist.durable(), 1);
        persist.log(2, &state, (Period(7), Position(4)), false);
        persist.forget_records();
        assert_eq!(persist.next_store().map(|change| number(&change)), Some(12), "stored by itself");
    }
}
