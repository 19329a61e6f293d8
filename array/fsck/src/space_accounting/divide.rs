//! Dividing whole bytes by parts that are none.

/// Divides `whole` in proportion, to the byte: the shares add up to it, whatever the parts are. What is less than a byte counts as rounding,
/// and gets nothing.
pub(super) fn divide(whole: u64, parts: &[f64]) -> Vec<u64> {
    let worth = |part: &f64| if *part < 1.0 { 0.0 } else { *part };
    let sum: f64 = parts.iter().map(worth).sum();
    let (mut upto, mut given) = (0.0, 0);
    let mut shares: Vec<u64> = parts
        .iter()
        .map(|part| {
            upto += worth(part);
            // The sum was made in the same order, so the last quotient is exactly 1.
            let next = if sum > 0.0 { (whole as f64 * (upto / sum)).round() as u64 } else { 0 };
            let share = next.min(whole).saturating_sub(given);
            given += share;
            share
        })
        .collect();
    // Beyond 2^53 bytes a number with a fraction has none any more; and where nothing has a part, the first takes all.
    if let Some(first) = shares.first_mut() {
        *first += whole - given;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_is_divided_to_the_byte() {
        assert_eq!(divide(4096, &[2.0, 1.0, 1.0]), [2048, 1024, 1024]);
        assert_eq!(divide(10, &[100.0, 100.0, 100.0]).iter().sum::<u64>(), 10);
        assert_eq!(divide(4096, &[0.2, 8192.0, -3.0]), [0, 4096, 0], "what is rounding gets nothing");
        assert_eq!(divide(7, &[0.0, 0.0]), [7, 0]);
        assert_eq!(divide(0, &[5.0, 5.0]), [0, 0]);
        assert_eq!(divide(0, &[]), [0; 0]);
    }

    #[test]
    fn the_shares_add_up() {
        for whole in [1, 511, 4097, (1 << 53) + 1, u64::MAX] {
            for families in 1..40_u32 {
                let parts: Vec<f64> = (0..families).map(|family| f64::from(family % 7) * 1e9 / 3.0 - 1.0).collect();
                assert_eq!(divide(whole, &parts).iter().sum::<u64>(), whole, "{whole} among {families}");
            }
        }
    }
}
