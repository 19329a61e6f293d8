//! The bytes of [`Stored`]: one value of fixed length, with a version.

use crate::state::{Epoch, Role, Rule, Side, Stored, TieRule};
use thiserror::Error;
use types::{Period, Position};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the encoding.
const VERSION: u8 = 1;

const IS_HURT: u8 = 1;
const IS_WHOLE: u8 = 2;
const HAS_PENDING: u8 = 4;
const HAS_LEAVING: u8 = 8;
const HAS_MEDIATOR: u8 = 16;
const ALL_FLAGS: u8 = 31;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct StoredLayout {
    version: u8,
    role: u8,
    flags: u8,
    sequencer: u8,
    /// Rules: 0 for MEDIATOR, otherwise the array of ONLY.
    rule: u8,
    rule_before: u8,
    preference: u8,
    zero: u8,
    epoch: U32,
    zeros: U32,
    period: U64,
    start: U64,
    pending: U64,
    base_period: U64,
    base_position: U64,
    leaving: U64,
    mediator: U64,
}

/// Length of an encoded state in bytes.
pub const STORED_BYTES: usize = size_of::<StoredLayout>();
const _: () = assert!(STORED_BYTES == 72);

/// Bytes that are no state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoredError {
    /// Too short or too long.
    #[error("state of a pod with {0} bytes")]
    Length(usize),
    /// Written by another version.
    #[error("state of a pod in version {0}")]
    Version(u8),
    /// A field has a value without a meaning.
    #[error("state of a pod with a bad {0}")]
    Field(&'static str),
}

impl Stored {
    /// Returns the bytes of the state.
    pub fn encode(&self) -> [u8; STORED_BYTES] {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let layout = StoredLayout {
            version: VERSION,
            role: self.role as u8,
            flags: flag(self.is_hurt, IS_HURT)
                | flag(self.is_whole, IS_WHOLE)
                | flag(self.rule.pending.is_some(), HAS_PENDING)
                | flag(self.leaving.is_some(), HAS_LEAVING)
                | flag(self.mediator.is_some(), HAS_MEDIATOR),
            sequencer: self.sequencer as u8,
            rule: rule_number(self.rule.current),
            rule_before: rule_number(self.rule.before),
            preference: self.preference as u8,
            zero: 0,
            epoch: self.epoch.0.into(),
            zeros: 0.into(),
            period: self.period.0.into(),
            start: self.start.0.into(),
            pending: self.rule.pending.unwrap_or_default().0.into(),
            base_period: self.base.0.0.into(),
            base_position: self.base.1.0.into(),
            leaving: self.leaving.unwrap_or_default().0.into(),
            mediator: self.mediator.unwrap_or_default().into(),
        };
        zerocopy::transmute!(layout)
    }

    /// Parses the bytes of a state.
    ///
    /// # Errors
    ///
    /// The bytes are no state, or one of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoredError> {
        let layout = StoredLayout::read_from_bytes(bytes).map_err(|_| StoredError::Length(bytes.len()))?;
        if layout.version != VERSION {
            return Err(StoredError::Version(layout.version));
        }
        if layout.flags & !ALL_FLAGS != 0 {
            return Err(StoredError::Field("flag"));
        }
        if layout.zero != 0 || layout.zeros.get() != 0 {
            return Err(StoredError::Field("reserved byte"));
        }
        let optional = |bit: u8, value: U64, name| match (layout.flags & bit != 0, value.get()) {
            (true, value) => Ok(Some(value)),
            (false, 0) => Ok(None),
            (false, _) => Err(StoredError::Field(name)),
        };
        let pending = optional(HAS_PENDING, layout.pending, "position of a rule")?;
        let leaving = optional(HAS_LEAVING, layout.leaving, "position of a leave")?;
        Ok(Self {
            role: role_of(layout.role).ok_or(StoredError::Field("role"))?,
            is_hurt: layout.flags & IS_HURT != 0,
            epoch: Epoch(layout.epoch.get()),
            period: Period(layout.period.get()),
            start: Position(layout.start.get()),
            sequencer: side_of(layout.sequencer).ok_or(StoredError::Field("sequencer"))?,
            rule: TieRule {
                current: rule_of(layout.rule).ok_or(StoredError::Field("rule"))?,
                before: rule_of(layout.rule_before).ok_or(StoredError::Field("rule before"))?,
                pending: pending.map(Position),
            },
            base: (Period(layout.base_period.get()), Position(layout.base_position.get())),
            is_whole: layout.flags & IS_WHOLE != 0,
            leaving: leaving.map(Position),
            mediator: optional(HAS_MEDIATOR, layout.mediator, "mediator")?,
            preference: side_of(layout.preference).ok_or(StoredError::Field("preference"))?,
        })
    }
}

pub(crate) fn role_of(number: u8) -> Option<Role> {
    Role::ALL.into_iter().find(|role| *role as u8 == number)
}

pub(crate) fn side_of(number: u8) -> Option<Side> {
    Side::BOTH.into_iter().find(|side| *side as u8 == number)
}

pub(crate) fn rule_number(rule: Rule) -> u8 {
    match rule {
        Rule::Mediator => 0,
        Rule::Only(side) => side as u8,
    }
}

pub(crate) fn rule_of(number: u8) -> Option<Rule> {
    if number == 0 { Some(Rule::Mediator) } else { side_of(number).map(Rule::Only) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::Rng;

    fn random(rng: &mut Rng) -> Stored {
        let rule = |rng: &mut Rng| rng.pick(&[Rule::Mediator, Rule::Only(Side::A), Rule::Only(Side::B)]);
        let position = |rng: &mut Rng| rng.percent(50).then(|| Position(rng.next_u64()));
        Stored {
            role: rng.pick(&Role::ALL),
            is_hurt: rng.percent(50),
            epoch: Epoch(rng.next_u64() as u32),
            period: Period(rng.next_u64()),
            start: Position(rng.next_u64()),
            sequencer: rng.pick(&Side::BOTH),
            rule: TieRule { current: rule(rng), before: rule(rng), pending: position(rng) },
            base: (Period(rng.next_u64()), Position(rng.next_u64())),
            is_whole: rng.percent(50),
            leaving: position(rng),
            mediator: rng.percent(50).then(|| rng.next_u64()),
            preference: rng.pick(&Side::BOTH),
        }
    }

    #[test]
    fn states_are_read_back() {
        let mut rng = Rng::new(1);
        for _ in 0..2000 {
            let stored = random(&mut rng);
            assert_eq!(Stored::decode(&stored.encode()), Ok(stored));
        }
    }

    #[test]
    fn state_has_the_golden_bytes() {
        let stored = Stored {
            role: Role::Sync,
            is_hurt: true,
            epoch: Epoch(6),
            period: Epoch(5).period(),
            start: Position(7),
            sequencer: Side::B,
            rule: TieRule { current: Rule::Mediator, before: Rule::Only(Side::B), pending: Some(Position(9)) },
            base: (Period(3), Position(4)),
            is_whole: false,
            leaving: None,
            mediator: Some(0x1122),
            preference: Side::A,
        };
        let golden = "01021502000201000600000000000000000000000500000007000000000000000900000000000000\
                      0300000000000000040000000000000000000000000000002211000000000000";
        assert_eq!(types::hex::encode(&stored.encode()), golden);
    }

    #[test]
    fn malformed_states_are_refused_with_a_reason() {
        let good = Stored::local(Side::A).encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Stored::decode(&bytes).unwrap_err().to_string()
        };
        assert_eq!(with(0, 2), "state of a pod in version 2");
        assert_eq!(with(1, 0), "state of a pod with a bad role");
        assert_eq!(with(1, 8), "state of a pod with a bad role");
        assert_eq!(with(2, 32), "state of a pod with a bad flag");
        assert_eq!(with(3, 3), "state of a pod with a bad sequencer");
        assert_eq!(with(4, 3), "state of a pod with a bad rule");
        assert_eq!(with(5, 3), "state of a pod with a bad rule before");
        assert_eq!(with(6, 0), "state of a pod with a bad preference");
        assert_eq!(with(7, 1), "state of a pod with a bad reserved byte");
        assert_eq!(with(15, 1), "state of a pod with a bad reserved byte");
        assert_eq!(with(32, 1), "state of a pod with a bad position of a rule");
        assert_eq!(with(56, 1), "state of a pod with a bad position of a leave");
        assert_eq!(with(64, 1), "state of a pod with a bad mediator");
        assert_eq!(Stored::decode(&good[1..]), Err(StoredError::Length(71)));
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 {
            let mut bytes = vec![0; rng.pick(&[0, 71, 72, 72, 72, 73])];
            rng.fill(&mut bytes);
            if let Ok(stored) = Stored::decode(&bytes) {
                assert_eq!(stored.encode().as_slice(), bytes);
            }
        }
        let mut changed = Stored::local(Side::A).encode();
        for _ in 0..20_000 {
            changed[rng.index(STORED_BYTES)] = rng.pick(&[0, 1, 2, 3, 7]);
            if let Ok(stored) = Stored::decode(&changed) {
                assert_eq!(stored.encode(), changed);
            }
        }
    }
}
