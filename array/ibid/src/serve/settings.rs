//! What `ibid serve` was told: on the command line, in the configuration file, or by default.

use crate::cli::ServeArgs;
use crate::problem::Problem;
use engine::Options;
use platform::{files, memory};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use types::{format_capacity, parse_capacity};

const DEFAULT_NAME: &str = "ibid";
const DEFAULT_ISCSI_PORT: u16 = 3260;
const DEFAULT_API_PORT: u16 = 8443;
/// Memory for the array where the system does not tell how much there is.
const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// The most bytes of a configuration file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The most portals.
const MAX_PORTALS: usize = 64;

/// What to serve, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The array's directory.
    pub(crate) data: PathBuf,
    /// The array's name, when it is created.
    pub(crate) name: String,
    /// How much it may store, in bytes, when it is created and this was said.
    pub(crate) capacity: Option<u64>,
    /// A block device or file to store on, in the place of a file in `data`.
    pub(crate) device: Option<PathBuf>,
    /// The iSCSI portals.
    pub(crate) iscsi: Vec<SocketAddr>,
    /// The address of the API.
    pub(crate) api: SocketAddr,
    /// Bytes of memory for the array's structures.
    pub(crate) memory: u64,
    /// Bytes of that for the index, when this was said.
    pub(crate) index_memory: Option<u64>,
    /// Whether writes are acknowledged before they are on stable storage.
    pub(crate) write_cache: bool,
    /// Whether the admin gets a new token.
    pub(crate) new_token: bool,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    data: Option<PathBuf>,
    name: Option<String>,
    capacity: Option<String>,
    device: Option<PathBuf>,
    iscsi: Vec<SocketAddr>,
    api: Option<SocketAddr>,
    memory: Option<String>,
    index_memory: Option<String>,
    write_cache: bool,
}

impl Settings {
    /// Puts together what was told. What is on the command line counts more than what is in the file.
    pub(crate) fn new(data: Option<PathBuf>, args: ServeArgs) -> Result<Self, Problem> {
        let file = args.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let data = data.or(file.data).ok_or_else(|| {
            Problem::new("where is the array, or shall it be?").hint("ibid serve --data DIR creates it at first start")
        })?;
        let capacity = args.capacity.or(file.capacity);
        let bytes = |text: Option<String>| text.as_deref().map(parse_capacity).transpose();
        let memory = bytes(args.memory.or(file.memory))?;
        let index_memory = bytes(args.index_memory.or(file.index_memory))?;
        let (memory, index_memory) = memory_of(memory, index_memory, memory::total())?;
        let mut iscsi = if args.iscsi.is_empty() { file.iscsi } else { args.iscsi };
        if iscsi.is_empty() {
            iscsi.push(SocketAddr::from(([127, 0, 0, 1], DEFAULT_ISCSI_PORT)));
        }
        if iscsi.len() > MAX_PORTALS {
            return Err(Problem::new(format!("{} portals are too many: at most {MAX_PORTALS}", iscsi.len())));
        }
        Ok(Self {
            data,
            name: args.name.or(file.name).unwrap_or_else(|| DEFAULT_NAME.to_owned()),
            capacity: bytes(capacity)?,
            device: args.device.or(file.device),
            iscsi,
            api: args.api.or(file.api).unwrap_or(SocketAddr::from(([127, 0, 0, 1], DEFAULT_API_PORT))),
            memory,
            index_memory,
            write_cache: args.write_cache || file.write_cache,
            new_token: args.new_token,
        })
    }
}

/// The memory of the array, and how much of it is for the index where that is settled: what was asked for, else a quarter of what there
/// is, and of that a quarter for the index. Of memory that was asked for the index has a part of what the slot table leaves.
fn memory_of(asked: Option<u64>, index: Option<u64>, total: Option<u64>) -> Result<(u64, Option<u64>), Problem> {
    let by_default = total.map_or(DEFAULT_MEMORY_BYTES, |bytes| bytes / 4).max(Options::MIN_MEMORY_BYTES);
    let memory = asked.unwrap_or(by_default);
    if memory < Options::MIN_MEMORY_BYTES {
        let least = format_capacity(Options::MIN_MEMORY_BYTES);
        return Err(Problem::new(format!("{} of memory are too little", format_capacity(memory)))
            .hint(format!("--memory takes {least} or more")));
    }
    let index = index.or_else(|| asked.is_none().then_some(memory / 4));
    if index.is_some_and(|index| index > memory / 2) {
        return Err(Problem::new("the index would take more than half of the memory")
            .hint(format!("--index-memory takes at most {}, or give more --memory", format_capacity(memory / 2))));
    }
    Ok((memory, index))
}

fn read(path: &Path) -> Result<File, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::new(format!("{}: {error}", path.display()));
    let text = files::read_text(path, MAX_FILE_BYTES).map_err(|error| failed(&error))?;
    let text = text.ok_or_else(|| failed(&"there is no such file"))?;
    toml::from_str(&text).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn settings(args: &[&str]) -> Result<Settings, Problem> {
        let cli = Cli::parse_from([&["ibid", "serve"], args].concat());
        let Command::Serve(serve) = cli.command else { unreachable!("serve was asked for") };
        Settings::new(cli.access.data, serve)
    }

    #[test]
    fn the_defaults_are_loopback() {
        let settings = settings(&["--data", "/d"]).unwrap();
        assert_eq!(settings.iscsi, ["127.0.0.1:3260".parse().unwrap()]);
        assert_eq!(settings.api, "127.0.0.1:8443".parse().unwrap());
        assert_eq!((settings.capacity, settings.write_cache, settings.name.as_str()), (None, false, "ibid"));
        assert_eq!(settings.index_memory, Some(settings.memory / 4));
    }

    #[test]
    fn without_a_word_a_quarter_of_the_memory_is_the_arrays_and_a_sixteenth_the_indexs() {
        let memory = |asked, index, total| memory_of(asked, index, total).ok();
        assert_eq!(memory(None, None, Some(64 << 30)), Some((16 << 30, Some(4 << 30))));
        assert_eq!(memory(None, None, None), Some((1 << 30, Some(1 << 28))));
        assert_eq!(
            memory(None, None, Some(1 << 20)),
            Some((64 << 20, Some(16 << 20))),
            "no less than can be shared out"
        );
        assert_eq!(memory(Some(1 << 30), None, Some(64 << 30)), Some((1 << 30, None)));
        assert_eq!(memory(Some(1 << 30), Some(1 << 29), None), Some((1 << 30, Some(1 << 29))));
        assert_eq!(memory(Some(1 << 30), Some(1 + (1 << 29)), None), None);
        assert_eq!(memory(Some(1 << 20), None, None), None);
    }

    #[test]
    fn the_command_line_counts_more_than_the_file() {
        let path = std::env::temp_dir().join(format!("ibid-settings-{}", std::process::id()));
        let text = "data = '/file'\ncapacity = '1TiB'\niscsi = ['192.0.2.1:3260', '192.0.2.2:3260']\nmemory = '2G'\nwrite-cache = true\n";
        files::replace(&path, text.as_bytes(), files::Access::Owner).unwrap();
        let config = path.to_str().unwrap();
        let from_file = settings(&["--config", config]).unwrap();
        let both = settings(&["--config", config, "--capacity", "2T", "--iscsi", "[::1]:0", "--data", "/d"]).unwrap();
        let memory = settings(&["--config", config, "--memory", "256MiB", "--index-memory", "32M"]).unwrap();
        files::replace(&path, b"dta = '/file'\n", files::Access::Owner).unwrap();
        let misspelt = settings(&["--config", config]);
        files::remove(&path).unwrap();
        assert_eq!((from_file.capacity, from_file.iscsi.len(), from_file.write_cache), (Some(1 << 40), 2, true));
        assert_eq!(from_file.data, Path::new("/file"));
        assert_eq!((from_file.memory, from_file.index_memory), (2 << 30, None));
        assert_eq!((memory.memory, memory.index_memory), (256 << 20, Some(32 << 20)));
        assert_eq!((both.capacity, both.data.as_path()), (Some(2 << 40), Path::new("/d")));
        assert_eq!(both.iscsi, ["[::1]:0".parse().unwrap()]);
        assert!(misspelt.is_err());
    }

    #[test]
    fn without_a_directory_nothing_is_served() {
        assert!(settings(&["--capacity", "1T"]).is_err());
        assert!(settings(&["--data", "/d", "--capacity", "much"]).is_err());
    }
}
