//! Confirmation of changes that cannot be undone.

use crate::cli::ConfirmArgs;
use crate::output::progress;
use crate::problem::Problem;
use std::io::{self, BufRead, IsTerminal, Read};

/// Longest answer in bytes.
const MAX_ANSWER: u64 = 64;

/// Asks on the terminal, unless the command line has confirmed it.
pub(super) fn confirm(confirmed: ConfirmArgs, question: &str) -> Result<(), Problem> {
    if confirmed.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Problem::new(format!("not confirmed: {question}")).hint("add --yes to confirm it"));
    }
    progress(&format!("{question} Type yes to continue:"));
    let mut answer = String::new();
    io::stdin().lock().take(MAX_ANSWER).read_line(&mut answer)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Problem::new("not confirmed; nothing has changed")),
    }
}
