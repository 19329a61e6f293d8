//! The sizes of the data mover's commands.

use crate::format::DiskFormat;
use datastore::FS_BLOCK_BYTES;

/// Minimum, maximum and default of `/DataMover/MaxHWTransferSize`, in KiB.
pub const TRANSFER_KIB: (u32, u32, u32) = (64, 16384, 4096);

/// The emulated generation of ESXi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EsxiRelease {
    /// 5.0 to 5.5: copies a thin source one block at a time, whatever the transfer size.
    Esxi5,
    /// 6.0 and later.
    Esxi6,
}

/// Returns the most bytes per EXTENDED COPY of a disk of this format: MaxHWTransferSize (in KiB,
/// clamped to its limits). For a thin source on ESXi 5.x it is one block of the datastore, because
/// its blocks are scattered.
pub fn xcopy_bytes(max_transfer_kib: u32, source: DiskFormat, release: EsxiRelease) -> u64 {
    let (least, most, _) = TRANSFER_KIB;
    let asked = u64::from(max_transfer_kib.clamp(least, most)) << 10;
    match (source, release) {
        (DiskFormat::Thin, EsxiRelease::Esxi5) => asked.min(FS_BLOCK_BYTES),
        _ => asked,
    }
}

/// Splits a run of `length` from 0 into (start, length) pieces of at most `step`, in order.
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
    fn xcopy_size_follows_setting_except_thin_on_esxi_5() {
        assert_eq!(xcopy_bytes(4096, DiskFormat::ZeroedThick, EsxiRelease::Esxi5), 4 << 20);
        assert_eq!(xcopy_bytes(16384, DiskFormat::EagerZeroedThick, EsxiRelease::Esxi5), 16 << 20);
        assert_eq!(xcopy_bytes(16384, DiskFormat::Thin, EsxiRelease::Esxi5), 1 << 20);
        assert_eq!(xcopy_bytes(512, DiskFormat::Thin, EsxiRelease::Esxi5), 512 << 10);
        assert_eq!(xcopy_bytes(16384, DiskFormat::Thin, EsxiRelease::Esxi6), 16 << 20);
        assert_eq!(xcopy_bytes(99_999, DiskFormat::Thin, EsxiRelease::Esxi6), 16 << 20, "16 MiB is the most");
    }

    proptest! {
        #[test]
        fn pieces_cover_a_run_exactly_once(length in 0u64..10_000, step in 1u64..300) {
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
