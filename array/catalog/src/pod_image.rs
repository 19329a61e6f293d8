//! Images of stretched pods: what one array sends, so that the other has the same objects.

use crate::error::CatalogError;
use crate::name::{check_name, folded};
use crate::pod::{MAX_CONTENT, MAX_STREAM, stream_of};
use crate::record::{Qos, Tag, is_default};
use crate::reservation_place::RESERVATIONS_BLOCKS;
use crate::{MAX_GROUP_VOLUMES, MIN_VOLUME_BYTES, POD_RESYNC_LIMITS};
use engine::{Change, MAX_MESSAGE_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use types::{BLOCK_BYTES, LBA_BYTES, MAX_VOLUME_BYTES, VolumeId};

/// First byte of a message that is an image. Other messages of a stream begin with other bytes.
pub const POD_IMAGE_MESSAGE: u8 = 2;
/// Maximum length of an image in bytes, as JSON.
pub const MAX_POD_IMAGE_BYTES: usize = MAX_MESSAGE_BYTES - 1;
/// Number of digits of a serial number.
const SERIAL_DIGITS: usize = 24;
/// Maximum length of the suffix of a snapshot.
const MAX_SUFFIX_BYTES: usize = 63;

/// A stretched pod with its volumes and snapshots, as both arrays have them.
///
/// It has no identities: both arrays find their objects by content. The objects that refer to a
/// pod's objects are not part of it: connections, memberships in protection groups and policies,
/// and sources of copies belong to each array. Reservations are content of a hidden volume. Equal
/// pods have equal images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodImage {
    /// Number of the stream.
    pub stream: u32,
    /// Number of the next content.
    pub next_content: u32,
    /// Name of the pod.
    pub name: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Quota of the pod in bytes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub quota_bytes: Option<u64>,
    /// Most bytes of data a second that bring an array into step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resync_limit: Option<u64>,
    /// Whether the stream has the hidden volume for reservations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub has_reservations: bool,
    /// Its volumes, including destroyed ones, by content.
    pub volumes: Vec<VolumeImage>,
    /// Their snapshots, including destroyed ones, by content.
    pub snapshots: Vec<SnapshotImage>,
}

/// A volume of a stretched pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeImage {
    /// Number of the content in the stream.
    pub content: u32,
    /// Name within the pod.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Serial number.
    pub serial: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it was destroyed. Each array adds the time that it had served then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_ms: Option<u64>,
    /// QoS limits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qos: Qos,
    /// Percentage of the volume's size at which hosts get a space alert.
    #[serde(default, skip_serializing_if = "is_default")]
    pub threshold_percent: Option<u8>,
    /// Tags, sorted by namespace and key.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tags: Vec<Tag>,
}

/// A snapshot of a volume of a stretched pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotImage {
    /// Number of the content in the stream.
    pub content: u32,
    /// Content of its volume.
    pub volume: u32,
    /// Part of its name after the volume and a dot. A snapshot that belongs to a protection group
    /// of one array is a plain snapshot at the other one, with a suffix made from that of the group
    /// and its content.
    pub suffix: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Serial number.
    pub serial: String,
    /// Creation time in milliseconds since 1970.
    pub created_ms: u64,
    /// Time at which it was destroyed itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub destroyed_ms: Option<u64>,
    /// Time at which a snapshot of a policy is destroyed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expires_ms: Option<u64>,
}

impl PodImage {
    /// Returns the image as a message of a stream.
    ///
    /// # Errors
    ///
    /// The image is longer than [`MAX_POD_IMAGE_BYTES`].
    pub fn to_message(&self) -> Result<Vec<u8>, CatalogError> {
        let mut message = vec![POD_IMAGE_MESSAGE];
        let written = serde_json::to_writer(&mut message, self);
        match message.len() {
            ..=MAX_MESSAGE_BYTES if written.is_ok() => Ok(message),
            _ => Err(CatalogError::PodTooLarge { name: self.name.clone() }),
        }
    }

    /// Reads an image from a message of a stream.
    ///
    /// # Errors
    ///
    /// It is not one, or contradicts itself: a peer with another rule has sent it.
    pub fn from_message(message: &[u8]) -> Result<Self, CatalogError> {
        let bad = |reason: &str| CatalogError::BadPodImage { reason: reason.to_owned() };
        let json = match message.split_first() {
            Some((&POD_IMAGE_MESSAGE, json)) if json.len() <= MAX_POD_IMAGE_BYTES => json,
            _ => return Err(bad("the message is of another kind")),
        };
        let image: Self = serde_json::from_slice(json).map_err(|error| bad(&error.to_string()))?;
        image.check()?;
        Ok(image)
    }

    /// Returns the engine's volumes that hold the content, with their sizes in blocks, by id.
    pub fn contents(&self) -> Vec<(VolumeId, u64)> {
        let stream = stream_of(self.stream);
        let volumes = self.volumes.iter().map(|volume| (volume.content, volume.bytes));
        let all = volumes.chain(self.snapshots.iter().map(|snapshot| (snapshot.content, snapshot.bytes)));
        let mut contents: Vec<_> = all.map(|(number, bytes)| (stream.volume(number), bytes / LBA_BYTES)).collect();
        contents.extend(self.has_reservations.then(|| (stream.reservations(), RESERVATIONS_BLOCKS)));
        contents.sort_unstable();
        contents
    }

    /// Returns the changes that make the engine's volumes of the stream those of this image, in
    /// number and size. `held` is what the engine has; other volumes in it are ignored.
    pub fn volume_changes(&self, held: &[(VolumeId, u64)]) -> Vec<Change> {
        let stream = Some(stream_of(self.stream));
        let own = held.iter().filter(|(volume, _)| volume.stream() == stream && !volume.is_delta());
        let held: BTreeMap<VolumeId, u64> = own.copied().collect();
        let wanted: BTreeMap<VolumeId, u64> = self.contents().into_iter().collect();
        let gone = held.keys().filter(|volume| !wanted.contains_key(volume));
        let deleted = gone.map(|volume| Change::DeleteVolume { volume: *volume });
        let made = wanted.iter().filter_map(|(&volume, &blocks)| match held.get(&volume) {
            None => Some(Change::CreateVolume { volume, blocks }),
            Some(size) if *size != blocks => Some(Change::ResizeVolume { volume, blocks }),
            Some(_) => None,
        });
        deleted.chain(made).collect()
    }

    /// Checks that the image is one that a catalog makes.
    pub(crate) fn check(&self) -> Result<(), CatalogError> {
        match self.problem() {
            Some(reason) => Err(CatalogError::BadPodImage { reason: reason.to_owned() }),
            None => Ok(()),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        let volumes = || self.volumes.iter().map(|volume| (volume.content, volume.bytes, &volume.serial));
        let snapshots = || self.snapshots.iter().map(|snapshot| (snapshot.content, snapshot.bytes, &snapshot.serial));
        let count = self.volumes.len() + self.snapshots.len();
        let contents: BTreeSet<u32> = volumes().chain(snapshots()).map(|(content, _, _)| content).collect();
        let serials: BTreeSet<&String> = volumes().chain(snapshots()).map(|(_, _, serial)| serial).collect();
        let names: BTreeSet<String> = self.volumes.iter().map(|volume| folded(&volume.name)).collect();
        let suffixes: BTreeSet<(u32, String)> =
            self.snapshots.iter().map(|snapshot| (snapshot.volume, folded(&snapshot.suffix))).collect();
        let of_volume = |snapshot: &SnapshotImage| self.volumes.iter().any(|volume| volume.content == snapshot.volume);
        let is_size =
            |bytes: u64| (MIN_VOLUME_BYTES..=MAX_VOLUME_BYTES).contains(&bytes) && bytes.is_multiple_of(BLOCK_BYTES);
        let is_serial = |serial: &str| {
            serial.len() == SERIAL_DIGITS && serial.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b))
        };
        let checks = [
            (check_name(&self.name).is_ok(), "the name of the pod is not one"),
            (self.stream <= MAX_STREAM, "a number has more than 31 bits"),
            (self.resync_limit.is_none_or(|limit| POD_RESYNC_LIMITS.contains(&limit)), "the resync limit is not one"),
            (self.next_content <= MAX_CONTENT + 1, "the number of a content has more than 30 bits"),
            (self.volumes.len() <= MAX_GROUP_VOLUMES, "a pod has at most 1000 volumes"),
            (contents.len() == count, "two objects have one content"),
            (!contents.contains(&0), "an object has the content of the reservations"),
            (contents.last().is_none_or(|last| *last < self.next_content), "a content is not counted"),
            (serials.len() == count && serials.iter().all(|serial| is_serial(serial)), "a serial number is not one"),
            (self.volumes.iter().all(|volume| check_name(&volume.name).is_ok()), "the name of a volume is not one"),
            (names.len() == self.volumes.len(), "two volumes have one name"),
            (volumes().chain(snapshots()).all(|(_, bytes, _)| is_size(bytes)), "a size is not that of a volume"),
            (self.snapshots.iter().all(of_volume), "a snapshot has no volume"),
            (self.snapshots.iter().all(|snapshot| is_suffix(&snapshot.suffix)), "a suffix is not one"),
            (suffixes.len() == self.snapshots.len(), "two snapshots have one name"),
        ];
        checks.into_iter().find(|(is_good, _)| !is_good).map(|(_, reason)| reason)
    }
}

fn is_suffix(suffix: &str) -> bool {
    let is_character = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=MAX_SUFFIX_BYTES).contains(&suffix.len()) && suffix.bytes().all(is_character)
}

/// Returns the suffix of a snapshot of a protection group, for an array that does not have the
/// group. No other snapshot of the volume has it. `is_taken` is called with folded suffixes.
pub(crate) fn suffix_of_member(suffix: &str, content: u32, is_taken: impl Fn(&str) -> bool) -> String {
    let end = format!("-{content}");
    let mut tail = end.clone();
    loop {
        let kept = suffix.get(..suffix.len().min(MAX_SUFFIX_BYTES.saturating_sub(tail.len()))).unwrap_or_default();
        let made = format!("{kept}{tail}");
        if !is_taken(&folded(&made)) {
            return made;
        }
        tail.push_str(&end);
    }
}
