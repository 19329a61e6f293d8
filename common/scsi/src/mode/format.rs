//! Sizes and bits of mode parameters.

/// Mode parameter headers of the two sizes (SPC-4 7.5.5).
pub(super) const HEADER_6_BYTES: usize = 4;
pub(super) const HEADER_10_BYTES: usize = 8;
/// SPF, byte 0 of a page: it has a SUBPAGE CODE, and a PAGE LENGTH of two bytes (SPC-4 7.5.7).
pub(crate) const SPF: u8 = 0x40;
/// LONGLBA of the 10-byte header.
pub(super) const LONGLBA: u8 = 0x01;
pub(super) const SHORT_DESCRIPTOR_BYTES: usize = 8;
pub(super) const LONG_DESCRIPTOR_BYTES: usize = 16;
