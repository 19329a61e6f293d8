//! How much one command moves.

use crate::format::Format;
use datastore::FS_BLOCK_BYTES;

/// The least and the most that `/DataMover/MaxHWTransferSize` may say, in KiB, and what it says when nobody set it.
pub const TRANSFER_KIB: (u32, u32, u32) = (64, 16384, 4096);

/// The generation of ESXi that a host plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Release {
    /// 5.0 to 5.5: a thin source is copied a block at a time, however large transfers may be.
    Esxi5,
    /// 6.0 and later.
    Esxi6,
}

/// Bytes that one EXTENDED COPY of a disk of this format describes at most: MaxHWTransferSize (in KiB, brought within
/// its limits), but one block of the datastore for a thin source on ESXi 5.x, whose blocks may lie anywhere.
pub fn xcopy_bytes(max_transfer_kib: u32, source: Format, release: Release) -> u64 {
    let (least, most, _) = TRANSFER_KIB;
    let asked = u64::from(max_transfer_kib.clamp(least, most)) << 10;
    match (source, release) {
        (Format::Thin, Release::Esxi5) => asked.min(FS_BLOCK_BYTES),
        _ => asked,
    }
}

/// The pieces of at most `step` of a run of `length` that begins at 0, in order.
pub fn pieces(length: u64, step: u64) -> impl Iterator<Item = (u64, u64)> {
    let step = step.max(1);
    (0..length.div_ceil(step)).map(move |index| {
        let at = index * step;
        (at, step.min(length - at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_setting_rules_but_for_thin_sources_of_the_old_release() {
        assert_eq!(xcopy_bytes(4096, Format::ZeroedThick, Release::Esxi5), 4 << 20);
        assert_eq!(xcopy_bytes(16384, Format::EagerZeroedThick, Release::Esxi5), 16 << 20);
        assert_eq!(xcopy_bytes(16384, Format::Thin, Release::Esxi5), 1 << 20);
        assert_eq!(xcopy_bytes(512, Format::Thin, Release::Esxi5), 512 << 10);
        assert_eq!(xcopy_bytes(16384, Format::Thin, Release::Esxi6), 16 << 20);
        assert_eq!(xcopy_bytes(99_999, Format::Thin, Release::Esxi6), 16 << 20, "16 MiB is the most");
    }

    proptest! {
        #[test]
        fn pieces_cover_a_run_without_gap_or_overlap(length in 0u64..10_000, step in 1u64..300) {
            let mut at = 0;
            for (start, size) in pieces(length, step) {
                prop_assert_eq!(start, at);
                prop_assert!(size > 0 && size <= step);
                at += size;
            }
            prop_assert_eq!(at, length);
        }
    }
}
