//! `ibid-sim`: see the library.

use clap::Parser;
use sim::array::{Array, Setup};
use sim::cli::{self, Cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main::<Array>(Cli::parse(), Setup::plain())
}
