//! The registers, and the rules of their changes: values in, values out.

use crate::message::{Owner, PodKey, Register, Status};
use pinned_tls::Fingerprint;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most registers of a mediator that are not retired.
pub const MAX_REGISTERS: usize = 10_000;
/// Most registers of an array that are not retired: the most pods that one has.
pub const MAX_REGISTERS_PER_ARRAY: usize = 500;
/// Most requests for new registers that wait for the other array.
const MAX_WAITING: usize = 256;
/// Most of them from one array.
const MAX_WAITING_PER_ARRAY: usize = 16;
/// A request waits this long for the other array.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Owner of a stored register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Neither array has asked to continue alone.
    Both,
    /// The array with this certificate continues.
    One(Fingerprint),
    /// The pod is on one array again. Permanent.
    Retired,
}

/// A stored register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The pod.
    pub pod: PodKey,
    /// Certificates of its two arrays, in ascending order.
    pub arrays: [Fingerprint; 2],
    /// Epoch of the last change.
    pub epoch: u64,
    /// Owner.
    pub owner: Holder,
    /// Time of the last change in milliseconds since 1970.
    pub changed_ms: u64,
}

impl Entry {
    /// Returns the content as one of its arrays sees it.
    fn seen_by(&self, array: &Fingerprint) -> Register {
        let owner = match self.owner {
            Holder::Both => Owner::Both,
            Holder::One(owner) if owner == *array => Owner::Own,
            Holder::One(_) => Owner::Peer,
            Holder::Retired => Owner::Retired,
        };
        Register { epoch: self.epoch, owner }
    }
}

/// A request for a new register that waits for the other array.
struct Wait {
    pod: PodKey,
    by: Fingerprint,
    peer: Fingerprint,
    nonce: [u8; 16],
    epoch: u64,
    until: Instant,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The reply, and the content of the register if the array has one.
    Reply(Status, Option<Register>),
    /// The entry must be stored, then put in place with [`Registers::put`]. The reply is
    /// [`Status::Done`] with its content.
    Store(Entry),
}

/// All registers.
#[derive(Default)]
pub(crate) struct Registers {
    entries: BTreeMap<PodKey, Entry>,
    /// Oldest first.
    waiting: Vec<Wait>,
}

impl Registers {
    /// Puts a stored entry in place.
    pub(crate) fn put(&mut self, entry: Entry) {
        self.entries.insert(entry.pod, entry);
    }

    /// Returns all entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns the content of an entry for a reply.
    pub(crate) fn content(&self, pod: &PodKey, by: &Fingerprint) -> Option<Register> {
        self.of(pod, by).map(|entry| entry.seen_by(by))
    }

    fn of(&self, pod: &PodKey, by: &Fingerprint) -> Option<&Entry> {
        self.entries.get(pod).filter(|entry| entry.arrays.contains(by))
    }

    /// Reads a register.
    pub(crate) fn read(&self, pod: &PodKey, by: &Fingerprint) -> Outcome {
        let content = self.content(pod, by);
        Outcome::Reply(content.map_or(Status::Missing, |_| Status::Done), content)
    }

    /// Makes a register when both arrays have asked for it with the same nonce and epoch. One that
    /// exists already for these two stays as it is.
    pub(crate) fn create(
        &mut self,
        (pod, by): (PodKey, Fingerprint),
        peer: Fingerprint,
        (nonce, epoch): ([u8; 16], u64),
        now: Instant,
        now_ms: u64,
    ) -> Outcome {
        let mut arrays = [by, peer];
        arrays.sort_unstable();
        if by == peer {
            return Outcome::Reply(Status::Invalid, None);
        }
        if let Some(entry) = self.entries.get(&pod) {
            return match entry.arrays == arrays {
                true => Outcome::Reply(Status::Done, Some(entry.seen_by(&by))),
                false => Outcome::Reply(Status::Taken, None),
            };
        }
        let active = || self.entries.values().filter(|entry| entry.owner != Holder::Retired);
        let registers = |array: &Fingerprint| active().filter(|entry| entry.arrays.contains(array)).count();
        if active().count() >= MAX_REGISTERS || arrays.iter().any(|array| registers(array) >= MAX_REGISTERS_PER_ARRAY) {
            return Outcome::Reply(Status::Full, None);
        }
        self.waiting.retain(|wait| wait.until > now && (wait.pod, wait.by) != (pod, by));
        let answers = |wait: &Wait| {
            (wait.pod, wait.by, wait.peer) == (pod, peer, by) && (wait.nonce, wait.epoch) == (nonce, epoch)
        };
        if let Some(at) = self.waiting.iter().position(answers) {
            self.waiting.remove(at);
            return Outcome::Store(Entry { pod, arrays, epoch, owner: Holder::Both, changed_ms: now_ms });
        }
        let own = self.waiting.iter().filter(|wait| wait.by == by).count();
        if self.waiting.len() >= MAX_WAITING || own >= MAX_WAITING_PER_ARRAY {
            return Outcome::Reply(Status::Full, None);
        }
        self.waiting.push(Wait { pod, by, peer, nonce, epoch, until: now + MAX_WAIT });
        Outcome::Reply(Status::Waiting, None)
    }

    /// Replaces the expected content. Epochs only grow, an array names only itself, and a
    /// retired register stays so.
    pub(crate) fn swap(
        &self,
        (pod, by): (PodKey, Fingerprint),
        expected: Register,
        new: Register,
        now_ms: u64,
    ) -> Outcome {
        let Some(entry) = self.of(&pod, &by) else { return Outcome::Reply(Status::Missing, None) };
        let content = entry.seen_by(&by);
        let owner = match new.owner {
            Owner::Both => Holder::Both,
            Owner::Own => Holder::One(by),
            Owner::Peer | Owner::Retired => return Outcome::Reply(Status::Invalid, Some(content)),
        };
        if content.owner == Owner::Retired || content != expected {
            return Outcome::Reply(Status::Differs, Some(content));
        }
        if new.epoch <= content.epoch {
            return Outcome::Reply(Status::Invalid, Some(content));
        }
        Outcome::Store(Entry { epoch: new.epoch, owner, changed_ms: now_ms, ..*entry })
    }

    /// Retires a register with the expected content.
    pub(crate) fn retire(&self, (pod, by): (PodKey, Fingerprint), expected: Register, now_ms: u64) -> Outcome {
        let Some(entry) = self.of(&pod, &by) else { return Outcome::Reply(Status::Missing, None) };
        let content = entry.seen_by(&by);
        match content.owner {
            Owner::Retired => Outcome::Reply(Status::Done, Some(content)),
            _ if content != expected => Outcome::Reply(Status::Differs, Some(content)),
            _ => Outcome::Store(Entry { owner: Holder::Retired, changed_ms: now_ms, ..*entry }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: PodKey = [1; 16];
    const A: Fingerprint = [1; 32];
    const B: Fingerprint = [2; 32];
    const STRANGER: Fingerprint = [3; 32];
    const NONCE: [u8; 16] = [4; 16];

    fn now() -> Instant {
        platform::clock::now()
    }

    fn both(epoch: u64) -> Register {
        Register { epoch, owner: Owner::Both }
    }

    fn own(epoch: u64) -> Register {
        Register { epoch, owner: Owner::Own }
    }

    fn stored(registers: &mut Registers, outcome: Outcome) {
        let Outcome::Store(entry) = outcome else { panic!("{outcome:?}") };
        registers.put(entry);
    }

    fn registered() -> Registers {
        let mut registers = Registers::default();
        let first = registers.create((POD, A), B, (NONCE, 1), now(), 10);
        assert_eq!(first, Outcome::Reply(Status::Waiting, None));
        let second = registers.create((POD, B), A, (NONCE, 1), now(), 10);
        stored(&mut registers, second);
        registers
    }

    fn is(outcome: Outcome, status: Status) -> bool {
        matches!(outcome, Outcome::Reply(found, _) if found == status)
    }

    #[test]
    fn register_needs_both_arrays() {
        let mut registers = Registers::default();
        let begin = now();
        let mut create = |by, peer, nonce, epoch, at| registers.create((POD, by), peer, (nonce, epoch), at, 10);
        assert!(is(create(A, B, NONCE, 1, begin), Status::Waiting));
        assert!(is(create(A, B, NONCE, 1, begin), Status::Waiting), "the same array again");
        assert!(is(create(STRANGER, A, NONCE, 1, begin), Status::Waiting), "A has not named it");
        assert!(is(create(B, A, [9; 16], 1, begin), Status::Waiting), "another nonce");
        assert!(is(create(B, A, NONCE, 2, begin), Status::Waiting), "another epoch");
        assert!(is(create(A, A, NONCE, 1, begin), Status::Invalid));
        let late = begin + MAX_WAIT + Duration::from_secs(1);
        assert!(is(create(B, A, NONCE, 1, late), Status::Waiting), "the request of A has expired");
        assert!(matches!(create(A, B, NONCE, 1, late), Outcome::Store(_)));
    }

    #[test]
    fn one_of_two_asks_succeeds() {
        let mut registers = registered();
        assert_eq!(registers.read(&POD, &A), Outcome::Reply(Status::Done, Some(both(1))));
        let ask = registers.swap((POD, A), both(1), own(3), 20);
        stored(&mut registers, ask);
        let peer = Register { epoch: 3, owner: Owner::Peer };
        assert_eq!(registers.swap((POD, B), both(1), own(3), 20), Outcome::Reply(Status::Differs, Some(peer)));
        assert_eq!(registers.read(&POD, &A), Outcome::Reply(Status::Done, Some(own(3))));
        let again = registers.create((POD, B), A, ([7; 16], 9), now(), 30);
        assert_eq!(again, Outcome::Reply(Status::Done, Some(peer)), "it stays as it is");
        let opened = registers.swap((POD, A), own(3), both(4), 40);
        stored(&mut registers, opened);
        assert_eq!(registers.read(&POD, &B), Outcome::Reply(Status::Done, Some(both(4))));
    }

    #[test]
    fn rules_of_a_swap() {
        let registers = registered();
        let swap = |expected, new| registers.swap((POD, A), expected, new, 20);
        assert!(is(swap(both(1), own(1)), Status::Invalid), "an epoch is used once");
        assert!(is(swap(both(1), Register { epoch: 3, owner: Owner::Peer }), Status::Invalid));
        assert!(is(swap(both(1), Register { epoch: 3, owner: Owner::Retired }), Status::Invalid));
        assert!(is(swap(both(2), own(3)), Status::Differs));
        assert!(is(registers.swap((POD, STRANGER), both(1), own(3), 20), Status::Missing));
        assert!(is(registers.swap(([5; 16], A), both(1), own(3), 20), Status::Missing), "a swap creates nothing");
        assert!(is(registers.read(&POD, &STRANGER), Status::Missing));
    }

    #[test]
    fn retired_register_stays_so() {
        let mut registers = registered();
        assert!(is(registers.retire((POD, STRANGER), both(1), 20), Status::Missing));
        assert!(is(registers.retire((POD, A), both(2), 20), Status::Differs));
        let retired = registers.retire((POD, A), both(1), 20);
        stored(&mut registers, retired);
        let content = Register { epoch: 1, owner: Owner::Retired };
        assert_eq!(registers.swap((POD, A), content, own(3), 30), Outcome::Reply(Status::Differs, Some(content)));
        assert_eq!(registers.retire((POD, B), both(1), 30), Outcome::Reply(Status::Done, Some(content)));
        assert_eq!(registers.create((POD, A), STRANGER, (NONCE, 1), now(), 30), Outcome::Reply(Status::Taken, None));
    }

    #[test]
    fn registers_and_waits_are_bounded() {
        let mut registers = Registers::default();
        let pod = |number: u16| {
            let mut pod = [0; 16];
            pod[..2].copy_from_slice(&number.to_le_bytes());
            pod
        };
        let waits =
            (0..100).filter(|number| is(registers.create((pod(*number), A), B, (NONCE, 1), now(), 0), Status::Waiting));
        assert_eq!(waits.count(), MAX_WAITING_PER_ARRAY);
        let strangers = (10..=255_u8).map(|number| [number; 32]);
        let waits: usize = strangers
            .map(|by| {
                (0..20)
                    .filter(|n| is(registers.create((pod(*n), by), B, (NONCE, 1), now(), 0), Status::Waiting))
                    .count()
            })
            .sum();
        assert_eq!(waits, MAX_WAITING - MAX_WAITING_PER_ARRAY);
        let mut registers = Registers::default();
        let entry = |pod, arrays, owner| Entry { pod, arrays, epoch: 1, owner, changed_ms: 0 };
        (0..500).for_each(|number| registers.put(entry(pod(number), [A, B], Holder::Both)));
        assert!(is(registers.create((pod(600), A), STRANGER, (NONCE, 1), now(), 0), Status::Full));
        assert!(is(registers.create((pod(600), STRANGER), A, (NONCE, 1), now(), 0), Status::Full));
        registers.put(entry(pod(0), [A, B], Holder::Retired));
        assert!(is(registers.create((pod(600), A), STRANGER, (NONCE, 1), now(), 0), Status::Waiting));
        let mut registers = Registers::default();
        let array = |number: u16| [number.to_le_bytes(); 16].concat().try_into().unwrap();
        for number in 0..u16::try_from(MAX_REGISTERS).unwrap() {
            registers.put(entry(pod(number), [array(number / 400 + 100), STRANGER], Holder::Both));
        }
        assert!(is(registers.create((pod(20_000), A), B, (NONCE, 1), now(), 0), Status::Full));
    }
}
