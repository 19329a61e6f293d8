//! `vmkfstools`: manages datastores and virtual disks with the options and output of ESXi.

mod args;
mod import;
mod output;

use crate::esx::{HostArgs, devices_of};
use crate::failure::Failure;
use crate::interrupt::until_stopped;
use crate::out::{out, outln};
use crate::transfer::report_host_copy;
use crate::vmfs::{Meter, Volumes, failed, whole_disk};
use args::NewFormat;
pub(crate) use args::VmkfstoolsArgs;
use datastore::{Datastore, FileAccess, FormatOptions, Mode};
use multipath::Primitive;
use virtual_disk::{CopyTarget, DiskFormat, VirtualDisk, VirtualMachine, unmap};

/// Runs the verb.
pub(crate) async fn run(host: &HostArgs, args: &VmkfstoolsArgs) -> Result<(), Failure> {
    let mut volumes = Volumes::new(host.open()?);
    let result = until_stopped(act(&mut volumes, args)).await;
    volumes.finish(result).await
}

async fn act(volumes: &mut Volumes, args: &VmkfstoolsArgs) -> Result<(), Failure> {
    if let Some(fs) = args.createfs {
        return createfs(volumes, args, fs.into()).await;
    }
    if let Some(addition) = &args.span {
        return span(volumes, &args.path, addition).await;
    }
    let (datastore, file) = volumes.open(&args.path).await?;
    if let Some(percent) = args.reclaim {
        return reclaim(volumes, &datastore, percent).await;
    }
    if args.query {
        let space = datastore.space().await.map_err(failed(&args.path))?;
        outln!("{}", output::query(datastore.info(), space, &devices_of(&datastore.disk())));
        return Ok(());
    }
    if args.lock_info {
        return lock_info(&datastore, &file).await;
    }
    let settings = volumes.settings(&datastore);
    if let Some(bytes) = args.create {
        let format = format_of(args)?;
        if let Some(line) = output::creating(&args.path, format) {
            outln!("{line}");
        }
        let meter = Meter::new("Create", bytes);
        let made = VirtualDisk::create(&datastore, &file, bytes, format, settings, &|done| meter.advance(done)).await;
        let (disk, _) = made.map_err(failed("Failed to create virtual disk"))?;
        meter.end();
        return disk.close().await.map_err(failed(&args.path));
    }
    if let Some(device) = &args.map_device {
        let name = device.rsplit('/').next().unwrap_or(device);
        let disk = volumes.host().disk(name).await?;
        let made = virtual_disk::create_mapping(&datastore, &file, disk.as_ref()).await;
        return made.map_err(failed("Failed to create virtual disk"));
    }
    if let Some(source) = &args.import {
        return import::import(volumes, source, format_of(args)?, (&datastore, &file)).await;
    }
    if let Some(source) = &args.clone {
        return clone(volumes, source, args, (&datastore, &file)).await;
    }
    if let Some(from) = &args.rename {
        let (other, from) = volumes.open(from).await?;
        if other.info().uuid != datastore.info().uuid {
            return Err(Failure::usage(
                "source and destination are on different datastores",
                "clone with -i, then delete with -U",
            ));
        }
        return VirtualDisk::rename(&datastore, &from, &file).await.map_err(failed("Failed to rename"));
    }
    if args.delete {
        return VirtualDisk::delete(&datastore, &file).await.map_err(failed("Failed to delete virtual disk"));
    }
    if args.chain {
        VirtualDisk::check(&datastore, &file).await.map_err(failed("Disk chain is not consistent"))?;
        outln!("Disk chain is consistent.");
        return Ok(());
    }
    let disk = VirtualDisk::open(&datastore, &file, FileAccess::Write, settings).await.map_err(failed(&args.path))?;
    change(disk, args).await
}

/// Returns the format of a disk that is created; hosted formats are for copies.
fn format_of(args: &VmkfstoolsArgs) -> Result<DiskFormat, Failure> {
    match args.format {
        None => Ok(DiskFormat::ZeroedThick),
        Some(NewFormat::Vmfs(format)) => Ok(format),
        Some(_) => Err(Failure::usage("only a copy can have a hosted format", "create the disk, then copy it with -i")),
    }
}

/// Returns whether the machine in the directory of a new disk has snapshots.
async fn has_snapshots(volumes: &Volumes, datastore: &Datastore, file: &str) -> Result<bool, Failure> {
    let Some((directory, _)) = file.rsplit_once('/') else { return Ok(false) };
    match VirtualMachine::open(datastore, directory, volumes.settings(datastore)).await {
        Ok(machine) => machine.has_snapshots().await.map_err(failed(directory)),
        // The directory has no machine.
        Err(_) => Ok(false),
    }
}

/// Runs `-w`, `-j`, `-k`, `-K` or `-X` on an existing disk.
async fn change(disk: VirtualDisk, args: &VmkfstoolsArgs) -> Result<(), Failure> {
    let bytes = disk.bytes();
    if let Some(size) = args.grow {
        let meter = Meter::new("Grow", size.saturating_sub(bytes));
        let eager = args.format == Some(NewFormat::Vmfs(DiskFormat::EagerZeroedThick));
        let grown =
            disk.grow(size, eager, &|done| meter.advance(done)).await.map_err(failed("Failed to extend disk"))?;
        meter.end();
        return grown.close().await.map_err(failed(&args.path));
    }
    outln!("{}", output::in_place());
    let verb = match (args.write_zeros, args.inflate, args.eager_zero) {
        (true, ..) => "Zeroing",
        (_, true, _) => "Inflate",
        (.., true) => "Eager-zeroing",
        _ => "Hole Punching",
    };
    let meter = Meter::new(verb, bytes);
    let advance = |done: u64| meter.advance(done);
    let changed = match (args.write_zeros, args.inflate, args.eager_zero) {
        (true, ..) => disk.write_zeros(&advance).await,
        (_, true, _) => disk.inflate(&advance).await,
        (.., true) => disk.eager_zero(&advance).await,
        _ => disk.punch_zeros(&advance).await.map(|_| ()),
    };
    let closed = disk.close().await;
    changed.map_err(failed(&args.path))?;
    meter.end();
    closed.map_err(failed(&args.path))
}

async fn clone(
    volumes: &mut Volumes,
    source: &str,
    args: &VmkfstoolsArgs,
    (datastore, file): (&Datastore, &str),
) -> Result<(), Failure> {
    let (from, from_file) = volumes.open(source).await?;
    let settings = volumes.settings(&from);
    let mapped = virtual_disk::mapped_device(&from, &from_file).await.map_err(failed(source))?;
    let opened = match mapped {
        Some(device) => {
            let device = volumes.host().disk(&device).await?;
            VirtualDisk::open_mapping(&from, &from_file, device, settings).await
        }
        None => VirtualDisk::open(&from, &from_file, FileAccess::Read, settings).await,
    };
    let disk = opened.map_err(failed(source))?;
    // Without -d, ESXi creates its default format, whatever the format of the source.
    let format = args.format.unwrap_or(NewFormat::Vmfs(DiskFormat::ZeroedThick));
    outln!("{}", output::cloning(source, format));
    let meter = Meter::new("Clone", disk.bytes());
    let kind = format.kind();
    let has_snapshots = has_snapshots(volumes, datastore, file).await?;
    let target = CopyTarget { format: Some(format.format()), has_snapshots, kind, ..CopyTarget::new(datastore, file) };
    let cloned = disk.clone_to(&target, &|done| meter.advance(done)).await;
    let closed = disk.close().await;
    let (copy, report) = cloned.map_err(failed("Failed to clone disk"))?;
    meter.end();
    closed.map_err(failed(source))?;
    copy.close().await.map_err(failed(&args.path))?;
    report_host_copy(volumes.host(), &format!("clone of {source} to {}", args.path), &report)
}

/// Returns the size of the file blocks of a new datastore.
fn block_mib(args: &VmkfstoolsArgs, mode: Mode) -> Result<u32, Failure> {
    match args.block_size {
        Some(size) if size != 1 && mode != Mode::V5 => {
            Err(Failure::usage(format!("{mode} has file blocks of 1 MiB"), "use -C vmfs5 for larger blocks"))
        }
        size => Ok(size.unwrap_or(1)),
    }
}

async fn createfs(volumes: &mut Volumes, args: &VmkfstoolsArgs, mode: Mode) -> Result<(), Failure> {
    // The partition, always the first, is created here too, because partedUtil is not simulated.
    let device = device_name(&args.path);
    let disk = volumes.host().disk(device).await?;
    let label = args.label.clone().unwrap_or_else(|| "datastore".to_owned());
    out!("{}", output::createfs(&args.path, mode, &label, disk.vaai().is_usable(Primitive::Ats)));
    let options = FormatOptions {
        partition_lba: args.partition_lba,
        block_mib: block_mib(args, mode)?,
        ..FormatOptions::new(&label, mode)
    };
    let made = Datastore::format(&disk, &options, volumes.runtime()).await;
    let info = made.map_err(failed("Failed to create VMFS"))?;
    let uuid = info.uuid.to_string();
    outln!("{}", output::created_volume(&uuid));
    for old in volumes.host().mounts().into_iter().filter(|mount| mount.device == device) {
        volumes.host().remove_mount(&old.uuid)?;
    }
    Ok(volumes.host().add_mount(esxi_host::Mount { label, uuid, device: device.to_owned() })?)
}

/// Returns the device of a partition's name, `/vmfs/devices/disks/naa.…:1`.
fn device_name(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(":1").unwrap_or(name)
}

/// Extends the datastore on a device by an extent on another.
async fn span(volumes: &Volumes, head: &str, addition: &str) -> Result<(), Failure> {
    let (host, runtime) = (volumes.host(), volumes.runtime());
    let disk = host.disk(device_name(head)).await?;
    let disk = whole_disk(host, runtime, disk).await.map_err(failed(head))?;
    let addition = host.disk(device_name(addition)).await?;
    Datastore::extend(&disk, &addition, runtime).await.map_err(failed("Failed to extend VMFS"))
}

async fn reclaim(volumes: &Volumes, datastore: &Datastore, percent: u32) -> Result<(), Failure> {
    let info = datastore.info();
    if info.mode == Mode::V6 {
        let hint = format!("run `ibid-host esxcli storage vmfs unmap -l {}`", info.label);
        return Err(Failure::usage("vmkfstools -y supports VMFS 5 only", hint));
    }
    let space = datastore.space().await.map_err(failed(&info.label))?;
    let random: [u8; 6] =
        platform::random::bytes().map_err(|error| Failure::File { path: "random numbers".to_owned(), error })?;
    let name = output::balloon_name(random);
    let print_start = |blocks: u64| {
        let free = space.free * info.block_bytes;
        let text = output::reclaiming(percent, free, &info.label, info.mode, &name, blocks * info.block_bytes);
        outln!("{text}");
    };
    let summary = unmap::balloon(datastore, &name, percent, volumes.settings(datastore), &print_start).await;
    summary.map_err(failed("Failed to reclaim free blocks"))?;
    outln!("Done.");
    Ok(())
}

async fn lock_info(datastore: &Datastore, file: &str) -> Result<(), Failure> {
    let path = if file.is_empty() { "/" } else { file };
    let stat = datastore.stat(path).await.map_err(failed(path))?;
    // Only an open file knows its blocks to be zeroed. If a writer on another host has the file
    // open, the count shown is 0.
    let to_be_zeroed = match datastore.open(path, FileAccess::Read).await {
        Ok(open) => {
            let waiting =
                |extent: &datastore::FileExtent| matches!(extent.state, datastore::ExtentState::ToBeZeroed { .. });
            let count = open.extents(0..open.blocks()).iter().filter(|e| waiting(e)).map(|e| e.blocks).sum();
            open.close().await.map_err(failed(path))?;
            count
        }
        Err(_) => 0,
    };
    outln!("{}", output::lock_info(&stat, to_be_zeroed, datastore.info().block_bytes));
    Ok(())
}
