//! ESXi's use of a datastore: virtual disks in three formats and in hosted ones, the data mover
//! that copies and zeroes them with or without offloads, virtual machines that use them, and UNMAP
//! of free space.
//!
//! [`Descriptor`] is the text of a `.vmdk`; [`DiskFormat`] is the allocation of its blocks;
//! [`offload`] has the rules that exclude EXTENDED COPY; [`transfer`] has the sizes of commands;
//! [`reclaim`] has the rules of `esxcli storage vmfs unmap`.
#![forbid(unsafe_code)]

mod content;
mod copy;
pub mod descriptor;
mod disk;
mod error;
mod flat;
mod format;
mod layout;
mod live;
mod locks;
mod machine;
mod map;
mod mover;
pub mod offload;
mod raw_device;
pub mod reclaim;
mod run_ahead;
mod sparse;
mod store;
#[cfg(test)]
mod testing;
pub mod transfer;
pub mod unmap;
pub mod vmx;

pub use copy::CopyReport;
pub use descriptor::{CreateType, Descriptor};
pub use disk::{CopyTarget, Progress, VirtualDisk};
pub use error::{Result, VirtualDiskError};
pub use format::{DiskFormat, DiskFormatError};
pub use machine::{BootWorkload, DiskSpec, RunningMachine, Snapshot, VirtualMachine};
pub use mover::{CommandTotal, HostCopyReason, MoverSettings, MoverWork, Outstanding};
pub use raw_device::{create_mapping, mapped_device};
pub use sparse::{SparseError, SparseImage};
pub use store::FileAccess;
