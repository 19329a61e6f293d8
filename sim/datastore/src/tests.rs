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
fn locks_have_one_owner_and_nothing_is_lost() {
    let outcomes: Vec<CampaignOutcome> = (0..5).map(|seed| holds(short(seed))).collect();
    let sum = |count: fn(&CampaignOutcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    // A run without faults proves nothing.
    assert!(sum(|o| o.crashes) > 5 && sum(|o| o.path_losses) > 2 && sum(|o| o.pauses) > 2, "{outcomes:?}");
}

#[test]
fn the_same_holds_under_reservations() {
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
fn a_reservation_of_which_its_holder_does_not_know_is_taken_away() {
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
fn the_same_holds_with_heartbeats_by_plain_writes() {
    for seed in 0..2 {
        holds(DatastoreCampaign { ats_heartbeat: false, ..short(seed) });
    }
}

#[test]
fn the_same_holds_while_commands_wait_at_the_device() {
    for seed in 0..2 {
        holds(DatastoreCampaign { stuck: 400, ..short(seed) });
    }
}

#[tokio::test]
async fn a_world_is_run_within_a_task_as_well() {
    holds(DatastoreCampaign { operations: 20, ..short(1) });
}

/// No faults occur while the datastore is prepared and checked, so every run completes.
#[test]
fn many_hosts_make_and_judge_their_datastore_in_every_run() {
    for seed in 1..=20 {
        holds(DatastoreCampaign { hosts: 64, operations: 2, ..short(seed) });
    }
}

#[test]
fn a_seed_is_one_history() {
    assert_eq!(short(7).run(&quiet), short(7).run(&quiet));
}

/// Returns the violation that a defect in the datastore causes within a few seeds.
fn is_found(change: impl Fn(&mut DatastoreCampaign)) -> String {
    let run = |seed| {
        let mut campaign = DatastoreCampaign { operations: 300, ..short(seed) };
        change(&mut campaign);
        campaign.run(&quiet).violation
    };
    (0..40).find_map(run).expect("the simulator notices nothing")
}

#[test]
fn a_swap_that_is_not_verified_is_found() {
    is_found(|campaign| {
        campaign.disabled = DisabledSafeguards { swap_verification: true, ..DisabledSafeguards::default() }
    });
}

#[test]
fn a_journal_that_is_not_replayed_is_found() {
    is_found(|campaign| {
        campaign.disabled = DisabledSafeguards { journal_replay: true, ..DisabledSafeguards::default() }
    });
}

#[test]
fn a_host_that_writes_without_a_heartbeat_is_found() {
    is_found(|campaign| campaign.disabled = DisabledSafeguards { lease_fence: true, ..DisabledSafeguards::default() });
}

/// Two safeguards stop late commands: the time limit and CLEAR TASK SET. In these runs either one
/// is enough, so the test disables both.
#[test]
fn a_command_that_comes_when_its_host_has_been_given_up_is_found() {
    is_found(|campaign| {
        campaign.disabled =
            DisabledSafeguards { command_bound: true, task_set_clear: true, ..DisabledSafeguards::default() };
        campaign.stuck = 400;
    });
}

#[test]
fn what_waits_at_the_device_when_its_host_has_been_given_up_is_found() {
    is_found(|campaign| {
        campaign.disabled = DisabledSafeguards { task_set_clear: true, ..DisabledSafeguards::default() };
        campaign.stuck = 400;
    });
}

#[test]
fn a_lease_that_is_too_short_is_found() {
    is_found(|campaign| {
        campaign.timing.lease = Duration::from_secs(4);
        assert!(!campaign.timing.is_safe());
    });
}

mod death {
    //! Kills a host after each of its commands in turn.

    use crate::Result;
    use crate::disk::{FaultRates, Media, SimDisk};
    use crate::oracle::Oracle;
    use crate::simulation::{ProcessRuntime, Simulation};
    use crate::workload::format;
    use datastore::{BlockFill, Datastore, DatastoreError, FS_BLOCK_BYTES, FileAccess, MountOptions, Runtime, check};
    use multipath::SharedDisk;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    const NEVER: u64 = u64::MAX;

    fn host(simulation: &Simulation, media: &Arc<Media>, process: u32) -> (Arc<dyn SharedDisk>, Arc<dyn Runtime>) {
        let link = Arc::new(AtomicBool::new(true));
        let disk = SimDisk::new(simulation, media, process, &link);
        (Arc::new(disk), Arc::new(ProcessRuntime { simulation: simulation.clone(), process, rate: 1.0 }))
    }

    async fn mount(simulation: &Simulation, media: &Arc<Media>, process: u32) -> Result<Datastore> {
        let (disk, runtime) = host(simulation, media, process);
        Datastore::mount(disk, &MountOptions::new("host"), runtime).await
    }

    fn quiet_media(simulation: &Simulation) -> Arc<Media> {
        let _ = simulation;
        let fault_rates = FaultRates { lost: NEVER, unanswered: NEVER, slow: NEVER, stuck: NEVER, knows_clear: true };
        Media::new(1 << 20, Arc::new(Oracle::default()), fault_rates)
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

    /// Kills the victim after `deadly` of its commands. Returns whether it finished before that.
    fn dies_after(deadly: u64, seed: u64) -> bool {
        let simulation = Simulation::new(deadly + (seed << 32));
        let media = quiet_media(&simulation);
        let (in_simulation, in_media) = (simulation.clone(), Arc::clone(&media));
        let story = async move {
            let (simulation, media) = (in_simulation, in_media);
            let (disk, runtime) = host(&simulation, &media, 1);
            format(&disk, &runtime).await?;
            let setup = mount(&simulation, &media, 1).await?;
            setup.create_directory("/dir").await?;
            setup.write_file("/dir/old", &[5; 1000]).await?;
            setup.unmount().await?;
            let victim = mount(&simulation, &media, 2).await?;
            let last = media.commands() + deadly;
            let (sender, mut receiver) = tokio::sync::oneshot::channel();
            simulation.spawn(2, Box::pin(async move { drop(sender.send(change(victim).await)) }));
            let finished = loop {
                match receiver.try_recv() {
                    Ok(done) => {
                        done?;
                        break true;
                    }
                    Err(_) if media.commands() >= last => break false,
                    Err(_) => simulation.sleep(Duration::from_micros(5)).await,
                }
            };
            simulation.kill(2);
            judge(&simulation, &media).await?;
            Ok::<bool, DatastoreError>(finished)
        };
        simulation.run(story, &|| {}).expect("everybody waits for ever").unwrap()
    }

    /// Checks that the steps were done in order, each entirely or not at all, and that every lock
    /// can be acquired.
    async fn judge(simulation: &Simulation, media: &Arc<Media>) -> Result<()> {
        let heir = mount(simulation, media, 3).await?;
        let (disk, runtime) = host(simulation, media, 3);
        let has = async |path: &str| match heir.stat(path).await {
            Ok(_) => Ok(true),
            Err(DatastoreError::NotFound) => Ok(false),
            Err(error) => Err(error),
        };
        let (new, moved, old) = (has("/dir/new").await?, has("/moved").await?, has("/dir/old").await?);
        assert!(!(new && moved), "the file has two names");
        assert!(old || moved, "the file was removed before the other was renamed");
        let mut paths = vec!["/dir/new", "/moved", "/dir/old"];
        paths.retain(|path| match *path {
            "/dir/new" => new,
            "/moved" => moved,
            _ => old,
        });
        for path in paths {
            let mut tries = 0;
            let file = loop {
                match heir.open(path, FileAccess::Write).await {
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
        heir.create("/dir/heir").await?.close().await?;
        heir.unmount().await?;
        let report = check(&disk, &runtime).await?;
        assert_eq!(report.problems, []);
        Ok(())
    }

    #[test]
    fn a_change_is_there_wholly_or_not_at_all_wherever_its_host_dies() {
        for seed in 0..4 {
            let mut deadly = 0;
            while !dies_after(deadly, seed) {
                deadly += 1;
            }
            assert!(deadly > 50, "the change took {deadly} commands only");
        }
    }

    #[test]
    fn a_dead_hosts_files_are_had_after_its_lease() {
        let simulation = Simulation::new(1);
        let media = quiet_media(&simulation);
        let (in_simulation, in_media) = (simulation.clone(), Arc::clone(&media));
        let story = async move {
            let (simulation, media) = (in_simulation, in_media);
            let (disk, runtime) = host(&simulation, &media, 1);
            format(&disk, &runtime).await?;
            let (victim, heir) = (mount(&simulation, &media, 1).await?, mount(&simulation, &media, 2).await?);
            let file = victim.create("/disk").await?;
            let died = simulation.now();
            simulation.kill(1);
            let tries = loop {
                match heir.open("/disk", FileAccess::Write).await {
                    Err(DatastoreError::Locked { owner }) => assert_eq!(owner, Some(victim.owner())),
                    opened => break opened.map(|_| simulation.now() - died),
                }
                simulation.sleep(Duration::from_millis(100)).await;
            };
            drop(file);
            tries
        };
        let waited = simulation.run(story, &|| {}).expect("everybody waits for ever").unwrap();
        let lease = MountOptions::new("any").timing.lease;
        assert!(waited >= lease && waited < lease + Duration::from_secs(4), "{waited:?}");
    }
}
