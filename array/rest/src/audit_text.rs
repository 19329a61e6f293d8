//! The text of an entry of the audit trail.

use serde_json::Value;

/// Parts of the names of fields whose values are secret. The URL of a web hook may be one.
const SECRET: &[&str] =
    &["password", "secret", "token", "passphrase", "private_key", "community", "url", "connection_key"];
/// Printed in place of a secret.
const MASK: &str = "****";

/// Describes the parameters and the body of a call, without secrets.
pub(crate) fn arguments(query: &str, body: &[u8]) -> String {
    let mut parts = Vec::new();
    if !query.is_empty() {
        parts.push(query.to_owned());
    }
    if let Ok(mut value) = serde_json::from_slice::<Value>(body) {
        mask(&mut value);
        parts.push(value.to_string());
    }
    parts.join(" ")
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.to_ascii_lowercase();
                match SECRET.iter().any(|secret| name.contains(secret)) && !value.is_null() {
                    true => *value = Value::from(MASK),
                    false => mask(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(mask),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_at_any_depth() {
        let body = br#"{"chap":{"host_user":"u","host_password":"twelve bytes!"},"list":[{"API_Token":"t"}]}"#;
        let text = arguments("names=h", body);
        assert!(text.starts_with("names=h {") && text.contains("host_user"), "{text}");
        assert!(!text.contains("twelve") && !text.contains(r#""t""#), "{text}");
        assert_eq!(arguments("", b"not JSON with password=x"), "");
    }
}
