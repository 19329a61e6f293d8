//! Joins reads: groups that are close on the drive are read with one request.

use super::group::StoredGroup;
use platform::DiskError;
use smallvec::SmallVec;

/// Most bytes between two groups that are read in vain to save a second read.
const MAX_GAP: u64 = 4 << 10;
/// Most bytes of one span.
const MAX_SPAN: u64 = 1 << 20;

/// A range of the drive to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// First byte.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) bytes: usize,
    /// It holds several groups. One may be readable although the whole is not.
    is_joined: bool,
}

impl Place {
    /// A place whose bytes are needed whole.
    pub(crate) fn whole(offset: u64, bytes: usize) -> Self {
        Self { offset, bytes, is_joined: false }
    }
}

/// The bytes of a place, or why they could not be read.
pub(crate) type PlaceRead = (Place, Result<Vec<u8>, DiskError>);

/// Places that were read before the groups in them are decompressed, in order of offset.
#[derive(Default)]
pub(crate) struct Spans(SmallVec<[PlaceRead; 2]>);

impl Spans {
    /// Reads the places that hold at least two of `groups`. `None` if that would block.
    pub(crate) fn read(
        groups: impl Iterator<Item = StoredGroup>,
        read: &dyn Fn(u64, &mut [u8]) -> Result<bool, DiskError>,
    ) -> Option<Self> {
        let mut spans = Self::default();
        for place in join(groups).into_iter().filter(|place| place.is_joined) {
            let mut bytes = vec![0; place.bytes];
            match read(place.offset, &mut bytes) {
                Ok(true) => spans.0.push((place, Ok(bytes))),
                Ok(false) => return None,
                Err(error) => spans.0.push((place, Err(error))),
            }
        }
        Some(spans)
    }

    /// Takes places that were read.
    pub(crate) fn from_reads(reads: impl IntoIterator<Item = PlaceRead>) -> Self {
        let mut spans = Self(reads.into_iter().collect());
        spans.0.sort_unstable_by_key(|(place, _)| place.offset);
        spans
    }

    /// Copies bytes at `offset` out of the place that holds all of them. False if there is none,
    /// or if it holds several groups and could not be read: groups are then read one by one, so
    /// that only damaged ones fail.
    pub(crate) fn copy_to(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, DiskError> {
        let after = self.0.partition_point(|(place, _)| place.offset <= offset);
        // Mostly the first. A place of several groups may extend over others.
        for (place, result) in self.0[..after].iter().rev() {
            let from = offset.checked_sub(place.offset).and_then(|from| usize::try_from(from).ok());
            let range = from.and_then(|from| Some(from..from.checked_add(buffer.len())?));
            let Some(range) = range.filter(|range| range.end <= place.bytes) else { continue };
            match result {
                Ok(bytes) => buffer.copy_from_slice(&bytes[range]),
                Err(_) if place.is_joined => return Ok(false),
                Err(error) => return Err(error.clone()),
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// Returns the places of the groups, in order of offset. Adjacent groups share a place.
pub(crate) fn join(groups: impl Iterator<Item = StoredGroup>) -> SmallVec<[Place; 4]> {
    let mut places: SmallVec<[(u64, u64); 16]> =
        groups.map(|group| (group.offset, group.offset + group.bytes() as u64)).collect();
    places.sort_unstable();
    places.dedup();
    let mut joined: SmallVec<[(u64, u64, bool); 4]> = SmallVec::new();
    for (start, end) in places {
        match joined.last_mut() {
            Some((first, last, is_joined)) if start <= *last + MAX_GAP && end - *first <= MAX_SPAN => {
                (*last, *is_joined) = (end.max(*last), true);
            }
            _ => joined.push((start, end, false)),
        }
    }
    let place = |(start, end, is_joined)| Place { offset: start, bytes: (end - start) as usize, is_joined };
    joined.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(offset: u64, sectors: u8) -> StoredGroup {
        StoredGroup { offset, segment: 0, usage: 1, sectors, blocks: 1, crc: 0 }
    }

    #[test]
    fn adjacent_groups_form_one_span() {
        let groups = [group(1 << 30, 2), group(9216, 4), group(4096, 8), group(4096, 8), group(1 << 20, 1)];
        let places = |groups: &[StoredGroup]| -> Vec<(u64, u64, bool)> {
            let place = |place: Place| (place.offset, place.offset + place.bytes as u64, place.is_joined);
            join(groups.iter().copied()).into_iter().map(place).collect()
        };
        let last = 1 << 30;
        let alone = [(1 << 20, (1 << 20) + 512, false), (last, last + 1024, false)];
        assert_eq!(places(&groups), [(4096, 11264, true), alone[0], alone[1]]);
        let long: Vec<StoredGroup> = (0..1024).map(|at| group(at * 2048, 4)).collect();
        assert_eq!(places(&long), [(0, MAX_SPAN, true), (MAX_SPAN, 2 * MAX_SPAN, true)]);
    }

    #[test]
    fn groups_are_copied_out_of_a_span() {
        let reads = std::cell::Cell::new(0);
        let read = |offset: u64, buffer: &mut [u8]| {
            reads.set(reads.get() + 1);
            buffer.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = (at / 512) as u8);
            Ok(true)
        };
        let spans = Spans::read([group(0, 2), group(1024, 3)].into_iter(), &read).unwrap();
        let mut bytes = [9; 1536];
        assert_eq!((spans.copy_to(1024, &mut bytes), bytes[0], bytes[1535], reads.get()), (Ok(true), 2, 4, 1));
        assert_eq!(spans.copy_to(2048, &mut bytes), Ok(false), "beyond the end of the place");
        assert!(Spans::read([group(0, 2), group(1024, 3)].into_iter(), &|_, _| Ok(false)).is_none());
        let broken = Spans::read([group(0, 2), group(1024, 3)].into_iter(), &|_, _| Err(DiskError::Full)).unwrap();
        assert_eq!(broken.copy_to(0, &mut bytes), Ok(false), "its groups may be readable");
        let broken = Spans::from_reads([(Place::whole(0, 2048), Err(DiskError::Full))]);
        assert_eq!(broken.copy_to(512, &mut bytes), Err(DiskError::Full));
    }
}
