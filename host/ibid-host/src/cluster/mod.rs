//! Verbs of the cluster file system: `voma`, which checks a datastore, and long-running tests.

mod torture;
mod voma;

use crate::failure::Failure;
use crate::out::outln;
use serde::Serialize;
pub(crate) use torture::{DatastoreTortureArgs, torture};
pub(crate) use voma::{VomaArgs, voma};

/// Prints one line of JSON.
fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(|error| Failure::Wrong(error.to_string()))?;
    outln!("{line}");
    Ok(())
}
