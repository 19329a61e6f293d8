//! `ibid serve`: runs the array in the foreground until SIGTERM or SIGINT.

mod background;
mod creation;
mod exit;
mod links;
mod overlay;
mod owner;
mod pods;
mod secret_keys;
mod settings;
mod signatures;
mod storage;
mod watched;

use crate::cli::ServeArgs;
use crate::directory::ArrayDirectory;
use crate::endpoints::{Endpoints, local_url};
use crate::log;
use crate::output;
use crate::problem::Problem;
use ::pods::PodService;
use catalog::{ArrayInit, Catalog, CatalogError};
use engine::Service;
use iscsi_target::{BoundPortal, IscsiTarget};
use platform::process::InheritedOutput;
use platform::{LogFile, TemporaryDirectory, clock};
use pods::StretchedPods;
use rest::{App, Identity, ServeError, Server, Telemetry};
pub(crate) use settings::Settings;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::Storage;
use telemetry::PerformanceMonitor;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use watched::Watched;

/// Time for the other array to take over the pods that both serve.
const HAND_OVER: std::time::Duration = std::time::Duration::from_secs(2);

/// Name of a new array.
const DEFAULT_NAME: &str = "ibid";

/// Returns the bytes of unused buffers to keep, for an array with this much memory.
fn kept_buffers(memory: u64) -> usize {
    (memory / 32).min(64 << 20) as usize
}

/// Runs an array until it receives a signal.
pub(crate) fn serve(data: Option<PathBuf>, args: ServeArgs) -> Result<(), Problem> {
    platform::memory::limit_malloc_retention();
    platform::process::abort_on_panic();
    platform::process::raise_file_limit();
    // Before anything is opened: the number must name the inherited descriptor.
    let ready = args.ready_fd.map(take_descriptor).transpose()?;
    // Declared first, so that it is removed last.
    let ephemeral = args.ephemeral.then(|| TemporaryDirectory::new(None, "ibid")).transpose()?;
    let data = ephemeral.as_ref().map(|directory| directory.path().to_owned()).or(data);
    let settings = Settings::new(data, args)?;
    buffers::set_limit(kept_buffers(settings.memory));
    let log = log::start(settings.log_file.as_deref(), settings.log_format)?;
    let watched = Watched::from_environment();
    let mut directory = ArrayDirectory::enter(&settings.data)?;
    let storage = storage::open(&settings, &mut directory)?;
    let (pod_service, service) = pods::service(storage.engine());
    let catalog = Arc::new(open_catalog(&settings, service)?);
    storage.set_name(&catalog.array().name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("ibid").build()?;
    let served = runtime.block_on(run(
        &settings,
        &directory,
        &storage,
        (&catalog, &pod_service),
        Announcement { ready, watched, log },
    ));
    storage.cancel_background_scans();
    // The runtime and the catalog are the last users of the engine, which is closed after any
    // error.
    drop((runtime, catalog, pod_service));
    let closed = storage.close();
    drop(directory);
    served.and(closed)
}

fn take_descriptor(number: i32) -> Result<InheritedOutput, Problem> {
    InheritedOutput::take(number).map_err(|error| {
        Problem::new(format!("--ready-fd {number}: {error}"))
            .hint("open the descriptor for the program, such as `ibid serve --ready-fd 3 3> ready.json`")
    })
}

fn open_catalog(settings: &Settings, service: Arc<dyn Service>) -> Result<Catalog, Problem> {
    let now_ms = clock::unix_millis();
    let identity = platform::random::bytes()?;
    let name = settings.name.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned());
    let number = settings.number.unwrap_or(1);
    let opened = clock::now_with_sleep();
    let uptime = move || {
        u64::try_from(clock::now_with_sleep().saturating_duration_since(opened).as_millis()).unwrap_or(u64::MAX)
    };
    let catalog =
        Catalog::open(service, &ArrayInit { name, number, identity, now_ms }).map_err(|error| match error {
            CatalogError::BadName { .. } => Problem::from(error).hint("choose another --name"),
            _ => Problem::from(error),
        })?;
    let catalog = catalog.with_uptime(Arc::new(uptime));
    secret_keys::unlock(&catalog, &settings.data);
    if let Some(name) = settings.name.as_ref().filter(|name| **name != catalog.array().name) {
        let current = &catalog.array().name;
        tracing::warn!(
            "name '{name}' ignored: the array exists as '{current}'; run `ibid array set --name` to rename it"
        );
    }
    if let Some(number) = settings.number.filter(|number| *number != catalog.array().number) {
        tracing::warn!("number {number} ignored: the array exists with number {}", catalog.array().number);
    }
    if settings.new_token {
        rest::new_admin_token(&catalog, &settings.data, now_ms)?;
    } else {
        rest::ensure_admin(&catalog, &settings.data, now_ms)?;
    }
    Ok(catalog)
}

/// Serves until a signal arrives. Hosts are admitted last and disconnected first.
async fn run(
    settings: &Settings,
    directory: &ArrayDirectory,
    storage: &Storage,
    (catalog, pod_service): (&Arc<Catalog>, &Arc<PodService>),
    announcement: Announcement,
) -> Result<(), Problem> {
    let service: Arc<dyn Service> = pod_service.clone();
    // Before the announcement, after which a signal must stop the array cleanly.
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // No host is served unless the administrator can reach the array: the portals open last.
    let bound = bind(&settings.iscsi).await?;
    let portals: Vec<SocketAddr> = bound.iter().map(BoundPortal::address).collect();
    let identity = Identity::load_or_create(&settings.data, &[settings.api.ip()])?;
    let links = links::open(settings, catalog)?;
    let stretched = StretchedPods::new(catalog.clone(), links.clone(), portals.len());
    // After an error, too: the pods use the engine, which is closed last.
    let _ending = pods::Ending(stretched.clone());
    let target = IscsiTarget::new(service.clone(), catalog.clone(), iscsi_target::TargetConfig::default());
    let calls = pods::TargetCalls::of(&target);
    // Before hosts and other arrays are admitted: a pod may be one that the other array serves.
    stretched.start(storage.engine(), pod_service.clone(), calls, settings.restored).await?;
    target.set_pod_ports(stretched.clone());
    links::start(&links, settings).await?;
    let version = env!("CARGO_PKG_VERSION");
    let telemetry =
        Telemetry { monitor: Arc::new(PerformanceMonitor::new(target.activity())), sessions: target.session_table() };
    let app =
        App::new(catalog.clone(), service.clone(), portals.clone(), telemetry, version, storage.drive(), links.clone());
    app.set_pod_control(stretched.clone());
    let server = Server::bind(settings.api, &settings.data, &identity, app.clone()).await.map_err(api_problem)?;
    let endpoints = Endpoints {
        pid: std::process::id(),
        array: catalog.array().name.clone(),
        iqn: catalog.target_iqn(),
        iscsi: portals,
        api: server.address(),
        url: local_url(server.address()),
        link: links.listening(),
    };
    endpoints.write(&settings.data)?;
    directory.complete()?;
    bound.into_iter().for_each(|portal| target.open(portal));
    let log_file = announcement.log.clone();
    let watched = announcement.publish(&endpoints, &settings.data)?;
    let mut own_tasks = Vec::from_iter(watched.start(service.clone()));
    own_tasks.extend(log_file.map(log::reopen_at_signals).transpose()?);

    let (stop, stopped) = watch::channel(false);
    let api = tokio::spawn(server.run(stopped));
    let tasks = background::start(catalog.clone(), app.clone());
    let cause = tokio::select! {
        signal = next(&mut signals) => format!("{signal} received"),
        () = exit::failed(service, app, settings.exit_after_failure) => "engine stopped".to_owned(),
    };
    tracing::info!("{cause}; stopping");
    watched.stopping();
    exit::limit_stop(storage.io_watch());
    // A second signal ends the process at once. Acknowledged writes are safe: the log is replayed.
    tokio::spawn(async move {
        let signal = next(&mut signals).await;
        tracing::warn!("{signal} received again; stopping at once");
        std::process::exit(1);
    });
    Endpoints::remove(&settings.data)?;
    tasks.iter().chain(&own_tasks).for_each(tokio::task::JoinHandle::abort);
    stop.send_replace(true);
    // Hosts continue at the other array.
    tokio::task::spawn_blocking(move || stretched.stop(HAND_OVER)).await?;
    links.stop();
    target.shutdown().await;
    api.await?;
    store_served_time(catalog.clone()).await?;
    tracing::info!("stopped");
    Ok(())
}

fn api_problem(error: ServeError) -> Problem {
    let hint = match &error {
        ServeError::Bind(..) => "choose another address with --api ADDR:PORT; port 0 chooses a free port",
        ServeError::BindLocal { .. } => "choose a --data directory on a file system that supports Unix sockets",
    };
    Problem::from(error).hint(hint)
}

async fn store_served_time(catalog: Arc<Catalog>) -> Result<(), Problem> {
    if let Err(error) = tokio::task::spawn_blocking(move || catalog.store_served_time()).await? {
        tracing::warn!("time served not stored: {error}");
    }
    Ok(())
}

async fn next((terminate, interrupt): &mut (Signal, Signal)) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

async fn bind(addresses: &[SocketAddr]) -> Result<Vec<BoundPortal>, Problem> {
    let mut portals = Vec::new();
    for address in addresses {
        let bound = BoundPortal::bind(*address).await;
        portals.push(bound.map_err(|error| {
            Problem::new(format!("cannot listen for iSCSI on {address}: {error}"))
                .hint("choose another address with --iscsi ADDR:PORT; port 0 chooses a free port")
        })?);
    }
    Ok(portals)
}

/// The start of the process: receivers of the news that the array serves, and its log.
struct Announcement {
    ready: Option<InheritedOutput>,
    watched: Watched,
    log: Option<Arc<LogFile>>,
}

impl Announcement {
    /// Prints the addresses, and reports that the array serves.
    fn publish(self, endpoints: &Endpoints, directory: &Path) -> Result<Watched, Problem> {
        let token = directory.join(rest::ADMIN_TOKEN_FILE).display().to_string();
        let mut facts = vec![("array", endpoints.array.clone()), ("target", endpoints.iqn.clone())];
        facts.extend(endpoints.iscsi.iter().map(|portal| ("portal", portal.to_string())));
        facts.push(("api", endpoints.url.clone()));
        facts.extend(endpoints.link.map(|link| ("link", link.to_string())));
        facts.push(("token", token.clone()));
        output::print(&format!("{}ready\n", output::facts(&facts)))?;
        if let Some(mut ready) = self.ready {
            let mut line = serde_json::to_value(endpoints)?;
            line["data"] = directory.display().to_string().into();
            line["token_file"] = token.into();
            ready.write(&format!("{line}\n")).map_err(|error| {
                Problem::new(format!("--ready-fd: {error}")).hint("keep the reading end open until the line has come")
            })?;
        }
        self.watched.ready();
        Ok(self.watched)
    }
}
