//! Finds virtual machines and describes them.

use crate::failure::Failure;
use crate::vmfs::{Volumes, failed};
use virtual_disk::VirtualMachine;

/// Finds the virtual machine `name` on any datastore.
pub(super) async fn find(volumes: &mut Volumes, name: &str) -> Result<VirtualMachine, Failure> {
    for datastore in volumes.all().await? {
        match VirtualMachine::open(&datastore, name, volumes.settings(&datastore)).await {
            Ok(machine) => return Ok(machine),
            Err(virtual_disk::VirtualDiskError::Datastore(datastore::DatastoreError::NotFound)) => {}
            Err(error) => return Err(failed(name)(error)),
        }
    }
    Err(Failure::usage(
        format!("virtual machine '{name}' does not exist"),
        "run `ibid-host vm list` to list all virtual machines",
    ))
}

/// Returns the bytes of all disks of a machine.
pub(super) async fn size(machine: &VirtualMachine) -> Result<u64, Failure> {
    let descriptors = machine.descriptors().await.map_err(failed(machine.name()))?;
    Ok(descriptors.iter().map(virtual_disk::Descriptor::bytes).sum())
}
