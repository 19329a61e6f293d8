//! SCSI commands: dispatch, the commands themselves, and the steps that they take in the engine.

pub(crate) mod copy;
pub(crate) mod dispatch;
pub(crate) mod medium;
pub(crate) mod outcome;
pub(crate) mod program;
mod report;
mod third_party;
