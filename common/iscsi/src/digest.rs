//! CRC32C digests of headers and data (RFC 7143 13.1).

/// Length of a digest on the wire.
pub(crate) const DIGEST_LEN: usize = 4;

/// Digests in use on a connection; both directions use the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// HeaderDigest=CRC32C.
    pub header: bool,
    /// DataDigest=CRC32C.
    pub data: bool,
}

/// Computes the CRC32C of `bytes`.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Continues a CRC32C over more bytes.
pub(crate) fn crc_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Decodes a digest from its four wire bytes. Input of another length decodes as zero.
pub(crate) fn from_wire(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b))
}

/// Encodes a digest as four wire bytes.
///
/// The least significant byte of the (reflected) register comes first (RFC 7143 13.1, examples in
/// appendix A.4).
pub(crate) fn to_wire(crc: u32) -> [u8; 4] {
    crc.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143 appendix A.4: CRC examples.
    #[test]
    fn crc32c_matches_the_rfc_examples() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(to_wire(crc(&[0; 32])), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(to_wire(crc(&[0xff; 32])), [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(to_wire(crc(&ascending)), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(to_wire(crc(&descending)), [0x5c, 0xdb, 0x3f, 0x11]);
    }

    #[test]
    fn appended_crc_equals_single_pass() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(crc_append(crc(&bytes[..100]), &bytes[100..]), crc(&bytes));
        assert_eq!(from_wire(&to_wire(crc(&bytes))), crc(&bytes));
    }
}
