//! Sizes in text form: `512`, `4K`, `1.5 TiB`. All units are powers of 1024, as usual for arrays.

use thiserror::Error;

/// Why a text is not a valid size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CapacityError {
    /// The text has no valid number or an unknown unit.
    #[error("'{0}' is not a size: write a number and K, M, G, T or P, such as 64G or 1.5TiB")]
    NotASize(String),
    /// The size does not fit in 64 bits, or is not a whole number of bytes.
    #[error("'{0}' is not a whole number of bytes below 16 EiB")]
    OutOfRange(String),
}

/// Parses a size in bytes: digits with an optional fraction, then optionally one of `K M G T P`,
/// which `iB` or `B` may follow.
pub fn parse_capacity(text: &str) -> Result<u64, CapacityError> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim_start());
    let not_a_size = || CapacityError::NotASize(text.to_owned());
    let shift = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return Err(not_a_size()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return Err(not_a_size());
    }
    let out_of_range = || CapacityError::OutOfRange(text.to_owned());
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| out_of_range())? };
    let scale = 10u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| not_a_size())? };
    let scaled = whole.checked_mul(scale).and_then(|w| w.checked_add(fraction)).ok_or_else(out_of_range)?;
    let bytes = scaled.checked_mul(1 << shift).ok_or_else(out_of_range)?;
    if bytes % scale != 0 {
        return Err(out_of_range());
    }
    u64::try_from(bytes / scale).map_err(|_| out_of_range())
}

/// Formats a size with the largest unit that keeps it at 1 or more, with up to two decimals:
/// `1.50TiB`. The unit says that it is a power of 1024. There is no blank, so that a column of a
/// table stays one word.
pub fn format_capacity(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    while unit + 1 < UNITS.len() && bytes >> (10 * (unit + 1)) > 0 {
        unit += 1;
    }
    if bytes.is_multiple_of(1u64 << (10 * unit)) {
        return format!("{}{}", bytes >> (10 * unit), UNITS[unit]);
    }
    format!("{:.2}{}", bytes as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_units_and_fractions_parse() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("4K", 4096),
            ("4k", 4096),
            ("64GiB", 64 << 30),
            ("1.5T", 3 << 39),
            ("2 MB", 2 << 20),
            ("4P", 4 << 50),
        ] {
            assert_eq!(parse_capacity(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn malformed_sizes_are_refused() {
        for text in ["", "G", "1X", "-1G", "1.2.3G", "0.3", "99999P", "1GG"] {
            assert!(parse_capacity(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_format_with_the_largest_unit() {
        assert_eq!(format_capacity(1 << 40), "1TiB");
        assert_eq!(format_capacity(3 << 39), "1.50TiB");
        assert_eq!(format_capacity(0), "0B");
        assert_eq!(format_capacity(512), "512B");
        assert_eq!(parse_capacity(&format_capacity(3 << 39)), Ok(3 << 39));
    }
}
