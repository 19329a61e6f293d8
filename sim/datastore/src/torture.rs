//! Stress test of the datastore on a real LUN, in real time. Each host has its own sessions. A
//! crash ends the tasks and sessions of a host between two of their steps.

use crate::oracle::{Oracle, ProcessId};
use crate::workload::{HostProcess, Workload, format, retry};
use datastore::{CheckReport, Datastore, DatastoreError, MountOptions, Runtime, Task, Timing, TokioRuntime, check};
use multipath::{DeviceError, SharedDisk};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use testing::SplitMix64;
use tokio::task::AbortHandle;

/// Opens the LUN for a host. Its sessions end when the disk is dropped.
pub type Connect =
    Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = Result<Arc<dyn SharedDisk>, DeviceError>> + Send>> + Send + Sync>;

/// Parameters of a stress test.
#[derive(Clone, Debug)]
pub struct Torture {
    /// Seed of the hosts' operations. The result also depends on timing.
    pub seed: u64,
    /// Number of hosts, 1 to 64.
    pub hosts: usize,
    /// Duration.
    pub time: Duration,
    /// Mean time between crashes.
    pub crash_interval: Duration,
    /// Locks by ATS if true, by reservation of the LUN if false.
    pub ats: bool,
    /// Heartbeat and lease times of the hosts.
    pub timing: Timing,
}

/// Result of a stress test.
#[derive(Clone, Debug)]
pub struct TortureOutcome {
    /// The first violation, if any.
    pub violation: Option<String>,
    /// Lock operations done.
    pub operations: u64,
    /// Opens refused because another host had the file.
    pub refused: u64,
    /// Hosts killed.
    pub crashes: u64,
    /// Host processes started.
    pub incarnations: u64,
    /// Result of fsck at the end.
    pub report: CheckReport,
}

/// Real time, with tasks that can be killed together.
struct KillableRuntime {
    simulation: TokioRuntime,
    alive: AtomicBool,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl KillableRuntime {
    fn new() -> Arc<Self> {
        Arc::new(Self { simulation: TokioRuntime::default(), alive: AtomicBool::new(true), tasks: Mutex::default() })
    }

    fn kill(&self) {
        self.alive.store(false, Ordering::Relaxed);
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Runtime for KillableRuntime {
    fn now(&self) -> Duration {
        self.simulation.now()
    }

    fn sleep(&self, time: Duration) -> Task<'static> {
        self.simulation.sleep(time)
    }

    fn spawn(&self, task: Task<'static>) {
        if self.alive.load(Ordering::Relaxed) {
            let handle = tokio::spawn(task).abort_handle();
            let mut tasks = self.tasks.lock();
            tasks.retain(|task| !task.is_finished());
            tasks.push(handle);
        }
    }

    fn unix_millis(&self) -> u64 {
        self.simulation.unix_millis()
    }

    fn random(&self) -> u64 {
        self.simulation.random()
    }
}

struct Run {
    torture: Torture,
    connect: Connect,
    workload: Arc<Workload>,
    oracle: Arc<Oracle>,
    running: Vec<Mutex<Option<Arc<KillableRuntime>>>>,
    next: AtomicU32,
    crashes: AtomicU64,
}

impl Torture {
    /// Formats the LUN (its content is lost), runs the hosts, and checks the result.
    pub async fn run(&self, connect: Connect) -> Result<TortureOutcome, DatastoreError> {
        let oracle = Arc::new(Oracle::default());
        let hosts = self.hosts.clamp(1, datastore::MAX_HOSTS);
        let run = Arc::new(Run {
            torture: self.clone(),
            connect,
            workload: Arc::new(Workload::new(Arc::clone(&oracle), hosts, hosts * 2, u64::MAX)),
            oracle,
            running: (0..hosts).map(|_| Mutex::new(None)).collect(),
            next: AtomicU32::new(1),
            crashes: AtomicU64::new(0),
        });
        run.prepare().await?;
        let hosts: Vec<_> = (0..hosts).map(|host| tokio::spawn(Arc::clone(&run).keep_running(host))).collect();
        run.inject_faults().await;
        run.workload.stop();
        for host in hosts {
            // A panic is a violation.
            if host.await.is_err() {
                run.oracle.record_violation("task of a host panicked".into());
            }
        }
        let report = run.verify().await?;
        Ok(TortureOutcome {
            violation: run.oracle.violation(),
            operations: run.workload.done(),
            refused: run.workload.refused(),
            crashes: run.crashes.load(Ordering::Relaxed),
            incarnations: u64::from(run.next.load(Ordering::Relaxed)) - 1,
            report,
        })
    }
}

impl Run {
    fn options(&self, host: &str) -> MountOptions {
        let Torture { ats, timing, .. } = self.torture;
        MountOptions { ats, ats_heartbeat: ats, timing, ..MountOptions::new(host) }
    }

    async fn prepare(&self) -> Result<(), DatastoreError> {
        let disk = (self.connect)(usize::MAX).await?;
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
        format(&disk, &runtime).await?;
        let datastore = Datastore::mount(Arc::clone(&disk), &self.options("setup"), runtime).await?;
        self.workload.prepare(disk, &datastore).await?;
        datastore.unmount().await
    }

    async fn keep_running(self: Arc<Self>, host: usize) {
        while !self.workload.is_done(host) && self.oracle.violation().is_none() {
            let process: ProcessId = self.next.fetch_add(1, Ordering::Relaxed);
            let runtime = KillableRuntime::new();
            *self.running[host].lock() = Some(Arc::clone(&runtime));
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let host_process = Arc::clone(&self).run_host(host, process, Arc::clone(&runtime));
            runtime.spawn(Box::pin(async move {
                host_process.await;
                // The receiver waits for the end, not for a value.
                let _: Result<(), ()> = sender.send(());
            }));
            // The process has ended or was killed.
            let _ = receiver.await;
            self.oracle.killed(process);
            *self.running[host].lock() = None;
            runtime.kill();
            runtime.sleep(Duration::from_millis(200)).await;
        }
    }

    async fn run_host(self: Arc<Self>, host: usize, process: ProcessId, runtime: Arc<KillableRuntime>) {
        let Ok(disk) = (self.connect)(host).await else { return };
        let runtime: Arc<dyn Runtime> = runtime;
        let Ok(datastore) = Datastore::mount(disk, &self.options(&format!("host{host}")), Arc::clone(&runtime)).await
        else {
            return;
        };
        let random = SplitMix64::new(self.torture.seed ^ u64::from(process).rotate_left(32));
        let workload = Arc::clone(&self.workload);
        let host_process =
            HostProcess { workload, host, process, runtime, random, think_time: Duration::from_millis(2) };
        // A process that ends with an error is followed by another.
        let _ = host_process.run_host(datastore).await;
    }

    /// Kills random hosts until the time is over.
    async fn inject_faults(&self) {
        let simulation = TokioRuntime::default();
        let mut random = SplitMix64::new(self.torture.seed);
        while simulation.now() < self.torture.time && self.oracle.violation().is_none() {
            let wait = Duration::from_millis(random.below(2 * self.torture.crash_interval.as_millis() as u64 + 1));
            simulation.sleep(wait.min(self.torture.time.saturating_sub(simulation.now()))).await;
            let victim = &self.running[random.below(self.running.len() as u64) as usize];
            if let Some(runtime) = victim.lock().as_ref().filter(|_| simulation.now() < self.torture.time) {
                self.crashes.fetch_add(1, Ordering::Relaxed);
                runtime.kill();
            }
        }
    }

    async fn verify(&self) -> Result<CheckReport, DatastoreError> {
        let disk = (self.connect)(usize::MAX).await?;
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
        let options = self.options("check");
        // Hosts that died last have their slots until their leases expire.
        let mount = || Datastore::mount(Arc::clone(&disk), &options, Arc::clone(&runtime));
        let datastore = retry(&runtime, || Box::pin(mount())).await?;
        self.workload.verify(&datastore, &runtime).await?;
        datastore.unmount().await?;
        check(&disk, &runtime).await
    }
}
