//! Lists: filter, sort order and pages.

use crate::call::Answer;
use crate::error::RestError;
use crate::filter::{Filter, lookup};
use crate::query::Query;
use api::{ErrorCode, Items, MAX_PAGE_ITEMS};
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Ordering;

/// The parameters of every list. (`context_names` and similar parameters belong to later versions.)
pub(crate) const LIST_PARAMETERS: &[&str] =
    &["filter", "sort", "limit", "offset", "continuation_token", "total_item_count"];

/// A sort field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    field: String,
    descending: bool,
}

/// Answers one page of `items`. The `identity` fields are unique together; they are the last sort
/// fields, and the only ones if the query has no `sort`.
///
/// The continuation token contains the sort fields of the last item on the page. Items that are
/// created or removed between two pages therefore neither hide nor repeat others.
pub(crate) fn page<T: Serialize>(items: Vec<T>, query: &Query, identity: &[&str]) -> Result<Answer, RestError> {
    let values: Result<Vec<Value>, _> = items.iter().map(serde_json::to_value).collect();
    let mut values = values.map_err(|error| RestError::Internal(error.to_string()))?;
    if let Some(text) = query.text("filter").filter(|text| !text.trim().is_empty()) {
        values = filtered(values, text)?;
    }
    let keys = sort_keys(query, identity);
    if let Some(first) = values.first() {
        let unknown = keys.iter().find_map(|key| lookup(first, &key.field).err());
        unknown
            .map_or(Ok(()), |error| Err(RestError::bad(ErrorCode::InvalidSort, format!("Invalid sort: {error}."))))?;
    }
    values.sort_by(|a, b| compare(&keys, |key| lookup(a, &key.field).ok(), |key| lookup(b, &key.field).ok()));

    let total_item_count = query.flag("total_item_count")?.unwrap_or(false).then_some(values.len() as u64);
    if let Some(token) = query.text("continuation_token") {
        let last = decode_token(token, &keys)?;
        values.retain(|value| is_after(value, &keys, &last));
    }
    let offset = query.number("offset")?.unwrap_or(0);
    values.drain(..offset.min(values.len()));
    let limit = query.number("limit")?.unwrap_or(MAX_PAGE_ITEMS).min(MAX_PAGE_ITEMS);
    let more_items_remaining = values.len() > limit && limit > 0;
    values.truncate(limit);
    let continuation_token = values.last().filter(|_| more_items_remaining).map(|last| encode_token(last, &keys));
    Answer::list(Items { continuation_token, items: values, more_items_remaining, total_item_count })
}

/// Like [`page`], for items with unique names. If `filter` and `sort` use the name only, only the
/// items on the page are converted, so a page of a long list costs little more than sorting the
/// names.
pub(crate) fn page_named<T, S: Serialize>(
    items: Vec<T>,
    query: &Query,
    name: impl Fn(&T) -> String,
    show: impl Fn(&T) -> S,
) -> Result<Answer, RestError> {
    let keys = sort_keys(query, &["name"]);
    let text = query.text("filter").filter(|text| !text.trim().is_empty());
    let filter = text.map(Filter::parse).transpose().map_err(invalid_filter)?;
    let by_name = |item: &T| json!({"name": name(item)});
    let is_kept = |item: &T| filter.as_ref().map_or(Ok(true), |filter| filter.matches(&by_name(item)));
    let kept: Result<Vec<bool>, String> = items.iter().map(is_kept).collect();
    // A filter of other fields is an error here.
    let (Ok(kept), true) = (kept, keys.iter().all(|key| key.field == "name")) else {
        return page(items.iter().map(show).collect(), query, &["name"]);
    };
    let mut items: Vec<T> = items.into_iter().zip(kept).filter(|(_, is_kept)| *is_kept).map(|(item, _)| item).collect();
    items.sort_by_cached_key(|item| {
        let name = name(item);
        (name.to_ascii_lowercase(), name)
    });
    if keys[0].descending {
        items.reverse();
    }
    let total_item_count = query.flag("total_item_count")?.unwrap_or(false).then_some(items.len() as u64);
    if let Some(token) = query.text("continuation_token") {
        let last = decode_token(token, &keys)?;
        items.drain(..items.partition_point(|item| !is_after(&by_name(item), &keys, &last)));
    }
    let offset = query.number("offset")?.unwrap_or(0);
    items.drain(..offset.min(items.len()));
    let limit = query.number("limit")?.unwrap_or(MAX_PAGE_ITEMS).min(MAX_PAGE_ITEMS);
    let more_items_remaining = items.len() > limit && limit > 0;
    items.truncate(limit);
    let last = items.last().filter(|_| more_items_remaining);
    let continuation_token = last.map(|last| encode_token(&by_name(last), &keys));
    let items = items.iter().map(show).collect();
    Answer::list(Items { continuation_token, items, more_items_remaining, total_item_count })
}

fn invalid_filter(reason: String) -> RestError {
    RestError::bad(ErrorCode::InvalidFilter, format!("Invalid filter: {reason}."))
}

fn filtered(values: Vec<Value>, text: &str) -> Result<Vec<Value>, RestError> {
    let filter = Filter::parse(text).map_err(invalid_filter)?;
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        if filter.matches(&value).map_err(invalid_filter)? {
            kept.push(value);
        }
    }
    Ok(kept)
}

/// Parses `name`, `name-` (sent by existing clients) and `-name` (documented in later versions),
/// and appends the identity.
fn sort_keys(query: &Query, identity: &[&str]) -> Vec<Key> {
    let asked = query.list("sort").unwrap_or_default().into_iter().map(|text| {
        let field = text.trim_matches(['-', '+']).to_owned();
        Key { descending: text.starts_with('-') || text.ends_with('-'), field }
    });
    let own = identity.iter().map(|field| Key { field: (*field).to_owned(), descending: false });
    asked.chain(own).collect()
}

fn field(object: &Value, key: &Key) -> Value {
    lookup(object, &key.field).cloned().unwrap_or(Value::Null)
}

fn compare<'a>(keys: &[Key], a: impl Fn(&Key) -> Option<&'a Value>, b: impl Fn(&Key) -> Option<&'a Value>) -> Ordering {
    let each = keys.iter().map(|key| {
        let order = total_order(a(key).unwrap_or(&Value::Null), b(key).unwrap_or(&Value::Null));
        if key.descending { order.reverse() } else { order }
    });
    each.fold(Ordering::Equal, Ordering::then)
}

/// Returns true if an item follows the one with these sort fields.
fn is_after(item: &Value, keys: &[Key], last: &[Value]) -> bool {
    let position = |key: &Key| keys.iter().position(|other| other == key).and_then(|at| last.get(at));
    compare(keys, |key| lookup(item, &key.field).ok(), position).is_gt()
}

/// Orders values: null, false, true, numbers, texts. Lists and objects are all equal.
fn total_order(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) | Value::Object(_) => 5,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_u64(), b.as_u64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => {
            let lower = a.bytes().map(|byte| byte.to_ascii_lowercase());
            lower.cmp(b.bytes().map(|byte| byte.to_ascii_lowercase())).then_with(|| a.cmp(b))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn encode_token(last: &Value, keys: &[Key]) -> String {
    token_of(&keys.iter().map(|key| field(last, key)).collect::<Vec<_>>())
}

fn token_of(fields: &[Value]) -> String {
    Value::from(fields).to_string().bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn decode_token(token: &str, keys: &[Key]) -> Result<Vec<Value>, RestError> {
    let invalid = || RestError::bad(ErrorCode::InvalidParameter, "Invalid continuation token.");
    let digits = |at: usize| token.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..token.len()).step_by(2).map(digits).collect();
    let fields: Vec<Value> = serde_json::from_slice(&bytes.ok_or_else(invalid)?).map_err(|_| invalid())?;
    if fields.len() == keys.len() { Ok(fields) } else { Err(invalid()) }
}

/// Returns the named items, or all if the parameter is missing. Each unknown name is an error of
/// its own.
pub(crate) fn select<T: Clone>(
    query: &Query,
    parameter: &str,
    all: impl Iterator<Item = T>,
    find: impl Fn(&str) -> Result<T, RestError>,
) -> Result<Vec<T>, RestError> {
    let Some(names) = query.list(parameter) else {
        return Ok(all.collect());
    };
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for name in &names {
        match find(name) {
            Ok(item) => found.push(item),
            Err(RestError::Bad(mut bad)) => errors.append(&mut bad),
            Err(error) => return Err(error),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(RestError::Bad(errors)) }
}
