//! Forwards at the array that follows.

use super::clock::PeerClock;
use super::ended::{Ended, Failure, Refusal};
use crate::planted::{Bug, Planted};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{RequestId, Source};

/// Most bytes of forwards that are not ordered.
pub const MAX_WAITING_BYTES: usize = 64 << 20;
/// Most numbers from the oldest forward without an outcome to the newest one.
const MAX_NUMBERS: u64 = 1 << 15;

/// A request of a host that is to be forwarded.
#[derive(Debug)]
pub struct NewRequest<W> {
    /// The caller's part of it, which comes back when it has ended.
    pub waiting: W,
    /// Its sender, if it has one.
    pub source: Option<Source>,
    /// Identifies it among the requests of its nexus.
    pub tag: u64,
    /// It compares. Its host would fail if it repeated such a request after it has succeeded, so
    /// one that was sent does not end without a decision.
    pub compares: bool,
    /// Between two sessions it ends at this time.
    pub deadline: Duration,
}

/// A request without a result.
struct Request<W, E> {
    new: NewRequest<W>,
    arrived: Duration,
    /// The same time on the peer's clock, or an earlier one.
    born: Option<Duration>,
    /// Forwards without an outcome.
    left: usize,
    result: Result<(), Failure<E>>,
    /// Its host has given it up.
    is_cancelled: bool,
}

/// A forward without an outcome.
struct Part<C> {
    /// The first number of its request.
    request: u64,
    /// The change, until it is ordered.
    content: Option<C>,
    bytes: usize,
    /// The last session that it was sent in.
    sent: Option<u64>,
    is_repeated: bool,
}

/// A forward to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a, C> {
    /// Its name.
    pub id: RequestId,
    /// The lowest number without an outcome.
    pub low: u64,
    /// When it arrived from its host, on the clock of the peer, or earlier.
    pub born: Duration,
    /// It was sent in an earlier session, too.
    pub is_repeated: bool,
    /// Its initiator, or 0.
    pub initiator: u64,
    /// The change.
    pub content: &'a C,
}

/// The session that forwards are sent in.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: u64,
    clock: PeerClock,
}

/// The forwards of the hosts of this array. `W` is the caller's part of a request, `C` a change,
/// `E` an error of the array that orders.
pub struct Forwarder<W, C, E> {
    origin: u64,
    next: u64,
    requests: BTreeMap<u64, Request<W, E>>,
    parts: BTreeMap<u64, Part<C>>,
    bytes: usize,
    session: Option<Session>,
    planted: Planted,
}

impl<W, C, E> Default for Forwarder<W, C, E> {
    fn default() -> Self {
        Self {
            origin: 0,
            next: 0,
            requests: BTreeMap::new(),
            parts: BTreeMap::new(),
            bytes: 0,
            session: None,
            planted: Planted::default(),
        }
    }
}

impl<W, C, E> std::fmt::Debug for Forwarder<W, C, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { next, parts, session, .. } = self;
        write!(f, "Forwarder {{ next: {next}, parts: {}, session: {session:?} }}", parts.len())
    }
}

impl<W, C, E> Forwarder<W, C, E> {
    /// Breaks a rule.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, bug: Option<Bug>) {
        self.planted.bug = bug;
    }

    /// Sets the number that distinguishes this process.
    pub fn set_origin(&mut self, origin: u64) {
        self.origin = origin;
    }

    /// Returns the count of requests without a result.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Returns the bytes of forwards that are not ordered.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether forwards are sent.
    pub fn is_attached(&self) -> bool {
        self.session.is_some()
    }

    /// The array that orders accepts forwards in a session, and has stated its clock with that.
    /// Returns the numbers that are to be sent now: of all that are not known to be ordered.
    pub fn begin(&mut self, session: u64, peer_clock: Duration, now: Duration) -> Vec<u64> {
        let clock = PeerClock::new(peer_clock, now);
        self.session = Some(Session { id: session, clock });
        for request in self.requests.values_mut() {
            request.born.get_or_insert_with(|| clock.reached_at(request.arrived));
        }
        let unordered = self.parts.iter_mut().filter(|(_, part)| part.content.is_some());
        let send = |(number, part): (&u64, &mut Part<C>)| {
            part.is_repeated = part.sent.is_some();
            part.sent = Some(session);
            *number
        };
        unordered.map(send).collect()
    }

    /// The peer has stated its clock again. One of another session does not count.
    pub fn hear_clock(&mut self, session: u64, peer_clock: Duration, now: Duration) {
        let present = self.session.as_mut().filter(|present| present.id == session);
        present.into_iter().for_each(|present| present.clock.tighten(peer_clock, now));
    }

    /// The session has ended: the array that orders forgets the forwards that it has not ordered.
    /// Requests that their hosts have given up end.
    pub fn end_session(&mut self) -> Vec<Ended<W, E>> {
        self.session = None;
        self.end_unordered(|request, _| request.is_cancelled)
    }

    /// Takes a request: its changes, each with its bytes. Returns the numbers that are to be sent
    /// now, in this order.
    ///
    /// # Errors
    ///
    /// There is no space for it.
    pub fn add(
        &mut self,
        new: NewRequest<W>,
        changes: Vec<(C, usize)>,
        now: Duration,
    ) -> Result<Vec<u64>, (W, Refusal)> {
        let bytes: usize = changes.iter().map(|(_, bytes)| bytes).sum();
        let numbers = self.next + 1 - self.low() + changes.len() as u64;
        if self.bytes + bytes > MAX_WAITING_BYTES || numbers > MAX_NUMBERS {
            return Err((new.waiting, Refusal::TooMany));
        }
        let first = self.next + 1;
        let (session, left) = (self.session, changes.len());
        let born = session.map(|session| session.clock.reached_at(now));
        let request = Request { new, arrived: now, born, left, result: Ok(()), is_cancelled: false };
        self.requests.insert(first, request);
        self.bytes += bytes;
        for (content, bytes) in changes {
            self.next += 1;
            let sent = session.map(|session| session.id);
            let part = Part { request: first, content: Some(content), bytes, sent, is_repeated: false };
            self.parts.insert(self.next, part);
        }
        Ok(if session.is_some() { (first..=self.next).collect() } else { Vec::new() })
    }

    /// Returns a forward to be sent.
    pub fn outgoing(&self, number: u64) -> Option<Outgoing<'_, C>> {
        let part = self.parts.get(&number)?;
        let request = self.requests.get(&part.request)?;
        Some(Outgoing {
            id: RequestId { origin: self.origin, number },
            low: self.low(),
            born: request.born.unwrap_or_default(),
            is_repeated: part.is_repeated,
            initiator: request.new.source.map_or(0, |source| source.initiator),
            content: part.content.as_ref()?,
        })
    }

    /// The last record that carries out a forward has arrived: it is not sent again.
    pub fn ordered(&mut self, id: RequestId) -> Option<Ended<W, E>> {
        let part = self.parts.get_mut(&id.number).filter(|_| id.origin == self.origin)?;
        if part.content.take().is_some() {
            self.bytes -= part.bytes;
        }
        if self.planted.has(Bug::AnswerBeforeDurable) { self.finish(id, Ok(())) } else { None }
    }

    /// The last record that carries out a forward is committed. Returns the request that has ended
    /// with it.
    pub fn committed(&mut self, id: RequestId) -> Option<Ended<W, E>> {
        self.finish(id, Ok(()))
    }

    /// The array that orders has reported an outcome. Returns the request that has ended with it.
    pub fn outcome(&mut self, id: RequestId, result: Result<(), Failure<E>>) -> Option<Ended<W, E>> {
        self.finish(id, result)
    }

    fn finish(&mut self, id: RequestId, result: Result<(), Failure<E>>) -> Option<Ended<W, E>> {
        if id.origin != self.origin {
            return None;
        }
        let part = self.parts.remove(&id.number)?;
        self.bytes -= if part.content.is_some() { part.bytes } else { 0 };
        let request = self.requests.get_mut(&part.request)?;
        request.left -= 1;
        if request.result.is_ok() {
            request.result = result;
        }
        if request.left > 0 {
            return None;
        }
        self.requests.remove(&part.request).map(|Request { new, result, .. }| Ended { waiting: new.waiting, result })
    }

    /// A host gives a request up. Returns the forwards that are to be cancelled at the array that
    /// orders, which reports an outcome for each; or the request, if it has ended with that.
    pub fn cancel(&mut self, nexus: u64, tag: u64) -> (Vec<RequestId>, Option<Ended<W, E>>) {
        let is_it = |request: &Request<W, E>| {
            request.new.tag == tag && request.new.source.is_some_and(|source| source.nexus == nexus)
        };
        let Some((first, request)) = self.requests.iter_mut().find(|(_, request)| is_it(request)) else {
            return (Vec::new(), None);
        };
        request.is_cancelled = true;
        let first = *first;
        if self.session.is_none() || self.planted.has(Bug::NoCancel) {
            return (Vec::new(), self.end_unordered(|_, number| number == first).pop());
        }
        let parts = self.parts.range(first..).take_while(|(_, part)| part.request == first);
        let unordered = parts.filter(|(_, part)| part.content.is_some());
        (unordered.map(|(number, _)| RequestId { origin: self.origin, number: *number }).collect(), None)
    }

    /// Ends the requests that have waited too long for a session. One that compares and was sent
    /// waits for the decision. One that is ordered may end, because it cannot take effect after the
    /// one that its host repeats.
    pub fn expire(&mut self, now: Duration) -> Vec<Ended<W, E>> {
        if self.is_attached() {
            return Vec::new();
        }
        let parts = &self.parts;
        let sent: Vec<u64> = parts.values().filter(|part| part.sent.is_some()).map(|part| part.request).collect();
        self.end_those(|request, number| {
            request.new.deadline <= now && !(request.new.compares && sent.contains(&number))
        })
    }

    /// Ends the requests for which `ends` returns true and that have no ordered forward.
    fn end_unordered(&mut self, ends: impl Fn(&Request<W, E>, u64) -> bool) -> Vec<Ended<W, E>> {
        let is_ordered = |part: &&Part<C>| part.content.is_none();
        let ordered: Vec<u64> = self.parts.values().filter(is_ordered).map(|part| part.request).collect();
        self.end_those(|request, number| ends(request, number) && !ordered.contains(&number))
    }

    /// Ends the requests for which `ends` returns true.
    fn end_those(&mut self, ends: impl Fn(&Request<W, E>, u64) -> bool) -> Vec<Ended<W, E>> {
        let ended = self.requests.extract_if(.., |number, request| ends(request, *number));
        let ended: BTreeMap<u64, Request<W, E>> = ended.collect();
        let bytes = &mut self.bytes;
        self.parts.retain(|_, part| {
            let is_ended = ended.contains_key(&part.request);
            *bytes -= if is_ended && part.content.is_some() { part.bytes } else { 0 };
            !is_ended
        });
        ended.into_values().map(undecided).collect()
    }

    /// The arrays have parted: ends all requests.
    pub fn end(&mut self) -> Vec<Ended<W, E>> {
        self.parts.clear();
        self.bytes = 0;
        std::mem::take(&mut self.requests).into_values().map(undecided).collect()
    }

    /// Returns the lowest number without an outcome.
    fn low(&self) -> u64 {
        self.parts.first_key_value().map_or(self.next + 1, |(number, _)| *number)
    }
}

/// Ends a request that may have happened.
fn undecided<W, E>(request: Request<W, E>) -> Ended<W, E> {
    Ended { waiting: request.new.waiting, result: Err(Failure::Undecided) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Forwards = Forwarder<u64, &'static str, &'static str>;

    const SOURCE: Source = Source { initiator: 7, nexus: 3 };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn forwarder() -> Forwards {
        let mut forwarder = Forwards::default();
        forwarder.set_origin(11);
        forwarder
    }

    fn new(tag: u64) -> NewRequest<u64> {
        NewRequest { waiting: tag, source: Some(SOURCE), tag, compares: false, deadline: ms(5000) }
    }

    fn id(number: u64) -> RequestId {
        RequestId { origin: 11, number }
    }

    fn add(forwarder: &mut Forwards, tag: u64, parts: &[&'static str]) -> Vec<u64> {
        forwarder.add(new(tag), parts.iter().map(|part| (*part, part.len())).collect(), ms(0)).unwrap()
    }

    fn good(waiting: u64) -> Option<Ended<u64, &'static str>> {
        Some(Ended { waiting, result: Ok(()) })
    }

    fn undecided(waiting: u64) -> Ended<u64, &'static str> {
        Ended { waiting, result: Err(Failure::Undecided) }
    }

    #[test]
    fn request_is_answered_when_its_last_record_commits() {
        let mut forwarder = forwarder();
        assert_eq!(forwarder.begin(1, ms(0), ms(0)), []);
        assert_eq!(add(&mut forwarder, 1, &["first", "second"]), [1, 2]);
        assert_eq!(forwarder.bytes(), 11);
        assert_eq!(forwarder.outgoing(2).map(|sent| (sent.id, sent.low, *sent.content)), Some((id(2), 1, "second")));
        assert_eq!((forwarder.ordered(id(1)), forwarder.ordered(id(2))), (None, None));
        assert_eq!((forwarder.bytes(), forwarder.outgoing(1)), (0, None));
        assert_eq!((forwarder.committed(id(1)), forwarder.committed(id(1))), (None, None));
        assert_eq!(forwarder.committed(RequestId { origin: 12, number: 2 }), None);
        assert_eq!(forwarder.committed(id(2)), good(1));
        assert_eq!((forwarder.waiting(), forwarder.low()), (0, 3));
    }

    #[test]
    fn first_failure_is_the_result() {
        let mut forwarder = forwarder();
        forwarder.begin(1, ms(0), ms(0));
        add(&mut forwarder, 1, &["a", "b", "c"]);
        assert_eq!(forwarder.outcome(id(2), Err(Failure::Refused(Refusal::TooOld))), None);
        assert_eq!(forwarder.committed(id(1)), None);
        let ended = forwarder.outcome(id(3), Err(Failure::Error("full")));
        assert_eq!(ended, Some(Ended { waiting: 1, result: Err(Failure::Refused(Refusal::TooOld)) }));
    }

    #[test]
    fn next_session_names_what_is_not_ordered() {
        let mut forwarder = forwarder();
        forwarder.begin(1, ms(0), ms(0));
        (1..=3).for_each(|tag| drop(add(&mut forwarder, tag, &["data"])));
        forwarder.ordered(id(2));
        assert_eq!(forwarder.end_session(), []);
        assert_eq!(add(&mut forwarder, 4, &["late"]), [], "no session");
        assert_eq!(forwarder.begin(2, ms(0), ms(0)), [1, 3, 4]);
        let repeated = [1, 3, 4].map(|number| forwarder.outgoing(number).unwrap().is_repeated);
        assert_eq!(repeated, [true, true, false]);
        assert_eq!(forwarder.committed(id(2)), good(2));
    }

    #[test]
    fn forward_is_no_younger_in_a_later_session() {
        let mut forwarder = forwarder();
        assert_eq!(add(&mut forwarder, 1, &["data"]), []);
        forwarder.begin(1, ms(9000), ms(16));
        let born = |forwarder: &Forwards, number| forwarder.outgoing(number).unwrap().born;
        assert_eq!(born(&forwarder, 1), ms(8983), "16 ms and 1 ms for the drift");
        forwarder.hear_clock(1, ms(9500), ms(20));
        forwarder.hear_clock(9, ms(99_000), ms(20));
        assert_eq!(born(&forwarder, 1), ms(8983));
        forwarder.add(new(2), vec![("data", 4)], ms(20)).unwrap();
        assert_eq!(born(&forwarder, 2), ms(9500));
        forwarder.end_session();
        forwarder.begin(2, ms(30_000), ms(24));
        assert_eq!([1, 2].map(|number| born(&forwarder, number)), [ms(8983), ms(9500)]);
    }

    #[test]
    fn requests_expire_between_sessions_only() {
        let mut forwarder = forwarder();
        forwarder.begin(1, ms(0), ms(0));
        add(&mut forwarder, 1, &["data"]);
        add(&mut forwarder, 2, &["data"]);
        forwarder.ordered(id(2));
        forwarder.add(NewRequest { compares: true, ..new(3) }, vec![("data", 4)], ms(0)).unwrap();
        assert_eq!(forwarder.expire(ms(9000)), []);
        forwarder.end_session();
        forwarder.add(NewRequest { compares: true, ..new(4) }, vec![("data", 4)], ms(0)).unwrap();
        assert_eq!(forwarder.expire(ms(4999)), []);
        let ended = [undecided(1), undecided(2), undecided(4)];
        assert_eq!(forwarder.expire(ms(5000)), ended, "a comparison that was sent may have succeeded");
        assert_eq!(forwarder.committed(id(2)), None, "it has ended");
        // The comparison gets its outcome in the next session, whatever its age.
        assert_eq!(forwarder.begin(2, ms(0), ms(6000)), [3]);
        let ended = forwarder.outcome(id(3), Err(Failure::Refused(Refusal::TooOld)));
        assert_eq!(ended, Some(Ended { waiting: 3, result: Err(Failure::Refused(Refusal::TooOld)) }));
        assert_eq!(forwarder.end(), []);
        assert_eq!((forwarder.waiting(), forwarder.bytes()), (0, 0));
    }

    #[test]
    fn request_that_is_given_up_is_cancelled() {
        let mut forwarder = forwarder();
        forwarder.begin(1, ms(0), ms(0));
        add(&mut forwarder, 1, &["a", "b"]);
        forwarder.ordered(id(1));
        assert_eq!(forwarder.cancel(3, 9), (vec![], None), "no such request");
        assert_eq!(forwarder.cancel(4, 1), (vec![], None), "of another nexus");
        assert_eq!(forwarder.cancel(3, 1), (vec![id(2)], None), "the first one is ordered");
        assert_eq!(forwarder.outcome(id(2), Err(Failure::Refused(Refusal::Cancelled))), None);
        let ended = forwarder.committed(id(1)).unwrap();
        assert_eq!((ended.waiting, ended.result), (1, Err(Failure::Refused(Refusal::Cancelled))));
        // Between two sessions, the array that orders has forgotten it.
        add(&mut forwarder, 2, &["c"]);
        add(&mut forwarder, 3, &["d"]);
        assert_eq!(forwarder.cancel(3, 2).0, [id(3)]);
        assert_eq!(forwarder.end_session(), [undecided(2)]);
        assert_eq!(forwarder.cancel(3, 3), (vec![], Some(undecided(3))));
        assert_eq!(forwarder.begin(2, ms(0), ms(0)), []);
        assert_eq!(forwarder.bytes(), 0);
    }

    #[test]
    fn forwards_without_space_are_refused() {
        let mut forwarder = forwarder();
        assert!(forwarder.add(new(1), vec![("large", MAX_WAITING_BYTES)], ms(0)).is_ok());
        assert_eq!(forwarder.add(new(2), vec![("x", 1)], ms(0)), Err((2, Refusal::TooMany)));
        assert!(forwarder.cancel(3, 1).1.is_some());
        let many = |count| vec![("x", 0); count];
        assert!(forwarder.add(new(3), many(1 << 15), ms(0)).is_ok());
        assert_eq!(forwarder.add(new(4), many(1), ms(0)), Err((4, Refusal::TooMany)));
    }
}
