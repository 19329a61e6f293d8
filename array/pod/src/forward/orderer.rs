//! Forwards at the array that orders: each number is carried out once.

use super::direct::DirectChanges;
use super::ended::Refusal;
use crate::planted::{Bug, Planted};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{RequestId, VolumeId};

/// A forward that is older is not carried out.
const OLDEST: Duration = Duration::from_secs(2);
/// One that is repeated in a later session is not carried out if it is older, and none whose
/// initiator has used the other path since. A host that fails over takes longer.
const YOUNG: Duration = Duration::from_millis(200);
/// Most bytes of forwards that wait or are being carried out, whatever the other array allows
/// itself.
pub const MAX_RUNNING_BYTES: usize = 96 << 20;
/// Most forwards that are remembered.
const MAX_REMEMBERED: usize = 1 << 16;

/// A forward that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its name.
    pub id: RequestId,
    /// The lowest number whose outcome the other array does not know.
    pub low: u64,
    /// Bytes of its data.
    pub bytes: usize,
    /// A time of the own clock before which it was not sent by its host.
    pub born: Duration,
    /// It was sent in an earlier session, too.
    pub is_repeated: bool,
    /// Its initiator.
    pub initiator: u64,
    /// The volume that it changes.
    pub volume: VolumeId,
}

/// The treatment of a forward that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<O> {
    /// Carry it out: as this attempt, which is unique.
    Run(u64),
    /// Send this outcome.
    Answer(O),
    /// Its record or its outcome follows, or the other array has it.
    Wait,
    /// Report that it is refused.
    Refuse(Refusal),
}

/// Knowledge of a forward.
#[derive(Clone, Debug)]
enum Known<O> {
    /// It waits, or is being carried out.
    Running { attempt: u64, bytes: usize },
    /// The last record that carries it out has its position.
    Ordered,
    /// It has ended otherwise.
    Done(O),
}

/// The forwards of the other array. `O` is an outcome as it is sent.
#[derive(Debug)]
pub struct Orderer<O> {
    origin: u64,
    known: BTreeMap<u64, Known<O>>,
    attempts: u64,
    bytes: usize,
    direct: DirectChanges,
    planted: Planted,
}

impl<O> Default for Orderer<O> {
    fn default() -> Self {
        Self {
            origin: 0,
            known: BTreeMap::new(),
            attempts: 0,
            bytes: 0,
            direct: DirectChanges::default(),
            planted: Planted::default(),
        }
    }
}

impl<O: Clone> Orderer<O> {
    /// Breaks a rule.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, bug: Option<Bug>) {
        self.planted.bug = bug;
    }

    /// An initiator changes a volume by way of this array.
    pub fn note_direct(&mut self, initiator: u64, volume: VolumeId, now: Duration) {
        self.direct.note(initiator, volume, now, now.saturating_sub(OLDEST));
    }

    /// Takes a forward.
    pub fn take(&mut self, arrival: &Arrival, now: Duration) -> Next<O> {
        let RequestId { origin, number } = arrival.id;
        if origin != self.origin {
            (self.origin, self.bytes) = (origin, 0);
            self.known.clear();
        }
        while let Some(entry) = self.known.first_entry().filter(|entry| *entry.key() < arrival.low) {
            self.bytes -= bytes_of(&entry.remove());
        }
        let known = self.known.get(&number).filter(|_| !self.planted.has(Bug::RepeatOrdersTwice));
        match known {
            Some(Known::Running { .. } | Known::Ordered) => return Next::Wait,
            Some(Known::Done(outcome)) => return Next::Answer(outcome.clone()),
            // It has an outcome, which the other array knows.
            None if number < arrival.low => return Next::Wait,
            None => {}
        }
        let is_full = self.known.len() >= MAX_REMEMBERED || self.bytes + arrival.bytes > MAX_RUNNING_BYTES;
        if let Err(refusal) = self.check(arrival, now) {
            return Next::Refuse(refusal);
        }
        if is_full {
            return Next::Refuse(Refusal::TooMany);
        }
        self.attempts += 1;
        self.bytes += arrival.bytes;
        let running = Known::Running { attempt: self.attempts, bytes: arrival.bytes };
        if let Some(before) = self.known.insert(number, running) {
            self.bytes -= bytes_of(&before);
        }
        Next::Run(self.attempts)
    }

    /// Checks that a forward, which may have waited, may be carried out now.
    ///
    /// # Errors
    ///
    /// The reason why it must not be. The caller reports it, and [`forgets`](Self::forget) the
    /// forward.
    pub fn check(&self, arrival: &Arrival, now: Duration) -> Result<(), Refusal> {
        let age = now.saturating_sub(arrival.born);
        let has_age = !self.planted.has(Bug::NoForwardAge);
        if has_age && (age > OLDEST || arrival.is_repeated && age > YOUNG) {
            return Err(Refusal::TooOld);
        }
        let is_other_path_used = self.direct.has_after(arrival.initiator, arrival.volume, arrival.born);
        if age > YOUNG && is_other_path_used && !self.planted.has(Bug::DirectChangeIgnored) {
            return Err(Refusal::OtherPathUsed);
        }
        Ok(())
    }

    /// A record that carries out a forward has its position. `is_last`: no other one follows.
    pub fn ordered(&mut self, id: RequestId, is_last: bool) {
        if id.origin != self.origin || !is_last {
            return;
        }
        if let Some(known @ Known::Running { .. }) = self.known.get_mut(&id.number) {
            self.bytes -= bytes_of(known);
            *known = Known::Ordered;
        }
    }

    /// An attempt has ended with an outcome. Returns false if the other array does not need it: the
    /// record shows it, it knows the outcome, or the forward was taken again since.
    pub fn done(&mut self, id: RequestId, attempt: u64, outcome: O) -> bool {
        let known = self.known.get_mut(&id.number).filter(|_| id.origin == self.origin);
        match known {
            Some(known @ Known::Running { .. }) if attempt_of(known) == Some(attempt) => {
                self.bytes -= bytes_of(known);
                *known = Known::Done(outcome);
                true
            }
            _ => false,
        }
    }

    /// Forgets attempts that were not begun: their session has ended, or they are refused. The
    /// other array may name their forwards again.
    pub fn forget(&mut self, is_forgotten: impl Fn(u64) -> bool) {
        let bytes = &mut self.bytes;
        self.known.retain(|_, known| {
            let is_forgotten = attempt_of(known).is_some_and(&is_forgotten);
            *bytes -= if is_forgotten { bytes_of(known) } else { 0 };
            !is_forgotten
        });
    }

    /// Returns the attempt of a forward that waits or is being carried out.
    pub fn attempt(&self, id: RequestId) -> Option<u64> {
        self.known.get(&id.number).filter(|_| id.origin == self.origin).and_then(attempt_of)
    }

    /// Whether the other array hears of a forward: its record or its outcome follows.
    pub fn is_known(&self, id: RequestId) -> bool {
        id.origin == self.origin && self.known.contains_key(&id.number)
    }
}

fn attempt_of<O>(known: &Known<O>) -> Option<u64> {
    match known {
        Known::Running { attempt, .. } => Some(*attempt),
        Known::Ordered | Known::Done(_) => None,
    }
}

fn bytes_of<O>(known: &Known<O>) -> usize {
    match known {
        Known::Running { bytes, .. } => *bytes,
        Known::Ordered | Known::Done(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: VolumeId = VolumeId(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn arrival(number: u64) -> Arrival {
        Arrival {
            id: RequestId { origin: 11, number },
            low: 1,
            bytes: 512,
            born: ms(10_000),
            is_repeated: false,
            initiator: 7,
            volume: VOLUME,
        }
    }

    fn orderer() -> Orderer<&'static str> {
        Orderer::default()
    }

    #[test]
    fn number_is_carried_out_once_over_sessions() {
        let (mut orderer, now) = (orderer(), ms(10_001));
        let [first, second, third] = [1, 2, 3].map(arrival);
        assert_eq!(orderer.take(&first, now), Next::Run(1));
        assert_eq!(orderer.take(&second, now), Next::Run(2));
        orderer.ordered(first.id, false);
        assert_eq!(orderer.attempt(first.id), Some(1), "another record follows");
        orderer.ordered(first.id, true);
        assert!(!orderer.done(first.id, 1, "good"), "its record tells it");
        assert!(orderer.done(second.id, 2, "full"));
        assert!(!orderer.done(second.id, 2, "full"), "once");
        let again = |arrival: Arrival| Arrival { is_repeated: true, ..arrival };
        assert_eq!(orderer.take(&again(first), now), Next::Wait);
        assert_eq!(orderer.take(&again(second), now), Next::Answer("full"));
        assert_eq!(orderer.take(&again(third), now), Next::Run(3), "it had not arrived");
        // The outcomes of the first two are known to the other array.
        let later = Arrival { low: 3, ..arrival(4) };
        assert_eq!(orderer.take(&later, now), Next::Run(4));
        assert!(!orderer.is_known(first.id) && orderer.is_known(third.id));
        assert_eq!(orderer.take(&Arrival { low: 3, ..first }, now), Next::Wait, "a late copy");
        let other = Arrival { id: RequestId { origin: 12, number: 1 }, ..first };
        assert_eq!(orderer.take(&other, now), Next::Run(5), "another process of the array");
        assert!(!orderer.done(third.id, 3, "good"), "no request waits for it");
    }

    #[test]
    fn late_refusal_does_not_end_a_second_attempt() {
        let (mut orderer, now, forward) = (orderer(), ms(10_001), arrival(1));
        assert_eq!(orderer.take(&forward, now), Next::Run(1));
        orderer.forget(|attempt| attempt == 1);
        assert_eq!(orderer.take(&Arrival { is_repeated: true, ..forward }, now), Next::Run(2));
        assert!(!orderer.done(forward.id, 1, "its session has ended"));
        assert_eq!(orderer.take(&forward, now), Next::Wait, "the second attempt runs");
        assert!(orderer.done(forward.id, 2, "full"));
    }

    #[test]
    fn old_forwards_are_refused() {
        let mut orderer = orderer();
        let refused = |orderer: &mut Orderer<_>, arrival: Arrival, age: u64| orderer.take(&arrival, ms(10_000 + age));
        assert_eq!(refused(&mut orderer, arrival(1), 2001), Next::Refuse(Refusal::TooOld));
        let repeated = Arrival { is_repeated: true, ..arrival(2) };
        assert_eq!(refused(&mut orderer, repeated, 201), Next::Refuse(Refusal::TooOld));
        assert_eq!(refused(&mut orderer, repeated, 199), Next::Run(1));
        assert_eq!(refused(&mut orderer, arrival(3), 1999), Next::Run(2));
        assert_eq!(refused(&mut orderer, repeated, 5000), Next::Wait, "it has begun");
        assert_eq!(orderer.check(&arrival(3), ms(12_001)), Err(Refusal::TooOld), "it has waited too long");
        assert!(!orderer.is_known(arrival(1).id));
    }

    #[test]
    fn forward_of_a_host_on_another_path_is_refused() {
        let mut orderer = orderer();
        orderer.note_direct(7, VOLUME, ms(9_999));
        assert_eq!(orderer.take(&arrival(1), ms(10_900)), Next::Run(1), "it was sent later");
        orderer.note_direct(7, VOLUME, ms(10_100));
        assert_eq!(orderer.take(&arrival(2), ms(10_150)), Next::Run(2), "a host uses both paths at a time");
        assert_eq!(orderer.take(&arrival(3), ms(10_201)), Next::Refuse(Refusal::OtherPathUsed));
        let others = [Arrival { initiator: 8, ..arrival(3) }, Arrival { volume: VolumeId(2), ..arrival(4) }];
        assert_eq!(others.map(|arrival| orderer.take(&arrival, ms(10_201))), [Next::Run(3), Next::Run(4)]);
    }

    #[test]
    fn forwards_have_bounds_of_this_array() {
        let (mut orderer, now) = (orderer(), ms(10_001));
        let large = |number| Arrival { bytes: MAX_RUNNING_BYTES / 2, ..arrival(number) };
        assert_eq!(
            (1..=3).map(|number| orderer.take(&large(number), now)).collect::<Vec<_>>(),
            [Next::Run(1), Next::Run(2), Next::Refuse(Refusal::TooMany)]
        );
        orderer.ordered(large(1).id, true);
        assert_eq!(orderer.take(&large(3), now), Next::Run(3), "ordered ones take no space");
        orderer.forget(|_| true);
        assert_eq!(orderer.bytes, 0);
        let small = |number| Arrival { bytes: 0, ..arrival(number) };
        (4..4 + MAX_REMEMBERED as u64).for_each(|number| {
            orderer.take(&small(number), now);
        });
        assert_eq!(orderer.take(&small(1_000_000), now), Next::Refuse(Refusal::TooMany));
        let low = Arrival { low: 1000, ..small(1_000_000) };
        assert!(matches!(orderer.take(&low, now), Next::Run(_)));
    }
}
