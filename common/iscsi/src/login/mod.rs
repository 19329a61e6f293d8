//! The login phase (RFC 7143 6): what both ends agree on, who asks, and how it may fail.

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
