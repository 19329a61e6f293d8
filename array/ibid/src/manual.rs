//! Files that describe the command line: shell completion and manual pages.

use crate::cli::Cli;
use crate::output::print;
use crate::problem::Problem;
use clap::CommandFactory;
use clap_complete::Shell;
use platform::files;
use std::path::Path;

/// Prints the completion script of a shell.
pub(crate) fn completion(shell: Shell) -> Result<(), Problem> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "ibid", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Writes the manual pages, one for each command.
pub(crate) fn pages(directory: &Path) -> Result<(), Problem> {
    let written = files::create_directory(directory).and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(|error| {
        Problem::new(format!("{}: {error}", directory.display())).hint("choose a directory that can be written")
    })
}
