//! Pods: containers of volumes, which are named `POD::VOLUME`.

use crate::record::{ArrayTime, RECORD_VERSION, Record, is_default};
use serde::{Deserialize, Serialize};
use types::{StreamId, VolumeId};

/// Separates the name of a pod from that of a volume in it.
pub(crate) const POD_SEPARATOR: &str = "::";

/// Id of a pod. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodId(pub u64);

/// A pod. Its volumes are those whose names begin with its name and two colons, so a volume is in
/// at most one, and not in a volume group as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Id.
    pub id: PodId,
    /// Display name.
    pub name: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it was destroyed, if it is waiting for eradication.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_ms: Option<u64>,
    /// Time that the array had served then, in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_served_ms: u64,
    /// Maximum total size in bytes of its volumes that are not destroyed; `None` for no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quota_bytes: Option<u64>,
    /// Most bytes of data a second that bring the other array into step; `None` for no limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resync_limit: Option<u64>,
    /// Source pod, if this one is a clone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Option<PodId>,
    /// Set while another array has the pod, too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stretch: Option<PodStretch>,
}

/// Properties of a pod that two arrays have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStretch {
    /// Number of the stream whose volumes hold the content, equal on both arrays.
    pub stream: u32,
    /// Number of the next content in the stream. It only increases.
    pub next_content: u32,
    /// The other array.
    pub peer: PodPeer,
    /// Time at which it was stretched, in milliseconds since 1970.
    pub since_ms: u64,
    /// The mediator that both ask when they lose each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mediator: Option<PodMediator>,
    /// Whether the other array continues if both could.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefers_peer: bool,
    /// Number of the last change of the mediator or of the preference. The newer settings count at
    /// both arrays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: u64,
    /// Key of the pod's register at a mediator: 32 hexadecimal digits, equal on both arrays.
    #[serde(default, skip_serializing_if = "is_default")]
    pub register: String,
    /// Whether the pod was on this array when it was stretched.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_origin: bool,
    /// Whether the stream has the hidden volume for reservations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub has_reservations: bool,
    /// Name of the pod at the other array, if the name was taken here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared_name: Option<String>,
}

/// The other array of a stretched pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodPeer {
    /// Permanent id, a UUID.
    pub id: String,
    /// Name, for people.
    pub name: String,
}

/// The mediator of a stretched pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodMediator {
    /// Host and port.
    pub address: String,
    /// SHA-256 of its certificate, in hexadecimal digits.
    pub certificate: String,
    /// Its instance, in hexadecimal digits.
    pub instance: String,
}

impl PodStretch {
    /// Returns the properties of a pod that comes to two arrays.
    pub(crate) fn new(stream: u32, next_content: u32, peer: PodPeer, since_ms: u64, is_origin: bool) -> Self {
        Self {
            stream,
            next_content,
            peer,
            since_ms,
            mediator: None,
            prefers_peer: false,
            settings: 0,
            register: String::new(),
            is_origin,
            has_reservations: false,
            shared_name: None,
        }
    }

    /// Returns the stream.
    pub fn stream(&self) -> StreamId {
        stream_of(self.stream)
    }

    /// Returns the engine's volume for a number of a content.
    pub fn content(&self, number: u32) -> VolumeId {
        self.stream().volume(number)
    }
}

/// Returns the stream with this number, which is checked when it is stored.
pub(crate) fn stream_of(number: u32) -> StreamId {
    StreamId::new(number & MAX_STREAM).unwrap_or_default()
}

/// Highest number of a stream.
pub(crate) const MAX_STREAM: u32 = (1 << 31) - 1;
/// Highest number of a content of a stream.
pub(crate) const MAX_CONTENT: u32 = (1 << 30) - 1;

/// Version of the stored form of a stretched pod. A program that does not know of the other array
/// would change the pod alone.
const STRETCHED_VERSION: u32 = 2;

impl Pod {
    /// Returns the moment of its destruction.
    pub fn destroyed_at(&self) -> Option<ArrayTime> {
        self.destroyed_ms.map(|wall_ms| ArrayTime { wall_ms, served_ms: self.destroyed_served_ms })
    }
}

impl Record for Pod {
    const PREFIX: &'static str = "pod/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
    const VERSIONS: &'static [u32] = &[RECORD_VERSION, STRETCHED_VERSION];
    fn version(&self) -> u32 {
        if self.stretch.is_some() { STRETCHED_VERSION } else { RECORD_VERSION }
    }
}
