//! `ibid-sim`: command line of the engine simulator and the datastore simulator.

mod datastore;
mod streams;

use clap::{Parser, Subcommand};
use datastore::DatastoreArgs;
use engine_sim::cli::{self, EngineVerb};
use engine_sim::engine_subject::{EngineSetup, EngineSubject};
use std::process::ExitCode;
use streams::StreamArgs;

#[derive(Parser)]
#[command(name = "ibid-sim", version, about = "Simulate the engine or the datastore, with crashes and other faults")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    #[command(flatten)]
    Engine(EngineVerb),
    /// Run many hosts on one simulated datastore, with random faults
    Datastore(DatastoreArgs),
    /// Run two engines that keep one stream, with crashes of both and failovers
    Streams(StreamArgs),
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Engine(verb) => cli::run_verb::<EngineSubject>(verb, EngineSetup::plain()),
        Verb::Datastore(args) => datastore::simulate(&args),
        Verb::Streams(args) => streams::simulate(&args),
    }
}
