//! `ibid`: the array, and its administration from the command line.
//!
//! Wiring and words only: what the array does is in the crates below.
#![forbid(unsafe_code)]

mod access;
mod admin;
mod cli;
mod endpoints;
mod fsck;
mod output;
mod problem;
mod serve;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Serve(args) => serve::serve(cli.access.data, args),
        Command::Volume(command) => admin::volume(&cli.access, cli.json, command),
        Command::Snap(command) => admin::snap(&cli.access, cli.json, command),
        Command::Host(command) => admin::host(&cli.access, cli.json, command),
        Command::Array(command) => admin::array(&cli.access, cli.json, command),
        Command::Scrub(command) => admin::scrub(&cli.access, cli.json, &command),
        Command::Alert(command) => admin::alert(&cli.access, cli.json, &command),
        Command::Fsck(args) => return fsck::run(cli.access.data, cli.json, &args),
        Command::Token(args) => admin::token(&cli.access, cli.json, &args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            problem.report();
            ExitCode::FAILURE
        }
    }
}
