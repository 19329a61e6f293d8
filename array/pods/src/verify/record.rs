//! The outcome of a verification, as administrators see it and as the array stores it.

use types::{BlockRange, Lba, VolumeId};

/// Most ranges that are listed.
pub(crate) const MOST_LISTED: usize = 1000;

const VERSION: u8 = 2;

/// State of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyState {
    /// It compares.
    Running,
    /// It waits until both arrays serve again.
    Waiting,
    /// It has compared everything.
    Complete,
    /// An administrator has stopped it.
    Stopped,
    /// It has ended early, for this reason.
    Ended(String),
}

/// The difference of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DifferenceKind {
    /// The contents differ.
    Content = 1,
    /// This array cannot read its content.
    UnreadableHere = 2,
    /// The other array cannot read its content.
    UnreadableThere = 3,
}

/// A range with a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The volume or snapshot, by its content.
    pub volume: VolumeId,
    /// The blocks.
    pub range: BlockRange,
    /// The difference.
    pub kind: DifferenceKind,
}

/// A verification, and the differences that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyStatus {
    /// Number of the verification. Both arrays keep that with the highest one.
    pub number: u64,
    /// State of the last verification.
    pub state: VerifyState,
    /// Its begin, in milliseconds since 1970.
    pub started_ms: u64,
    /// Its end, or the last time when it was stored.
    pub ended_ms: u64,
    /// Bytes of volumes that it has compared, with holes.
    pub compared: u64,
    /// Bytes of volumes that it has to compare.
    pub total: u64,
    /// Differences: those of this verification, or of one before until this has compared
    /// everything.
    pub differences: Vec<Difference>,
    /// Bytes that differ, listed or not.
    pub different: u64,
    /// When the first of them was found, in milliseconds since 1970.
    pub found_ms: u64,
}

impl VerifyStatus {
    /// Begins a verification after another one.
    pub(super) fn begin(before: Option<&Self>, total: u64, now_ms: u64) -> Self {
        let (differences, different, found_ms) = match before {
            Some(before) => (before.differences.clone(), before.different, before.found_ms),
            None => (Vec::new(), 0, 0),
        };
        let number = before.map_or(0, |before| before.number).saturating_add(1);
        let (state, compared, started_ms, ended_ms) = (VerifyState::Running, 0, now_ms, now_ms);
        Self { number, state, started_ms, ended_ms, compared, total, differences, different, found_ms }
    }

    /// Returns it as the other array has it: content that is unreadable here is unreadable there.
    pub(super) fn mirrored(mut self) -> Self {
        for found in &mut self.differences {
            found.kind = match found.kind {
                DifferenceKind::Content => DifferenceKind::Content,
                DifferenceKind::UnreadableHere => DifferenceKind::UnreadableThere,
                DifferenceKind::UnreadableThere => DifferenceKind::UnreadableHere,
            };
        }
        self
    }

    /// Whether it is later than another one: by number, then by its end.
    pub(super) fn is_later(&self, other: &Self) -> bool {
        (self.number, self.ended_ms) > (other.number, other.ended_ms)
    }

    /// Whether it has an end.
    pub fn is_over(&self) -> bool {
        !matches!(self.state, VerifyState::Running | VerifyState::Waiting)
    }

    /// Adds a difference. The first one replaces those of a verification before.
    pub(super) fn add(&mut self, found: Difference, is_first: bool, now_ms: u64) {
        if is_first {
            (self.differences, self.different, self.found_ms) = (Vec::new(), 0, now_ms);
        }
        self.different = self.different.saturating_add(found.range.bytes());
        if let Some(last) = self.differences.last_mut()
            && (last.volume, last.kind, last.range.end()) == (found.volume, found.kind, found.range.start())
            && let Ok(joined) = BlockRange::new(last.range.start(), last.range.blocks() + found.range.blocks())
        {
            last.range = joined;
        } else if self.differences.len() < MOST_LISTED {
            self.differences.push(found);
        }
    }

    /// Ends it. One that has compared everything and found nothing ends earlier findings.
    pub(super) fn end(&mut self, state: VerifyState, has_found: bool, now_ms: u64) {
        if state == VerifyState::Complete && !has_found {
            (self.differences, self.different, self.found_ms) = (Vec::new(), 0, 0);
        }
        (self.state, self.ended_ms) = (state, now_ms);
    }

    /// Returns the bytes for the catalog of the engine.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (state, reason) = match &self.state {
            VerifyState::Running | VerifyState::Waiting => (0, ""),
            VerifyState::Complete => (1, ""),
            VerifyState::Stopped => (2, ""),
            VerifyState::Ended(reason) => (3, reason.as_str()),
        };
        let numbers = [
            self.number,
            self.started_ms,
            self.ended_ms,
            self.compared,
            self.total,
            self.different,
            self.found_ms,
            reason.len() as u64,
        ];
        let mut bytes = vec![VERSION, state];
        bytes.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        bytes.extend_from_slice(reason.as_bytes());
        for Difference { volume, range, kind } in &self.differences {
            bytes.extend([volume.0, range.start().0, range.blocks()].into_iter().flat_map(u64::to_le_bytes));
            bytes.push(*kind as u8);
        }
        bytes
    }

    /// Parses bytes. One that ran when they were stored was ended by a restart.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [version, state, rest @ ..] = bytes else { return None };
        let (numbers, rest) = rest.split_first_chunk::<{ 8 * 8 }>()?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let [nth, started_ms, ended_ms, compared, total, different, found_ms, length] = *numbers else { return None };
        let number = u64::from_le_bytes;
        let (reason, rest) = rest.split_at_checked(usize::try_from(number(length)).ok()?)?;
        let state = match state {
            0 => VerifyState::Ended("the array was restarted".to_owned()),
            1 => VerifyState::Complete,
            2 => VerifyState::Stopped,
            3 => VerifyState::Ended(str::from_utf8(reason).ok()?.to_owned()),
            _ => return None,
        };
        let (found, []) = rest.as_chunks::<25>() else { return None };
        let difference = |bytes: &[u8; 25]| {
            let (numbers, [kind]) = bytes.as_chunks::<8>() else { return None };
            let [volume, start, blocks] = *numbers else { return None };
            let kind = match kind {
                1 => DifferenceKind::Content,
                2 => DifferenceKind::UnreadableHere,
                3 => DifferenceKind::UnreadableThere,
                _ => return None,
            };
            let range = BlockRange::new(Lba(number(start)), number(blocks)).ok()?;
            Some(Difference { volume: VolumeId(number(volume)), range, kind })
        };
        let differences = found.iter().map(difference).collect::<Option<_>>()?;
        let [nth, started_ms, ended_ms, compared] = [nth, started_ms, ended_ms, compared].map(number);
        let [total, different, found_ms] = [total, different, found_ms].map(number);
        let status =
            Self { number: nth, state, started_ms, ended_ms, compared, total, differences, different, found_ms };
        (*version == VERSION).then_some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(start: u64, kind: DifferenceKind) -> Difference {
        Difference { volume: VolumeId(7), range: BlockRange::new(Lba(start), 8).unwrap(), kind }
    }

    #[test]
    fn differences_are_kept_until_a_clean_end() {
        let mut first = VerifyStatus::begin(None, 1 << 20, 10);
        first.add(found(0, DifferenceKind::Content), true, 11);
        first.add(found(8, DifferenceKind::Content), false, 12);
        first.add(found(16, DifferenceKind::UnreadableThere), false, 13);
        first.end(VerifyState::Complete, true, 14);
        let ranges: Vec<_> =
            first.differences.iter().map(|found| (found.range.start().0, found.range.blocks())).collect();
        assert_eq!((ranges, first.different, first.found_ms), (vec![(0, 16), (16, 8)], 24 * 512, 11));
        let mut second = VerifyStatus::begin(Some(&first), 1 << 20, 20);
        second.end(VerifyState::Stopped, false, 21);
        assert_eq!(second.differences, first.differences, "it has not compared everything");
        let mut third = VerifyStatus::begin(Some(&second), 1 << 20, 30);
        third.end(VerifyState::Complete, false, 31);
        assert_eq!((third.differences.len(), third.different, third.found_ms), (0, 0, 0));
        assert_eq!((first.number, second.number, third.number), (1, 2, 3));
        assert!(third.is_later(&second) && !first.is_later(&second));
        let kinds = first.clone().mirrored().differences.iter().map(|found| found.kind).collect::<Vec<_>>();
        assert_eq!(kinds, [DifferenceKind::Content, DifferenceKind::UnreadableHere]);
        assert_eq!(first.clone().mirrored().mirrored(), first);
    }

    #[test]
    fn stored_form_is_read_again() {
        let mut status = VerifyStatus::begin(None, 5, 10);
        status.add(found(8, DifferenceKind::UnreadableHere), true, 11);
        for state in [VerifyState::Complete, VerifyState::Stopped, VerifyState::Ended("no answer".to_owned())] {
            status.end(state, true, 12);
            assert_eq!(VerifyStatus::decode(&status.encode()), Some(status.clone()));
        }
        status.state = VerifyState::Running;
        let state = VerifyStatus::decode(&status.encode()).map(|status| status.state);
        assert_eq!(state, Some(VerifyState::Ended("the array was restarted".to_owned())));
        let bytes = status.encode();
        (0..bytes.len()).for_each(|length| assert!(VerifyStatus::decode(&bytes[..length]).is_none() || length > 65));
    }

    #[test]
    fn list_of_differences_is_bounded() {
        let mut status = VerifyStatus::begin(None, 0, 0);
        (0..2000).for_each(|n| status.add(found(n * 16, DifferenceKind::Content), n == 0, 1));
        assert_eq!((status.differences.len(), status.different), (MOST_LISTED, 2000 * 4096));
    }
}
