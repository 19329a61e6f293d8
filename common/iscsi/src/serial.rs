//! Serial number arithmetic (RFC 1982), which compares CmdSN, StatSN and DataSN (RFC 7143 4.2.2).

/// Returns true if `a` precedes `b`.
pub(crate) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Returns the later of two numbers.
pub(crate) fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_compare_across_the_wrap() {
        assert!(before(1, 2));
        assert!(!before(2, 2));
        assert!(before(u32::MAX, 0));
        assert!(!before(0, u32::MAX));
        assert_eq!(later(u32::MAX, 3), 3);
        assert_eq!(later(7, 3), 7);
    }
}
