//! Query parameters.

use crate::error::RestError;
use api::ErrorCode;
use axum::extract::Query as Decoded;
use axum::http::Uri;

/// Parameters that every call accepts. `context_names` selects the array, see
/// [`crate::call::Call::accept`]; `allow_errors` concerns several arrays.
pub(crate) const ALWAYS: &[&str] = &["context_names", "allow_errors"];

/// The decoded query parameters of a request, each at most once.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the parameters. Refuses repeated ones, because it is unclear which should apply.
    pub(crate) fn parse(uri: &Uri) -> Result<Self, RestError> {
        let Decoded(pairs) = Decoded::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| RestError::bad(ErrorCode::InvalidParameter, format!("Invalid query: {error}.")))?;
        for (index, (name, _)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(RestError::bad(
                    ErrorCode::InvalidParameter,
                    format!("Query parameter '{name}' is given twice."),
                ));
            }
        }
        Ok(Self(pairs))
    }

    /// Refuses parameters that are not in `known`. An ignored parameter could hide a client's
    /// mistake.
    pub(crate) fn allow(&self, known: &[&[&str]]) -> Result<(), RestError> {
        let is_known = |name: &str| ALWAYS.contains(&name) || known.iter().any(|names| names.contains(&name));
        match self.0.iter().find(|(name, _)| !is_known(name)) {
            Some((name, _)) => {
                let known = known.concat().join(", ");
                let known = if known.is_empty() { "none" } else { &known };
                Err(RestError::bad(
                    ErrorCode::InvalidParameter,
                    format!("Query parameter '{name}' is not supported here; supported: {known}."),
                ))
            }
            None => Ok(()),
        }
    }

    /// Returns the text of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns a comma-separated list; `None` if the parameter is missing.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        self.text(name).map(|text| {
            text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(ToOwned::to_owned).collect()
        })
    }

    /// Returns a list that must be present and not empty.
    pub(crate) fn required(&self, name: &str) -> Result<Vec<String>, RestError> {
        match self.list(name) {
            Some(list) if !list.is_empty() => Ok(list),
            _ => Err(RestError::bad(ErrorCode::InvalidParameter, format!("Query parameter '{name}' is required."))),
        }
    }

    /// Parses `true` or `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, RestError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(RestError::bad(
                ErrorCode::InvalidParameter,
                format!("Query parameter '{name}' must be true or false."),
            )),
        }
    }

    /// Parses a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, RestError> {
        let parse = |text: &str| {
            text.parse().map_err(|_| {
                RestError::bad(ErrorCode::InvalidParameter, format!("Query parameter '{name}' must be a whole number."))
            })
        };
        self.text(name).map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, RestError> {
        Query::parse(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn values_are_decoded_and_split() {
        let query = query("names=a%2Cb,%20c,&filter=name%3D'v*'+and+x&limit=7&destroyed=False").unwrap();
        assert_eq!(query.list("names").unwrap(), ["a", "b", "c"]);
        assert_eq!(query.text("filter"), Some("name='v*' and x"));
        assert_eq!(query.number("limit").unwrap(), Some(7));
        assert_eq!(query.flag("destroyed").unwrap(), Some(false));
        assert_eq!(query.list("ids"), None);
    }

    #[test]
    fn invalid_parameters_are_refused() {
        assert!(query("a=1&a=2").is_err());
        let query = query("limit=x&destroyed=perhaps&names=").unwrap();
        assert!(query.number("limit").is_err());
        assert!(query.flag("destroyed").is_err());
        assert!(query.required("names").is_err());
        assert!(query.allow(&[&["limit"], &["names", "destroyed"]]).is_ok());
        assert!(query.allow(&[&["limit", "names"]]).is_err());
    }
}
