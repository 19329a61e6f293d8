//! The records of the catalogue and how they are stored: JSON under a key, with the version of its form.

use crate::CatalogError;
use engine::Service;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use types::{LBA_BYTES, VolumeId};

/// Version of the form in which records are stored.
const RECORD_VERSION: u32 = 1;
/// The company part of a volume's NAA name (type 6, IEEE 24a937), which clients of the REST dialect put before the serial.
const NAA_PREFIX: &str = "624a9370";

/// Where the target stores the persistent reservations of volumes and snapshots, each under its number.
const RESERVATIONS_PREFIX: &str = "pr/";

/// The key under which the target stores the persistent reservations of a volume or snapshot. They are no record of the catalogue,
/// and go with the volume.
pub fn reservations_key(volume: VolumeId) -> Vec<u8> {
    format!("{RESERVATIONS_PREFIX}{}", volume.0).into_bytes()
}

/// The keys of stored reservations, with the numbers of the volumes or snapshots that they are of.
pub(crate) fn stored_reservations(service: &dyn Service) -> Vec<(Vec<u8>, VolumeId)> {
    let number = |key: &[u8]| std::str::from_utf8(key.get(RESERVATIONS_PREFIX.len()..)?).ok()?.parse().ok();
    let stored = service.scan(RESERVATIONS_PREFIX.as_bytes()).into_iter();
    stored.filter_map(|(key, _)| number(&key).map(|number| (key, VolumeId(number)))).collect()
}

/// What an array is made of at its first start.
#[derive(Clone, Debug)]
pub struct ArrayInit {
    /// Its name.
    pub name: String,
    /// Random bytes: its identity for ever.
    pub identity: [u8; 16],
    /// The time.
    pub now_ms: u64,
}

/// The array itself. Its identity never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Its name, for people.
    pub name: String,
    /// Its identity: a UUID.
    pub id: String,
    /// The iSCSI name of its target.
    pub iqn: String,
    /// The first 16 of the 24 hexadecimal digits of each volume's serial number.
    pub serial_prefix: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// The number of the next volume; never goes back, so that no serial number is given twice.
    pub next_volume: u64,
    /// The number of the next host.
    pub next_host: u64,
    /// The last number that a snapshot got in the place of a suffix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub snapshots_numbered: u64,
    /// What its administrators have set.
    #[serde(default, skip_serializing_if = "is_default")]
    pub settings: ArraySettings,
}

/// What the administrators of an array have set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArraySettings {
    /// How long destroyed volumes and snapshots can be recovered, in milliseconds.
    pub eradication_delay_ms: u64,
    /// Hosts are told, once, when this percentage of the pool comes into use; `None`: they are not.
    pub threshold_percent: Option<u8>,
}

impl Default for ArraySettings {
    fn default() -> Self {
        Self { eradication_delay_ms: crate::ERADICATION_DELAY_MS, threshold_percent: None }
    }
}

/// The limits of a volume, over all hosts that see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Qos {
    /// Bytes per second that are read and written; `None`: as many as there can be.
    pub bandwidth_limit: Option<u64>,
    /// Commands per second; `None`: as many as there can be.
    pub iops_limit: Option<u64>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Array {
    /// A new array.
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
            created_ms: init.now_ms,
            next_volume: 1,
            next_host: 1,
            snapshots_numbered: 0,
            settings: ArraySettings::default(),
        }
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The engine's name for it.
    pub id: VolumeId,
    /// Its name, for people.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// 24 hexadecimal digits in upper case, unique for ever.
    pub serial: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it was destroyed, if it waits for its eradication.
    pub destroyed_ms: Option<u64>,
    /// Its limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos: Qos,
    /// Hosts are told, once, when this percentage of its size comes to be written; `None`: they are not.
    #[serde(default, skip_serializing_if = "is_default")]
    pub threshold_percent: Option<u8>,
    /// What it was copied from, last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Option<VolumeId>,
}

impl Volume {
    /// Its size in logical blocks.
    pub fn blocks(&self) -> u64 {
        self.bytes / LBA_BYTES
    }

    /// Its NAA name (SPC-4 7.8.6.6.5), as hosts see it: 32 hexadecimal digits.
    pub fn naa(&self) -> String {
        naa(&self.serial)
    }
}

/// A snapshot: what a volume held at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The engine's name for it.
    pub id: VolumeId,
    /// The volume that it was taken of. It never outlives it.
    pub volume: VolumeId,
    /// What follows the volume's name and a point in its own.
    pub suffix: String,
    /// Its size: that of the volume at that instant.
    pub bytes: u64,
    /// 24 hexadecimal digits in upper case, unique for ever.
    pub serial: String,
    /// When it was taken, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it was destroyed, if it waits for its own eradication; it also waits when its volume does.
    pub destroyed_ms: Option<u64>,
}

/// What holds data and can be copied and shown to hosts: a logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeOrSnapshot {
    /// A volume.
    Volume(Arc<Volume>),
    /// A snapshot: for reading only.
    Snapshot(Arc<Snapshot>),
}

impl VolumeOrSnapshot {
    /// The engine's name for it.
    pub fn id(&self) -> VolumeId {
        match self {
            Self::Volume(volume) => volume.id,
            Self::Snapshot(snapshot) => snapshot.id,
        }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Volume(volume) => volume.bytes,
            Self::Snapshot(snapshot) => snapshot.bytes,
        }
    }

    /// Its serial number: 24 hexadecimal digits in upper case.
    pub fn serial(&self) -> &str {
        match self {
            Self::Volume(volume) => &volume.serial,
            Self::Snapshot(snapshot) => &snapshot.serial,
        }
    }

    /// Its NAA name (SPC-4 7.8.6.6.5), as hosts see it: 32 hexadecimal digits.
    pub fn naa(&self) -> String {
        naa(self.serial())
    }
}

/// The NAA name of the volume with that serial number.
pub(crate) fn naa(serial: &str) -> String {
    format!("{NAA_PREFIX}{}", serial.to_ascii_lowercase())
}

/// The number of a host. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u64);

/// A secret that CHAP computes with, and which it therefore needs in clear. Stored, never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret in clear, for the computation of a CHAP response only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(****)")
    }
}

/// What CHAP asks of a host (RFC 7143 12.1), and what the array answers when the host asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chap {
    /// The name and secret by which the host proves itself.
    pub host: Option<(String, Secret)>,
    /// The name and secret by which the array proves itself to the host (mutual CHAP).
    pub target: Option<(String, Secret)>,
}

/// A host: a machine, by the names of its initiators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its number.
    pub id: HostId,
    /// Its name, for people.
    pub name: String,
    /// Its initiators, in lower case; `*` admits any that no other host has.
    pub iqns: Vec<String>,
    /// What it logs in with.
    pub chap: Chap,
    /// The kind of host, if it needs special treatment. Kept for the clients that set it.
    pub personality: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

/// A volume's connection to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The host.
    pub host: HostId,
    /// The volume.
    pub volume: VolumeId,
    /// The number by which the host sees the volume.
    pub lun: u16,
}

/// Someone who may administer the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admin {
    /// The name.
    pub name: String,
    /// Hash of the API token, as a PHC string; the token itself is kept nowhere.
    pub token_hash: String,
    /// When the token was made, in milliseconds since 1970.
    pub token_created_ms: u64,
}

/// Something that the catalogue stores.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// What the keys of such records begin with.
    const PREFIX: &'static str;
    /// The key of this one. Numbers are written with 16 digits, so that keys sort as numbers do.
    fn key(&self) -> String;
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
}

impl Record for Snapshot {
    const PREFIX: &'static str = "snapshot/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}

impl Record for Host {
    const PREFIX: &'static str = "host/";
    fn key(&self) -> String {
        format!("{}{:016x}", Self::PREFIX, self.id.0)
    }
}

impl Record for Connection {
    const PREFIX: &'static str = "connection/";
    fn key(&self) -> String {
        format!("{}{:016x}/{:016x}", Self::PREFIX, self.host.0, self.volume.0)
    }
}

impl Record for Admin {
    const PREFIX: &'static str = "admin/";
    fn key(&self) -> String {
        format!("{}{}", Self::PREFIX, self.name)
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

/// The stored form of a record.
pub(crate) fn encode<T: Record>(record: &T) -> Result<Vec<u8>, CatalogError> {
    serde_json::to_vec(&Stored { v: RECORD_VERSION, record })
        .map_err(|error| CatalogError::Damaged { key: record.key(), reason: error.to_string() })
}

/// Reads a stored record. The version is judged before the rest, whose form depends on it.
pub(crate) fn decode<T: Record>(key: &[u8], value: &[u8]) -> Result<T, CatalogError> {
    let name = String::from_utf8_lossy(key);
    let damaged = |reason: String| CatalogError::Damaged { key: name.clone().into_owned(), reason };
    let version: Version = serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
    if version.v != RECORD_VERSION {
        return Err(damaged(format!("its version is {}, and this program knows {RECORD_VERSION}", version.v)));
    }
    let loaded: Loaded<T> = serde_json::from_slice(value).map_err(|error| damaged(error.to_string()))?;
    if loaded.record.key().as_bytes() != key {
        return Err(damaged(format!("it says that it is {}", loaded.record.key())));
    }
    Ok(loaded.record)
}
