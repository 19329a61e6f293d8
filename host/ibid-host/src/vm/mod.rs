//! `vm`: virtual machines on the datastores of the simulated host.

mod args;
mod data;
mod export;
mod guest;
mod load;
mod machines;
mod profile;
mod snapshot;
mod table;

use crate::esx::HostArgs;
use crate::failure::Failure;
use crate::interrupt::{stop_requested, until_stopped};
use crate::out::{out, outln};
use crate::transfer::report_transfer;
use crate::vmfs::{Meter, Volumes, failed};
pub(crate) use args::VmVerb;
use args::{CopyArgs, CreateArgs, MigrateArgs, Power};
use machines::{find, size};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use virtual_disk::unmap::{ReclaimPriority, automatic_until};
use virtual_disk::vmx::Vmx;
use virtual_disk::{BootWorkload, DiskSpec, FileAccess, VirtualDisk, VirtualMachine};

/// Runs the verb.
pub(crate) async fn run(host: &HostArgs, verb: &VmVerb) -> Result<(), Failure> {
    let mut volumes = Volumes::new(host.open()?);
    let result = match verb {
        // It powers the machine off after a signal.
        VmVerb::Power(Power::On { name, secs }) => Box::pin(power_on(&mut volumes, name, *secs)).await,
        VmVerb::Export(args) => Box::pin(export::export(&mut volumes, args)).await,
        VmVerb::Guest(args) => Box::pin(guest::guest(&mut volumes, args)).await,
        _ => until_stopped(Box::pin(act(&mut volumes, verb))).await,
    };
    volumes.finish(result).await
}

async fn act(volumes: &mut Volumes, verb: &VmVerb) -> Result<(), Failure> {
    match verb {
        VmVerb::List => list(volumes).await,
        VmVerb::Create(args) => create(volumes, args).await,
        VmVerb::Clone(args) => copy(volumes, args, false).await,
        VmVerb::Deploy(args) => copy(volumes, args, true).await,
        VmVerb::Migrate(args) => migrate(volumes, args).await,
        VmVerb::Power(power) => match power {
            // Handled by `run`.
            Power::On { .. } => Ok(()),
            Power::State { name } => {
                let machine = find(volumes, name).await?;
                let running = machine.is_running().await.map_err(failed(name))?;
                outln!("{}", if running { "Powered on" } else { "Powered off" });
                Ok(())
            }
        },
        VmVerb::Snapshot(verb) => snapshot::run(volumes, verb).await,
        // Handled by `run`.
        VmVerb::Export(_) | VmVerb::Guest(_) => Ok(()),
        VmVerb::Destroy { name } => find(volumes, name).await?.remove().await.map_err(failed(name)),
    }
}

async fn list(volumes: &mut Volumes) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for datastore in volumes.all().await? {
        let label = &datastore.info().label;
        let listed = VirtualMachine::list(&datastore, volumes.settings(&datastore)).await;
        let (machines, invalid) = listed.map_err(failed(label))?;
        for machine in machines {
            rows.push(table::Row::of(rows.len() + 1, label, &machine));
        }
        for name in invalid {
            eprintln!(
                "Skipping invalid VM '{name}' on {label}: its .vmx is incomplete; remove it with \
                 `ibid-host vmfs rm -r /vmfs/volumes/{label}/{name}`"
            );
        }
    }
    out!("{}", table::render(&rows));
    Ok(())
}

async fn create(volumes: &mut Volumes, args: &CreateArgs) -> Result<(), Failure> {
    let datastore = volumes.mount(&args.datastore).await?;
    let disks: Vec<DiskSpec> = args.disk.clone();
    let vmx = Vmx { memory_mib: args.memory, template: args.template, ..Vmx::new(&args.name) };
    let meter = Meter::new("Create", disks.iter().map(|disk| disk.bytes).sum());
    let settings = volumes.settings(&datastore);
    if let Some(spec) = disks.iter().find(|spec| args.data.is_some_and(|bytes| bytes > spec.bytes)) {
        return Err(Failure::usage(
            format!("--data is larger than a disk of {} bytes", spec.bytes),
            "use a larger --disk",
        ));
    }
    let made = VirtualMachine::create(&datastore, vmx, &disks, settings, &|done| meter.advance(done)).await;
    let machine = made.map_err(failed(&args.name))?;
    meter.end();
    if let Some(bytes) = args.data {
        // An interruption leaves no machine without its data.
        datastore.remove_at_unmount(&args.name).await.map_err(failed(&args.name))?;
        for path in machine.disk_paths() {
            let opened = VirtualDisk::open(&datastore, &path, FileAccess::Write, settings).await;
            let disk = opened.map_err(failed(&path))?;
            let written = data::write(&disk, 0..bytes, args.seed).await;
            disk.close().await.map_err(failed(&path))?;
            written?;
        }
        datastore.keep(&args.name);
    }
    Ok(())
}

async fn copy(volumes: &mut Volumes, args: &CopyArgs, deploy: bool) -> Result<(), Failure> {
    let source = find(volumes, &args.source).await?;
    if deploy && !source.vmx().template {
        let hint = format!("run `ibid-host vm clone {} NAME` to copy a virtual machine", args.source);
        return Err(Failure::usage(format!("'{}' is not a template", args.source), hint));
    }
    if args.linked {
        source.link(&args.name).await.map_err(failed(&args.name))?;
        outln!("Linked: no data is copied");
        return Ok(());
    }
    let datastore = match &args.datastore {
        Some(label) => volumes.mount(label).await?,
        None => source.datastore().clone(),
    };
    let meter = Meter::new(if deploy { "Deploy" } else { "Clone" }, size(&source).await?);
    let copied = source.clone_to(&datastore, &args.name, args.format, &|done| meter.advance(done)).await;
    let (_, report) = copied.map_err(failed(&args.name))?;
    meter.end();
    report_transfer(volumes.host(), &format!("clone of {} to {}", args.source, args.name), &report)
}

async fn migrate(volumes: &mut Volumes, args: &MigrateArgs) -> Result<(), Failure> {
    let mut machine = find(volumes, &args.name).await?;
    let datastore = volumes.mount(&args.datastore).await?;
    let meter = Meter::new("Migrate", size(&machine).await?);
    let advance = |done: u64| meter.advance(done);
    let report = if args.running {
        let mut running = machines::power_on(volumes, &machine).await?;
        let moved = running.migrate(&datastore, args.format, &advance).await;
        running.power_off().await.map_err(failed(&args.name))?;
        moved
    } else {
        machine.migrate(&datastore, args.format, &advance).await
    };
    let report = report.map_err(failed(&args.name))?;
    meter.end();
    report_transfer(volumes.host(), &format!("migration of {} to {}", args.name, args.datastore), &report)
}

async fn power_on(volumes: &mut Volumes, name: &str, secs: Option<u64>) -> Result<(), Failure> {
    let start = async {
        let machine = find(volumes, name).await?;
        outln!("Powering on VM:");
        let running = machines::power_on(volumes, &machine).await?;
        Ok((machine, running))
    };
    let (machine, running) = until_stopped(start).await?;
    let boot = async { running.boot(&BootWorkload::default()).await.map_err(failed(name)).map(|_| ()) };
    let booted = until_stopped(boot).await;
    let waited = if booted.is_ok() { run_until(volumes, &machine, secs).await } else { Ok(()) };
    outln!("Powering off VM:");
    running.power_off().await.map_err(failed(name))?;
    booted.and(waited)
}

/// Runs a machine for `secs` seconds or until Ctrl-C.
/// A VMFS 6 datastore returns its free space automatically while any of its files is open, so this
/// also runs automatic UNMAP.
async fn run_until(volumes: &Volumes, machine: &VirtualMachine, secs: Option<u64>) -> Result<(), Failure> {
    let stop = AtomicBool::new(false);
    let end = async {
        let ended = match secs {
            // A machine that was to run for some time is interrupted by a signal.
            Some(secs) => {
                let time = async {
                    tokio::time::sleep(Duration::from_secs(secs)).await;
                    Ok(())
                };
                until_stopped(time).await
            }
            None => stop_requested().await.map_err(|error| Failure::File { path: "signals".to_owned(), error }),
        };
        stop.store(true, Ordering::Relaxed);
        ended
    };
    let settings = volumes.settings(machine.datastore());
    let (ended, reclaimed) =
        tokio::join!(end, automatic_until(machine.datastore(), ReclaimPriority::Low, settings, &stop));
    let reclaimed = match reclaimed {
        // `Locked`: another host already runs automatic UNMAP on this datastore.
        Ok(_) | Err(virtual_disk::VirtualDiskError::Datastore(datastore::DatastoreError::Locked { .. })) => Ok(()),
        Err(error) => Err(failed("automatic unmap")(error)),
    };
    ended.and(reclaimed)
}
