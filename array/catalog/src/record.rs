//! Catalog records and their stored form: JSON under a key, with a format version.

use crate::CatalogError;
use crate::secret::Secret;
use engine::KeyValue;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use types::{LBA_BYTES, ObjectId, VolumeId};

/// Version of the stored form.
pub(crate) const RECORD_VERSION: u32 = 1;
/// Version of the stored form of a host with sealed secrets.
const SEALED_VERSION: u32 = 2;
/// Version of the stored form of a volume or snapshot whose content is not where it was created. A
/// program that does not know of that would read another volume.
const MOVED_VERSION: u32 = 2;
/// Vendor part of a volume's NAA identifier (type 6, IEEE 24a937). Clients of the REST dialect
/// prepend it to the serial number.
pub(crate) const NAA_PREFIX: &str = "624a9370";

/// Key prefix under which the target stores the persistent reservations of volumes and snapshots.
const RESERVATIONS_PREFIX: &str = "pr/";

/// Returns the key under which the target stores the persistent reservations of a volume or
/// snapshot.
///
/// The value is not a catalog record. It is deleted with the volume.
pub fn reservations_key(volume: ObjectId) -> Vec<u8> {
    format!("{RESERVATIONS_PREFIX}{}", volume.0).into_bytes()
}

/// Returns the keys of stored reservations with the ids of their volumes or snapshots.
pub(crate) fn stored_reservations(service: &dyn KeyValue) -> Vec<(Vec<u8>, ObjectId)> {
    let number = |key: &[u8]| std::str::from_utf8(key.get(RESERVATIONS_PREFIX.len()..)?).ok()?.parse().ok();
    let stored = service.scan(RESERVATIONS_PREFIX.as_bytes()).into_iter();
    stored.filter_map(|(key, _)| number(&key).map(|number| (key, ObjectId(number)))).collect()
}

/// Parameters for initialising a new array.
#[derive(Clone, Debug)]
pub struct ArrayInit {
    /// Name of the array.
    pub name: String,
    /// Number of the array, from 1.
    pub number: u8,
    /// Random bytes from which the permanent identity is derived.
    pub identity: [u8; 16],
    /// Current time in milliseconds since 1970.
    pub now_ms: u64,
}

/// Record of the array. Its identity never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Display name.
    pub name: String,
    /// Permanent id, a UUID.
    pub id: String,
    /// iSCSI name of the target.
    pub iqn: String,
    /// First 16 of the 24 hexadecimal digits of every serial number.
    pub serial_prefix: String,
    /// Number of the array, from 1. Part of the relative identifiers of its target ports, which
    /// must differ between arrays that serve one volume.
    #[serde(default = "first_number", skip_serializing_if = "is_first_number")]
    pub number: u8,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Id of the next volume. It only increases, so that no serial number is used twice.
    pub next_volume: u64,
    /// Id of the next host.
    pub next_host: u64,
    /// Last number that was assigned as a snapshot suffix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub snapshots_numbered: u64,
    /// Time served in all runs of the array, in milliseconds, when it was last stored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub served_ms: u64,
    /// Time at which the last scrub ended, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_scrub_ms: Option<u64>,
    /// Setting of the wall clock that still matters to eradication.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clock_jump: Option<ClockJump>,
    /// Settings made by administrators.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: ArraySettings,
}

/// Number of an array that was created without one.
fn first_number() -> u8 {
    1
}

fn is_first_number(number: &u8) -> bool {
    *number == first_number()
}

/// A wall clock that was set while the array served: the sum of the jumps that are not undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockJump {
    /// Milliseconds that the wall clock is ahead of the expected time; negative if it was set back.
    pub ahead_ms: i64,
    /// Time that the array had served at the last jump, in milliseconds.
    pub served_ms: u64,
}

/// A moment, by two clocks. Neither alone can be trusted with the deletion of data: the wall clock
/// may be set, and the time served stops while the array is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrayTime {
    /// Milliseconds since 1970, by the wall clock.
    pub wall_ms: u64,
    /// Milliseconds for which the array has served, by a clock that is never set.
    pub served_ms: u64,
}

impl ArrayTime {
    /// Returns the milliseconds until `delay_ms` have passed since this moment by both clocks.
    pub fn remaining_ms(&self, delay_ms: u64, now: Self) -> u64 {
        let left = |since: u64, now: u64| delay_ms.saturating_sub(now.saturating_sub(since));
        left(self.wall_ms, now.wall_ms).max(left(self.served_ms, now.served_ms))
    }
}

/// Settings of an array made by administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArraySettings {
    /// Time in milliseconds during which destroyed volumes and snapshots can be recovered.
    pub eradication_delay_ms: u64,
    /// Percentage of pool usage at which hosts get a space alert, once; `None` for no alert.
    pub threshold_percent: Option<u8>,
    /// When and how fast all stored data is verified.
    #[serde(skip_serializing_if = "is_default")]
    pub scrub: ScrubSettings,
}

impl Default for ArraySettings {
    fn default() -> Self {
        let scrub = ScrubSettings::default();
        Self { eradication_delay_ms: crate::ERADICATION_DELAY_MS, threshold_percent: None, scrub }
    }
}

/// Schedule of scrubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScrubSettings {
    /// Time in milliseconds from the end of a scrub to the next one; `None` for no schedule.
    pub interval_ms: Option<u64>,
    /// Maximum bytes verified per second.
    pub bytes_per_second: u64,
}

impl Default for ScrubSettings {
    fn default() -> Self {
        Self { interval_ms: Some(crate::SCRUB_INTERVAL_MS), bytes_per_second: crate::SCRUB_BYTES_PER_SECOND }
    }
}

/// QoS limits of a volume, or of all volumes of a group together, across all hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qos {
    /// Maximum bytes per second, read and written; `None` for no limit.
    pub bandwidth_limit: Option<u64>,
    /// Maximum commands per second; `None` for no limit.
    pub iops_limit: Option<u64>,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Array {
    /// Returns the time at which the next scrub is due, in milliseconds since 1970. `None` without
    /// a schedule. The first interval begins with the creation of the array.
    pub fn next_scrub_ms(&self) -> Option<u64> {
        let last = self.last_scrub_ms.unwrap_or(self.created_ms);
        self.settings.scrub.interval_ms.map(|interval| last.saturating_add(interval))
    }

    /// Creates the record of a new array.
    pub(crate) fn init(init: &ArrayInit) -> Self {
        let mut uuid = init.identity;
        // RFC 9562 5.4: a version 4 UUID, variant 10.
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
        let id = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
        Self {
            name: init.name.clone(),
            id,
            iqn: format!("iqn.2026-11.org.ibid:{}", &hex[..12]),
            serial_prefix: hex[16..].to_ascii_uppercase(),
            number: init.number,
            created_ms: init.now_ms,
            next_volume: 1,
            next_host: 1,
            snapshots_numbered: 0,
            served_ms: 0,
            last_scrub_ms: None,
            clock_jump: None,
            settings: ArraySettings::default(),
        }
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Identity. Never changes.
    pub id: ObjectId,
    /// Where the content is, if it has moved.
    #[serde(default, rename = "content", skip_serializing_if = "is_default")]
    pub(crate) moved: Option<VolumeId>,
    /// Display name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Serial number: 24 upper-case hexadecimal digits, never reused.
    pub serial: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it was destroyed, if it is waiting for eradication.
    pub destroyed_ms: Option<u64>,
    /// Time that the array had served then, in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_served_ms: u64,
    /// QoS limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos: Qos,
    /// Percentage of the volume's size at which hosts get a space alert, once; `None` for no alert.
    #[serde(default, skip_serializing_if = "is_default")]
    pub threshold_percent: Option<u8>,
    /// Volume or snapshot that was last copied to this volume.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Option<ObjectId>,
    /// Tags, sorted by namespace and key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: Vec<Tag>,
}

impl Volume {
    /// Returns the size in 512-byte blocks.
    pub fn blocks(&self) -> u64 {
        self.bytes / LBA_BYTES
    }

    /// Returns the id of the engine's volume that holds the blocks. It may change.
    pub fn content(&self) -> VolumeId {
        self.moved.unwrap_or(first_content(self.id))
    }

    /// Returns the NAA identifier that hosts see (SPC-4 7.8.6.6.5): 32 hexadecimal digits.
    pub fn naa(&self) -> String {
        naa(&self.serial)
    }

    /// Returns the moment of its destruction.
    pub fn destroyed_at(&self) -> Option<ArrayTime> {
        self.destroyed_ms.map(|wall_ms| ArrayTime { wall_ms, served_ms: self.destroyed_served_ms })
    }
}

/// A snapshot: the content of a volume at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Identity. Never changes.
    pub id: ObjectId,
    /// Where the content is, if it has moved.
    #[serde(default, rename = "content", skip_serializing_if = "is_default")]
    pub(crate) moved: Option<VolumeId>,
    /// Volume that the snapshot was taken of. It is never deleted before the snapshot.
    pub volume: ObjectId,
    /// Part of the snapshot name after the volume name and a dot.
    pub suffix: String,
    /// Size in bytes of the volume at that instant.
    pub bytes: u64,
    /// Serial number: 24 upper-case hexadecimal digits, never reused.
    pub serial: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which the snapshot itself was destroyed. It also waits for eradication while its
    /// volume is destroyed.
    pub destroyed_ms: Option<u64>,
    /// Time that the array had served then, in milliseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_served_ms: u64,
    /// Protection group and its snapshot that this snapshot belongs to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Option<(ProtectionGroupId, GroupSnapshotId)>,
    /// Time at which a snapshot of a policy is destroyed, in milliseconds since 1970. `None` for
    /// all others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expires_ms: Option<u64>,
}

impl Snapshot {
    /// Returns the id of the engine's volume that holds the blocks. It may change.
    pub fn content(&self) -> VolumeId {
        self.moved.unwrap_or(first_content(self.id))
    }

    /// Returns the moment at which the snapshot itself was destroyed.
    pub fn destroyed_at(&self) -> Option<ArrayTime> {
        self.destroyed_ms.map(|wall_ms| ArrayTime { wall_ms, served_ms: self.destroyed_served_ms })
    }
}

/// A volume or a snapshot: an object that holds data, can be copied and can be connected to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeOrSnapshot {
    /// A volume.
    Volume(Arc<Volume>),
    /// A read-only snapshot.
    Snapshot(Arc<Snapshot>),
}

impl VolumeOrSnapshot {
    /// Returns the identity, which never changes.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Volume(volume) => volume.id,
            Self::Snapshot(snapshot) => snapshot.id,
        }
    }

    /// Returns the id of the engine's volume that holds the blocks. It may change.
    pub fn content(&self) -> VolumeId {
        match self {
            Self::Volume(volume) => volume.content(),
            Self::Snapshot(snapshot) => snapshot.content(),
        }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Volume(volume) => volume.bytes,
            Self::Snapshot(snapshot) => snapshot.bytes,
        }
    }

    /// Returns the serial number: 24 upper-case hexadecimal digits.
    pub fn serial(&self) -> &str {
        match self {
            Self::Volume(volume) => &volume.serial,
            Self::Snapshot(snapshot) => &snapshot.serial,
        }
    }

    /// Returns the NAA identifier that hosts see (SPC-4 7.8.6.6.5): 32 hexadecimal digits.
    pub fn naa(&self) -> String {
        naa(self.serial())
    }

    /// Returns the NAA identifier (SPC-4 7.8.6.6.5) written as a UUID: 32 hexadecimal digits in 5
    /// groups.
    pub fn uuid(&self) -> String {
        let naa = self.naa();
        [&naa[..8], &naa[8..12], &naa[12..16], &naa[16..20], &naa[20..]].join("-")
    }
}

/// Returns where the content of an object is until it is moved: the engine's volume of the same
/// number. A record does not store that.
pub(crate) fn first_content(id: ObjectId) -> VolumeId {
    VolumeId(id.0)
}

/// Returns the value to store for the content of an object.
pub(crate) fn moved_content(id: ObjectId, content: VolumeId) -> Option<VolumeId> {
    (content != first_content(id)).then_some(content)
}

/// Returns the NAA identifier for a serial number.
pub(crate) fn naa(serial: &str) -> String {
    format!("{NAA_PREFIX}{}", serial.to_ascii_lowercase())
}

/// Id of a host. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u64);

/// CHAP settings for authenticating a host (RFC 7143 12.1), and the array to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chap {
    /// User name and secret that authenticate the host.
    pub host: Option<(String, Secret)>,
    /// User name and secret that authenticate the array to the host (mutual CHAP).
    pub target: Option<(String, Secret)>,
}

/// A host, identified by its initiators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Host id.
    pub id: HostId,
    /// Display name.
    pub name: String,
    /// Initiator names, in lower case. `*` matches any initiator not assigned to another host.
    pub iqns: Vec<String>,
    /// CHAP settings.
    pub chap: Chap,
    /// Host type.
    pub personality: Option<String>,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Host group, if it is in one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Option<HostGroupId>,
    /// Ids of the arrays whose ports the host prefers, for volumes that two arrays serve. Empty for
    /// no preference.
    #[serde(default, skip_serializing_if = "is_default")]
    pub preferred_arrays: Vec<String>,
}

impl Host {
    /// Returns whether a secret cannot be read because its key is missing. Logins are refused then.
    pub fn is_locked(&self) -> bool {
        self.chap.host.iter().chain(&self.chap.target).any(|(_, secret)| secret.expose().is_none())
    }
}

/// Connection of a volume or snapshot to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Host id.
    pub host: HostId,
    /// Volume or snapshot id.
    pub volume: ObjectId,
    /// LUN of the volume at this host.
    pub lun: u16,
}

/// Id of a host group. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostGroupId(pub u64);

/// A host group: hosts that see the same volumes at the same LUNs. A host is in at most one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostGroup {
    /// Id.
    pub id: HostGroupId,
    /// Display name.
    pub name: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
}

/// Connection of a volume or snapshot to a host group. Each host of the group has a connection of
/// its own with the same LUN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupConnection {
    /// Host group id.
    pub group: HostGroupId,
    /// Volume or snapshot id.
    pub volume: ObjectId,
    /// LUN of the volume at all hosts of the group.
    pub lun: u16,
}

/// A tag of a volume. Namespace and key identify it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tag {
    /// Namespace.
    pub namespace: String,
    /// Key within the namespace.
    pub key: String,
    /// Value.
    pub value: String,
    /// Whether copies of the volume get the tag.
    pub copyable: bool,
}

/// Id of a protection group. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProtectionGroupId(pub u64);

/// Id of a snapshot of a protection group. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupSnapshotId(pub u64);

/// A record type of the catalog.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// Key prefix of all records of this type.
    const PREFIX: &'static str;
    /// Returns the key of this record. Ids are written as 16 hexadecimal digits so that keys sort
    /// like numbers.
    fn key(&self) -> String;
    /// Versions of the stored form that can be read.
    const VERSIONS: &'static [u32] = &[RECORD_VERSION];
    /// Returns the version of the stored form.
    fn version(&self) -> u32 {
        RECORD_VERSION
    }
}

impl Record for Array {
    const PREFIX: &'static str = "array";
    fn key(&self) -> String {
        Self::PREFIX.to_owned()
    }
}

impl Record for Volume {
    const PREFIX: &'static str = "volume/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
    const VERSIONS: &'static [u32] = &[RECORD_VERSION, MOVED_VERSION];
    fn version(&self) -> u32 {
        if self.moved.is_some() { MOVED_VERSION } else { RECORD_VERSION }
    }
}

impl Record for Snapshot {
    const PREFIX: &'static str = "snapshot/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
    const VERSIONS: &'static [u32] = &[RECORD_VERSION, MOVED_VERSION];
    fn version(&self) -> u32 {
        if self.moved.is_some() { MOVED_VERSION } else { RECORD_VERSION }
    }
}

impl Record for Host {
    const PREFIX: &'static str = "host/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
    const VERSIONS: &'static [u32] = &[RECORD_VERSION, SEALED_VERSION];
    fn version(&self) -> u32 {
        if self.is_locked() { SEALED_VERSION } else { RECORD_VERSION }
    }
}

impl Record for Connection {
    const PREFIX: &'static str = "connection/";
    fn key(&self) -> String {
        format!("{}{:016x}/{:016x}", Self::PREFIX, self.host.0, self.volume.0)
    }
}

impl Record for HostGroup {
    const PREFIX: &'static str = "host-group/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}

impl Record for GroupConnection {
    const PREFIX: &'static str = "group-connection/";
    fn key(&self) -> String {
        format!("{}{:016x}/{:016x}", Self::PREFIX, self.group.0, self.volume.0)
    }
}

#[derive(Serialize)]
struct Stored<'a, T> {
    v: u32,
    record: &'a T,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Deserialize)]
struct Loaded<T> {
    record: T,
}

/// Encodes a record.
pub(crate) fn encode<T: Record>(record: &T) -> Result<Vec<u8>, CatalogError> {
    serde_json::to_vec(&Stored { v: record.version(), record })
        .map_err(|error| CatalogError::Damaged { key: record.key(), reason: error.to_string() })
}

/// Decodes a stored record. The version is checked first, because the form of the record depends on
/// it.
pub(crate) fn decode<T: Record>(key: &[u8], value: &[u8]) -> Result<T, CatalogError> {
    let name = String::from_utf8_lossy(key);
    let damaged = |reason: String| CatalogError::Damaged { key: name.clone().into_owned(), reason };
    let version: Version = serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
    if !T::VERSIONS.contains(&version.v) {
        let supported = T::VERSIONS.iter().max().unwrap_or(&RECORD_VERSION);
        return Err(damaged(format!("its version is {}, but only version {supported} is supported", version.v)));
    }
    let loaded: Loaded<T> = serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
    if loaded.record.key().as_bytes() != key {
        return Err(damaged(format!("it contains the key {}", loaded.record.key())));
    }
    Ok(loaded.record)
}
