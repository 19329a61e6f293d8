//! SCSI commands: dispatch, execution, and the engine operations that they consist of.

pub(crate) mod access;
mod classify;
pub(crate) mod context;
mod copy;
pub(crate) mod copy_records;
pub(crate) mod dispatch;
mod medium;
pub(crate) mod outcome;
pub(crate) mod program;
mod report;
pub(crate) mod reservation;
