//! `ibid`: runs the array, and administers it from the command line.
//!
//! This crate parses commands, wires the other crates together and prints; it has no other logic.
#![forbid(unsafe_code)]

mod access;
mod admin;
mod cli;
mod directory;
mod doctor;
mod endpoints;
mod fsck;
mod keys;
mod log;
mod manual;
mod mediating;
mod medium;
mod output;
mod problem;
mod serve;
mod stopped;
mod top;
mod usage;

use access::Access;
use clap::Subcommand;
use cli::{Admin, Command, TopArgs};
use problem::Problem;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = usage::parse();
    let data = cli.data;
    let result = match cli.command {
        Command::Serve(args) => serve::serve(data, args),
        Command::Volume(group) => run(data, group, admin::volume),
        Command::Snap(group) => run(data, group, admin::snap),
        Command::Policy(group) => run(data, group, admin::policy),
        Command::Vgroup(group) => run(data, group, admin::vgroup),
        Command::Pod(group) => run(data, group, admin::pod),
        Command::Host(group) => run(data, group, admin::host),
        Command::Array(group) => run(data, group, admin::array),
        Command::Scrub(group) => run(data, group, admin::scrub),
        Command::Admin(group) => run(data, group, admin::account),
        Command::ApiClient(group) => run(data, group, admin::api_client),
        Command::Alert(group) => run(data, group, admin::alert),
        Command::Delivery(group) => run(data, group, admin::delivery),
        Command::Top(args) => {
            let TopArgs { client, options } = args;
            top::top(&Access { data, options: client }, &options)
        }
        Command::Fsck(args) => return fsck::run(data, &args),
        Command::Rekey(args) => keys::rekey(data, &args),
        Command::Mediator(command) => mediating::run(data, command),
        Command::Doctor(args) => return doctor::run(data, args),
        Command::Completion { shell } => manual::completion(shell),
        Command::Manual { directory } => manual::pages(&directory),
        Command::Token(args) => {
            let access = Access { data, options: args.client };
            admin::token(&access, args.json, args.new)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            problem.report();
            ExitCode::from(problem.code())
        }
    }
}

fn run<C: Subcommand>(
    data: Option<PathBuf>,
    group: Admin<C>,
    action: fn(&Access, bool, C) -> Result<(), Problem>,
) -> Result<(), Problem> {
    action(&Access { data, options: group.client }, group.json, group.command)
}
