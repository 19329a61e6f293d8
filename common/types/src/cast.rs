//! Conversions between integer widths that cannot lose bits.

const _: () = assert!(usize::BITS >= u64::BITS, "only 64-bit platforms are supported");

/// Converts a count or an offset to a `usize`. Lossless, because only 64-bit platforms are
/// supported.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "usize has at least 64 bits, asserted above")]
pub const fn to_usize(number: u64) -> usize {
    number as usize
}
