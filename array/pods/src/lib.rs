//! Pods on two arrays, served by this one: joins the state machine of a pod (`pod`), the streams of
//! the engine and their way to the other array (`engine`, `replication`), the mediator, and the
//! hosts.
//!
//! ```text
//!  hosts, catalog ─▶ PodService ─▶ gate of the pod ─▶ engine ─▶ carrier ═ link ═▶ other array
//!                                   ▲    │ forwards ────────────────────────▶
//!                          service  │    ▼
//!              thread of the pod: state machine ◀─▶ messages, mediator, values of the engine
//! ```
//!
//! * [`Pods`] has the pods, and receives what the link brings.
//! * The *driver* is the thread of one pod. It alone carries out what the state machine decides.
//! * The *gate* lets requests of hosts pass, wait, fail, or go to the array that orders changes.
#![forbid(unsafe_code)]

mod attempts;
mod border;
mod driver;
mod environment;
mod exchange;
mod forward;
mod gate;
mod handle;
mod lag;
mod mask;
mod message;
mod objects;
mod pace;
mod persist;
mod pods;
mod questions;
mod registrar;
mod resync;
mod room;
mod service;
mod status;
mod verify;

pub use environment::{Environment, PodEngine};
pub use exchange::CopiedBytes;
pub use objects::PodObjects;
pub use pods::{Offers, PodConfig, PodError, Pods};
pub use registrar::PodRegister;
pub use service::PodService;
pub use status::{Flow, PodStatus};
pub use verify::{Difference, DifferenceKind, VerifyState, VerifyStatus};
