//! Lengths as the integers that header fields hold; a length too large for its field saturates.

/// Converts a length to 8 bits.
pub(crate) fn len_u8(len: usize) -> u8 {
    u8::try_from(len).unwrap_or(u8::MAX)
}

/// Converts a length to 16 bits.
pub(crate) fn len_u16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Converts a length to 32 bits.
pub(crate) fn len_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
