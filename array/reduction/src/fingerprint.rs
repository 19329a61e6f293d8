//! Block fingerprints, which identify candidates for deduplication.

/// Returns the XXH3-128 of a block, with seed 0.
///
/// The hash is fast and well distributed but not collision-resistant. Two different blocks may
/// collide by accident or by intent. Equal fingerprints require a comparison of the bytes before
/// blocks are shared.
#[inline]
pub fn fingerprint(block: &[u8]) -> u128 {
    twox_hash::XxHash3_128::oneshot(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with the reference implementation (xxHash, `XXH3_128bits`).
    #[test]
    fn golden_values() {
        assert_eq!(fingerprint(&[]), 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
        let block: Vec<u8> = (0..4096).map(|at| (at % 251) as u8).collect();
        assert_eq!(fingerprint(&block), 0xE12C_D721_4499_0FE5_7135_FFA5_04F1_BC71);
    }
}
