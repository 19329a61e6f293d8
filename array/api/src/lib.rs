//! Types of the REST dialect: what goes over the wire, for the server and for clients.
//!
//! The dialect is the first slice of FlashArray REST 2.26, as existing clients speak it. Sizes, times and counts are
//! integers (bytes, milliseconds since 1970). Answers carry every field that clients read without asking whether it is
//! there; requests with fields that are not known here are refused, so that nothing is silently ignored.
#![forbid(unsafe_code)]

mod alert;
mod array;
mod connection;
mod envelope;
mod host;
mod snapshot;
mod volume;

pub use alert::{Alert, Scrub, ScrubPost};
pub use array::{
    AdminApiToken, ApiToken, ApiVersions, Array, ArrayPatch, ArraySpace, Controller, EradicationConfig,
    EradicationPatch, Eth, Hardware, NetworkInterface, Port, Space,
};
pub use connection::{Connection, ConnectionPost};
pub use envelope::{ApiError, ErrorBody, GatewayError, Items, Reference};
pub use host::{Chap, Host, HostPatch, HostPost, MASKED_SECRET, PortConnectivity};
pub use snapshot::{VolumeSnapshot, VolumeSnapshotPatch, VolumeSnapshotPost};
pub use volume::{Qos, Volume, VolumePatch, VolumePost, VolumeSpace};

/// The newest version of the dialect that is spoken, and the last of those that are told.
pub const VERSION: &str = "2.26";
/// The highest minor version of major version 2.
pub const MINOR_VERSION: u32 = 26;
/// The header that brings an API token to `login`.
pub const API_TOKEN_HEADER: &str = "api-token";
/// The header that brings a session's token back from `login`, and to everything else.
pub const AUTH_TOKEN_HEADER: &str = "x-auth-token";
/// The header with the token of the next page.
pub const NEXT_TOKEN_HEADER: &str = "x-next-token";
/// The most items on one page, and how many there are when nobody says.
pub const MAX_PAGE_ITEMS: usize = 1000;
/// The most bytes in the body of a request.
pub const MAX_BODY_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
