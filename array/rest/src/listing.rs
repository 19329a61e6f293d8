//! Lists: filter, sort order and pages.

use crate::call::Answer;
use crate::error::RestError;
use crate::filter::{Filter, lookup};
use crate::query::Query;
use api::{ErrorCode, Items, MAX_PAGE_ITEMS};
use serde::Serialize;
use serde_json::Value;
use std::cell::OnceCell;
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

/// An item that passed the filter.
struct Row<'a, T> {
    item: &'a T,
    /// The converted item, if a field was needed that only the whole item has.
    whole: OnceCell<Value>,
}

/// An item of the page. Items that were converted for a field are not converted again.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<S> {
    Whole(Value),
    Item(S),
}

/// Answers one page of `items`. The `identity` fields are unique together; they are the last sort
/// fields, and the only ones if the query has no `sort`.
///
/// The continuation token contains the sort fields of the last item on the page. Items that are
/// created or removed between two pages therefore neither hide nor repeat others.
pub(crate) fn page<T: Serialize>(items: Vec<T>, query: &Query, identity: &[&str]) -> Result<Answer, RestError> {
    page_of(&items, query, identity, |_, _| None, |item| item)
}

/// Like [`page`], for items that `show` converts. `field` returns a field of a converted item, or
/// `None` if the whole item is needed for it. If `field` returns all fields of `filter` and `sort`,
/// only the items on the page are converted.
pub(crate) fn page_of<'a, T, S: Serialize>(
    items: &'a [T],
    query: &Query,
    identity: &[&str],
    field: impl Fn(&'a T, &str) -> Option<Value>,
    show: impl Fn(&'a T) -> S,
) -> Result<Answer, RestError> {
    let get = |row: &Row<'a, T>, name: &str| match field(row.item, name) {
        Some(value) => Ok(value),
        None => {
            let whole = || serde_json::to_value(show(row.item)).unwrap_or(Value::Null);
            lookup(row.whole.get_or_init(whole), name).cloned()
        }
    };
    let rows = items.iter().map(|item| Row { item, whole: OnceCell::new() });
    let rows = filtered(rows, query, &get)?;
    let keys = sort_keys(query, identity);
    if let Some(first) = rows.first() {
        let unknown = keys.iter().find_map(|key| get(first, &key.field).err());
        unknown
            .map_or(Ok(()), |error| Err(RestError::bad(ErrorCode::InvalidSort, format!("Invalid sort: {error}."))))?;
    }
    let total_item_count = query.flag("total_item_count")?.unwrap_or(false).then_some(rows.len() as u64);
    let sort_fields = |row: &Row<'a, T>| keys.iter().map(|key| get(row, &key.field).unwrap_or(Value::Null)).collect();
    let mut rows: Vec<(Vec<Value>, usize, Row<'a, T>)> =
        rows.into_iter().enumerate().map(|(at, row)| (sort_fields(&row), at, row)).collect();
    if let Some(token) = query.text("continuation_token") {
        let last = decode_token(token, &keys)?;
        rows.retain(|(fields, ..)| compare(&keys, fields, &last).is_gt());
    }
    let offset = query.number("offset")?.unwrap_or(0);
    let limit = query.number("limit")?.unwrap_or(MAX_PAGE_ITEMS).min(MAX_PAGE_ITEMS);
    let more_items_remaining = rows.len() > offset.saturating_add(limit) && limit > 0;
    sort_first(&mut rows, offset.saturating_add(limit), |a, b| compare(&keys, &a.0, &b.0).then(a.1.cmp(&b.1)));
    rows.drain(..offset.min(rows.len()));
    let last = rows.last().filter(|_| more_items_remaining);
    let continuation_token = last.map(|(fields, ..)| encode_token(fields));
    let shown = |row: Row<'a, T>| row.whole.into_inner().map_or_else(|| Shown::Item(show(row.item)), Shown::Whole);
    let items = rows.into_iter().map(|(.., row)| shown(row)).collect();
    Answer::list(Items { continuation_token, items, more_items_remaining, total_item_count })
}

/// Keeps the first `count` items of the order, sorted. A page of a long list costs little more than
/// a search for its last item.
fn sort_first<T>(items: &mut Vec<T>, count: usize, order: impl Fn(&T, &T) -> Ordering) {
    if let Some(last) = count.checked_sub(1).filter(|_| items.len() > count) {
        items.select_nth_unstable_by(last, &order);
    }
    items.truncate(count);
    items.sort_unstable_by(order);
}

/// Returns a field of an answer's part, such as `name` of a reference.
pub(crate) fn field_of<T: Serialize>(part: &T, name: &str) -> Option<Value> {
    serde_json::to_value(part).ok().and_then(|value| lookup(&value, name).cloned().ok())
}

fn invalid_filter(reason: String) -> RestError {
    RestError::bad(ErrorCode::InvalidFilter, format!("Invalid filter: {reason}."))
}

/// Returns the rows that match the filter of the query.
fn filtered<R>(
    rows: impl Iterator<Item = R>,
    query: &Query,
    get: &impl Fn(&R, &str) -> Result<Value, String>,
) -> Result<Vec<R>, RestError> {
    let Some(text) = query.text("filter").filter(|text| !text.trim().is_empty()) else {
        return Ok(rows.collect());
    };
    let filter = Filter::parse(text).map_err(invalid_filter)?;
    let mut kept = Vec::new();
    for row in rows {
        if filter.matches(&|name: &str| get(&row, name)).map_err(invalid_filter)? {
            kept.push(row);
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

/// Compares the sort fields of two items.
fn compare(keys: &[Key], a: &[Value], b: &[Value]) -> Ordering {
    let fields = keys.iter().zip(a.iter().zip(b));
    let mut each = fields.map(|(key, (a, b))| {
        let order = total_order(a, b);
        if key.descending { order.reverse() } else { order }
    });
    each.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
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

fn encode_token(fields: &[Value]) -> String {
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

/// Returns the items in `ids`, else those in `names`, else all. The first value is true if one of
/// these parameters selects them.
pub(crate) fn select_by_id_or_name<T: Clone>(
    query: &Query,
    all: impl Iterator<Item = T>,
    by_id: impl Fn(&str) -> Result<T, RestError>,
    by_name: impl Fn(&str) -> Result<T, RestError>,
) -> Result<(bool, Vec<T>), RestError> {
    if query.text("ids").is_some() {
        return Ok((true, select(query, "ids", std::iter::empty(), by_id)?));
    }
    Ok((query.text("names").is_some(), select(query, "names", all, by_name)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sort_first_keeps_the_first_items_sorted(mut items: Vec<u8>, count in 0usize..20) {
            let mut sorted = items.clone();
            sorted.sort_unstable();
            sorted.truncate(count);
            sort_first(&mut items, count, u8::cmp);
            prop_assert_eq!(items, sorted);
        }
    }
}
