//! `vm export`: powers a machine on and serves its disks to NBD clients.

use super::machines::{find, power_on, size};
use crate::failure::Failure;
use crate::interrupt::{stop_requested, until_stopped};
use crate::nbd::{Export, ExportFuture, Exports, serve};
use crate::out::outln;
use crate::transfer::report_transfer;
use crate::vmfs::{Meter, Volumes, failed};
use bytes::Bytes;
use clap::Args;
use datastore::Datastore;
use esxi_host::EsxiHost;
use platform::net::Listener;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::Notify;
use virtual_disk::{RunningMachine, VirtualDisk, VirtualDiskError};

/// Options of `vm export`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// Name of the virtual machine
    name: String,
    /// Address to listen on for NBD clients; every client can write
    #[arg(long, value_name = "ADDR:PORT")]
    nbd: SocketAddr,
    /// Move the machine to this datastore after the first request
    #[arg(long, value_name = "DATASTORE")]
    migrate: Option<String>,
    /// Copy the machine under this name after the first request
    #[arg(long, value_name = "NAME", conflicts_with = "migrate")]
    clone: Option<String>,
    /// Datastore of the copy [default: that of the machine]
    #[arg(long, value_name = "DATASTORE", requires = "clone")]
    clone_to: Option<String>,
}

/// The work that the host does while the disks are served.
enum Work {
    None,
    /// Move the machine; with the bytes of its disks.
    Migrate(Datastore, u64),
    /// Copy the machine under this name.
    Clone(Datastore, String, u64),
}

/// A disk of the machine.
struct DiskExport {
    name: String,
    disk: VirtualDisk,
    used: Arc<Notify>,
}

fn io_error(error: VirtualDiskError) -> io::Error {
    match error {
        VirtualDiskError::Datastore(datastore::DatastoreError::NoSpace)
        | VirtualDiskError::Disk(multipath::DeviceError::OutOfSpace) => io::ErrorKind::StorageFull.into(),
        error => io::Error::other(error),
    }
}

impl Export for DiskExport {
    fn name(&self) -> &str {
        &self.name
    }

    fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    fn read(&self, offset: u64, bytes: u64) -> ExportFuture<'_, Bytes> {
        self.used.notify_one();
        Box::pin(async move { self.disk.read(offset, bytes).await.map_err(io_error) })
    }

    fn write(&self, offset: u64, data: Bytes) -> ExportFuture<'_, ()> {
        self.used.notify_one();
        Box::pin(async move { self.disk.write(offset, data).await.map_err(io_error) })
    }

    fn trim(&self, offset: u64, bytes: u64) -> ExportFuture<'_, ()> {
        Box::pin(async move {
            match self.disk.unmap(offset, bytes).await {
                // A thick disk keeps its blocks; the command is a hint.
                Ok(_) | Err(VirtualDiskError::NotThin) => Ok(()),
                Err(error) => Err(io_error(error)),
            }
        })
    }

    fn flush(&self) -> ExportFuture<'_, ()> {
        Box::pin(
            async move { self.disk.datastore().disk().synchronize().await.map_err(|error| io_error(error.into())) },
        )
    }
}

/// Powers on the machine and serves its disks until a signal.
pub(super) async fn export(volumes: &mut Volumes, args: &ExportArgs) -> Result<(), Failure> {
    let start = async {
        let machine = find(volumes, &args.name).await?;
        let bytes = size(&machine).await?;
        let work = match (&args.migrate, &args.clone) {
            (Some(label), _) => Work::Migrate(volumes.mount(label).await?, bytes),
            (None, Some(name)) => {
                let datastore = match &args.clone_to {
                    Some(label) => volumes.mount(label).await?,
                    None => machine.datastore().clone(),
                };
                Work::Clone(datastore, name.clone(), bytes)
            }
            (None, None) => Work::None,
        };
        let listener = Listener::bind(args.nbd).await;
        let listener = listener.map_err(|error| Failure::File { path: args.nbd.to_string(), error })?;
        Ok((power_on(volumes, &machine).await?, work, listener))
    };
    let (mut running, work, listener) = until_stopped(Box::pin(start)).await?;
    let served = serve_until_stopped(volumes.host(), &mut running, work, listener).await;
    running.power_off().await.map_err(failed(&args.name))?;
    served
}

async fn serve_until_stopped(
    host: &EsxiHost,
    running: &mut RunningMachine,
    work: Work,
    listener: Listener,
) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(|error| Failure::File { path: "NBD".to_owned(), error })?;
    let used = Arc::new(Notify::new());
    let exports: Vec<Arc<dyn Export>> = running
        .disks()
        .iter()
        .map(|disk| {
            let path = disk.path();
            let name = path.rsplit('/').next().unwrap_or(&path).trim_end_matches(".vmdk").to_owned();
            outln!("nbd://{address}/{name}");
            Arc::new(DiskExport { name, disk: disk.clone(), used: Arc::clone(&used) }) as Arc<dyn Export>
        })
        .collect();
    let exports: Exports = Arc::new(exports);
    let worked = async {
        if !matches!(work, Work::None) {
            used.notified().await;
        }
        perform(host, running, &work).await?;
        std::future::pending::<Result<(), Failure>>().await
    };
    tokio::select! {
        served = serve(listener, exports) => served.map_err(|error| Failure::File { path: address.to_string(), error }),
        worked = worked => worked,
        stopped = stop_requested() => stopped.map_err(|error| Failure::File { path: "signals".to_owned(), error }),
    }
}

async fn perform(host: &EsxiHost, running: &mut RunningMachine, work: &Work) -> Result<(), Failure> {
    match work {
        Work::None => {}
        Work::Migrate(datastore, bytes) => {
            let meter = Meter::new("Migrate", *bytes);
            let report = running.migrate(datastore, None, &|done| meter.advance(done)).await;
            let report = report.map_err(failed("migration"))?;
            meter.end();
            report_transfer(
                host,
                &format!("migration of {} to {}", running.machine().name(), datastore.info().label),
                &report,
            )?;
        }
        Work::Clone(datastore, name, bytes) => {
            let meter = Meter::new("Clone", *bytes);
            let cloned = running.clone_to(datastore, name, None, &|done| meter.advance(done)).await;
            let (_, report) = cloned.map_err(failed(name))?;
            meter.end();
            report_transfer(host, &format!("clone of {} to {name}", running.machine().name()), &report)?;
        }
    }
    Ok(())
}
