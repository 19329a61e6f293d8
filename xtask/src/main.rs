//! `cargo xtask tidy`: the house rules that rustc and clippy do not know.
//!
//! * arrows: which crate may depend on which ([`arrows`]);
//! * sizes: files of at most 600 lines of code, functions of at most 70 lines ([`sizes`]);
//! * words: nothing that names the machine a file was written on, no work left half done ([`words`]);
//! * links: every relative link of every Markdown page leads somewhere in this repository ([`links`]);
//! * promises: every test that SPECIFICATION.md names is there ([`promises`]).
#![allow(clippy::disallowed_methods, reason = "a tool of the workspace reads the workspace")]

mod arrows;
mod exceptions;
mod links;
mod promises;
mod scrub;
mod sizes;
mod words;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => bail!("usage: cargo xtask tidy"),
    }
}

/// Runs every check and prints each breach of a rule on a line of its own, as `path: what is wrong`.
fn tidy() -> Result<ExitCode> {
    let root = workspace_root()?;
    let files = tracked_files(&root)?;
    let mut found = arrows::check(&cargo_metadata(&root)?)?;
    let sources = || files.iter().filter(|f| f.path.extension().is_some_and(|e| e == "rs"));
    let exceptions = std::fs::read_to_string(root.join(exceptions::LIST)).context(exceptions::LIST)?;
    found.extend(exceptions::judge(&exceptions, sources().flat_map(|f| sizes::measure(&f.name, &f.text)).collect()));
    let parent = root.parent().unwrap_or(&root);
    found.extend(files.iter().flat_map(|f| words::check(&f.name, &f.text, parent)));
    let pages = files.iter().filter(|f| f.path.extension().is_some_and(|e| e == "md"));
    found.extend(pages.flat_map(|f| links::check(&root, &f.name, &f.text)));
    if let Some(page) = files.iter().find(|f| f.name == promises::PAGE) {
        let sources: Vec<_> = sources().map(|f| (f.name.as_str(), f.text.as_str())).collect();
        found.extend(promises::check(&page.text, sources.into_iter()));
    }

    found.sort();
    for breach in &found {
        println!("{breach}");
    }
    match found.len() {
        0 => println!("tidy: {} files, nothing found", files.len()),
        n => println!("tidy: {n} breaches of the house rules (CONTRIBUTING.md says why they are)"),
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A text file that git tracks.
struct Tracked {
    /// Where it is on this machine.
    path: PathBuf,
    /// Its name in the repository.
    name: String,
    text: String,
}

/// All text files that git tracks or would track. A file that is not UTF-8 is no text.
fn tracked_files(root: &Path) -> Result<Vec<Tracked>> {
    let list = output(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let names = list.split('\0').filter(|n| !n.is_empty());
    Ok(names
        .filter_map(|name| {
            let path = root.join(name);
            let text = std::fs::read_to_string(&path).ok()?;
            Some(Tracked { path, name: name.to_owned(), text })
        })
        .collect())
}

fn workspace_root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(manifest.parent().context("xtask lies in the workspace")?.to_owned())
}

fn cargo_metadata(root: &Path) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    output(Command::new(cargo).current_dir(root).args(["metadata", "--format-version=1", "--no-deps", "--offline"]))
}

fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("{command:?}"))?;
    if !out.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8(out.stdout)?)
}
