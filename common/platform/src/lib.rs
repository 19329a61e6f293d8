//! The only door to the outside: drives, sockets, clocks, randomness and files. Everything else is values in, values out,
//! so that every test can be a simulation.

mod append;
pub mod clock;
mod disk;
mod file_disk;
pub mod files;
pub mod lock;
mod log_limit;
pub mod memory;
pub mod net;
pub mod process;
pub mod random;
mod temporary;

pub use append::AppendFile;
pub use disk::{DURABLE_ALIGNMENT, Disk, DiskError, Durability};
pub use file_disk::FileDisk;
pub use log_limit::LogLimit;
pub use temporary::TemporaryDirectory;
