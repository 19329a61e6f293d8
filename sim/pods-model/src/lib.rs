//! A model of a pod: two arrays, a mediator, and hosts that change and read two blocks.
//!
//! `docs/pods-protocol.md` describes the protocol. The model has its states, messages and rules,
//! and checks them by visiting every state within bounds, and by random histories. Each rule can be
//! broken on purpose ([`bug::Bug`]); the search must then find a violation.
//!
//! | module | part of the protocol |
//! | --- | --- |
//! | [`names`], [`message`], [`array`](mod@array) | vocabulary, messages, the state of an array |
//! | [`world`] | the system and its rules: commands, sessions, contact, ties, RESYNC |
//! | [`step`] | which steps can happen when |
//! | [`properties`], [`block_history`] | the conditions that must hold |
//! | [`checker`], [`recovery`], [`catalogue`] | exhaustive search, random histories, and the runs |
#![forbid(unsafe_code)]

pub mod array;
pub mod block_history;
pub mod budget;
pub mod bug;
pub mod catalogue;
pub mod checker;
pub mod message;
pub mod names;
pub mod properties;
pub mod recovery;
pub mod step;
pub mod world;
