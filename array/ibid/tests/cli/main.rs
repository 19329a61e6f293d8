//! Tests of the program `ibid`: output, errors, exit codes and effects.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod array;
mod commands;
mod data;
mod device;
mod encryption;
mod fsck;
mod host;
mod lifecycle;
mod lists;
mod mediator;
mod salvage;
mod snapshots;
mod supervised;
mod wrong_input;
