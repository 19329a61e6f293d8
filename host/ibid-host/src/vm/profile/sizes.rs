//! Sizes and times in profiles.

use std::time::Duration;

/// Largest request, in bytes.
pub(super) const MAX_BLOCK_BYTES: u64 = 4 << 20;

/// Parses a size with k, m, g or t (binary units), with or without a following `b` or `ib`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(split);
    let scale = match unit {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(format!("'{text}' is not a size")),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    bytes.ok_or_else(|| format!("'{text}' is not a size"))
}

/// Parses the size of a request: whole sectors, at most 4 MiB.
pub(super) fn block(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes > 0 && bytes <= MAX_BLOCK_BYTES && bytes.is_multiple_of(512) {
        Ok(bytes)
    } else {
        Err(format!("block size '{text}' is not a multiple of 512 up to 4M"))
    }
}

/// Parses a time: seconds, or with s, m or h.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(split);
    let scale = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("'{text}' is not a time")),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
    seconds.map(Duration::from_secs).ok_or_else(|| format!("'{text}' is not a time"))
}

/// Parses a whole number in a range.
pub(super) fn number(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let number = text.trim().parse::<u64>().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a number from {low} to {high}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!([size("512"), size("4k"), size("2MiB"), size("1G")], [Ok(512), Ok(4096), Ok(2 << 20), Ok(1 << 30)]);
        assert!(size("x").is_err() && size("4q").is_err() && size("99999999999g").is_err());
        assert!(block("100").is_err() && block("8m").is_err() && block("0").is_err());
        assert_eq!([time("90"), time("2m"), time("1h")].map(|t| t.unwrap().as_secs()), [90, 120, 3600]);
        assert!(number("17", 1, 16).is_err());
    }
}
