//! Tags of volumes.

use super::Draft;
use crate::CatalogError;
use crate::record::{Tag, Volume};
use std::sync::Arc;

/// Maximum number of tags of one volume.
const MAX_TAGS: usize = 64;
/// Maximum length of a namespace and of a key, in bytes.
const MAX_KEY_BYTES: usize = 64;
/// Maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 256;

impl Draft {
    /// Adds tags to a volume. A tag replaces the one with the same namespace and key.
    pub fn put_tags(&mut self, volume: &str, tags: &[Tag]) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(volume)?;
        for tag in tags {
            check(tag)?;
            volume.tags.retain(|held| (&held.namespace, &held.key) != (&tag.namespace, &tag.key));
            volume.tags.push(tag.clone());
        }
        if volume.tags.len() > MAX_TAGS {
            return Err(CatalogError::LimitReached { what: "Tag", limit: MAX_TAGS });
        }
        volume.tags.sort();
        self.store_volume(volume)
    }

    /// Removes the tags of a volume for which `is_gone` is true.
    pub fn remove_tags(&mut self, volume: &str, is_gone: impl Fn(&Tag) -> bool) -> Result<Arc<Volume>, CatalogError> {
        let mut volume = self.live_volume(volume)?;
        volume.tags.retain(|tag| !is_gone(tag));
        self.store_volume(volume)
    }
}

fn check(tag: &Tag) -> Result<(), CatalogError> {
    let is_text = |text: &str, max: usize| text.len() <= max && !text.chars().any(char::is_control);
    let is_key = |text: &str| !text.is_empty() && is_text(text, MAX_KEY_BYTES);
    if is_key(&tag.namespace) && is_key(&tag.key) && is_text(&tag.value, MAX_VALUE_BYTES) {
        return Ok(());
    }
    let reason =
        "a tag has a namespace and a key of 1 to 64 bytes and a value of at most 256 bytes, without control characters";
    Err(CatalogError::BadSetting { reason })
}
