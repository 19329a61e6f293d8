//! The administrative commands: each is one or two calls of the REST interface, and words about what came of them.

mod array;
mod health;
mod host;
mod snap;
mod volume;

pub(crate) use array::{array, token};
pub(crate) use health::{alert, scrub};
pub(crate) use host::host;
pub(crate) use snap::snap;
pub(crate) use volume::volume;

use crate::problem::Problem;

/// A percentage as it was given: `80`, `80%`, or `none`, which stands for 0 in a request.
fn percent(text: &str) -> Result<u8, Problem> {
    if text == "none" {
        return Ok(0);
    }
    let number = text.trim_end_matches('%').trim().parse::<u8>().ok().filter(|percent| (1..=100).contains(percent));
    number.ok_or_else(|| Problem::new(format!("'{text}' is not a percentage: write 1 to 100, or none")))
}

/// A threshold in words.
fn threshold(percent: Option<u8>) -> String {
    percent.map_or_else(
        || "none: hosts are not told that it fills".to_owned(),
        |percent| format!("hosts are told at {percent} %"),
    )
}
