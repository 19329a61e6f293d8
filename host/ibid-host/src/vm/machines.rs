//! Finds virtual machines and describes them.

use crate::failure::Failure;
use crate::vmfs::{Volumes, failed};
use virtual_disk::{RunningMachine, VirtualDiskError, VirtualMachine};

/// Finds the virtual machine `name` on any datastore. A command that was killed may have left an
/// invalid configuration of that name on another datastore.
pub(super) async fn find(volumes: &mut Volumes, name: &str) -> Result<VirtualMachine, Failure> {
    let mut invalid = None;
    for datastore in volumes.all().await? {
        match VirtualMachine::open(&datastore, name, volumes.settings(&datastore)).await {
            Ok(machine) => return Ok(machine),
            Err(VirtualDiskError::Datastore(datastore::DatastoreError::NotFound)) => {}
            Err(error @ VirtualDiskError::Vmx(_)) => invalid = Some(error),
            Err(error) => return Err(failed(name)(error)),
        }
    }
    Err(invalid.map_or_else(
        || {
            Failure::usage(
                format!("virtual machine '{name}' does not exist"),
                "run `ibid-host vm list` to list all virtual machines",
            )
        },
        failed(name),
    ))
}

/// Powers a machine on and counts the I/O of its disks for esxtop.
pub(super) async fn power_on(volumes: &Volumes, machine: &VirtualMachine) -> Result<RunningMachine, Failure> {
    let running = machine.power_on().await.map_err(failed(machine.name()))?;
    for (number, disk) in running.disks().iter().enumerate() {
        let name = format!("{}:scsi0:{number}", machine.name());
        disk.count_in(volumes.host().virtual_disks().device(&name));
    }
    Ok(running)
}

/// Returns the bytes of all disks of a machine.
pub(super) async fn size(machine: &VirtualMachine) -> Result<u64, Failure> {
    let descriptors = machine.descriptors().await.map_err(failed(machine.name()))?;
    Ok(descriptors.iter().map(virtual_disk::Descriptor::bytes).sum())
}
