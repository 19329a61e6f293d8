//! A cluster file system on one shared LUN, with the behaviour that VMFS shows to an array.
//!
//! Files consist of 1 MiB blocks. Each metadata sector carries its own lock, and each host has a
//! heartbeat. Locks are taken by ATS (COMPARE AND WRITE, SBC-4 5.3) or under a reservation of the
//! whole LUN. `docs/datastore-format.md` describes the format.
#![forbid(unsafe_code)]

mod datastore;
mod error;
mod extent;
mod fenced;
mod file;
mod format;
mod fsck;
mod heartbeat;
mod heartbeat_task;
mod io;
mod layout;
mod lease;
mod map;
mod mount_state;
mod mounted;
mod names;
mod options;
mod owner_watch;
mod path;
mod process;
mod recovery;
mod runtime;
mod transaction;
mod tree;
mod volume;

pub use datastore::{Datastore, DatastoreSpace, DirectoryEntry, Stat, UnmountDelay, VolumeInfo};
pub use error::DatastoreError;
pub(crate) use error::Result;
pub use file::{BlockFill, Cursor, ExtentState, File, FileAccess, FileExtent};
pub use fsck::{CheckNote, CheckReport, FixReport, Problem, check, fix};
pub use io::DisabledSafeguards;
pub use layout::descriptor::FileKind;
pub use layout::gpt::DEFAULT_PARTITION_LBA;
pub use layout::lock::LockOwner;
pub use layout::page::MAX_FILE_NAME_BYTES;
pub use layout::superblock::MAX_LABEL_BYTES;
pub use layout::{FS_BLOCK_BYTES, FS_BLOCK_SECTORS, MAX_HOSTS, SECTOR_BYTES};
pub use options::{FormatOptions, MountOptions, Timing};
pub use process::{HostProcess, MountEvent};
pub use runtime::{Runtime, Task, TokioRuntime};
pub use volume::{Mode, VolumeUuid};
