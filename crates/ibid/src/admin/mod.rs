//! The administrative commands: each is one or two calls of the REST interface, and words about what came of them.

mod array;
mod host;
mod volume;

pub(crate) use array::{array, token};
pub(crate) use host::host;
pub(crate) use volume::volume;
