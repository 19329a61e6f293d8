//! `ibid-sim`: see the library.

use clap::Parser;
use engine_sim::array::{Array, Setup};
use engine_sim::cli::{self, Cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main::<Array>(Cli::parse(), Setup::plain())
}
