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
    /// Comma-separated values with a header line
    Csv,
    /// XML
    Xml,
    /// One key=value line for each field
    Keyvalue,
}

impl Formatter {
    /// Formats the records; in text, a blank line separates two records.
    pub(crate) fn print(self, records: &[Record]) -> String {
        match self {
            Self::Text => records.iter().map(Record::text).collect::<Vec<_>>().join("\n"),
            Self::Json => format!("{:#}\n", Value::Array(records.iter().map(Record::json).collect())),
            Self::Csv => csv(records),
            Self::Xml => xml(records),
            Self::Keyvalue => records.iter().map(key_values).collect(),
        }
    }
}

impl Formatter {
    /// Formats the records; in text, as a table.
    pub(crate) fn print_table(self, keys: &[&str], records: &[Record]) -> String {
        if self == Self::Text { table(keys, records) } else { self.print(records) }
    }
}

/// Formats a table as esxcli does: columns as wide as their widest cell, booleans and numbers
/// right-aligned.
fn table(keys: &[&str], records: &[Record]) -> String {
    let value = |record: &Record, key: &str| {
        record.fields.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
    };
    let cells: Vec<Vec<Value>> =
        records.iter().map(|record| keys.iter().map(|key| value(record, key).unwrap_or_default()).collect()).collect();
    let text = |value: &Value| items(value).join(", ");
    let width = |column: usize| {
        let longest = cells.iter().map(|row| text(&row[column]).len()).max();
        longest.unwrap_or(0).max(keys[column].len())
    };
    let widths: Vec<usize> = (0..keys.len()).map(width).collect();
    let right = |column: usize| cells.first().is_some_and(|row| row[column].is_number() || row[column].is_boolean());
    let line = |texts: Vec<String>| {
        let pad = |(column, text): (usize, String)| match (right(column), widths[column]) {
            (true, width) => format!("{text:>width$}"),
            (false, width) => format!("{text:<width$}"),
        };
        let padded: Vec<String> = texts.into_iter().enumerate().map(pad).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut out = line(keys.iter().map(|key| (*key).to_owned()).collect()) + &format!("{}\n", dashes.join("  "));
    for row in &cells {
        out += &line(row.iter().map(text).collect());
    }
    out
}

/// Returns the fields with the title as the first one, keys without spaces.
fn columns(record: &Record) -> impl Iterator<Item = (String, Value)> + '_ {
    let title = record.title.iter().map(|title| ("Device".to_owned(), json!(title)));
    title.chain(record.fields.iter().map(|(key, value)| (key.replace(' ', ""), value.clone())))
}

/// Returns the items of a value as text; a list has several.
fn items(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        other => vec![other.to_string()],
    }
}

/// Formats a table as esxcli does: every cell, the last one too, ends with a comma. The columns are
/// those of all records, in the order of the first.
fn csv(records: &[Record]) -> String {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in records.iter().flat_map(columns) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let quoted = |text: String| match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let mut out = keys.iter().map(|key| format!("{key},")).collect::<String>() + "\n";
    for record in records {
        for key in &keys {
            let cell = columns(record).find(|(name, _)| name == key).map(|(_, value)| items(&value).join(","));
            out += &format!("{},", quoted(cell.unwrap_or_default()));
        }
        out += "\n";
    }
    if records.is_empty() { String::new() } else { out }
}

/// Returns esxcli's name of a value's type.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        _ => "string",
    }
}

fn xml(records: &[Record]) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut out = concat!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n",
        "<output xmlns=\"http://www.vmware.com/Products/ESX/5.0/esxcli/\">\n",
        "<root>\n   <list type=\"structure\">\n"
    )
    .to_owned();
    for record in records {
        out += "      <structure typeName=\"Record\">\n";
        for (key, value) in columns(record) {
            let name = type_name(&value);
            let item = |text: &String| format!("            <{name}>{}</{name}>\n", escaped(text));
            let cells: String = items(&value).iter().map(item).collect();
            out += &format!("         <field name=\"{key}\">\n{cells}         </field>\n");
        }
        out += "      </structure>\n";
    }
    out + "   </list>\n</root>\n</output>\n"
}

fn key_values(record: &Record) -> String {
    let line = |(key, value): (String, Value)| {
        let list = if value.is_array() { "[]" } else { "" };
        format!("Record.{key}.{}{list}={}\n", type_name(&value), items(&value).join(","))
    };
    columns(record).map(line).collect()
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

    #[test]
    fn csv_xml_and_keyvalue_have_all_fields() {
        let one = Record::titled("naa.1").with("Is SSD", true).with("Working Paths", json!(["a", "b"]));
        let two = Record::titled("naa.2").with("Is SSD", false).with("Trouble", "\"<x>\"");
        let records = [one, two];
        assert_eq!(
            Formatter::Csv.print(&records),
            "Device,IsSSD,WorkingPaths,Trouble,\nnaa.1,true,\"a,b\",,\nnaa.2,false,,\"\"\"<x>\"\"\",\n"
        );
        assert_eq!(
            Formatter::Keyvalue.print(&records[..1]),
            "Record.Device.string=naa.1\nRecord.IsSSD.boolean=true\nRecord.WorkingPaths.string[]=a,b\n"
        );
        let xml = Formatter::Xml.print(&records);
        assert!(xml.contains(
            "         <field name=\"WorkingPaths\">\n            <string>a</string>\n            <string>b</string>\n"
        ));
        assert!(xml.contains("<string>\"&lt;x&gt;\"</string>") && xml.ends_with("</root>\n</output>\n"), "{xml}");
        assert_eq!(Formatter::Csv.print(&[]), "");
    }
}
