//! What every answer has around it.

use serde::{Deserialize, Serialize};

/// A list of things: one page of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Items<T> {
    /// What brings the next page, when there is one.
    pub continuation_token: Option<String>,
    /// The things.
    pub items: Vec<T>,
    /// True when there is a next page.
    pub more_items_remaining: bool,
    /// How many there are on all pages, when it was asked.
    pub total_item_count: Option<u64>,
}

impl<T> Items<T> {
    /// A list that is whole.
    pub fn all(items: Vec<T>) -> Self {
        Self { continuation_token: None, items, more_items_remaining: false, total_item_count: None }
    }
}

/// The body of an error answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What was wrong, one entry for each object that is concerned.
    pub errors: Vec<ApiError>,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// The name of the object.
    pub context: Option<String>,
    /// What was wrong.
    pub message: String,
}

/// The body of answers 403 and 429, which clients read in another form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayError {
    /// What was wrong.
    pub message: String,
}

/// One object named by another. Both are null when there is none: clients read `.name` of it either way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its identity.
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
}

impl Reference {
    /// A reference by name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { id: None, name: Some(name.into()) }
    }
}
