//! Volumes: read, write, zero, unmap, copy, compare and write, each durable when it is answered.
//!
//! The engine knows neither SCSI nor hosts nor names. Those above it see [`Service`].

mod engine;
mod machine;
pub mod model;
mod service;

pub use engine::Engine;
pub use machine::{
    Action, AuditError, Core, CreateError, Io, IoId, Options, ReadPlan, RecoverError, Recovery, TaskId, Usage, Work,
    WorkDone, WorkId,
};
pub use service::{
    Census, Change, Damage, Extent, FamilySpace, Health, MAX_COMPARE_BLOCKS, MAX_TRANSFER_BYTES, Op, OpError, Owner,
    Provisioning, Reply, Service, Sink, Space, Tag, VolumeSpace, call,
};
