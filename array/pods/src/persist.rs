//! The durable state of the state machine: which of its values are on the drive.
//!
//! A value is stored by itself, or with a record of the stream that carries a note. A record may
//! wait for its turn while a later value is stored, so both have keys of their own, and the value
//! with the higher number counts.

use engine::{Change, KeyValue};
use pod::{STORED_BYTES, Stored};
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

/// The values of one process.
pub(crate) struct Persist {
    stream: StreamId,
    /// Number of the last value of the process before.
    base: u64,
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
    pub(crate) fn after(stream: StreamId, base: u64) -> Self {
        Self { stream, base, newest: None, durable: 0, storing: None, logged: Vec::new() }
    }

    /// A new state has to be stored.
    pub(crate) fn want(&mut self, generation: u64, state: Stored) {
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
        self.durable = self.durable.max(generation.unwrap_or_default());
    }

    /// Returns the change that stores a state with a record.
    pub(crate) fn log(&mut self, generation: u64, state: &Stored, (period, position): (Period, Position)) -> Change {
        self.want(generation, state.clone());
        self.logged.push((generation, period, position));
        Change::Put { key: noted_key(self.stream), value: value(self.base + generation, state) }
    }

    /// The log is durable up to a position of a period.
    pub(crate) fn durable_to(&mut self, of: Period, to: Position) {
        let is_durable = |(_, period, position): &(u64, Period, Position)| *period == of && *position <= to;
        let newest = self.logged.iter().filter(|logged| is_durable(logged)).map(|(generation, ..)| *generation).max();
        self.logged.retain(|logged| !is_durable(logged));
        self.durable = self.durable.max(newest.unwrap_or_default());
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
        Persist::after(StreamId::new(5).unwrap(), 10)
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
    fn record_stores_its_state_unless_the_stream_ends() {
        let (mut persist, state) = (persist(), Stored::local(Side::A));
        let place = (Period(7), Position(3));
        assert_eq!(number(&persist.log(1, &state, place)), 11);
        assert_eq!(persist.next_store(), None);
        persist.durable_to(Period(7), Position(2));
        persist.durable_to(Period(8), Position(9));
        assert_eq!(persist.durable(), 0);
        persist.durable_to(Period(7), Position(3));
        assert_eq!(persist.durable(), 1);
        persist.log(2, &state, (Period(7), Position(4)));
        persist.forget_records();
        assert_eq!(persist.next_store().map(|change| number(&change)), Some(12), "stored by itself");
    }
}
