//! The facts of a session about the other array.

use crate::channel::Channel;
use crate::hello::Hello;
use std::net::SocketAddr;

/// The facts that the other array states in its `Hello`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) version: String,
    pub(crate) incarnation: u64,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) max_body_bytes: u32,
    pub(crate) window_frames: u32,
}

impl Remote {
    pub(crate) fn new(channel: &Channel, hello: &Hello) -> Self {
        Self {
            version: hello.version.clone(),
            incarnation: hello.incarnation,
            local: channel.local,
            remote: channel.remote,
            max_body_bytes: hello.max_body_bytes,
            window_frames: hello.window_frames,
        }
    }
}
