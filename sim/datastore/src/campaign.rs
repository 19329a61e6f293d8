//! One run of the simulator.

use crate::Result;
use crate::disk::{FaultRates, SimDisk, SimLun};
use crate::oracle::Oracle;
use crate::simulation::{ProcessId, ProcessRuntime, Simulation};
use crate::workload::{HostProcess, Workload, format};
use datastore::{Datastore, DisabledSafeguards, MountOptions, Runtime, Timing, check};
use multipath::SharedDisk;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use testing::SplitMix64;

/// Sectors of the LUN: 4 GiB.
const BLOCKS: u64 = 8 << 20;

/// Maximum time that a host idles between two accesses.
const THINK_TIME: Duration = Duration::from_millis(300);

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct DatastoreCampaign {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Number of hosts, 1 to 64.
    pub hosts: usize,
    /// Lock operations per host.
    pub operations: u64,
    /// Locks by ATS if true, by reservation of the LUN if false.
    pub ats: bool,
    /// Heartbeats by ATS if true, by plain writes if false.
    pub ats_heartbeat: bool,
    /// Mean time between faults (crash, path loss, pause).
    pub fault_interval: Duration,
    /// Heartbeat and lease times of the hosts.
    pub timing: Timing,
    /// One command in this many waits at the LUN for long.
    pub(crate) stuck: u64,
    pub(crate) disabled: DisabledSafeguards,
}

impl DatastoreCampaign {
    /// Creates the parameters of a run with `hosts` hosts and `operations` lock operations each.
    /// The mean time between faults is 500 ms.
    pub fn new(seed: u64, hosts: usize, operations: u64) -> Self {
        Self {
            seed,
            hosts: hosts.clamp(1, datastore::MAX_HOSTS),
            operations,
            ats: true,
            ats_heartbeat: true,
            fault_interval: Duration::from_millis(500),
            timing: Timing::default(),
            stuck: 4000,
            disabled: DisabledSafeguards::default(),
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CampaignOutcome {
    /// The first violation, if any.
    pub violation: Option<String>,
    /// Lock operations done.
    pub operations: u64,
    /// Opens refused because another host had the file.
    pub refused: u64,
    /// Commands sent to the LUN.
    pub commands: u64,
    /// Hosts killed, with their commands in flight.
    pub crashes: u64,
    /// Temporary path losses.
    pub path_losses: u64,
    /// Temporary pauses of a host.
    pub pauses: u64,
    /// Host processes started.
    pub incarnations: u64,
    /// Simulated time at the end.
    pub time: Duration,
}

/// A running host process.
struct Running {
    process: ProcessId,
    link: Arc<AtomicBool>,
}

struct Run {
    campaign: DatastoreCampaign,
    simulation: Simulation,
    lun: Arc<SimLun>,
    workload: Arc<Workload>,
    oracle: Arc<Oracle>,
    running: Vec<Mutex<Option<Running>>>,
    next: AtomicU32,
    crashes: AtomicU64,
    path_losses: AtomicU64,
    pauses: AtomicU64,
}

impl DatastoreCampaign {
    /// Executes the run. Calls `progress` at intervals with the number of lock operations done.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> CampaignOutcome {
        let simulation = Simulation::new(self.seed);
        let oracle = Arc::new(Oracle::default());
        let fault_rates =
            FaultRates { lost: 4000, unanswered: 4000, slow: 4000, stuck: self.stuck, supports_clear: self.ats };
        let run = Arc::new(Run {
            campaign: self.clone(),
            simulation: simulation.clone(),
            lun: SimLun::new(BLOCKS, Arc::clone(&oracle), fault_rates),
            workload: Arc::new(Workload::new(Arc::clone(&oracle), self.hosts, self.hosts, self.operations)),
            oracle: Arc::clone(&oracle),
            running: (0..self.hosts).map(|_| Mutex::new(None)).collect(),
            next: AtomicU32::new(1),
            crashes: AtomicU64::new(0),
            path_losses: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
        });
        let whole = Arc::clone(&run);
        let reported = Arc::new(AtomicU64::new(0));
        let finished = simulation.run(async move { whole.execute().await }, &|| {
            let done = run.workload.done();
            if done >= reported.load(Ordering::Relaxed) + 1000 {
                reported.store(done, Ordering::Relaxed);
                progress(done);
            }
        });
        match finished {
            None => oracle.record_violation("deadlock: no task can run".into()),
            Some(Err(error)) => oracle.record_violation(format!("check failed: {error}")),
            Some(Ok(())) => {}
        }
        run.outcome()
    }
}

impl Run {
    fn outcome(&self) -> CampaignOutcome {
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CampaignOutcome {
            violation: self.oracle.violation(),
            operations: self.workload.done(),
            refused: self.workload.refused(),
            commands: self.lun.commands(),
            crashes: number(&self.crashes),
            path_losses: number(&self.path_losses),
            pauses: number(&self.pauses),
            incarnations: u64::from(self.next.load(Ordering::Relaxed)) - 1,
            time: self.simulation.now(),
        }
    }

    /// Prepares the datastore, runs all hosts with faults, and checks the result. No faults occur
    /// during preparation and check.
    async fn execute(self: Arc<Self>) -> Result<()> {
        let (disk, runtime, _) = self.boot();
        format(&disk, &runtime).await?;
        let datastore = self.mount(disk.clone(), Arc::clone(&runtime), "setup", DisabledSafeguards::default()).await?;
        self.workload.prepare(disk, &datastore).await?;
        datastore.unmount().await?;
        self.lun.enable_faults(true);
        let mut hosts = Vec::new();
        for host in 0..self.campaign.hosts {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let run = Arc::clone(&self);
            self.simulation.spawn(
                0,
                Box::pin(async move {
                    run.keep_running(host).await;
                    // The run waits for every host.
                    let _ = sender.send(());
                }),
            );
            hosts.push(receiver);
        }
        let over = Arc::new(AtomicBool::new(false));
        let (run, stop) = (Arc::clone(&self), Arc::clone(&over));
        self.simulation.spawn(0, Box::pin(async move { run.inject_faults(&stop).await }));
        for host in hosts {
            // The sender is dropped only after it has sent.
            let _ = host.await;
        }
        over.store(true, Ordering::Relaxed);
        self.lun.enable_faults(false);
        if self.oracle.violation().is_none() {
            self.verify().await?;
        }
        Ok(())
    }

    /// Starts a new host process, with its own disk, clock and id.
    fn boot(&self) -> (Arc<dyn SharedDisk>, Arc<dyn Runtime>, Running) {
        let process = self.next.fetch_add(1, Ordering::Relaxed);
        let link = Arc::new(AtomicBool::new(true));
        let rate = 0.985 + self.simulation.random(|random| random.below(30)) as f64 / 1000.0;
        let disk = SimDisk::new(&self.simulation, &self.lun, process, &link);
        let runtime = ProcessRuntime { simulation: self.simulation.clone(), process, rate };
        (Arc::new(disk), Arc::new(runtime), Running { process, link })
    }

    async fn mount(
        &self,
        disk: Arc<dyn SharedDisk>,
        runtime: Arc<dyn Runtime>,
        name: &str,
        disabled: DisabledSafeguards,
    ) -> Result<Datastore> {
        let DatastoreCampaign { ats, ats_heartbeat, timing, .. } = self.campaign;
        let options = MountOptions { ats, ats_heartbeat, timing, ..MountOptions::new(name) };
        Datastore::mount_without(disk, &options, runtime, disabled).await
    }

    /// Restarts a host until it has done its operations.
    async fn keep_running(self: Arc<Self>, host: usize) {
        while !self.workload.is_done(host) && self.oracle.violation().is_none() {
            let (disk, runtime, running) = self.boot();
            let process = running.process;
            *self.running[host].lock() = Some(running);
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let run = Arc::clone(&self);
            let host_process = async move {
                let mounted =
                    run.mount(disk, Arc::clone(&runtime), &format!("host{host}"), run.campaign.disabled).await;
                let random = SplitMix64::new(run.simulation.random(SplitMix64::next_u64));
                let workload = Arc::clone(&run.workload);
                let host_process = HostProcess { workload, host, process, runtime, random, think_time: THINK_TIME };
                // A process that cannot mount or ends with an error is followed by another.
                if let Ok(datastore) = mounted {
                    let _ = host_process.run_host(datastore).await;
                }
                let _ = sender.send(());
            };
            self.simulation.spawn(process, Box::pin(host_process));
            let killed = receiver.await.is_err();
            self.oracle.killed(process);
            *self.running[host].lock() = None;
            self.simulation.kill(process);
            self.wait_for_restart(process, killed).await;
        }
    }

    /// Lets the target notice the end of a host at once, later or never. Then waits for the
    /// restart.
    async fn wait_for_restart(&self, process: ProcessId, killed: bool) {
        let (noticed, rest) =
            self.simulation.random(|random| (random.below(3), Duration::from_millis(random.below(4000))));
        if !killed || noticed > 0 {
            self.simulation.sleep(rest / 4).await;
            self.lun.end(process);
        }
        self.simulation.sleep(rest).await;
    }

    /// Injects faults until the hosts are done.
    async fn inject_faults(&self, over: &AtomicBool) {
        let fault_interval = self.campaign.fault_interval.as_micros() as u64;
        while !over.load(Ordering::Relaxed) {
            let wait = self.simulation.random(|random| Duration::from_micros(random.below(2 * fault_interval + 1)));
            self.simulation.sleep(wait).await;
            let (host, fault, long) = self.simulation.random(|random| {
                (random.below(self.campaign.hosts as u64) as usize, random.below(4), random.below(20_000))
            });
            let Some((process, link)) = self.victim(host) else { continue };
            let time = Duration::from_millis(long);
            match fault {
                0 | 1 => {
                    self.crashes.fetch_add(1, Ordering::Relaxed);
                    self.simulation.kill(process);
                }
                2 => {
                    self.path_losses.fetch_add(1, Ordering::Relaxed);
                    link.store(false, Ordering::Relaxed);
                    let (simulation, lun) = (self.simulation.clone(), Arc::clone(&self.lun));
                    let back = async move {
                        simulation.sleep(time).await;
                        lun.end(process);
                        link.store(true, Ordering::Relaxed);
                    };
                    self.simulation.spawn(0, Box::pin(back));
                }
                _ => {
                    self.pauses.fetch_add(1, Ordering::Relaxed);
                    self.simulation.pause(process, time * 2);
                }
            }
        }
    }

    fn victim(&self, host: usize) -> Option<(ProcessId, Arc<AtomicBool>)> {
        self.running[host].lock().as_ref().map(|running| (running.process, Arc::clone(&running.link)))
    }

    /// Checks that every lock can be acquired, that all acknowledged data is present, and that fsck
    /// finds no problem.
    async fn verify(&self) -> Result<()> {
        let (disk, runtime, _) = self.boot();
        let datastore =
            self.mount(Arc::clone(&disk), Arc::clone(&runtime), "check", DisabledSafeguards::default()).await?;
        self.workload.verify(&datastore, &runtime).await?;
        datastore.unmount().await?;
        let report = check(&disk, &runtime).await?;
        if let Some(problem) = report.problems.first() {
            self.oracle
                .record_violation(format!("fsck found {} problems, the first: {problem}", report.problems.len()));
        }
        Ok(())
    }
}
