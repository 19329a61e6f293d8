//! The login phase (RFC 7143 6): the target state machine and the types of both ends.

mod security;
mod target;
mod types;

pub use target::{LoginConfig, TargetLogin};
pub(crate) use types::VERSION;
pub use types::{
    Authentication, ChapAccount, Established, LoginAuthority, LoginProgress, LoginRefusal, LoginStatus, SessionKind,
    SessionRequest,
};

#[cfg(test)]
mod tests;
