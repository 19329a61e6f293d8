//! The engine as a deterministic state machine: requests and ends of I/O go in, actions come out.
//! No I/O, no clock, no threads, no randomness: the same inputs in the same order give the same
//! actions, so that a seed replays a failure exactly.
//!
//! ```text
//! request ─▶ core ─▶ scheduler: lock the range
//!                 ─▶ page loader: load the map pages that the step touches
//!                 ─▶ space: admit the record
//!                 ─▶ log: open group, and state: map, in the same step
//!         ◀─ reply when the group is on stable storage
//!
//! background: destager (dirty blocks ─▶ segments), checkpointer (map ─▶ segments, superblock),
//!             cleaner (segments ─▶ dirty blocks), page loader (drop queue)
//! ```
//!
//! Each owner ([`scheduler`], [`dispatcher`], [`page_loader`], [`destager`], [`checkpointer`],
//! [`space`]) has fields and methods of its own, and takes other owners as parameters. [`core`]
//! joins them.

mod backpressure;
mod batch;
mod checkpointer;
mod cleaner;
mod core;
mod dedup;
mod destager;
mod dirty;
mod dispatcher;
mod error;
mod group;
mod io;
mod locks;
mod log;
mod log_reader;
mod options;
mod ordered;
mod page_loader;
mod pins;
mod plan;
mod pool;
mod ranges;
mod read;
mod recompressor;
mod refusals;
mod report;
mod scheduler;
mod scrub;
mod space;
mod span;
mod state;
mod steps;
mod summary_chain;
mod survey;
mod sync_step;
mod task;
mod volume;
mod work;

pub use core::Core;
pub use core::scrub_contents::{SegmentContents, SegmentDamage, WithCore, read_or_zero};
pub use error::{AuditError, CreateError, RecoverError};
pub(crate) use io::perform;
pub use io::{Action, Io, IoId, TaskId, Urgency};
pub use options::Options;
pub use plan::ReadPlan;
pub use report::{Recovery, Usage};
pub use scrub::{PinnedCheckpoint, PinnedSegment};
pub(crate) use span::{Place, PlaceRead};
pub use work::{Work, WorkDone, WorkId};
