//! Big-endian fields at fixed offsets. SCSI is big-endian throughout (SPC-4 3.5).
//!
//! Callers check the length of the slice: an offset outside it is a bug in this crate, not an error
//! of a host.

/// Returns the 16-bit field at `at`.
#[inline]
pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the 24-bit field at `at`.
#[inline]
pub(crate) fn get_u24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

/// Returns the 32-bit field at `at`.
#[inline]
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the 64-bit field at `at`.
#[inline]
pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    (u64::from(get_u32(bytes, at)) << 32) | u64::from(get_u32(bytes, at + 4))
}

/// Converts a length or offset to an 8-bit field. The lists of this crate are shorter than the
/// largest value of their fields; a longer one would saturate.
pub(crate) fn to_u8(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

/// Converts a length or offset to a 16-bit field, like [`to_u8`].
pub(crate) fn to_u16(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Converts a length or offset to a 32-bit field, like [`to_u8`].
pub(crate) fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Returns the number of a bit within its byte.
pub(crate) fn bit_number(bit: u32) -> u8 {
    u8::try_from(bit % 8).unwrap_or(0)
}

/// Returns the low 8 bits.
pub(crate) fn low_u8(value: u32) -> u8 {
    value.to_be_bytes()[3]
}

/// Returns the low 16 bits.
pub(crate) fn low_u16(value: u32) -> u16 {
    let [_, _, high, low] = value.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// Writes `field`, the big-endian bytes of an integer, at `at`.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}

/// Writes the low 24 bits of `value` at `at`.
#[inline]
pub(crate) fn put_u24(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 3].copy_from_slice(&value.to_be_bytes()[1..]);
}
