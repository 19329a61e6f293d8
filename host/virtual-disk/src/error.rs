//! Errors of virtual disks and virtual machines.

use crate::descriptor::DescriptorError;
use crate::sparse::SparseError;
use crate::vmx::VmxError;
use multipath::DeviceError;
use thiserror::Error;

/// Why an operation on a virtual disk or machine failed.
#[derive(Debug, Error)]
pub enum VirtualDiskError {
    /// The datastore failed.
    #[error(transparent)]
    Datastore(#[from] datastore::DatastoreError),
    /// The device failed.
    #[error(transparent)]
    Disk(#[from] DeviceError),
    /// A `.vmdk` is not valid.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// The range is not within the disk or not a multiple of whole sectors.
    #[error("{bytes} bytes at offset {offset} are not whole sectors within the disk")]
    Range {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Datastores need devices with logical blocks of 512 bytes.
    #[error("the device has blocks of {0} bytes, not of 512")]
    SectorSize(u32),
    /// The operation needs a thin disk.
    #[error("the disk is not thin")]
    NotThin,
    /// The operation needs a thick disk.
    #[error("the disk is thin")]
    Thin,
    /// A disk can only grow.
    #[error("the new size is not larger than the disk")]
    NotLarger,
    /// The flat file is smaller than the disk.
    #[error("the descriptor states {descriptor} bytes, but the file has {file}")]
    Short {
        /// Size in the descriptor.
        descriptor: u64,
        /// Size of the file.
        file: u64,
    },
    /// The system has no random numbers for identities.
    #[error("random numbers not available: {0}")]
    Random(std::io::Error),
    /// A text file of the datastore is too long, or not text.
    #[error("'{0}' is not a readable text file")]
    NotText(String),
    /// A `.vmx` is not valid.
    #[error(transparent)]
    Vmx(#[from] VmxError),
    /// The name cannot be used for a directory.
    #[error("'{0}' is not a valid name for a virtual machine")]
    MachineName(String),
    /// A template cannot be powered on.
    #[error("a template cannot be powered on")]
    Template,
    /// Another process has the machine powered on.
    #[error("the virtual machine is powered on")]
    PoweredOn,
    /// The device does not support UNMAP.
    #[error("Devices backing volume {0} do not support UNMAP")]
    NoUnmap(String),
    /// This kind of disk is not supported.
    #[error("disks of this type are not supported")]
    Kind,
    /// A hosted sparse file is not valid or not supported.
    #[error(transparent)]
    Sparse(#[from] SparseError),
    /// The operation is not possible in a hosted format.
    #[error("the disk has a hosted format; copy it to a format of datastores with `vmkfstools -i`")]
    Hosted,
    /// Machines cannot use disks in a hosted format; the SCSI target is stated.
    #[error(
        "Unsupported or invalid disk type for 'scsi0:{0}'. Ensure that the disk has been imported: copy it to a \
         format of datastores with `vmkfstools -i`"
    )]
    NotImported(usize),
    /// A file of this system could not be read.
    #[error("the image could not be read: {0}")]
    Local(std::io::Error),
    /// The disk contains only changes.
    #[error("the disk belongs to a snapshot or a linked clone; remove the snapshots, or copy the disk")]
    Delta,
    /// The operation needs a machine without snapshots and linked clones of it.
    #[error("{0}")]
    Snapshots(String),
    /// A write could not be mirrored to the destination of a migration.
    #[error("the destination of the migration failed: {0}")]
    Mirror(Box<VirtualDiskError>),
    /// The disk is already being migrated.
    #[error("the disk is being migrated")]
    Busy,
    /// The disk has moved: its old blocks may belong to another file.
    #[error("the disk has moved")]
    Retired,
}

/// The result of an operation on a virtual disk or machine.
pub type Result<T> = std::result::Result<T, VirtualDiskError>;
