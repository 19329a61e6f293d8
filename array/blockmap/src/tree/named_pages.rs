//! When leaves are gathered.

/// Maximum number of pages of the slot table that a leaf names when it is copied without being
/// gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxNamedPages(pub(super) usize);

impl Default for MaxNamedPages {
    fn default() -> Self {
        Self(8)
    }
}
