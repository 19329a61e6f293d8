//! What ESXi does with a datastore: virtual disks of three formats, the data mover that copies and zeroes them with the
//! array's help or without, virtual machines that use them, and the UNMAP that gives their space back.
//!
//! [`Descriptor`] is the text of a `.vmdk`; [`Format`] how its blocks are provided; [`offload`] the rules that forbid
//! EXTENDED COPY; [`transfer`] the sizes of commands; [`reclaim`] the rules of `esxcli storage vmfs unmap`.
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
pub mod reclaim;
mod store;
#[cfg(test)]
mod testing;
pub mod transfer;
pub mod unmap;
pub mod vmx;

pub use descriptor::Descriptor;
pub use disk::{Progress, Report, Target, VirtualDisk};
pub use error::{Error, Result};
pub use format::{Format, FormatError};
pub use machine::{Boot, DiskSpec, Machine, Running};
pub use mover::{ByHost, MoverSettings, Sent, Work};
pub use store::FileAccess;
