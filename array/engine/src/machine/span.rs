//! Joins reads: groups that are close on the drive are read with one request.

use super::group::StoredGroup;
use platform::DiskError;
use smallvec::SmallVec;

/// Most bytes between two groups that are read in vain to save a second read.
const MAX_GAP: u64 = 4 << 10;
/// Most bytes of one span.
const MAX_SPAN: u64 = 1 << 20;

/// Spans of the drive that were read before the groups in them are decompressed.
#[derive(Default)]
pub(crate) struct Spans(SmallVec<[(u64, Vec<u8>); 2]>);

impl Spans {
    /// Reads the spans that hold at least two of `groups`. `None` if that would block. A span that
    /// cannot be read is left out: its groups are then read one by one, so that only damaged ones
    /// fail.
    pub(crate) fn read(
        groups: impl Iterator<Item = StoredGroup>,
        read: &dyn Fn(u64, &mut [u8]) -> Result<bool, DiskError>,
    ) -> Option<Self> {
        let mut spans = Self::default();
        for (start, end) in stretches(groups) {
            let mut bytes = vec![0; (end - start) as usize];
            match read(start, &mut bytes) {
                Ok(true) => spans.0.push((start, bytes)),
                Ok(false) => return None,
                Err(_) => {}
            }
        }
        Some(spans)
    }

    /// Copies bytes at `offset` out of a span. False if no span holds all of them.
    pub(crate) fn copy_to(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let held = self.0.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(buffer.len())?)
        });
        held.map(|held| buffer.copy_from_slice(held)).is_some()
    }
}

/// Returns the ranges with at least two adjacent groups, in order of offset.
fn stretches(groups: impl Iterator<Item = StoredGroup>) -> SmallVec<[(u64, u64); 4]> {
    let mut places: SmallVec<[(u64, u64); 16]> =
        groups.map(|group| (group.offset, group.offset + group.bytes() as u64)).collect();
    places.sort_unstable();
    places.dedup();
    let mut stretches: SmallVec<[(u64, u64, u32); 4]> = SmallVec::new();
    for (start, end) in places {
        match stretches.last_mut() {
            Some((first, last, groups)) if start <= *last + MAX_GAP && end - *first <= MAX_SPAN => {
                (*last, *groups) = (end.max(*last), *groups + 1);
            }
            _ => stretches.push((start, end, 1)),
        }
    }
    stretches.into_iter().filter(|(_, _, groups)| *groups > 1).map(|(start, end, _)| (start, end)).collect()
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
        assert_eq!(stretches(groups.into_iter())[..], [(4096, 11264)]);
        let long: Vec<StoredGroup> = (0..1024).map(|at| group(at * 2048, 4)).collect();
        assert_eq!(stretches(long.into_iter())[..], [(0, MAX_SPAN), (MAX_SPAN, 2 * MAX_SPAN)]);
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
        assert!(spans.copy_to(1024, &mut bytes) && bytes[0] == 2 && bytes[1535] == 4 && reads.get() == 1);
        assert!(!spans.copy_to(2048, &mut bytes), "beyond the end of the stretch");
        assert!(Spans::read([group(0, 2), group(1024, 3)].into_iter(), &|_, _| Ok(false)).is_none());
        let broken = Spans::read([group(0, 2), group(1024, 3)].into_iter(), &|_, _| Err(DiskError::Full)).unwrap();
        assert!(!broken.copy_to(0, &mut bytes));
    }
}
