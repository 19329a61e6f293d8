//! The only access to the outside: drives, sockets, clocks, randomness and files. All other code
//! computes values from values, so that a simulator can replace these parts.

mod append;
pub mod clock;
mod direct_reads;
mod disk;
mod file_disk;
pub mod files;
mod local_file;
pub mod lock;
mod log_file;
mod log_limit;
pub mod machine;
pub mod memory;
pub mod net;
mod page_cache;
pub mod planted;
pub mod process;
pub mod random;
#[cfg(feature = "simulation")]
pub mod simulation;
mod supervisor;
pub mod tasks;
mod temporary;
pub mod threads;

pub use append::AppendFile;
pub use disk::{DURABLE_ALIGNMENT, DirectRead, Disk, DiskError, Durability};
pub use file_disk::{FileDisk, peek};
pub use local_file::LocalFile;
pub use log_file::LogFile;
pub use log_limit::LogLimit;
pub use supervisor::{ProcessState, Supervisor};
pub use temporary::TemporaryDirectory;
