//! `vm export`: powers a machine on and serves its disks to NBD clients.

use super::machines::{describe_transfer, find, size};
use crate::failure::Failure;
use crate::interrupt::{stop_requested, until_stopped};
use crate::nbd::{Export, ExportFuture, Exports, serve};
use crate::out::outln;
use crate::vmfs::{Meter, Volumes, failed};
use bytes::Bytes;
use clap::Args;
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
        let target = match &args.migrate {
            Some(label) => Some((volumes.mount(label).await?, size(&machine).await?)),
            None => None,
        };
        let listener = Listener::bind(args.nbd).await;
        let listener = listener.map_err(|error| Failure::File { path: args.nbd.to_string(), error })?;
        Ok((machine.power_on().await.map_err(failed(&args.name))?, target, listener))
    };
    let (mut running, target, listener) = until_stopped(Box::pin(start)).await?;
    let served = serve_until_stopped(&mut running, target, listener).await;
    running.power_off().await.map_err(failed(&args.name))?;
    served
}

async fn serve_until_stopped(
    running: &mut RunningMachine,
    target: Option<(datastore::Datastore, u64)>,
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
    let moved = async {
        if let Some((datastore, bytes)) = &target {
            used.notified().await;
            let meter = Meter::new("Migrate", *bytes);
            let report = running.migrate(datastore, None, &|done| meter.advance(done)).await;
            let report = report.map_err(failed("migration"))?;
            meter.end();
            outln!("{}", describe_transfer(&report));
        }
        std::future::pending::<Result<(), Failure>>().await
    };
    tokio::select! {
        served = serve(listener, exports) => served.map_err(|error| Failure::File { path: address.to_string(), error }),
        moved = moved => moved,
        stopped = stop_requested() => stopped.map_err(|error| Failure::File { path: "signals".to_owned(), error }),
    }
}
