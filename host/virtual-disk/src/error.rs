//! How work on virtual disks fails.

use crate::descriptor::DescriptorError;
use crate::vmx::VmxError;
use multipath::DeviceError;
use thiserror::Error;

/// Why an operation on a virtual disk or machine was not done.
#[derive(Debug, Error)]
pub enum Error {
    /// The datastore.
    #[error(transparent)]
    Datastore(#[from] datastore::DatastoreError),
    /// The device.
    #[error(transparent)]
    Disk(#[from] DeviceError),
    /// A `.vmdk` is none.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// Bytes that are not whole sectors, or beyond the end of the disk.
    #[error("{bytes} bytes at {offset} are not within the disk, or no whole sectors")]
    Range {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// The device counts in blocks of another size than 512 bytes, which datastores do not.
    #[error("the device has blocks of {0} bytes, not of 512")]
    SectorSize(u32),
    /// Only thin disks can do this.
    #[error("the disk is not thin")]
    NotThin,
    /// Thin disks cannot do this.
    #[error("the disk is thin")]
    Thin,
    /// The disk cannot become smaller, or is already as large as is asked for.
    #[error("the new size is not larger than the disk")]
    NotLarger,
    /// The flat file is smaller than the disk.
    #[error("the descriptor tells {descriptor} bytes, the file has {file}")]
    Short {
        /// What the descriptor says.
        descriptor: u64,
        /// What the file has.
        file: u64,
    },
    /// No randomness for identities.
    #[error("no random numbers: {0}")]
    Random(std::io::Error),
    /// A text file of the datastore is too long, or no text.
    #[error("'{0}' is no text file that can be read here")]
    NotText(String),
    /// A `.vmx` is none.
    #[error(transparent)]
    Vmx(#[from] VmxError),
    /// A name that no directory can have.
    #[error("'{0}' is no name for a virtual machine")]
    MachineName(String),
    /// A template is not powered on.
    #[error("a template cannot be powered on")]
    Template,
    /// A host has the machine powered on.
    #[error("the virtual machine is powered on")]
    PoweredOn,
    /// The device does not take UNMAP.
    #[error("Devices backing volume {0} do not support UNMAP")]
    NoUnmap(String),
    /// The kind of disk cannot be used here.
    #[error("disks of this type are not supported")]
    Kind,
    /// Bytes that were mirrored to the destination of a migration could not be written there.
    #[error("the destination of the migration failed: {0}")]
    Mirror(Box<Error>),
    /// The disk moves to another datastore already.
    #[error("the disk is being migrated")]
    Busy,
    /// The disk has moved: its blocks may be another's.
    #[error("the disk has moved")]
    Retired,
}

/// The result of such an operation.
pub type Result<T> = std::result::Result<T, Error>;
