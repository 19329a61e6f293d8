//! What ESXi does with a datastore: virtual disks of three formats, the data mover that copies and zeroes them with the
//! array's help or without, virtual machines that use them, and the UNMAP that gives their space back.
//!
//! [`Descriptor`] is the text of a `.vmdk`; [`Format`] how its blocks are provided; [`offload`] the rules that forbid
//! EXTENDED COPY; [`transfer`] the sizes of commands; [`reclaim`] the rules of `esxcli storage vmfs unmap`.
#![forbid(unsafe_code)]

mod content;
mod copy;
pub mod descriptor;
mod error;
mod flat;
mod format;
mod layout;
mod live;
mod locks;
mod map;
mod mover;
pub mod offload;
pub mod reclaim;
pub mod transfer;
pub mod vmx;

pub use descriptor::Descriptor;
pub use error::{Error, Result};
pub use format::{Format, FormatError};
pub use mover::{ByHost, MoverSettings, Sent, Work};
