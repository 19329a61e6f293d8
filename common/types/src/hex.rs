//! Bytes as hexadecimal digits.

/// Returns two lower-case digits for each byte.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of an even number of digits in upper or lower case, or `None` for other text.
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits_round_trip() {
        assert_eq!(encode(&[0, 0x1f, 0xff]), "001fff");
        assert_eq!(decode("001FfF"), Some(vec![0, 0x1f, 0xff]));
        assert_eq!(decode(""), Some(Vec::new()));
        for text in ["0", "0g", "+1", "é", " 1"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
