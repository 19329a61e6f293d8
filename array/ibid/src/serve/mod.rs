//! `ibid serve`: the array in the foreground, from its first start to SIGTERM.

mod chores;
mod settings;
mod storage;

use crate::cli::ServeArgs;
use crate::endpoints::{Endpoints, local_url};
use crate::output;
use crate::problem::Problem;
use catalog::{ArrayInit, Catalog};
use engine::Service;
use iscsi_target::Target;
use platform::lock::{Lock, LockError};
use rest::{App, Identity, Server};
use settings::Settings;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::Storage;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// The environment variable that says how much is logged.
const LOG_VARIABLE: &str = "IBID_LOG";
const LOCK_FILE: &str = "lock";

/// Runs an array until it is told to stop.
pub(crate) fn serve(data: Option<PathBuf>, args: ServeArgs) -> Result<(), Problem> {
    platform::memory::hold_little();
    platform::process::end_on_panic();
    let settings = Settings::new(data, args)?;
    start_log()?;
    let in_directory = |error: std::io::Error| Problem::new(format!("{}: {error}", settings.data.display()));
    platform::files::create_directory(&settings.data).map_err(in_directory)?;
    let lock = lock(&settings.data)?;
    let storage = storage::open(&settings)?;
    let catalog = Arc::new(open_catalog(&settings, storage.service())?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("ibid").build()?;
    let served = runtime.block_on(run(&settings, &storage, &catalog));
    storage.stop_chores();
    // All that used the engine has ended with these. Whatever else went wrong, it is closed properly.
    drop((runtime, catalog));
    let closed = storage.close();
    drop(lock);
    served.and(closed)
}

fn start_log() -> Result<(), Problem> {
    use std::io::IsTerminal;
    let filter = EnvFilter::builder().with_env_var(LOG_VARIABLE).with_default_directive(tracing::Level::INFO.into());
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter.from_env().map_err(|error| Problem::new(format!("{LOG_VARIABLE}: {error}")))?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !no_color)
        .with_target(false)
        // It would be told on the standard error output, with a panic where that is what cannot be written: a full disk under the log is no
        // reason to end.
        .log_internal_errors(false);
    log.try_init().map_err(|error| Problem::new(format!("no log: {error}")))
}

fn lock(directory: &Path) -> Result<Lock, Problem> {
    Lock::take(&directory.join(LOCK_FILE)).map_err(|error| match &error {
        LockError::Held(_) => Problem::new(format!("{}: {error}", directory.display()))
            .hint("an array is served by one process at a time: stop that one, or choose another directory"),
        LockError::Io(_) => Problem::new(format!("{}: {error}", directory.display())),
    })
}

fn open_catalog(settings: &Settings, service: Arc<dyn Service>) -> Result<Catalog, Problem> {
    let now_ms = platform::clock::unix_millis();
    let identity = platform::random::bytes()?;
    let catalog = Catalog::open(service, &ArrayInit { name: settings.name.clone(), identity, now_ms })?;
    if settings.new_token {
        rest::new_admin_token(&catalog, &settings.data, now_ms)?;
    } else {
        rest::ensure_admin(&catalog, &settings.data, now_ms)?;
    }
    Ok(catalog)
}

/// Serves until a signal comes. Hosts are let in last and sent away first.
async fn run(settings: &Settings, storage: &Storage, catalog: &Arc<Catalog>) -> Result<(), Problem> {
    let service = storage.service();
    // Before anything is announced: from then on, a signal must find its handler.
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let target = Target::new(service.clone(), catalog.clone(), iscsi_target::Config::default());
    let portals = listen(&target, &settings.iscsi).await?;
    let identity = Identity::load_or_make(&settings.data, &[settings.api.ip()])?;
    let version = env!("CARGO_PKG_VERSION");
    let app = App::new(catalog.clone(), service, portals.clone(), version, storage.growth());
    let server = Server::bind(settings.api, &identity, app.clone()).await?;
    let endpoints = Endpoints {
        pid: std::process::id(),
        array: catalog.array().name.clone(),
        iqn: catalog.target_iqn(),
        iscsi: portals,
        api: server.address(),
        url: local_url(server.address()),
    };
    endpoints.write(&settings.data)?;
    announce(&endpoints, &settings.data)?;

    let (stop, stopped) = watch::channel(false);
    let api = tokio::spawn(server.run(stopped));
    let chores = chores::start(catalog.clone(), app);
    let signal = next(&mut signals).await;
    tracing::info!("{signal}: stopping");
    // A second signal ends the process at once: everything acknowledged is safe even then.
    tokio::spawn(async move {
        let signal = next(&mut signals).await;
        tracing::warn!("{signal} again: stopping at once");
        std::process::exit(1);
    });
    Endpoints::remove(&settings.data)?;
    chores.iter().for_each(tokio::task::JoinHandle::abort);
    stop.send_replace(true);
    target.shutdown().await;
    api.await?;
    tracing::info!("stopped");
    Ok(())
}

async fn next((terminate, interrupt): &mut (Signal, Signal)) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

async fn listen(target: &Target, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, Problem> {
    let mut portals = Vec::new();
    for address in addresses {
        let bound = target.listen(*address).await;
        portals.push(bound.map_err(|error| {
            Problem::new(format!("the iSCSI address {address} cannot be used: {error}"))
                .hint("--iscsi ADDR:PORT chooses another; port 0 takes a free one")
        })?);
    }
    Ok(portals)
}

fn announce(endpoints: &Endpoints, directory: &Path) -> Result<(), Problem> {
    let mut facts = vec![("array", endpoints.array.clone()), ("target", endpoints.iqn.clone())];
    facts.extend(endpoints.iscsi.iter().map(|portal| ("portal", portal.to_string())));
    facts.push(("api", endpoints.url.clone()));
    facts.push(("token", directory.join(rest::ADMIN_TOKEN_FILE).display().to_string()));
    output::print(&format!("{}ready\n", output::facts(&facts)))
}
