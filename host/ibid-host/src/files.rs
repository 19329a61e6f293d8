//! `vmfs`: lists, copies and removes the files of datastores, and transfers them from and to local
//! files.

use crate::esx::HostArgs;
use crate::failure::Failure;
use crate::interrupt::until_stopped;
use crate::out::{out, outln};
use crate::vmfs::{Volumes, failed};
use clap::Subcommand;
use datastore::{Datastore, File, FileAccess, FileKind, Stat};
use platform::LocalFile;
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time.
const STEP_BYTES: u64 = 4 << 20;

/// Verbs of `vmfs`. A path is /vmfs/volumes/DATASTORE/FILE or '[DATASTORE] FILE'.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum VmfsVerb {
    /// List a directory, or the datastores
    Ls {
        /// Show size, allocated blocks, lock and date
        #[arg(short)]
        long: bool,
        /// Directory or file
        path: Option<String>,
    },
    /// Remove files; refused if a host has one of them open
    Rm {
        /// Remove directories with their content
        #[arg(short)]
        recursive: bool,
        /// Files
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Copy a file
    Cp {
        /// Source file
        from: String,
        /// New file, or a directory
        to: String,
    },
    /// Copy a local file to a datastore
    Put {
        /// Local file
        from: PathBuf,
        /// New file, or a directory
        to: String,
    },
    /// Copy a file of a datastore to a new local file
    Get {
        /// Source file
        from: String,
        /// New local file
        to: PathBuf,
    },
    /// Show the space of all datastores
    Df {
        /// Show bytes instead of units
        #[arg(short = 'b', long)]
        bytes: bool,
    },
}

/// Runs the verb.
pub(crate) async fn run(host: &HostArgs, verb: &VmfsVerb) -> Result<(), Failure> {
    let mut volumes = Volumes::new(host.open()?);
    let result = until_stopped(act(&mut volumes, verb)).await;
    volumes.finish(result).await
}

async fn act(volumes: &mut Volumes, verb: &VmfsVerb) -> Result<(), Failure> {
    match verb {
        VmfsVerb::Ls { long, path } => match path.as_deref().map(|path| path.trim_end_matches('/')) {
            None | Some("/vmfs/volumes") => list_volumes(volumes).await,
            Some(path) => list(volumes, path, *long).await,
        },
        VmfsVerb::Rm { recursive, paths } => {
            for path in paths {
                remove(volumes, path, *recursive).await?;
            }
            Ok(())
        }
        VmfsVerb::Cp { from, to } => copy(volumes, from, to).await,
        VmfsVerb::Put { from, to } => put(volumes, from, to).await,
        VmfsVerb::Get { from, to } => get(volumes, from, to).await,
        VmfsVerb::Df { bytes } => space(volumes, *bytes).await,
    }
}

async fn list_volumes(volumes: &mut Volumes) -> Result<(), Failure> {
    for datastore in volumes.all().await? {
        outln!("{}", datastore.info().label);
    }
    Ok(())
}

async fn list(volumes: &mut Volumes, path: &str, long: bool) -> Result<(), Failure> {
    let (datastore, file) = volumes.open(path).await?;
    let root = if file.is_empty() { "/" } else { &file };
    let stat = datastore.stat(root).await.map_err(failed(path))?;
    let names: Vec<(String, String)> = match stat.kind {
        FileKind::File => vec![(file.clone(), path.to_owned())],
        FileKind::Directory => {
            let entries = datastore.list(root).await.map_err(failed(path))?;
            entries.into_iter().map(|entry| (format!("{file}/{}", entry.name), entry.name)).collect()
        }
    };
    for (below, name) in names {
        if !long {
            outln!("{name}");
            continue;
        }
        match datastore.stat(&below).await {
            Ok(stat) => {
                outln!("{}", long_line(&stat, datastore.info().block_bytes, &name));
            }
            // Another host has removed it.
            Err(datastore::DatastoreError::NotFound) => {}
            Err(error) => return Err(failed(path)(error)),
        }
    }
    Ok(())
}

/// Formats a line of `ls -l`: kind and lock, size, allocated MiB, date, name.
fn long_line(stat: &Stat, block_bytes: u64, name: &str) -> String {
    let kind = if stat.kind == FileKind::Directory { 'd' } else { '-' };
    let lock = match (stat.owner.is_some(), stat.readers) {
        (true, _) => 'w',
        (false, 0) => '-',
        (false, _) => 'r',
    };
    let date = esxi_host::timestamp(stat.modified);
    format!(
        "{kind}{lock} {:>16} {:>8}M {} {name}",
        stat.size,
        stat.blocks * (block_bytes >> 20),
        date.get(..19).unwrap_or(&date)
    )
}

async fn remove(volumes: &mut Volumes, path: &str, recursive: bool) -> Result<(), Failure> {
    let (datastore, file) = volumes.open(path).await?;
    if file.is_empty() {
        return Err(Failure::usage(format!("'{path}' is a datastore"), "name a file or directory of it"));
    }
    let removed = if recursive { datastore.remove_tree(&file).await } else { datastore.remove(&file).await };
    removed.map_err(|error| match error {
        datastore::DatastoreError::NotEmpty => {
            Failure::usage(format!("{path}: {error}"), "use -r to remove the directory with its content")
        }
        error => failed(path)(error),
    })
}

/// Returns the new file that a destination names: within it, if it is a directory.
async fn destination(datastore: &Datastore, to: String, name: &str) -> Result<String, Failure> {
    if to.is_empty() {
        return Ok(name.to_owned());
    }
    match datastore.stat(&to).await {
        Ok(stat) if stat.kind == FileKind::Directory => Ok(format!("{to}/{name}")),
        Ok(_) | Err(datastore::DatastoreError::NotFound) => Ok(to),
        Err(error) => Err(failed(&to)(error)),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Why `cp` uses no EXTENDED COPY.
const FILE_COPY: &str = "a copy of files is read and written; use vmkfstools -i for virtual disks";

async fn copy(volumes: &mut Volumes, from: &str, to: &str) -> Result<(), Failure> {
    let (source, source_path) = volumes.open(from).await?;
    let (target, target_path) = volumes.open(to).await?;
    let target_path = destination(&target, target_path, file_name(&source_path)).await?;
    let file = source.open(&source_path, FileAccess::Read).await.map_err(failed(from))?;
    let copied = async {
        let copy = target.create_temporary(&target_path).await?;
        copy.set_size(file.size()).await?;
        for at in (0..file.size()).step_by(STEP_BYTES as usize) {
            // Holes stay holes.
            if !is_hole(&file, at) {
                copy.write(at, &file.read(at, STEP_BYTES).await?).await?;
            }
        }
        copy.close().await
    };
    let copied = copied.await;
    let closed = file.close().await;
    copied.map_err(failed(to))?;
    target.keep(&target_path);
    closed.map_err(failed(from))?;
    let line = format!("copy of {from} to {to}: software data mover: {FILE_COPY}");
    outln!("Not offloaded: {FILE_COPY}");
    Ok(volumes.host().log(&format!("FSDisk: {line}"))?)
}

/// Returns whether the next step of a file has no blocks.
fn is_hole(file: &File, at: u64) -> bool {
    let blocks = at / file.block_bytes()..(at + STEP_BYTES).div_ceil(file.block_bytes());
    file.extents(blocks).iter().all(|extent| extent.state == datastore::ExtentState::Hole)
}

fn local(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::File { path: path.clone(), error }
}

async fn put(volumes: &mut Volumes, from: &Path, to: &str) -> Result<(), Failure> {
    let source = LocalFile::open(from).map_err(local(from))?;
    let size = source.size().map_err(local(from))?;
    let (datastore, path) = volumes.open(to).await?;
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = destination(&datastore, path, &name).await?;
    let file = datastore.create_temporary(&path).await.map_err(failed(to))?;
    file.set_size(size).await.map_err(failed(to))?;
    for at in (0..size).step_by(STEP_BYTES as usize) {
        let data = source.read_at(at, STEP_BYTES.min(size - at) as usize).map_err(local(from))?;
        file.write(at, &data).await.map_err(failed(to))?;
    }
    file.close().await.map_err(failed(to))?;
    datastore.keep(&path);
    Ok(())
}

async fn get(volumes: &mut Volumes, from: &str, to: &Path) -> Result<(), Failure> {
    let (datastore, path) = volumes.open(from).await?;
    let file = datastore.open(&path, FileAccess::Read).await.map_err(failed(from))?;
    let target = LocalFile::create(to).map_err(local(to))?;
    for at in (0..file.size()).step_by(STEP_BYTES as usize) {
        let data = file.read(at, STEP_BYTES).await.map_err(failed(from))?;
        target.write_at(at, &data).map_err(local(to))?;
    }
    target.sync().map_err(local(to))?;
    file.close().await.map_err(failed(from))
}

async fn space(volumes: &mut Volumes, bytes: bool) -> Result<(), Failure> {
    out!("Filesystem {:>16} {:>16} {:>16} Use% Mounted on\n", "Size", "Used", "Available");
    for datastore in volumes.all().await? {
        let info = datastore.info();
        let space = datastore.space().await.map_err(failed(&info.label))?;
        let used = space.blocks - space.free;
        let size = |blocks: u64| {
            let size = blocks * info.block_bytes;
            if bytes { size.to_string() } else { format!("{:.1}G", size as f64 / f64::from(1 << 30)) }
        };
        let percent = (used * 100).div_ceil(space.blocks.max(1));
        outln!(
            "{:10} {:>16} {:>16} {:>16} {percent:>3}% /vmfs/volumes/{}",
            info.mode.to_string(),
            size(space.blocks),
            size(used),
            size(space.free),
            info.label
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_show_lock_size_and_date() {
        let stat = Stat {
            kind: FileKind::File,
            size: 5 << 20,
            blocks: 3,
            modified: 951_827_696_007,
            descriptor: 7,
            owner: None,
            readers: 1,
        };
        assert_eq!(long_line(&stat, 1 << 20, "a.vmdk"), "-r          5242880        3M 2000-02-29T12:34:56 a.vmdk");
        let directory = Stat { kind: FileKind::Directory, size: 0, blocks: 0, readers: 0, ..stat };
        assert!(long_line(&directory, 1 << 20, "vm").starts_with("d- "));
    }
}
