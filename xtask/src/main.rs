//! `cargo xtask tidy`: the project's rules that rustc and clippy do not check.
//!
//! * arrows: which crate may depend on which ([`arrows`]);
//! * imports: no circle among the files of a crate, impls with their types ([`imports`]);
//! * sizes: files of at most 600 lines of code, functions of at most 70 lines ([`sizes`]);
//! * prose: plain English in comments, short test names ([`prose`]);
//! * titles: commit titles of the form `area: imperative` ([`titles`]);
//! * words: no path of the author's machine, no mark of unfinished work ([`words`]);
//! * links: every relative link of every Markdown page resolves in this repository ([`links`]);
//! * book: the table of contents lists every page of docs/ ([`book`]);
//! * promises: every test that SPECIFICATION.md names exists ([`promises`]).
#![allow(clippy::disallowed_methods, reason = "a tool of the workspace reads the workspace")]

mod arrows;
mod book;
mod exceptions;
mod imports;
mod links;
mod promises;
mod prose;
mod scrub;
mod sizes;
mod titles;
mod words;

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => bail!("usage: cargo xtask tidy"),
    }
}

/// Runs every check and prints each breach on one line, as `path: breach`.
fn tidy() -> Result<ExitCode> {
    let root = workspace_root()?;
    let files = tracked_files(&root)?;
    let mut found = arrows::check(&cargo_metadata(&root)?)?;
    let sources = || files.iter().filter(|f| f.path.extension().is_some_and(|e| e == "rs"));
    let texts: Vec<_> = sources().map(|f| (f.name.as_str(), f.text.as_str())).collect();
    let sizes = texts.iter().flat_map(|(name, text)| sizes::measure(name, text)).collect();
    found.extend(judge(&root, &exceptions::SIZES, sizes)?);
    let mut prose = prose::check(texts.iter().copied())?;
    found.append(&mut prose.found);
    found.extend(prose.over_limit());
    found.extend(judge(&root, &exceptions::PROSE, std::mem::take(&mut prose.markers))?);
    found.extend(check_imports(&root, &texts)?);
    found.extend(titles::check(&root));
    let parent = root.parent().unwrap_or(&root);
    found.extend(files.iter().flat_map(|f| words::check(&f.name, &f.text, parent)));
    let pages = files.iter().filter(|f| f.path.extension().is_some_and(|e| e == "md"));
    found.extend(pages.flat_map(|f| links::check(&root, &f.name, &f.text)));
    if let Some(page) = files.iter().find(|f| f.name == book::SUMMARY) {
        found.extend(book::check(&page.text, files.iter().map(|f| f.name.as_str())));
    }
    if let Some(page) = files.iter().find(|f| f.name == promises::PAGE) {
        found.extend(promises::check(&page.text, texts.iter().copied()));
    }

    found.sort();
    for breach in &found {
        println!("{breach}");
    }
    match found.len() {
        0 => println!("tidy: {} files, no breach; {}", files.len(), prose.summary()),
        n => println!("tidy: {n} breaches of the rules (CONTRIBUTING.md explains them)"),
    }
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks the imports of every crate. The files of a circle are listed only if the circle is not an
/// allowed one.
fn check_imports(root: &Path, sources: &[(&str, &str)]) -> Result<Vec<String>> {
    let (mut measures, mut details) = (Vec::new(), Vec::new());
    for folder in crate_folders(sources) {
        let is_own = |name: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with("/src/"));
        let findings = imports::check(folder, &sources.iter().copied().filter(|(name, _)| is_own(name)).collect())?;
        measures.extend(findings.measures(folder));
        details.extend(findings.describe().map(|text| (folder, text.to_owned())));
    }
    let mut found = judge(root, &exceptions::IMPORTS, measures)?;
    let is_new = |folder: &str| found.iter().any(|breach| breach.starts_with(&format!("{folder}::")));
    let details: Vec<String> = details.into_iter().filter(|(folder, _)| is_new(folder)).map(|(_, text)| text).collect();
    found.extend(details);
    Ok(found)
}

/// Reads a list of exceptions and compares measurements with it.
fn judge(root: &Path, list: &exceptions::List, measured: Vec<exceptions::Measure>) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(list.path)).context(list.path)?;
    Ok(list.judge(&text, measured))
}

/// The folders of the workspace's crates: those with a `src/lib.rs` or `src/main.rs`.
fn crate_folders<'a>(sources: &[(&'a str, &'a str)]) -> BTreeSet<&'a str> {
    let root = |name: &'a str| name.strip_suffix("/src/lib.rs").or_else(|| name.strip_suffix("/src/main.rs"));
    sources.iter().filter_map(|(name, _)| root(name)).collect()
}

/// A text file that git tracks.
struct Tracked {
    /// Path on this machine.
    path: PathBuf,
    /// Path in the repository.
    name: String,
    text: String,
}

/// All UTF-8 files that git tracks or would track.
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
    Ok(manifest.parent().context("xtask is not in a workspace")?.to_owned())
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
