//! The engine as a deterministic state machine: requests and completions of I/O go in, actions come out. No I/O, no clock, no
//! threads, no chance: the same inputs in the same order give the same actions, so that a seed replays a failure exactly.
//!
//! The way of a change: [`task`] claims its range ([`locks`]), has the map pages loaded that it touches, fetches bytes that it
//! depends on, waits for room, and is then *sequenced*: it goes into the log's open group and, in the same step, into the map
//! ([`apply`]). It is answered when the group is on stable storage. [`destage`] gives dirty blocks a place, [`checkpoint`]
//! stores the map, [`recover`] reads it all back.

mod apply;
mod audit;
mod batch;
mod check;
mod checkpoint;
mod clean;
mod codec;
mod core;
mod dedup;
mod destage;
mod dirty;
mod error;
mod grow;
mod io;
mod load;
mod located;
mod locks;
mod log;
mod manifest;
mod options;
mod plan;
mod pool;
mod read;
mod recover;
mod room;
mod scrub;
mod span;
mod steps;
mod task;
mod unit;
mod validate;
mod volume;
mod work;

pub use audit::Usage;
pub use core::Core;
pub use error::{AuditError, CreateError, RecoverError};
pub(crate) use io::perform;
pub use io::{Action, Io, IoId, TaskId};
pub use options::Options;
pub use plan::ReadPlan;
pub(crate) use read::read_located;
pub use recover::Recovery;
pub(crate) use scrub::{Frozen, Scrubbed};
pub use work::{Work, WorkDone, WorkId};
