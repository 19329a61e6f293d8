//! Divides a number of bytes in proportion to fractional parts.

/// Divides `whole` in proportion to `parts`. The results always add up to `whole`. Parts below 1
/// are treated as rounding errors and get nothing.
pub(super) fn divide(whole: u64, parts: &[f64]) -> Vec<u64> {
    let weight = |part: &f64| if *part < 1.0 { 0.0 } else { *part };
    let sum: f64 = parts.iter().map(weight).sum();
    let (mut cumulative, mut given) = (0.0, 0);
    let mut shares: Vec<u64> = parts
        .iter()
        .map(|part| {
            cumulative += weight(part);
            // `sum` was computed in the same order, so the last quotient is exactly 1.
            let next = if sum > 0.0 { (whole as f64 * (cumulative / sum)).round() as u64 } else { 0 };
            let share = next.min(whole).saturating_sub(given);
            given += share;
            share
        })
        .collect();
    // Above 2^53 an `f64` has no fraction, so a remainder may be left. The first part gets it, or
    // everything if all parts are 0.
    if let Some(first) = shares.first_mut() {
        *first += whole - given;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact_to_the_byte() {
        assert_eq!(divide(4096, &[2.0, 1.0, 1.0]), [2048, 1024, 1024]);
        assert_eq!(divide(10, &[100.0, 100.0, 100.0]).iter().sum::<u64>(), 10);
        assert_eq!(divide(4096, &[0.2, 8192.0, -3.0]), [0, 4096, 0], "parts below 1 get nothing");
        assert_eq!(divide(7, &[0.0, 0.0]), [7, 0]);
        assert_eq!(divide(0, &[5.0, 5.0]), [0, 0]);
        assert_eq!(divide(0, &[]), [0; 0]);
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        for whole in [1, 511, 4097, (1 << 53) + 1, u64::MAX] {
            for families in 1..40_u32 {
                let parts: Vec<f64> = (0..families).map(|family| f64::from(family % 7) * 1e9 / 3.0 - 1.0).collect();
                assert_eq!(divide(whole, &parts).iter().sum::<u64>(), whole, "{whole} among {families}");
            }
        }
    }
}
