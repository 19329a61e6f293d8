//! Arguments of REST 1.x: a JSON object in the body, also of a GET, and the query.

use super::calls::Kind;
use crate::error::RestError;
use api::ErrorCode;
use serde_json::{Map, Value};
use types::parse_capacity;

/// Size of a sector, the unit `S`.
const SECTOR_BYTES: u64 = 512;

/// The arguments of a call. Each one that is read is removed, so that the others can be refused.
#[derive(Debug, Default)]
pub(super) struct Args(Map<String, Value>);

impl Args {
    /// Joins the arguments of the query and the body. A body of `null` has none.
    pub(super) fn new(query: Vec<(String, String)>, body: &[u8]) -> Result<Self, RestError> {
        let mut all: Map<String, Value> = query.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
        let body: Option<Map<String, Value>> = match body.is_empty() {
            true => None,
            false => serde_json::from_slice(body)
                .map_err(|error| RestError::bad(ErrorCode::InvalidRequest, format!("Invalid body: {error}.")))?,
        };
        for (name, value) in body.unwrap_or_default() {
            if all.insert(name.clone(), value).is_some() {
                let message = format!("'{name}' is in the query and in the body.");
                return Err(RestError::bad(ErrorCode::InvalidRequest, message));
            }
        }
        all.retain(|_, value| !value.is_null());
        Ok(Self(all))
    }

    /// Puts a value back that was looked at.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Takes `true` or `false`; false if it is absent.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, RestError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(value),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(other) => Err(invalid(name, &other, "true or false")),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, RestError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(name, &other, "a text")),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<u64>, RestError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.parse::<u64>().is_ok() => Ok(text.parse().ok()),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| invalid(name, &value, "a whole number")),
        }
    }

    /// Takes a size: a number of bytes, or a text such as `10G`, `512M` or `2048S`.
    pub(super) fn size(&mut self, name: &str) -> Result<Option<u64>, RestError> {
        match self.take(name) {
            Some(Value::String(text)) => {
                let sectors = text.strip_suffix(['S', 's']).and_then(|count| count.parse::<u64>().ok());
                let bytes = sectors.and_then(|count| count.checked_mul(SECTOR_BYTES));
                let size = bytes.or_else(|| parse_capacity(&text).ok());
                size.map(Some).ok_or_else(|| invalid(name, &Value::String(text), "a size, such as 10G"))
            }
            Some(value) => value.as_u64().map(Some).ok_or_else(|| invalid(name, &value, "a size, such as 10G")),
            None => Ok(None),
        }
    }

    /// Takes a list: of texts, or one text with commas.
    pub(super) fn list(&mut self, name: &str) -> Result<Option<Vec<String>>, RestError> {
        let split = |text: &str| {
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect()
        };
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(split(&text))),
            Some(Value::Array(entries)) => {
                let text = |entry: &Value| entry.as_str().map(ToOwned::to_owned);
                let texts = entries.iter().map(text).collect::<Option<Vec<_>>>();
                texts.map(Some).ok_or_else(|| invalid(name, &Value::Array(entries.clone()), "a list of texts"))
            }
            Some(other) => Err(invalid(name, &other, "a list of texts")),
        }
    }

    /// Refuses arguments that the call does not have.
    pub(super) fn allow(&self, known: &[(&str, Kind)]) -> Result<(), RestError> {
        match self.0.keys().find(|name| known.iter().all(|(known, _)| known != name)) {
            Some(name) => Err(unsupported(name)),
            None => Ok(()),
        }
    }

    /// Refuses the arguments that were not read. An ignored one could hide a client's mistake.
    pub(super) fn finish(&self) -> Result<(), RestError> {
        match self.0.keys().next() {
            Some(name) => Err(unsupported(name)),
            None => Ok(()),
        }
    }
}

fn unsupported(name: &str) -> RestError {
    let message = format!("'{name}' is not supported here; use REST 2.26 (docs/rest.md).");
    RestError::bad(ErrorCode::Unsupported, message)
}

fn invalid(name: &str, value: &Value, expected: &str) -> RestError {
    RestError::bad(ErrorCode::InvalidRequest, format!("'{name}' must be {expected}, not {value}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(query: &[(&str, &str)], body: &str) -> Result<Args, RestError> {
        let query = query.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Args::new(query, body.as_bytes())
    }

    #[test]
    fn arguments_come_from_query_and_body() {
        let mut args =
            args(&[("pending", "True")], r#"{"size":"10G","list":["a","b"],"csv":"a, b","lun":7,"none":null}"#);
        let args = args.as_mut().unwrap();
        assert_eq!((args.flag("pending").unwrap(), args.flag("space").unwrap()), (true, false));
        assert_eq!(args.size("size").unwrap(), Some(10 << 30));
        assert_eq!(args.list("list").unwrap().unwrap(), ["a", "b"]);
        assert!(args.finish().is_err());
        assert_eq!(args.list("csv").unwrap().unwrap(), ["a", "b"]);
        assert_eq!(args.number("lun").unwrap(), Some(7));
        assert_eq!(args.finish(), Ok(()));
    }

    #[test]
    fn sizes_are_bytes_sectors_or_units() {
        let size = |text: &str| args(&[], &format!(r#"{{"size":{text}}}"#)).unwrap().size("size");
        assert_eq!(size("1048576").unwrap(), Some(1 << 20));
        assert_eq!(size(r#""2048S""#).unwrap(), Some(1 << 20));
        assert_eq!(size(r#""1T""#).unwrap(), Some(1 << 40));
        assert!(size(r#""big""#).is_err() && size("-1").is_err() && size("[]").is_err());
    }

    #[test]
    fn malformed_arguments_are_refused() {
        assert!(args(&[], "null").unwrap().finish().is_ok() && args(&[], "").unwrap().finish().is_ok());
        assert!(args(&[], "[]").is_err() && args(&[], "{").is_err());
        assert!(args(&[("a", "1")], r#"{"a":2}"#).is_err());
        let mut wrong = args(&[], r#"{"f":"x","t":1,"n":"x","l":[1]}"#).unwrap();
        assert!(wrong.flag("f").is_err() && wrong.text("t").is_err());
        assert!(wrong.number("n").is_err() && wrong.list("l").is_err());
    }
}
