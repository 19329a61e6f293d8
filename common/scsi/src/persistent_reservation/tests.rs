use super::*;
use crate::cdb::{Cdb, Command};
use crate::sense::{Sense, asc};
use proptest::prelude::*;

use OutAction::{
    Clear, Preempt, PreemptAndAbort, Register, RegisterAndIgnoreExistingKey, RegisterAndMove, Release, Reserve,
};
use ReservationType::{
    ExclusiveAccess, ExclusiveAccessAllRegistrants, ExclusiveAccessRegistrantsOnly, WriteExclusive,
    WriteExclusiveAllRegistrants, WriteExclusiveRegistrantsOnly,
};

const PORTS: [u16; 2] = [1, 2];

fn nexus(number: u8) -> NexusId {
    NexusId::new("iqn.2026-11.test:host", [0, 0, 0, 0, 0, number], 1)
}

fn list(key: u64, service_key: u64) -> Vec<u8> {
    OutParameters { key, service_key, ..OutParameters::default() }.to_bytes().to_vec()
}

/// A logical unit that the tests send commands to.
#[derive(Default)]
struct Unit(Reservations);

impl Unit {
    fn send(
        &mut self,
        from: u8,
        action: OutAction,
        kind: Option<ReservationType>,
        list: &[u8],
    ) -> Result<ReservationOutcome, ReservationRefusal> {
        let before = self.0.clone();
        let result = self.0.apply(&nexus(from), action, kind, list, &PORTS);
        match &result {
            Err(_) => assert_eq!(self.0, before, "a refused action changed the state"),
            Ok(outcome) if !outcome.changed => {
                assert_eq!(Reservations { generation: before.generation, ..self.0.clone() }, before);
            }
            Ok(_) => assert_ne!(self.0, before),
        }
        self.check_invariants();
        result
    }

    fn check_invariants(&self) {
        let mut names: Vec<_> = self.0.registrations().iter().map(|r| r.nexus.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), self.0.registrations().len(), "a nexus is registered twice");
        assert!(self.0.registrations().iter().all(|r| r.key != 0));
        if let Some(reservation) = &self.0.reservation {
            assert!(self.0.key_of(&reservation.holder).is_some(), "the holder is not registered");
        }
        assert_eq!(Reservations::from_image(&self.0.to_image()), Ok(Reservations { classic: None, ..self.0.clone() }));
    }

    /// Creates a unit with nexuses 1, 2, … registered with these keys.
    fn with_keys(keys: &[u64]) -> Self {
        let mut unit = Self::default();
        for (number, key) in (1..).zip(keys) {
            assert!(unit.send(number, Register, None, &list(0, *key)).is_ok());
        }
        unit
    }

    fn reserved(keys: &[u64], kind: ReservationType) -> Self {
        let mut unit = Self::with_keys(keys);
        assert!(unit.send(1, Reserve, Some(kind), &list(keys[0], 0)).is_ok());
        unit
    }

    fn keys(&self) -> Vec<u64> {
        parse_keys(&self.0.read(InAction::ReadKeys)).unwrap().1
    }

    fn generation(&self) -> u32 {
        parse_keys(&self.0.read(InAction::ReadKeys)).unwrap().0
    }

    fn held_as(&self) -> Option<(u64, ReservationType)> {
        parse_reservation(&self.0.read(InAction::ReadReservation))
    }

    fn may(&self, number: u8, cdb: &[u8]) -> bool {
        self.0.check(&nexus(number), &command(cdb)).is_ok()
    }
}

fn command(start: &[u8]) -> Command {
    let mut cdb = [0; 16];
    cdb[..start.len()].copy_from_slice(start);
    Cdb::parse(&cdb).unwrap()
}

fn attentions(numbers: &[u8], asc: crate::sense::Asc) -> Vec<(NexusId, crate::sense::Asc)> {
    numbers.iter().map(|number| (nexus(*number), asc)).collect()
}

#[test]
fn register_adds_changes_and_removes_keys() {
    let mut unit = Unit::default();
    assert_eq!(unit.send(1, Register, None, &list(9, 1)), Err(ReservationRefusal::Conflict));
    assert!(unit.send(1, Register, None, &list(0, 1)).is_ok());
    assert_eq!(unit.send(1, Register, None, &list(0, 2)), Err(ReservationRefusal::Conflict));
    assert!(unit.send(1, Register, None, &list(1, 2)).is_ok());
    assert!(unit.send(1, RegisterAndIgnoreExistingKey, None, &list(77, 3)).is_ok());
    assert_eq!(unit.keys(), [3]);
    assert!(unit.send(1, Register, None, &list(3, 0)).is_ok());
    assert_eq!((unit.keys(), unit.generation()), (vec![], 4));
    assert_eq!(unit.send(1, Register, None, &list(0, 0)), Ok(ReservationOutcome::default()));
}

#[test]
fn all_target_ports_and_initiators_register_together() {
    let mut unit = Unit::default();
    let id = nexus(9).transport_id();
    let mut long = list(0, 5);
    long[20] = 0x08 | 0x04;
    long.extend(u32::try_from(id.len()).unwrap().to_be_bytes());
    long.extend(id);
    assert!(unit.send(1, Register, None, &long).is_ok());
    let mut found: Vec<_> = unit.0.registrations().iter().map(|r| r.nexus.clone()).collect();
    found.sort();
    let expected = [nexus(1), nexus(1).at_target_port(2), nexus(9), nexus(9).at_target_port(2)];
    assert_eq!(found, expected);
    assert!(unit.0.registrations().iter().all(|r| r.key == 5 && r.all_target_ports));
    long[..8].copy_from_slice(&5u64.to_be_bytes());
    let again = unit.send(1, Register, None, &long);
    assert_eq!(again, Err(ReservationRefusal::Check(Sense::invalid_parameter(20, Some(3)))));
}

#[test]
fn second_reservation_conflicts() {
    for kind in ReservationType::ALL {
        let mut unit = Unit::with_keys(&[1, 2]);
        assert_eq!(unit.send(3, Reserve, Some(kind), &list(0, 0)), Err(ReservationRefusal::Conflict));
        assert_eq!(unit.send(1, Reserve, Some(kind), &list(2, 0)), Err(ReservationRefusal::Conflict));
        assert!(unit.send(1, Reserve, Some(kind), &list(1, 0)).unwrap().changed);
        assert!(!unit.send(1, Reserve, Some(kind), &list(1, 0)).unwrap().changed);
        let key = if kind.is_all_registrants() { 0 } else { 1 };
        assert_eq!(unit.held_as(), Some((key, kind)));
        let second = unit.send(2, Reserve, Some(kind), &list(2, 0));
        assert_eq!(second.is_ok(), kind.is_all_registrants(), "{kind:?}");
        assert_eq!(unit.generation(), 2, "RESERVE leaves the generation");
    }
}

#[test]
fn release_notifies_nexuses_that_lose_access() {
    let mut unit = Unit::reserved(&[1, 2], WriteExclusiveRegistrantsOnly);
    assert_eq!(
        unit.send(2, Release, Some(WriteExclusiveRegistrantsOnly), &list(2, 0)),
        Ok(ReservationOutcome::default())
    );
    let wrong = unit.send(1, Release, Some(ExclusiveAccess), &list(1, 0));
    assert_eq!(wrong, Err(ReservationRefusal::Check(Sense::illegal(asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION))));
    let released = unit.send(1, Release, Some(WriteExclusiveRegistrantsOnly), &list(1, 0)).unwrap();
    assert_eq!(released.attentions, attentions(&[2], asc::RESERVATIONS_RELEASED));
    assert_eq!(unit.held_as(), None);
    let mut plain = Unit::reserved(&[1, 2], ExclusiveAccess);
    let released = plain.send(1, Release, Some(ExclusiveAccess), &list(1, 0)).unwrap();
    assert_eq!(released.attentions, []);
}

#[test]
fn unregistering_the_holder_releases_the_reservation() {
    let mut unit = Unit::reserved(&[1, 2], ExclusiveAccessRegistrantsOnly);
    let outcome = unit.send(1, Register, None, &list(1, 0)).unwrap();
    assert_eq!(outcome.attentions, attentions(&[2], asc::RESERVATIONS_RELEASED));
    assert_eq!(unit.held_as(), None);
    let mut shared = Unit::reserved(&[1, 2], ExclusiveAccessAllRegistrants);
    assert_eq!(shared.send(1, Register, None, &list(1, 0)).unwrap().attentions, []);
    assert_eq!(shared.held_as(), Some((0, ExclusiveAccessAllRegistrants)));
    assert!(shared.send(2, Register, None, &list(2, 0)).is_ok());
    assert_eq!(shared.held_as(), None);
}

#[test]
fn clear_removes_everything_and_notifies_others() {
    let mut unit = Unit::reserved(&[1, 2, 3], ExclusiveAccess);
    assert_eq!(unit.send(4, Clear, None, &list(0, 0)), Err(ReservationRefusal::Conflict));
    let outcome = unit.send(2, Clear, None, &list(2, 0)).unwrap();
    assert_eq!(outcome.attentions, attentions(&[1, 3], asc::RESERVATIONS_PREEMPTED));
    assert_eq!((unit.keys(), unit.held_as(), unit.generation()), (vec![], None, 4));
}

#[test]
fn preempt_of_the_holder_takes_the_reservation() {
    let mut unit = Unit::reserved(&[1, 2, 3], WriteExclusive);
    let outcome = unit.send(2, PreemptAndAbort, Some(WriteExclusiveRegistrantsOnly), &list(2, 1)).unwrap();
    let mut expected = attentions(&[1], asc::REGISTRATIONS_PREEMPTED);
    expected.extend(attentions(&[3], asc::RESERVATIONS_RELEASED));
    assert_eq!(outcome.attentions, expected);
    assert_eq!(outcome.aborted, [nexus(1)]);
    assert_eq!((unit.keys(), unit.held_as()), (vec![2, 3], Some((2, WriteExclusiveRegistrantsOnly))));
}

#[test]
fn preempt_of_another_key_removes_registrations_only() {
    let mut unit = Unit::reserved(&[1, 2, 2, 4], ExclusiveAccess);
    let outcome = unit.send(4, Preempt, Some(WriteExclusive), &list(4, 2)).unwrap();
    assert_eq!(outcome.attentions, attentions(&[2, 3], asc::REGISTRATIONS_PREEMPTED));
    assert_eq!(outcome.aborted, []);
    assert_eq!((unit.keys(), unit.held_as()), (vec![1, 4], Some((1, ExclusiveAccess))));
    assert_eq!(unit.send(4, Preempt, Some(WriteExclusive), &list(4, 99)), Err(ReservationRefusal::Conflict));
    let zero = unit.send(4, Preempt, Some(WriteExclusive), &list(4, 0));
    assert_eq!(zero, Err(ReservationRefusal::Check(Sense::invalid_parameter(8, None))));
    assert_eq!(unit.send(9, Preempt, Some(WriteExclusive), &list(0, 1)), Err(ReservationRefusal::Conflict));
}

#[test]
fn preempt_among_all_registrants() {
    let mut unit = Unit::reserved(&[1, 2, 3], WriteExclusiveAllRegistrants);
    // A single key: removes only its registration; the others still hold.
    assert!(unit.send(2, Preempt, Some(ExclusiveAccess), &list(2, 1)).is_ok());
    assert_eq!((unit.keys(), unit.held_as()), (vec![2, 3], Some((0, WriteExclusiveAllRegistrants))));
    // Zero: removes all others and takes the new type.
    let outcome = unit.send(3, Preempt, Some(ExclusiveAccess), &list(3, 0)).unwrap();
    assert_eq!(outcome.attentions, attentions(&[2], asc::REGISTRATIONS_PREEMPTED));
    assert_eq!((unit.keys(), unit.held_as()), (vec![3], Some((3, ExclusiveAccess))));
}

#[test]
fn holder_may_preempt_itself_to_change_the_type() {
    let mut unit = Unit::reserved(&[1, 2], WriteExclusive);
    let outcome = unit.send(1, Preempt, Some(ExclusiveAccess), &list(1, 1)).unwrap();
    assert_eq!(outcome.attentions, attentions(&[2], asc::RESERVATIONS_RELEASED));
    assert_eq!((unit.keys(), unit.held_as()), (vec![1, 2], Some((1, ExclusiveAccess))));
}

fn move_to(number: u8, key: u64, service_key: u64, unregister: bool) -> Vec<u8> {
    MoveParameters { key, service_key, unregister, persist: false, new_holder: nexus(number) }.to_bytes()
}

#[test]
fn register_and_move() {
    let mut unit = Unit::reserved(&[1, 2], ExclusiveAccess);
    assert_eq!(unit.send(2, RegisterAndMove, None, &move_to(3, 2, 5, false)), Err(ReservationRefusal::Conflict));
    let zero = unit.send(1, RegisterAndMove, None, &move_to(3, 1, 0, false));
    assert_eq!(zero, Err(ReservationRefusal::Check(Sense::invalid_parameter(8, None))));
    let own = unit.send(1, RegisterAndMove, None, &move_to(1, 1, 5, false));
    assert_eq!(own, Err(ReservationRefusal::Check(Sense::invalid_parameter(24, None))));
    let mut nowhere = move_to(3, 1, 5, false);
    nowhere[18..20].copy_from_slice(&513u16.to_be_bytes());
    let refused = unit.send(1, RegisterAndMove, None, &nowhere);
    assert_eq!(
        refused,
        Err(ReservationRefusal::Check(Sense::invalid_parameter(18, None))),
        "a port that does not exist"
    );
    assert!(unit.send(1, RegisterAndMove, None, &move_to(3, 1, 5, false)).is_ok());
    assert_eq!((unit.keys(), unit.held_as()), (vec![1, 2, 5], Some((5, ExclusiveAccess))));
    assert!(unit.send(3, RegisterAndMove, None, &move_to(2, 5, 6, true)).is_ok());
    assert_eq!((unit.keys(), unit.held_as()), (vec![1, 6], Some((6, ExclusiveAccess))));
    let mut shared = Unit::reserved(&[1], WriteExclusiveAllRegistrants);
    assert_eq!(shared.send(1, RegisterAndMove, None, &move_to(3, 1, 5, false)), Err(ReservationRefusal::Conflict));
}

const READ: &[u8] = &[0x28];
const WRITE: &[u8] = &[0x2a];
const MODE_SENSE: &[u8] = &[0x1a];
const TEST_UNIT_READY: &[u8] = &[0x00];
const INQUIRY: &[u8] = &[0x12];
const EXTENDED_COPY: &[u8] = &[0x83];
const SYNCHRONIZE_CACHE: &[u8] = &[0x35];
const START: &[u8] = &[0x1b, 0, 0, 0, 1];
const STOP: &[u8] = &[0x1b, 0, 0, 0, 0];

#[test]
fn commands_allowed_by_each_reservation_type() {
    for kind in ReservationType::ALL {
        // Nexus 1 holds, 2 is registered, 3 is neither.
        let unit = Unit::reserved(&[1, 2], kind);
        let shared = kind.admits_registrants();
        for (cdb, stranger) in [
            (TEST_UNIT_READY, true),
            (INQUIRY, true),
            (START, true),
            (READ, kind.admits_reads()),
            (WRITE, false),
            (MODE_SENSE, false),
            (EXTENDED_COPY, false),
            (SYNCHRONIZE_CACHE, false),
            (STOP, false),
        ] {
            assert!(unit.may(1, cdb), "holder {kind:?} {cdb:02x?}");
            assert_eq!(unit.may(2, cdb), shared || stranger, "registered {kind:?} {cdb:02x?}");
            assert_eq!(unit.may(3, cdb), stranger, "stranger {kind:?} {cdb:02x?}");
        }
    }
    let registered_only = Unit::with_keys(&[1]);
    assert!(registered_only.may(3, WRITE), "a registration alone keeps nobody out");
}

#[test]
fn classic_reservations() {
    let mut unit = Reservations::default();
    assert_eq!(unit.reserve_classic(&nexus(1)), Ok(()));
    assert_eq!(unit.reserve_classic(&nexus(1)), Ok(()));
    assert_eq!(unit.reserve_classic(&nexus(2)), Err(ReservationRefusal::Conflict));
    assert_eq!(unit.release_classic(&nexus(2)), Ok(()));
    for (cdb, other) in [
        (READ, false),
        (MODE_SENSE, false),
        (TEST_UNIT_READY, false),
        (INQUIRY, true),
        (&[0x17][..], true),
        (START, true),
    ] {
        assert_eq!(unit.check(&nexus(1), &command(cdb)), Ok(()));
        assert_eq!(unit.check(&nexus(2), &command(cdb)).is_ok(), other, "{cdb:02x?}");
    }
    let persistent = unit.apply(&nexus(1), Register, None, &list(0, 1), &PORTS);
    assert_eq!(persistent, Err(ReservationRefusal::Conflict));
    let mut copy = unit.clone();
    copy.nexus_lost(&nexus(2));
    assert_eq!(copy, unit, "the loss of another nexus changes nothing");
    copy.nexus_lost(&nexus(1));
    assert_eq!(copy, Reservations::default());
    unit.reset();
    assert_eq!(unit.reserve_classic(&nexus(2)), Ok(()));
    assert_eq!(unit.release_classic(&nexus(2)), Ok(()));
    assert_eq!(unit, Reservations::default());
}

#[test]
fn reserve_6_with_registrations_changes_nothing() {
    let unit = Unit::reserved(&[1, 2], WriteExclusiveRegistrantsOnly);
    let mut state = unit.0.clone();
    for (number, result) in [(1, Ok(())), (2, Ok(())), (3, Err(ReservationRefusal::Conflict))] {
        assert_eq!(state.reserve_classic(&nexus(number)), result);
        assert_eq!(state.release_classic(&nexus(number)), result);
    }
    assert_eq!(state, unit.0);
    let mut plain = Unit::reserved(&[1, 2], WriteExclusive).0;
    assert_eq!(plain.reserve_classic(&nexus(2)), Err(ReservationRefusal::Conflict));
}

#[test]
fn golden_reports() {
    let unit = Unit::reserved(&[0x0102_0304_0506_0708], ExclusiveAccess);
    assert_eq!(unit.0.read(InAction::ReadKeys), [0, 0, 0, 1, 0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        unit.0.read(InAction::ReadReservation),
        [0, 0, 0, 1, 0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0x03, 0, 0]
    );
    assert_eq!(unit.0.read(InAction::ReportCapabilities), [0, 8, 0x1d, 0x80, 0xea, 0x01, 0, 0]);
    let full = unit.0.read(InAction::ReadFullStatus);
    assert_eq!(full[..8], [0, 0, 0, 1, 0, 0, 0, 24 + 44]);
    assert_eq!(full[8..32], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 44]);
    assert_eq!(full[32..], nexus(1).transport_id());
    assert_eq!(Reservations::default().read(InAction::ReadReservation), [0; 8]);
    let without = Reservations::default().read_without_classic(InAction::ReportCapabilities);
    assert_eq!(without, [0, 8, 0x0d, 0x80, 0xea, 0x01, 0, 0]);
    assert_eq!(Reservations::default().read_without_classic(InAction::ReadFullStatus), [0; 8]);
}

#[test]
fn power_loss_keeps_only_aptpl_state() {
    let mut unit = Unit::default();
    let mut kept = list(0, 7);
    kept[20] = 0x01;
    assert!(unit.send(1, Register, None, &kept).is_ok());
    assert!(unit.0.persists());
    assert_eq!(unit.0.read(InAction::ReportCapabilities)[3], 0x81);
    let after = Unit(unit.0.clone().after_power_loss());
    assert_eq!((after.keys(), after.generation()), (vec![7], 0));
    assert!(unit.send(1, Register, None, &list(7, 8)).is_ok());
    assert_eq!(unit.0.after_power_loss(), Reservations::default());
}

#[test]
fn golden_image() {
    let unit = Unit::reserved(&[0x0a0b], WriteExclusive);
    let image = unit.0.to_image();
    assert_eq!(image[..12], *b"IBIDPRSV\0\x01\0\x01");
    assert_eq!(image[12..24], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(image[24..36], [0, 0, 0, 0, 0, 0, 0x0a, 0x0b, 0, 1, 0, 38]);
    assert_eq!(image[36..74], *nexus(1).initiator_port());
    assert_eq!(image.len(), 78);
    for at in 0..image.len() {
        let mut damaged = image.clone();
        damaged[at] ^= 0x10;
        assert!(Reservations::from_image(&damaged).is_err(), "byte {at}");
        assert!(Reservations::from_image(&image[..at]).is_err(), "{at} bytes");
    }
}

#[test]
fn inconsistent_images_are_refused() {
    let image = Unit::reserved(&[1, 2], WriteExclusive).0.to_image();
    for (at, byte, error) in [
        (9, 2, ImageError::Version(2)),
        (11, 2, ImageError::Contents), // unknown type
        (11, 0, ImageError::Contents), // holder without a reservation
        (19, 2, ImageError::Contents), // unregistered holder
        (23, 3, ImageError::Contents), // too many registrations
        (23, 1, ImageError::Contents), // too few registrations
        (31, 0, ImageError::Contents), // zero key
    ] {
        let mut body = image[..image.len() - 4].to_vec();
        body[at] = byte;
        let checksum = crc32c::crc32c(&body);
        body.extend(checksum.to_be_bytes());
        assert_eq!(Reservations::from_image(&body), Err(error), "byte {at}");
    }
}

fn any_action() -> impl Strategy<Value = (u8, OutAction, ReservationType, u64, u64, u8)> {
    let action = (0u8..8).prop_map(|code| OutAction::from_code(code).unwrap());
    let kind = proptest::sample::select(ReservationType::ALL.to_vec());
    (1u8..5, action, kind, 0u64..4, 0u64..4, 1u8..5)
}

proptest! {
    /// [`Unit::send`] asserts the invariants after every action.
    #[test]
    fn any_action_sequence_keeps_the_invariants(actions in proptest::collection::vec(any_action(), 1..60)) {
        let mut unit = Unit::default();
        for (from, action, kind, key, service_key, to) in actions {
            // The right key in half of the cases, so that most actions are accepted.
            let key = if to % 2 == 0 { unit.0.key_of(&nexus(from)).unwrap_or(0) } else { key };
            let bytes = if action == RegisterAndMove { move_to(to, key, service_key, key % 2 == 0) } else { list(key, service_key) };
            let _ = unit.send(from, action, action.uses_type().then_some(kind), &bytes);
        }
    }

    /// Two unregistered nexuses never both have write access under an exclusive type.
    #[test]
    fn exclusive_types_admit_one_writer(actions in proptest::collection::vec(any_action(), 1..60)) {
        let mut unit = Unit::default();
        for (from, action, kind, key, service_key, _) in actions.iter().filter(|a| a.1 != RegisterAndMove) {
            let _ = unit.send(*from, *action, action.uses_type().then_some(*kind), &list(*key, *service_key));
        }
        if let Some((_, WriteExclusive | ExclusiveAccess)) = unit.held_as() {
            prop_assert_eq!((1..5).filter(|number| unit.may(*number, WRITE)).count(), 1);
        }
    }

    #[test]
    fn arbitrary_reservation_lists_parse_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..120), code in 0u8..8) {
        let action = OutAction::from_code(code).unwrap();
        let kind = action.uses_type().then_some(WriteExclusive);
        let _ = Unit::with_keys(&[0]).0.apply(&nexus(1), action, kind, &bytes, &PORTS);
        let _ = Reservations::from_image(&bytes);
    }
}

#[test]
fn padded_images_are_read_whatever_they_end_with() {
    let mut zeros = 0;
    for key in 1..1000 {
        let list = OutParameters { service_key: key, ..OutParameters::default() }.to_bytes();
        let mut reservations = Reservations::default();
        let nexus = NexusId::new("iqn.a:b", [1; 6], 1);
        reservations.apply(&nexus, OutAction::Register, None, &list, &[1]).unwrap();
        let mut image = reservations.to_image();
        zeros += usize::from(image.last() == Some(&0));
        assert_eq!(Reservations::from_padded_image(&image), Ok(reservations.clone()), "{key}");
        image.resize(1024, 0);
        assert_eq!(Reservations::from_padded_image(&image), Ok(reservations), "{key}");
    }
    assert!(zeros > 0, "no checksum ends with a zero");
    assert_eq!(Reservations::from_padded_image(&[0; 512]), Ok(Reservations::default()));
    let damaged: [&[u8]; 3] = [b"x", b"IBIDPRSV and nothing else in this block", &[0xff; 300]];
    for bytes in damaged {
        assert!(Reservations::from_padded_image(bytes).is_err(), "{bytes:?}");
    }
}
