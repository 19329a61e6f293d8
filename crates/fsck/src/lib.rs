//! Checks an array: every structure that [the format](../../../docs/format.md) knows, and that they agree with each other.
//!
//! It shares the formats with the engine (`store`, `map`, `journal`), and none of its code: what the engine believes of
//! itself is what is to be found out. It reads a *checkpoint*, which nobody overwrites in place: `ibid fsck` takes the one of
//! an array that is not running, and the engine has its own checked, and counted for [`census`], while it serves.
#![forbid(unsafe_code)]

mod finding;

pub use finding::{Finding, Findings, MAX_FINDINGS, Severity, Span, Structure};
