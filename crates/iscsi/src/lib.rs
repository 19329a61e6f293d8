//! iSCSI (RFC 7143) for both ends: bytes in, actions out.
#![forbid(unsafe_code)]

mod chap;
mod digest;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gather;
pub mod initiator;
mod login;
#[cfg(test)]
mod loopback;
mod output;
mod parameters;
mod payload;
pub mod pdu;
mod serial;
pub mod target;
#[cfg(test)]
mod testing;
mod text;

pub use chap::Secret;
pub use digest::Digests;
pub use login::{
    Authentication, ChapAccount, Established, LoginAuthority, LoginConfig, LoginProgress, LoginRefusal, LoginStatus,
    SessionKind, SessionRequest, TargetLogin,
};
pub use output::Output;
pub use parameters::Parameters;
pub use payload::Payload;
