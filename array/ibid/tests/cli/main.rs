//! Tests of the program `ibid`: output, errors, exit codes and effects.

mod array;
mod commands;
mod data;
mod fsck;
mod host;
mod lifecycle;
mod snapshots;
mod wrong_input;
