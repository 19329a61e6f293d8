//! Output formats of esxcli: titled lists of fields, or JSON.

use serde_json::{Map, Value, json};

/// An object with its fields in output order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    title: Option<String>,
    fields: Vec<(&'static str, Value)>,
}

impl Record {
    /// Creates a record with a title line.
    pub(crate) fn titled(title: &str) -> Self {
        Self { title: Some(title.to_owned()), fields: Vec::new() }
    }

    /// Adds a field.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((key, value.into()));
        self
    }

    fn text(&self) -> String {
        let mut out = self.title.as_ref().map_or(String::new(), |title| format!("{title}\n"));
        for (key, value) in &self.fields {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                other => other.to_string(),
            };
            out += &format!("   {key}: {value}\n");
        }
        out
    }

    /// Returns a JSON object whose keys have no spaces, as with `esxcli --formatter=json`.
    fn json(&self) -> Value {
        let key = |words: &str| words.split(' ').collect::<String>();
        let title = self.title.iter().map(|title| ("Device".to_owned(), json!(title)));
        Value::Object(
            title.chain(self.fields.iter().map(|(name, value)| (key(name), value.clone()))).collect::<Map<_, _>>(),
        )
    }
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Formatter {
    /// Text in the layout of esxcli
    #[default]
    Text,
    /// JSON array
    Json,
}

impl Formatter {
    /// Formats the records; in text, a blank line separates two records.
    pub(crate) fn print(self, records: &[Record]) -> String {
        match self {
            Self::Text => records.iter().map(Record::text).collect::<Vec<_>>().join("\n"),
            Self::Json => format!("{:#}\n", Value::Array(records.iter().map(Record::json).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_use_esxcli_layout() {
        let one =
            Record::titled("naa.1").with("Is SSD", true).with("Working Paths", json!(["a", "b"])).with("Model", "");
        let two = Record::titled("naa.2").with("Size", 10);
        let text = Formatter::Text.print(&[one.clone(), two]);
        assert_eq!(text, "naa.1\n   Is SSD: true\n   Working Paths: a, b\n   Model: \n\nnaa.2\n   Size: 10\n");
        let json: Value = serde_json::from_str(&Formatter::Json.print(&[one])).unwrap();
        assert_eq!(json, json!([{"Device": "naa.1", "IsSSD": true, "WorkingPaths": ["a", "b"], "Model": ""}]));
    }
}
