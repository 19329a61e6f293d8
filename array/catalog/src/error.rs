//! Errors of the catalog.

use engine::OpError;
use std::fmt;
use thiserror::Error;

/// Kind of object that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A volume.
    Volume,
    /// A snapshot of a volume.
    Snapshot,
    /// A host.
    Host,
    /// A volume's connection to a host.
    Connection,
    /// An administrator.
    Admin,
    /// An API client.
    ApiClient,
    /// A host group.
    HostGroup,
    /// A volume group.
    VolumeGroup,
    /// A pod.
    Pod,
    /// A snapshot policy.
    SnapshotPolicy,
    /// A rule of a snapshot policy.
    SnapshotRule,
    /// A member of a group.
    Member,
    /// A protection group.
    ProtectionGroup,
    /// A snapshot of a protection group.
    GroupSnapshot,
    /// A mail address that gets alerts.
    AlertWatcher,
    /// A syslog server.
    SyslogServer,
    /// An SNMP manager.
    SnmpManager,
    /// A web hook.
    WebHook,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volume => "Volume",
            Self::Snapshot => "Volume snapshot",
            Self::Host => "Host",
            Self::Connection => "Connection",
            Self::Admin => "Admin",
            Self::ApiClient => "API client",
            Self::HostGroup => "Host group",
            Self::VolumeGroup => "Volume group",
            Self::Pod => "Pod",
            Self::SnapshotPolicy => "Snapshot policy",
            Self::SnapshotRule => "Snapshot rule",
            Self::Member => "Member",
            Self::ProtectionGroup => "Protection group",
            Self::GroupSnapshot => "Protection group snapshot",
            Self::AlertWatcher => "Alert watcher",
            Self::SyslogServer => "Syslog server",
            Self::SnmpManager => "SNMP manager",
            Self::WebHook => "Web hook",
        })
    }
}

/// Reasons why a change is refused.
///
/// The texts are part of the REST dialect. OpenStack's driver matches "does not exist", "already
/// exists", "has been destroyed", "already in use", "cannot be deleted due to existing connections"
/// and "limit reached".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// No object has this name.
    #[error("{kind} does not exist.")]
    NoSuch {
        /// Kind of the requested object.
        kind: ObjectKind,
        /// Requested name.
        name: String,
    },
    /// The name is already used. Names are compared without regard to case.
    #[error("{kind} already exists.")]
    AlreadyExists {
        /// Kind of the object to be created.
        kind: ObjectKind,
        /// Requested name.
        name: String,
    },
    /// The name is not valid.
    #[error(
        "Invalid name: 1 to 63 letters, digits, '-' and '_', with at least one letter, beginning and ending with a letter or digit."
    )]
    BadName {
        /// Requested name.
        name: String,
    },
    /// The suffix is that of snapshots which the array takes for itself.
    #[error("The suffix '{}' is reserved for snapshots of verifications.", crate::VERIFY_SUFFIX)]
    ReservedSuffix {
        /// Requested suffix.
        name: String,
    },
    /// The size is not valid.
    #[error("Invalid size: a volume has 1 MiB to 4 PiB, a multiple of 512 bytes.")]
    BadSize {
        /// Name of the volume.
        name: String,
    },
    /// The new size is smaller, and truncation was not allowed.
    #[error("Resize would truncate the volume; pass --truncate (truncate=true) to allow it.")]
    WouldTruncate {
        /// Name of the volume.
        name: String,
    },
    /// The object is destroyed and cannot be used until it is recovered.
    #[error("{kind} has been destroyed.")]
    Destroyed {
        /// Kind of the object.
        kind: ObjectKind,
        /// Name of the object.
        name: String,
    },
    /// Only destroyed objects can be recovered or eradicated.
    #[error("{kind} is not destroyed.")]
    NotDestroyed {
        /// Kind of the object.
        kind: ObjectKind,
        /// Name of the object.
        name: String,
    },
    /// A volume cannot be copied onto itself.
    #[error("Volume cannot be overwritten with itself.")]
    OntoItself {
        /// Name of the volume.
        name: String,
    },
    /// A setting has an invalid value.
    #[error("Invalid setting: {reason}.")]
    BadSetting {
        /// The valid range.
        reason: &'static str,
    },
    /// The volume is connected to hosts, or the host to volumes.
    #[error("{kind} cannot be deleted due to existing connections.")]
    Connected {
        /// Kind of the object to be deleted.
        kind: ObjectKind,
        /// Name of the object.
        name: String,
    },
    /// The group is not empty.
    #[error("{kind} cannot be deleted: it has members.")]
    HasMembers {
        /// Kind of the group.
        kind: ObjectKind,
        /// Name of the group.
        name: String,
    },
    /// The object is in a group.
    #[error("{name} already belongs to group {group}.")]
    AlreadyMember {
        /// Name of the object.
        name: String,
        /// Name of the group.
        group: String,
    },
    /// A new name does not have the volume group or the pod of the old one.
    #[error("A rename keeps the volume group and the pod; to move the volume, change its volume_group or pod.")]
    OtherGroup {
        /// Name of the volume.
        name: String,
    },
    /// The name begins with that of a pod, but the object is not a volume.
    #[error("{kind} cannot be in a pod: a pod contains only volumes, named POD::VOLUME.")]
    NotInPod {
        /// Kind of the object.
        kind: ObjectKind,
        /// Requested name.
        name: String,
    },
    /// The pod has volumes that are not destroyed.
    #[error(
        "Pod is not empty: move or destroy its volumes first, or pass --contents (destroy_contents=true) to destroy them with it."
    )]
    HasVolumes {
        /// Name of the pod.
        name: String,
    },
    /// The destroyed pod has volumes.
    #[error(
        "Pod is not empty: eradicate its volumes first, or pass --contents (eradicate_contents=true) to eradicate them with it."
    )]
    HasDestroyedVolumes {
        /// Name of the pod.
        name: String,
    },
    /// The volumes of a pod would exceed its quota.
    #[error("Quota limit reached: the volumes of pod {name} may have {quota_bytes} bytes in total.")]
    QuotaExceeded {
        /// Name of the pod.
        name: String,
        /// The quota.
        quota_bytes: u64,
    },
    /// The volumes of a pod exceed the new quota.
    #[error(
        "The volumes of the pod have {used_bytes} bytes; pass --ignore-usage (ignore_usage=true) to set a lower quota."
    )]
    QuotaBelowUsage {
        /// Name of the pod.
        name: String,
        /// Total size of the volumes.
        used_bytes: u64,
    },
    /// Only one array can have this change made to the pod.
    #[error("Pod {name} is stretched to array {peer}; unstretch it first.")]
    Stretched {
        /// Name of the pod.
        name: String,
        /// Name of the other array.
        peer: String,
    },
    /// The pod is not stretched.
    #[error("Pod {name} is not stretched.")]
    NotStretched {
        /// Name of the pod.
        name: String,
    },
    /// A volume cannot move into or out of a stretched pod.
    #[error("Pod {name} is stretched: volumes move neither into nor out of it; unstretch it first.")]
    MoveAcrossArrays {
        /// Name of the pod.
        name: String,
    },
    /// A copy has one side in a stretched pod.
    #[error(
        "Pod {name} is stretched: its volumes and snapshots are copied only within it; clone within the pod, or unstretch it first."
    )]
    CopyAcrossArrays {
        /// Name of the pod.
        name: String,
    },
    /// The change concerns a stretched pod and others.
    #[error("Pod {name} is stretched: its volumes and snapshots are changed in a request without those of others.")]
    NotAlone {
        /// Name of the pod.
        name: String,
    },
    /// The change of a stretched pod is too large for one record.
    #[error(
        "Pod {name} is stretched: one request makes, copies or removes at most {limit} of its volumes and snapshots."
    )]
    TooManyInPod {
        /// Name of the pod.
        name: String,
        /// Maximum number.
        limit: usize,
    },
    /// The other array could not be sent all objects of the pod.
    #[error("Pod {name} has too many volumes, snapshots and tags for a stretched pod: their records may have 256 KiB.")]
    PodTooLarge {
        /// Name of the pod.
        name: String,
    },
    /// The other array orders the changes of the pod.
    #[error("Pod {name} is ordered by the other array {peer} now; make the change there.")]
    OrderedElsewhere {
        /// Name of the pod.
        name: String,
        /// Name of the other array.
        peer: String,
    },
    /// The pod cannot be changed.
    #[error("Pod {name} cannot be changed now: {reason}.")]
    PodUnavailable {
        /// Name of the pod.
        name: String,
        /// Why the engine has refused it.
        reason: String,
    },
    /// The change of a stretched pod was made here, and the other array may not get it.
    #[error("Pod {name} has lost the other array during the change, which is made here; check it before a repetition.")]
    PodInDoubt {
        /// Name of the pod.
        name: String,
    },
    /// Another array has sent an image that is not one of a pod.
    #[error("The other array has sent a pod that cannot be used: {reason}.")]
    BadPodImage {
        /// Description of the problem.
        reason: String,
    },
    /// An object of this array has the serial number of one of the other array.
    #[error("Serial number {serial} is already used by {name}.")]
    SerialInUse {
        /// Name of the volume or snapshot.
        name: String,
        /// The serial number.
        serial: String,
    },
    /// The protection group has no volume that can be snapshotted.
    #[error("Protection group has no volumes.")]
    NoMembers {
        /// Name of the group.
        name: String,
    },
    /// The snapshot belongs to the snapshot of a protection group.
    #[error("The snapshot belongs to a protection group snapshot, which can only be changed as a whole.")]
    InGroupSnapshot {
        /// Name of the snapshot.
        name: String,
    },
    /// The connection belongs to the host's group.
    #[error("The connection belongs to host group {group}; disconnect the group, or remove the host from it.")]
    SharedConnection {
        /// Name of the host.
        name: String,
        /// Name of the group.
        group: String,
    },
    /// The name is not a valid iSCSI node name.
    #[error(
        "Invalid IQN: an iSCSI name of at most 223 characters such as iqn.1998-01.com.vmware:esx1, or '*' for any initiator."
    )]
    BadIqn {
        /// Requested name.
        iqn: String,
    },
    /// The initiator belongs to another host.
    #[error("The specified IQN is already in use by host {host}.")]
    IqnInUse {
        /// Name of the initiator.
        iqn: String,
        /// Name of that host.
        host: String,
    },
    /// The host already uses the LUN for another volume.
    #[error("LUN {lun} is already in use on host {host}.")]
    LunInUse {
        /// Name of the host.
        host: String,
        /// Requested LUN.
        lun: u16,
    },
    /// The LUN is above the maximum.
    #[error("Invalid LUN: 0 to 4095.")]
    BadLun {
        /// Requested LUN.
        lun: u64,
    },
    /// The CHAP settings are incomplete, have a bad length, or use the same secret in both
    /// directions.
    #[error("Invalid CHAP settings: {reason}.")]
    BadChap {
        /// Name of the host.
        name: String,
        /// Description of the problem.
        reason: &'static str,
    },
    /// A secret cannot be sealed.
    #[error("Secrets cannot be stored: the array has no secrets.key; see its log.")]
    NoSecretKey {
        /// Name of the host, or `delivery`.
        name: String,
    },
    /// The maximum number of objects is reached.
    #[error("{what} limit reached ({limit}).")]
    LimitReached {
        /// Kind of the objects.
        what: &'static str,
        /// Maximum number.
        limit: usize,
    },
    /// A stored record cannot be read.
    #[error("Catalog record {key} cannot be read: {reason}.")]
    Damaged {
        /// Key of the record.
        key: String,
        /// Description of the problem.
        reason: String,
    },
    /// The engine could not store the change.
    #[error("The change could not be stored: {0}.")]
    Engine(OpError),
}

impl CatalogError {
    /// Returns the name of the object that the error is about.
    pub fn context(&self) -> Option<&str> {
        match self {
            Self::NoSuch { name, .. }
            | Self::AlreadyExists { name, .. }
            | Self::BadName { name }
            | Self::ReservedSuffix { name }
            | Self::BadSize { name }
            | Self::WouldTruncate { name }
            | Self::Destroyed { name, .. }
            | Self::NotDestroyed { name, .. }
            | Self::OntoItself { name }
            | Self::Connected { name, .. }
            | Self::HasMembers { name, .. }
            | Self::AlreadyMember { name, .. }
            | Self::OtherGroup { name }
            | Self::NotInPod { name, .. }
            | Self::HasVolumes { name }
            | Self::HasDestroyedVolumes { name }
            | Self::QuotaExceeded { name, .. }
            | Self::QuotaBelowUsage { name, .. }
            | Self::Stretched { name, .. }
            | Self::NotStretched { name }
            | Self::MoveAcrossArrays { name }
            | Self::CopyAcrossArrays { name }
            | Self::NotAlone { name }
            | Self::TooManyInPod { name, .. }
            | Self::PodTooLarge { name }
            | Self::OrderedElsewhere { name, .. }
            | Self::PodUnavailable { name, .. }
            | Self::PodInDoubt { name }
            | Self::SerialInUse { name, .. }
            | Self::NoMembers { name }
            | Self::InGroupSnapshot { name }
            | Self::SharedConnection { name, .. }
            | Self::NoSecretKey { name }
            | Self::BadChap { name, .. } => Some(name),
            Self::BadIqn { iqn } | Self::IqnInUse { iqn, .. } => Some(iqn),
            Self::LunInUse { host, .. } => Some(host),
            Self::Damaged { key, .. } => Some(key),
            Self::BadLun { .. }
            | Self::BadSetting { .. }
            | Self::LimitReached { .. }
            | Self::BadPodImage { .. }
            | Self::Engine(_) => None,
        }
    }
}
