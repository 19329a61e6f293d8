use super::*;
use datastore::DisabledSafeguards;
use std::time::Duration;

fn quiet(_: u64) {}

/// A short run with few hosts, few files and many faults.
fn short(seed: u64) -> DatastoreCampaign {
    DatastoreCampaign { fault_interval: Duration::from_millis(500), ..DatastoreCampaign::new(seed, 8, 120) }
}

fn holds(campaign: DatastoreCampaign) -> CampaignOutcome {
    let outcome = campaign.run(&quiet);
    assert_eq!(outcome.violation, None, "seed {}: {outcome:?}", campaign.seed);
    assert!(outcome.operations >= campaign.hosts as u64 * campaign.operations, "{outcome:?}");
    outcome
}

#[test]
fn locks_have_one_owner_and_no_write_is_lost() {
    let outcomes: Vec<CampaignOutcome> = (0..5).map(|seed| holds(short(seed))).collect();
    let sum = |count: fn(&CampaignOutcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    // A run without faults proves nothing.
    assert!(sum(|o| o.crashes) > 5 && sum(|o| o.path_losses) > 2 && sum(|o| o.pauses) > 2, "{outcomes:?}");
}

#[test]
fn locks_by_reservation_hold_under_faults() {
    for seed in 0..2 {
        // Operations take longer with reservations. With a shorter interval, hosts die before they
        // have mounted.
        let fault_interval = Duration::from_secs(4);
        holds(DatastoreCampaign {
            ats: false,
            ats_heartbeat: false,
            hosts: 4,
            operations: 60,
            fault_interval,
            ..short(seed)
        });
    }
}

/// In these runs the answer to a RESERVE is lost. Its host does not know that it holds the
/// reservation, and no other host can issue commands. A heartbeat has to break the reservation.
#[test]
fn reservation_unknown_to_its_holder_is_broken() {
    for seed in [307, 311] {
        let fault_interval = Duration::from_secs(4);
        holds(DatastoreCampaign {
            ats: false,
            ats_heartbeat: false,
            hosts: 4,
            operations: 200,
            fault_interval,
            ..short(seed)
        });
    }
}

#[test]
fn plain_write_heartbeats_hold_under_faults() {
    for seed in 0..2 {
        holds(DatastoreCampaign { ats_heartbeat: false, ..short(seed) });
    }
}

#[test]
fn locks_hold_while_commands_wait_at_the_device() {
    for seed in 0..2 {
        holds(DatastoreCampaign { stuck: 400, ..short(seed) });
    }
}

#[tokio::test]
async fn simulation_runs_inside_a_tokio_task() {
    holds(DatastoreCampaign { operations: 20, ..short(1) });
}

/// No faults occur while the datastore is prepared and checked, so every run completes.
#[test]
fn setup_and_check_complete_for_every_seed() {
    for seed in 1..=20 {
        holds(DatastoreCampaign { hosts: 64, operations: 2, ..short(seed) });
    }
}

#[test]
fn same_seed_gives_the_same_result() {
    assert_eq!(short(7).run(&quiet), short(7).run(&quiet));
}

/// Returns the violation that a defect in the datastore causes within a few seeds.
fn find_violation(change: impl Fn(&mut DatastoreCampaign)) -> String {
    let run = |seed| {
        let mut campaign = DatastoreCampaign { operations: 300, ..short(seed) };
        change(&mut campaign);
        campaign.run(&quiet).violation
    };
    (0..40).find_map(run).expect("no violation found")
}

#[test]
fn missing_swap_verification_is_detected() {
    find_violation(|campaign| {
        campaign.disabled = DisabledSafeguards { swap_verification: true, ..DisabledSafeguards::default() }
    });
}

#[test]
fn missing_journal_replay_is_detected() {
    find_violation(|campaign| {
        campaign.disabled = DisabledSafeguards { journal_replay: true, ..DisabledSafeguards::default() }
    });
}

#[test]
fn missing_lease_fence_is_detected() {
    find_violation(|campaign| {
        campaign.disabled = DisabledSafeguards { lease_fence: true, ..DisabledSafeguards::default() }
    });
}

/// Two safeguards stop late commands: the time limit and CLEAR TASK SET. In these runs either one
/// is enough, so the test disables both.
#[test]
fn missing_command_time_limit_is_detected() {
    find_violation(|campaign| {
        campaign.disabled =
            DisabledSafeguards { command_bound: true, task_set_clear: true, ..DisabledSafeguards::default() };
        campaign.stuck = 400;
    });
}

#[test]
fn missing_clear_task_set_is_detected() {
    find_violation(|campaign| {
        campaign.disabled = DisabledSafeguards { task_set_clear: true, ..DisabledSafeguards::default() };
        campaign.stuck = 400;
    });
}

#[test]
fn too_short_lease_is_detected() {
    find_violation(|campaign| {
        campaign.timing.lease = Duration::from_secs(4);
        assert!(!campaign.timing.is_safe());
    });
}

mod kill_after_command {
    //! Kills a host after each of its commands in turn.

    use crate::Result;
    use crate::disk::{FaultRates, SimDisk, SimLun};
    use crate::oracle::Oracle;
    use crate::simulation::{ProcessRuntime, Simulation};
    use crate::workload::format;
    use datastore::{BlockFill, Datastore, DatastoreError, FS_BLOCK_BYTES, FileAccess, MountOptions, Runtime, check};
    use multipath::SharedDisk;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    const NEVER: u64 = u64::MAX;

    fn host(simulation: &Simulation, lun: &Arc<SimLun>, process: u32) -> (Arc<dyn SharedDisk>, Arc<dyn Runtime>) {
        let link = Arc::new(AtomicBool::new(true));
        let disk = SimDisk::new(simulation, lun, process, &link);
        (Arc::new(disk), Arc::new(ProcessRuntime { simulation: simulation.clone(), process, rate: 1.0 }))
    }

    async fn mount(simulation: &Simulation, lun: &Arc<SimLun>, process: u32) -> Result<Datastore> {
        let (disk, runtime) = host(simulation, lun, process);
        Datastore::mount(disk, &MountOptions::new("host"), runtime).await
    }

    fn reliable_lun(simulation: &Simulation) -> Arc<SimLun> {
        let _ = simulation;
        let fault_rates =
            FaultRates { lost: NEVER, unanswered: NEVER, slow: NEVER, stuck: NEVER, supports_clear: true };
        SimLun::new(1 << 20, Arc::new(Oracle::default()), fault_rates)
    }

    /// The operations of the victim: changes of directories, descriptors, pages and blocks.
    async fn change(datastore: Datastore) -> Result<()> {
        let file = datastore.create("/dir/new").await?;
        file.set_size(40 * FS_BLOCK_BYTES).await?;
        file.allocate(0..40, BlockFill::Written).await?;
        file.punch(3..5).await?;
        file.close().await?;
        datastore.rename("/dir/new", "/moved").await?;
        datastore.remove("/dir/old").await?;
        datastore.unmount().await
    }

    /// Kills the victim after `limit` of its commands. Returns whether it finished before that.
    fn kill_after(limit: u64, seed: u64) -> bool {
        let simulation = Simulation::new(limit + (seed << 32));
        let lun = reliable_lun(&simulation);
        let (in_simulation, in_lun) = (simulation.clone(), Arc::clone(&lun));
        let scenario = async move {
            let (simulation, lun) = (in_simulation, in_lun);
            let (disk, runtime) = host(&simulation, &lun, 1);
            format(&disk, &runtime).await?;
            let setup = mount(&simulation, &lun, 1).await?;
            setup.create_directory("/dir").await?;
            setup.write_file("/dir/old", &[5; 1000]).await?;
            setup.unmount().await?;
            let victim = mount(&simulation, &lun, 2).await?;
            let last = lun.commands() + limit;
            let (sender, mut receiver) = tokio::sync::oneshot::channel();
            simulation.spawn(2, Box::pin(async move { drop(sender.send(change(victim).await)) }));
            let finished = loop {
                match receiver.try_recv() {
                    Ok(done) => {
                        done?;
                        break true;
                    }
                    Err(_) if lun.commands() >= last => break false,
                    Err(_) => simulation.sleep(Duration::from_micros(5)).await,
                }
            };
            simulation.kill(2);
            verify(&simulation, &lun).await?;
            Ok::<bool, DatastoreError>(finished)
        };
        simulation.run(scenario, &|| {}).expect("deadlock").unwrap()
    }

    /// Checks that the steps were done in order, each entirely or not at all, and that every lock
    /// can be acquired.
    async fn verify(simulation: &Simulation, lun: &Arc<SimLun>) -> Result<()> {
        let successor = mount(simulation, lun, 3).await?;
        let (disk, runtime) = host(simulation, lun, 3);
        let has = async |path: &str| match successor.stat(path).await {
            Ok(_) => Ok(true),
            Err(DatastoreError::NotFound) => Ok(false),
            Err(error) => Err(error),
        };
        let (new, moved, old) = (has("/dir/new").await?, has("/moved").await?, has("/dir/old").await?);
        assert!(!(new && moved), "the file has two names");
        assert!(old || moved, "the old file was removed before the new one was renamed");
        let mut paths = vec!["/dir/new", "/moved", "/dir/old"];
        paths.retain(|path| match *path {
            "/dir/new" => new,
            "/moved" => moved,
            _ => old,
        });
        for path in paths {
            let mut tries = 0;
            let file = loop {
                match successor.open(path, FileAccess::Write).await {
                    Err(DatastoreError::Locked { .. }) if tries < 60 => {
                        tries += 1;
                        runtime.sleep(Duration::from_millis(500)).await;
                    }
                    file => break file?,
                }
            };
            if path == "/dir/old" && file.size() == 1000 && file.allocated() == 1 {
                assert_eq!(file.read(0, 1000).await?, [5; 1000]);
            }
            file.close().await?;
        }
        successor.create("/dir/heir").await?.close().await?;
        successor.unmount().await?;
        let report = check(&disk, &runtime).await?;
        assert_eq!(report.problems, []);
        Ok(())
    }

    #[test]
    fn change_is_atomic_wherever_its_host_dies() {
        for seed in 0..4 {
            let mut limit = 0;
            while !kill_after(limit, seed) {
                limit += 1;
            }
            assert!(limit > 50, "the change took only {limit} commands");
        }
    }

    #[test]
    fn files_of_a_dead_host_open_after_its_lease() {
        let simulation = Simulation::new(1);
        let lun = reliable_lun(&simulation);
        let (in_simulation, in_lun) = (simulation.clone(), Arc::clone(&lun));
        let scenario = async move {
            let (simulation, lun) = (in_simulation, in_lun);
            let (disk, runtime) = host(&simulation, &lun, 1);
            format(&disk, &runtime).await?;
            let (victim, successor) = (mount(&simulation, &lun, 1).await?, mount(&simulation, &lun, 2).await?);
            let file = victim.create("/disk").await?;
            let died = simulation.now();
            simulation.kill(1);
            let tries = loop {
                match successor.open("/disk", FileAccess::Write).await {
                    Err(DatastoreError::Locked { owner, .. }) => assert_eq!(owner, Some(victim.owner())),
                    opened => break opened.map(|_| simulation.now() - died),
                }
                simulation.sleep(Duration::from_millis(100)).await;
            };
            drop(file);
            tries
        };
        let waited = simulation.run(scenario, &|| {}).expect("deadlock").unwrap();
        let lease = MountOptions::new("any").timing.lease;
        assert!(waited >= lease && waited < lease + Duration::from_secs(4), "{waited:?}");
    }
}
