//! The envelope of list answers, and references between objects.

use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Items<T> {
    /// Token for the next page, if there is one.
    pub continuation_token: Option<String>,
    /// The objects.
    pub items: Vec<T>,
    /// True if there is a next page.
    pub more_items_remaining: bool,
    /// Number of objects on all pages, if requested.
    pub total_item_count: Option<u64>,
}

impl<T> Items<T> {
    /// A complete list.
    pub fn all(items: Vec<T>) -> Self {
        Self { continuation_token: None, items, more_items_remaining: false, total_item_count: None }
    }
}

/// A reference to another object. Both fields are null if there is none, because clients read
/// `name` without checking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reference {
    /// Unique id.
    pub id: Option<String>,
    /// Name.
    pub name: Option<String>,
}

impl Reference {
    /// A reference by name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { id: None, name: Some(name.into()) }
    }
}
