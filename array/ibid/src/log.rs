//! The log of the program: to standard error or to a file, as text or JSON.

use crate::cli::LogFormat;
use crate::problem::Problem;
use platform::LogFile;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The environment variable with the log level.
const VARIABLE: &str = "IBID_LOG";

/// Where the lines go.
#[derive(Clone)]
struct Lines(Option<Arc<LogFile>>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Box<dyn Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        match &self.0 {
            Some(file) => Box::new(&**file),
            None => Box::new(std::io::stderr()),
        }
    }
}

/// Starts the log. Returns its file, if it has one.
pub(crate) fn start(file: Option<&Path>, format: LogFormat) -> Result<Option<Arc<LogFile>>, Problem> {
    let file = file.map(open).transpose()?;
    let filter = EnvFilter::builder().with_env_var(VARIABLE).with_default_directive(tracing::Level::INFO.into());
    let filter = filter.from_env().map_err(|error| {
        Problem::new(format!("{VARIABLE}: {error}"))
            .hint(format!("set {VARIABLE} to error, warn, info, debug or trace"))
    })?;
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines(file.clone()))
        .with_ansi(file.is_none() && std::io::stderr().is_terminal() && !no_color)
        .with_target(false)
        // The library reports errors of the log to standard error, and panics if that fails. A full
        // log disk must not stop the array.
        .log_internal_errors(false);
    let started = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Problem::new(format!("log not started: {error}")))?;
    Ok(file)
}

fn open(path: &Path) -> Result<Arc<LogFile>, Problem> {
    LogFile::open(path).map(Arc::new).map_err(|error| {
        Problem::new(format!("{}: {error}", path.display())).hint("check the path of --log-file and its permissions")
    })
}

/// Opens the file again at each SIGHUP. Must be called within a tokio runtime.
pub(crate) fn reopen_at_signals(file: Arc<LogFile>) -> Result<JoinHandle<()>, Problem> {
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match file.reopen() {
                Ok(()) => tracing::info!("SIGHUP received; log file opened again"),
                Err(error) => tracing::error!("log file not opened again: {error}"),
            }
        }
    }))
}
