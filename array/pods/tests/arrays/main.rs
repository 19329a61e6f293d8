//! Two arrays with one pod: real engines, links on loopback, a mediator.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod administration;
mod campaign;
mod common;
mod copies;
mod service;
