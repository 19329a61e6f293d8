//! Writes the table of the embedded files: all of `assets/`, if the console has been built.
#![allow(clippy::disallowed_methods, reason = "a build script reads and writes files")]

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("assets");
    println!("cargo::rerun-if-changed=assets");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&root)?.to_str().ok_or("a file name is not UTF-8")?;
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", file.display().to_string())?;
    }
    table.push(']');
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("files.rs"), table)?;
    Ok(())
}

/// Lists the files below a folder, without its notes.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_none_or(|extension| extension != "md") {
            files.push(path);
        }
    }
    Ok(())
}
