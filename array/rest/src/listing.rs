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
    page_of(&items, query, identity, |_, _| None, <[&T]>::to_vec)
}

/// Like [`page`], for items that `show` converts, one for each. `field` returns a field of a
/// converted item, or `None` if the whole item is needed for it. If `field` returns all fields of
/// `filter` and `sort`, only the items on the page are converted.
pub(crate) fn page_of<'a, T, S: Serialize>(
    items: &'a [T],
    query: &Query,
    identity: &[&str],
    field: impl Fn(&'a T, &str) -> Option<Value>,
    show: impl Fn(&[&'a T]) -> Vec<S>,
) -> Result<Answer, RestError> {
    let get = |row: &Row<'a, T>, name: &str| match field(row.item, name) {
        Some(value) => Ok(value),
        None => {
            let whole = || serde_json::to_value(show(&[row.item]).first()).unwrap_or(Value::Null);
            lookup(row.whole.get_or_init(whole), name).cloned()
        }
    };
    let filter = filter_of(query)?;
    let keys = sort_keys(query, identity);
    let after = query.text("continuation_token").map(|token| decode_token(token, &keys)).transpose()?;
    let offset = query.number("offset")?.unwrap_or(0);
    let limit = query.number("limit")?.unwrap_or(MAX_PAGE_ITEMS).min(MAX_PAGE_ITEMS);
    let is_counted = query.flag("total_item_count")?.unwrap_or(false);
    let mut first = FirstRows { keys: &keys, count: offset.saturating_add(limit), rows: Vec::new(), seen: 0 };
    let mut matching = 0;
    for (at, item) in items.iter().enumerate() {
        let row = Row { item, whole: OnceCell::new() };
        let is_match = |filter: &Filter| filter.matches(&|name: &str| get(&row, name)).map_err(invalid_filter);
        if !filter.as_ref().map_or(Ok(true), is_match)? {
            continue;
        }
        matching += 1;
        if matching == 1
            && let Some(error) = keys.iter().find_map(|key| get(&row, &key.field).err())
        {
            return Err(RestError::bad(ErrorCode::InvalidSort, format!("Invalid sort: {error}.")));
        }
        let fields: Vec<Value> = keys.iter().map(|key| get(&row, &key.field).unwrap_or(Value::Null)).collect();
        if after.as_ref().is_none_or(|last| compare(&keys, &fields, last).is_gt()) {
            first.add((fields, at, row));
        }
    }
    let more_items_remaining = first.seen > first.count && limit > 0;
    let mut rows = first.sorted();
    rows.drain(..offset.min(rows.len()));
    let last = rows.last().filter(|_| more_items_remaining);
    let continuation_token = last.map(|(fields, ..)| encode_token(fields));
    let unconverted: Vec<&T> =
        rows.iter().filter(|(.., row)| row.whole.get().is_none()).map(|(.., row)| row.item).collect();
    let mut converted = show(&unconverted).into_iter();
    let shown = |row: Row<'a, T>| match row.whole.into_inner() {
        Some(whole) => Some(Shown::Whole(whole)),
        None => converted.next().map(Shown::Item),
    };
    let items = rows.into_iter().map(|(.., row)| row).filter_map(shown).collect();
    let total_item_count = is_counted.then_some(matching);
    Answer::list(Items { continuation_token, items, more_items_remaining, total_item_count })
}

/// A row with its sort fields and its place among the items.
type Placed<'a, T> = (Vec<Value>, usize, Row<'a, T>);

/// The first rows of an order. A page of a long list takes the memory of a few pages, and costs
/// little more than a search for its last item.
struct FirstRows<'k, 'a, T> {
    keys: &'k [Key],
    /// Rows that are wanted.
    count: usize,
    rows: Vec<Placed<'a, T>>,
    /// Rows that were added.
    seen: usize,
}

impl<'a, T> FirstRows<'_, 'a, T> {
    /// Rows that are kept beyond those that are wanted, so that few additions select.
    const SLACK: usize = 256;

    fn add(&mut self, row: Placed<'a, T>) {
        self.seen += 1;
        if self.rows.len() >= self.count.saturating_mul(2).saturating_add(Self::SLACK) {
            self.select();
        }
        self.rows.push(row);
    }

    /// Drops the rows that are not among the first.
    fn select(&mut self) {
        let keys = self.keys;
        if let Some(last) = self.count.checked_sub(1).filter(|_| self.rows.len() > self.count) {
            self.rows.select_nth_unstable_by(last, |a, b| order(keys, a, b));
        }
        self.rows.truncate(self.count);
    }

    fn sorted(mut self) -> Vec<Placed<'a, T>> {
        self.select();
        let keys = self.keys;
        self.rows.sort_unstable_by(|a, b| order(keys, a, b));
        self.rows
    }
}

fn order<T>(keys: &[Key], a: &Placed<'_, T>, b: &Placed<'_, T>) -> Ordering {
    compare(keys, &a.0, &b.0).then(a.1.cmp(&b.1))
}

/// Returns a field of an answer's part, such as `name` of a reference.
pub(crate) fn field_of<T: Serialize>(part: &T, name: &str) -> Option<Value> {
    serde_json::to_value(part).ok().and_then(|value| lookup(&value, name).cloned().ok())
}

fn invalid_filter(reason: String) -> RestError {
    RestError::bad(ErrorCode::InvalidFilter, format!("Invalid filter: {reason}."))
}

/// Returns the filter of the query, if it has one.
fn filter_of(query: &Query) -> Result<Option<Filter>, RestError> {
    let text = query.text("filter").filter(|text| !text.trim().is_empty());
    text.map(|text| Filter::parse(text).map_err(invalid_filter)).transpose()
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_rows_are_those_of_the_sorted_list(items in vec(any::<u16>(), 0..1500), count in 0usize..20) {
            let keys = [Key { field: "name".to_owned(), descending: false }];
            let mut first = FirstRows { keys: &keys, count, rows: Vec::new(), seen: 0 };
            for (at, item) in items.iter().enumerate() {
                first.add((vec![Value::from(*item)], at, Row { item, whole: OnceCell::new() }));
            }
            prop_assert!(first.rows.len() <= 2 * count + FirstRows::<u16>::SLACK);
            prop_assert_eq!(first.seen, items.len());
            let places: Vec<usize> = first.sorted().into_iter().map(|(_, at, _)| at).collect();
            let mut sorted: Vec<usize> = (0..items.len()).collect();
            sorted.sort_by_key(|at| items[*at]);
            sorted.truncate(count);
            prop_assert_eq!(places, sorted);
        }
    }
}
