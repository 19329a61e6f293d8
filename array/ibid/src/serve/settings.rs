//! The settings of `ibid serve`: command line, configuration file and defaults.

use crate::cli::{DriveReads, LogFormat, ServeArgs};
use crate::output::parse_size;
use crate::problem::Problem;
use engine::Options;
use platform::{files, memory};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::format_capacity;

const DEFAULT_ISCSI_PORT: u16 = 3260;
const DEFAULT_API_PORT: u16 = 8443;
/// Default memory if the system does not report its RAM.
const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;
/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Default time until the program ends after an error of the drive.
const DEFAULT_EXIT_AFTER_FAILURE: Duration = Duration::from_secs(30);
/// Longest such time: one day.
const MAX_EXIT_AFTER_FAILURE: Duration = Duration::from_secs(86_400);
/// Maximum number of portals.
const MAX_PORTALS: usize = 64;

/// Settings of `ibid serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The array's directory.
    pub(crate) data: PathBuf,
    /// Name of a new array, if given.
    pub(crate) name: Option<String>,
    /// Number of a new array, if given.
    pub(crate) number: Option<u8>,
    /// Capacity of a new array in bytes, if given.
    pub(crate) capacity: Option<u64>,
    /// Block device or file that stores the array, instead of a file in `data`.
    pub(crate) device: Option<PathBuf>,
    /// File with the passphrase of an encrypted array.
    pub(crate) key_file: Option<PathBuf>,
    /// Addresses of the iSCSI portals.
    pub(crate) iscsi: Vec<SocketAddr>,
    /// Address of the REST API.
    pub(crate) api: SocketAddr,
    /// Address on which other arrays connect, if they may.
    pub(crate) link: Option<SocketAddr>,
    /// Memory for data structures, in bytes.
    pub(crate) memory: u64,
    /// Part of `memory` for the deduplication index, in bytes, if fixed.
    pub(crate) index_memory: Option<u64>,
    /// Memory for the read cache, in bytes, in addition to `memory`.
    pub(crate) read_cache: u64,
    /// How the drive is read.
    pub(crate) io: DriveReads,
    /// Acknowledge writes before they are durable.
    pub(crate) write_cache: bool,
    /// Allow a capacity beyond the free space of the file system.
    pub(crate) overcommit: bool,
    /// Time until the program ends after an error of the drive.
    pub(crate) exit_after_failure: Duration,
    /// Start without acknowledged operations that a damaged log has lost.
    pub(crate) accept_log_loss: bool,
    pub(crate) salvage: bool,
    /// The array was put back to an image of an earlier time.
    pub(crate) restored: bool,
    /// Log file, instead of standard error.
    pub(crate) log_file: Option<PathBuf>,
    /// Form of the log's lines.
    pub(crate) log_format: LogFormat,
    /// Replace the API token of the admin.
    pub(crate) new_token: bool,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    data: Option<PathBuf>,
    name: Option<String>,
    number: Option<u8>,
    capacity: Option<String>,
    device: Option<PathBuf>,
    key_file: Option<PathBuf>,
    iscsi: Vec<SocketAddr>,
    api: Option<SocketAddr>,
    link: Option<SocketAddr>,
    memory: Option<String>,
    index_memory: Option<String>,
    read_cache: Option<String>,
    io: Option<DriveReads>,
    write_cache: bool,
    overcommit: bool,
    exit_after_failure: Option<u32>,
    log_file: Option<PathBuf>,
    log_format: Option<LogFormat>,
}

impl Settings {
    /// Merges the command line with the configuration file; the command line has priority.
    pub(crate) fn new(data: Option<PathBuf>, args: ServeArgs) -> Result<Self, Problem> {
        let file = args.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let data = data.or(file.data).ok_or_else(|| {
            Problem::new("no directory given").hint("give --data DIR; the first start creates an array there")
        })?;
        let capacity = args.capacity.or(file.capacity);
        let bytes = |text: Option<String>| text.as_deref().map(parse_size).transpose();
        let memory = bytes(args.memory.or(file.memory))?;
        let index_memory = bytes(args.index_memory.or(file.index_memory))?;
        let read_cache = bytes(args.read_cache.or(file.read_cache))?;
        let total = memory::total();
        let read_cache = read_cache.unwrap_or_else(|| default_read_cache(memory, total));
        let (memory, index_memory) = split_memory(memory, index_memory, total)?;
        let mut iscsi = if args.iscsi.is_empty() { file.iscsi } else { args.iscsi };
        // Several arrays for tests may run at the same time, beside a permanent one.
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], if args.ephemeral { 0 } else { port }));
        if iscsi.is_empty() {
            iscsi.push(loopback(DEFAULT_ISCSI_PORT));
        }
        if iscsi.len() > MAX_PORTALS {
            return Err(Problem::new(format!("too many portals: {}", iscsi.len()))
                .hint(format!("give at most {MAX_PORTALS} --iscsi addresses")));
        }
        let number = args.number.or(file.number);
        if number == Some(0) {
            return Err(Problem::new("the number of an array cannot be 0").hint("choose a --number from 1 to 255"));
        }
        let exit_after_failure = args.exit_after_failure.or(file.exit_after_failure);
        let exit_after_failure =
            exit_after_failure.map_or(DEFAULT_EXIT_AFTER_FAILURE, |s| Duration::from_secs(s.into()));
        if exit_after_failure > MAX_EXIT_AFTER_FAILURE {
            return Err(Problem::new("exit-after-failure is too long").hint("set it from 0 to 86400 seconds"));
        }
        Ok(Self {
            data,
            name: args.name.or(file.name),
            number,
            capacity: bytes(capacity)?,
            device: args.device.or(file.device),
            key_file: args.key_file.or(file.key_file),
            iscsi,
            api: args.api.or(file.api).unwrap_or(loopback(DEFAULT_API_PORT)),
            link: args.link.or(file.link),
            memory,
            index_memory,
            read_cache,
            io: args.io.or(file.io).unwrap_or_default(),
            write_cache: args.write_cache || file.write_cache,
            overcommit: args.overcommit || file.overcommit,
            exit_after_failure,
            accept_log_loss: args.accept_log_loss,
            salvage: args.salvage,
            restored: args.restored,
            log_file: args.log_file.or(file.log_file),
            log_format: args.log_format.or(file.log_format).unwrap_or_default(),
            new_token: args.new_token,
        })
    }
}

/// Returns the default size of the read cache: 1/4 of the RAM `total`. It is 0 if `memory` was
/// given and leaves less than two such parts, one of them for the rest of the machine.
fn default_read_cache(memory: Option<u64>, total: Option<u64>) -> u64 {
    let Some(total) = total else { return 0 };
    let part = total / 4;
    if memory.is_some_and(|memory| memory.saturating_add(2 * part) > total) { 0 } else { part }
}

/// Returns the memory of the array, and the part of it for the index if that is fixed, in bytes.
///
/// The default is 1/4 of the RAM `total`, and 1/4 of that for the index. If the memory is given
/// without the index, the engine sizes the index from the memory that the slot table leaves free.
fn split_memory(memory: Option<u64>, index: Option<u64>, total: Option<u64>) -> Result<(u64, Option<u64>), Problem> {
    let default = total.map_or(DEFAULT_MEMORY_BYTES, |bytes| bytes / 4).max(Options::MIN_MEMORY_BYTES);
    let is_default = memory.is_none();
    let memory = memory.unwrap_or(default);
    if memory < Options::MIN_MEMORY_BYTES {
        let least = format_capacity(Options::MIN_MEMORY_BYTES);
        return Err(Problem::new(format!("memory too small: {}", format_capacity(memory)))
            .hint(format!("set --memory to {least} or more")));
    }
    let index = index.or_else(|| is_default.then_some(memory / 4));
    if index.is_some_and(|index| index > memory / 2) {
        return Err(Problem::new("index memory exceeds half of the memory")
            .hint(format!("set --index-memory to {} or less, or increase --memory", format_capacity(memory / 2))));
    }
    Ok((memory, index))
}

fn read(path: &Path) -> Result<File, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::new(format!("{}: {error}", path.display()));
    let check_path = "check the path and its permissions";
    let text = files::read_text(path, MAX_FILE_BYTES).map_err(|error| failed(&error).hint(check_path))?;
    let text = text.ok_or_else(|| failed(&"no such file").hint(check_path))?;
    let keys = "correct the file; `ibid serve --help` lists the keys";
    toml::from_str(&text).map_err(|error| failed(&error.to_string().trim_end()).hint(keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn settings(args: &[&str]) -> Result<Settings, Problem> {
        let cli = Cli::parse_from([&["ibid", "serve"], args].concat());
        let Command::Serve(serve) = cli.command else { unreachable!("serve was asked for") };
        Settings::new(cli.data, serve)
    }

    #[test]
    fn default_addresses_are_loopback() {
        let settings = settings(&["--data", "/d"]).unwrap();
        assert_eq!(settings.iscsi, ["127.0.0.1:3260".parse().unwrap()]);
        assert_eq!(settings.api, "127.0.0.1:8443".parse().unwrap());
        assert_eq!(settings.link, None, "no array can connect");
        assert_eq!(settings.index_memory, Some(settings.memory / 4));
        assert_eq!((settings.capacity, settings.write_cache, settings.name), (None, false, None));
        assert_eq!(settings.io, DriveReads::Auto);
        assert_eq!(settings.exit_after_failure, Duration::from_secs(30));
    }

    #[test]
    fn ephemeral_array_chooses_free_ports() {
        let settings = settings(&["--data", "/d", "--ephemeral", "--api", "127.0.0.1:9"]).unwrap();
        assert_eq!(settings.iscsi, ["127.0.0.1:0".parse().unwrap()]);
        assert_eq!(settings.api, "127.0.0.1:9".parse().unwrap());
    }

    #[test]
    fn default_memory_split() {
        let memory = |memory, index, total| split_memory(memory, index, total).ok();
        assert_eq!(memory(None, None, Some(64 << 30)), Some((16 << 30, Some(4 << 30))));
        assert_eq!(memory(None, None, None), Some((1 << 30, Some(1 << 28))));
        assert_eq!(memory(None, None, Some(1 << 20)), Some((64 << 20, Some(16 << 20))), "not below the minimum");
        assert_eq!(memory(Some(1 << 30), None, Some(64 << 30)), Some((1 << 30, None)));
        assert_eq!(memory(Some(1 << 30), Some(1 << 29), None), Some((1 << 30, Some(1 << 29))));
        assert_eq!(memory(Some(1 << 30), Some(1 + (1 << 29)), None), None);
        assert_eq!(memory(Some(1 << 20), None, None), None);
    }

    #[test]
    fn default_read_cache_leaves_memory() {
        let gib = |gib: u64| gib << 30;
        assert_eq!(default_read_cache(None, Some(gib(16))), gib(4));
        assert_eq!(default_read_cache(Some(gib(8)), Some(gib(16))), gib(4));
        assert_eq!(default_read_cache(Some(gib(9)), Some(gib(16))), 0, "it would leave none");
        assert_eq!(default_read_cache(Some(u64::MAX), Some(gib(16))), 0);
        assert_eq!(default_read_cache(None, None), 0, "the RAM is not known");
        let given = settings(&["--data", "/d", "--memory", "1T", "--read-cache", "2M", "--io", "threads"]).unwrap();
        assert_eq!((given.read_cache, given.io), (2 << 20, DriveReads::Threads));
        assert!(settings(&["--data", "/d", "--read-cache", "much"]).is_err());
    }

    #[test]
    fn command_line_overrides_the_file() {
        let path = std::env::temp_dir().join(format!("ibid-settings-{}", std::process::id()));
        let text = "data = '/file'\ncapacity = '1TiB'\niscsi = ['192.0.2.1:3260', '192.0.2.2:3260']\nmemory = '2G'\nread-cache = '3M'\nio = 'threads'\nwrite-cache = true\novercommit = true\nexit-after-failure = 9\n";
        files::replace(&path, text.as_bytes(), files::Access::Owner).unwrap();
        let config = path.to_str().unwrap();
        let from_file = settings(&["--config", config]).unwrap();
        let both = settings(&[
            "--config",
            config,
            "--capacity",
            "2T",
            "--iscsi",
            "[::1]:0",
            "--data",
            "/d",
            "--exit-after-failure",
            "0",
        ])
        .unwrap();
        let memory = settings(&["--config", config, "--memory", "256MiB", "--index-memory", "32M"]).unwrap();
        files::replace(&path, b"dta = '/file'\n", files::Access::Owner).unwrap();
        let misspelt = settings(&["--config", config]);
        files::remove(&path).unwrap();
        assert_eq!((from_file.capacity, from_file.iscsi.len(), from_file.write_cache), (Some(1 << 40), 2, true));
        assert!(from_file.overcommit);
        assert_eq!((from_file.read_cache, from_file.io), (3 << 20, DriveReads::Threads));
        assert_eq!(from_file.data, Path::new("/file"));
        assert_eq!((from_file.memory, from_file.index_memory), (2 << 30, None));
        assert_eq!((memory.memory, memory.index_memory), (256 << 20, Some(32 << 20)));
        assert_eq!((both.capacity, both.data.as_path()), (Some(2 << 40), Path::new("/d")));
        assert_eq!(both.iscsi, ["[::1]:0".parse().unwrap()]);
        assert_eq!((from_file.exit_after_failure.as_secs(), both.exit_after_failure.as_secs()), (9, 0));
        assert!(misspelt.is_err());
    }

    #[test]
    fn missing_directory_or_bad_capacity_is_refused() {
        assert!(settings(&["--capacity", "1T"]).is_err());
        assert!(settings(&["--data", "/d", "--capacity", "much"]).is_err());
    }
}
