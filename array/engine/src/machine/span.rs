//! Neighbours on the drive are read together: a read of many small units asks the drive once for those that stand side by side.

use super::group::StoredGroup;
use platform::DiskError;
use smallvec::SmallVec;

/// The most bytes between two units that are read for nothing, to save a second read.
const MAX_GAP: u64 = 4 << 10;
/// The most bytes of one span.
const MAX_SPAN: u64 = 1 << 20;

/// Stretches of the drive that were read ahead of the units in them.
#[derive(Default)]
pub(crate) struct Spans(SmallVec<[(u64, Vec<u8>); 2]>);

impl Spans {
    /// Reads the stretches in which at least two of `units` stand. `None` when that would have to wait. A stretch that cannot be read is
    /// left out: its units are then read one by one, and only what is really damaged is told to be.
    pub(crate) fn read(
        units: impl Iterator<Item = StoredGroup>,
        read: &dyn Fn(u64, &mut [u8]) -> Result<bool, DiskError>,
    ) -> Option<Self> {
        let mut spans = Self::default();
        for (start, end) in stretches(units) {
            let mut bytes = vec![0; (end - start) as usize];
            match read(start, &mut bytes) {
                Ok(true) => spans.0.push((start, bytes)),
                Ok(false) => return None,
                Err(_) => {}
            }
        }
        Some(spans)
    }

    /// Copies what stands at `offset` out of a stretch. False when none holds it as a whole.
    pub(crate) fn copy_to(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let held = self.0.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(buffer.len())?)
        });
        held.map(|held| buffer.copy_from_slice(held)).is_some()
    }
}

/// Where at least two units stand side by side, in the order of the drive.
fn stretches(units: impl Iterator<Item = StoredGroup>) -> SmallVec<[(u64, u64); 4]> {
    let mut places: SmallVec<[(u64, u64); 16]> =
        units.map(|unit| (unit.offset, unit.offset + unit.bytes() as u64)).collect();
    places.sort_unstable();
    places.dedup();
    let mut stretches: SmallVec<[(u64, u64, u32); 4]> = SmallVec::new();
    for (start, end) in places {
        match stretches.last_mut() {
            Some((first, last, units)) if start <= *last + MAX_GAP && end - *first <= MAX_SPAN => {
                (*last, *units) = (end.max(*last), *units + 1);
            }
            _ => stretches.push((start, end, 1)),
        }
    }
    stretches.into_iter().filter(|(_, _, units)| *units > 1).map(|(start, end, _)| (start, end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(offset: u64, sectors: u8) -> StoredGroup {
        StoredGroup { offset, usage: 1, sectors, blocks: 1, crc: 0 }
    }

    #[test]
    fn neighbours_are_one_stretch_and_loners_none() {
        let units = [unit(1 << 30, 2), unit(9216, 4), unit(4096, 8), unit(4096, 8), unit(1 << 20, 1)];
        assert_eq!(stretches(units.into_iter())[..], [(4096, 11264)]);
        let long: Vec<StoredGroup> = (0..1024).map(|at| unit(at * 2048, 4)).collect();
        assert_eq!(stretches(long.into_iter())[..], [(0, MAX_SPAN), (MAX_SPAN, 2 * MAX_SPAN)]);
    }

    #[test]
    fn what_was_read_together_is_taken_apart_again() {
        let reads = std::cell::Cell::new(0);
        let read = |offset: u64, buffer: &mut [u8]| {
            reads.set(reads.get() + 1);
            buffer.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = (at / 512) as u8);
            Ok(true)
        };
        let spans = Spans::read([unit(0, 2), unit(1024, 3)].into_iter(), &read).unwrap();
        let mut bytes = [9; 1536];
        assert!(spans.copy_to(1024, &mut bytes) && bytes[0] == 2 && bytes[1535] == 4 && reads.get() == 1);
        assert!(!spans.copy_to(2048, &mut bytes), "beyond the end of the stretch");
        assert!(Spans::read([unit(0, 2), unit(1024, 3)].into_iter(), &|_, _| Ok(false)).is_none());
        let broken = Spans::read([unit(0, 2), unit(1024, 3)].into_iter(), &|_, _| Err(DiskError::Full)).unwrap();
        assert!(!broken.copy_to(0, &mut bytes));
    }
}
