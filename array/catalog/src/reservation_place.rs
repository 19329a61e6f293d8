//! Where the reservations of volumes of stretched pods are stored.
//!
//! A hidden volume of the pod's stream has one place for each content, so both arrays have them,
//! and a change is a COMPARE AND WRITE of the place. Places of contents that are no volumes stay
//! empty.

use crate::pod::MAX_CONTENT;
use types::{BlockRange, LBA_BYTES, Lba, VolumeId};

/// Blocks of 512 bytes of a place: the length of the longest COMPARE AND WRITE, and one block.
const PLACE_BLOCKS: u64 = 256;
/// Maximum length in bytes of the reservations of a volume of a stretched pod.
pub const MAX_SHARED_RESERVATIONS_BYTES: usize = (PLACE_BLOCKS as usize - 1) * LBA_BYTES as usize;
/// Size in blocks of the hidden volume.
pub(crate) const RESERVATIONS_BLOCKS: u64 = (MAX_CONTENT as u64 + 1) * PLACE_BLOCKS;

/// Returns the hidden volume and the range in it that has the reservations on a volume with this
/// content: an image of reservations followed by zeros, or zeros alone without any. `None` for
/// content that no stretched pod has.
pub fn reservation_place(content: VolumeId) -> Option<(VolumeId, BlockRange)> {
    let stream = content.stream().filter(|_| content.is_ordered())?;
    let number = content.0 & u64::from(MAX_CONTENT);
    let range = BlockRange::new(Lba(number * PLACE_BLOCKS), PLACE_BLOCKS - 1).ok()?;
    (number != 0).then_some((stream.reservations(), range))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Period, StreamId};

    #[test]
    fn each_content_has_a_place_of_its_own() {
        let stream = StreamId::new(7).unwrap();
        let place = |number: u32| reservation_place(stream.volume(number));
        assert_eq!(place(0), None, "the hidden volume itself");
        assert_eq!(place(1), Some((stream.volume(0), BlockRange::new(Lba(256), 255).unwrap())));
        let (_, last) = place(MAX_CONTENT).unwrap();
        assert_eq!(last.end().0, RESERVATIONS_BLOCKS - 1);
        let hidden = [VolumeId(9), stream.stage(Period(1), false), stream.volume(1).delta().unwrap()];
        assert_eq!(hidden.map(reservation_place), [None; 3]);
    }
}
