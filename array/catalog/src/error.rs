//! Why a change was refused.

use engine::OpError;
use std::fmt;
use thiserror::Error;

/// What kind of object an error speaks of.
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
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Volume => "Volume",
            Self::Snapshot => "Volume snapshot",
            Self::Host => "Host",
            Self::Connection => "Connection",
            Self::Admin => "Admin",
        })
    }
}

/// A refusal. The texts are part of the REST dialect: OpenStack's driver decides by "does not exist", "already exists",
/// "has been destroyed", "already in use", "cannot be deleted due to existing connections" and "limit reached".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// No object of that name.
    #[error("{kind} does not exist.")]
    NoSuch {
        /// What was looked for.
        kind: ObjectKind,
        /// Under which name.
        name: String,
    },
    /// The name is taken; names differ by more than case.
    #[error("{kind} already exists.")]
    AlreadyExists {
        /// What was to be made.
        kind: ObjectKind,
        /// Under which name.
        name: String,
    },
    /// The name is not one.
    #[error(
        "Invalid name: 1 to 63 letters, digits, '-' and '_', with at least one letter, beginning and ending with a letter or digit."
    )]
    BadName {
        /// What was given.
        name: String,
    },
    /// The size is not one.
    #[error("Invalid size: a volume has 1 MiB to 4 PiB, a multiple of 512 bytes.")]
    BadSize {
        /// The volume.
        name: String,
    },
    /// A smaller size, without leave to lose what lies behind it.
    #[error("Volume would be truncated and lose the data behind its new end; say truncate to do it.")]
    WouldTruncate {
        /// The volume.
        name: String,
    },
    /// It waits for its eradication and cannot be used.
    #[error("{kind} has been destroyed.")]
    Destroyed {
        /// What it is.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
    /// Only what is destroyed can be recovered or eradicated.
    #[error("{kind} is not destroyed.")]
    NotDestroyed {
        /// What it is.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
    /// A volume is not copied to itself.
    #[error("Volume cannot be overwritten with itself.")]
    OntoItself {
        /// The volume.
        name: String,
    },
    /// A setting is not one.
    #[error("Invalid setting: {reason}.")]
    BadSetting {
        /// What can be set.
        reason: &'static str,
    },
    /// Hosts are connected to the volume, or volumes to the host.
    #[error("{kind} cannot be deleted due to existing connections.")]
    Connected {
        /// What was to go.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
    /// Not the name of an iSCSI node.
    #[error(
        "Invalid IQN: an iSCSI name of at most 223 characters such as iqn.1998-01.com.vmware:esx1, or '*' for any initiator."
    )]
    BadIqn {
        /// What was given.
        iqn: String,
    },
    /// Another host has that initiator.
    #[error("The specified IQN is already in use by host {host}.")]
    IqnInUse {
        /// The initiator.
        iqn: String,
        /// Whose it is.
        host: String,
    },
    /// Another volume of the host has that LUN.
    #[error("LUN {lun} is already in use on host {host}.")]
    LunInUse {
        /// The host.
        host: String,
        /// The number.
        lun: u16,
    },
    /// Above the highest LUN.
    #[error("Invalid LUN: 0 to 4095.")]
    BadLun {
        /// What was given.
        lun: u64,
    },
    /// CHAP needs both halves, of fit length, and different secrets for the two directions.
    #[error("Invalid CHAP settings: {reason}.")]
    BadChap {
        /// The host.
        name: String,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// One more would be too many.
    #[error("{what} limit reached ({limit}).")]
    LimitReached {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// A stored record cannot be read.
    #[error("Catalogue record {key} cannot be read: {reason}.")]
    Damaged {
        /// Its key.
        key: String,
        /// Why.
        reason: String,
    },
    /// The engine could not store the change.
    #[error("The change could not be stored: {0}.")]
    Engine(OpError),
}

impl CatalogError {
    /// The name of the object that the error is about.
    pub fn context(&self) -> Option<&str> {
        match self {
            Self::NoSuch { name, .. }
            | Self::AlreadyExists { name, .. }
            | Self::BadName { name }
            | Self::BadSize { name }
            | Self::WouldTruncate { name }
            | Self::Destroyed { name, .. }
            | Self::NotDestroyed { name, .. }
            | Self::OntoItself { name }
            | Self::Connected { name, .. }
            | Self::BadChap { name, .. } => Some(name),
            Self::BadIqn { iqn } | Self::IqnInUse { iqn, .. } => Some(iqn),
            Self::LunInUse { host, .. } => Some(host),
            Self::Damaged { key, .. } => Some(key),
            Self::BadLun { .. } | Self::BadSetting { .. } | Self::LimitReached { .. } | Self::Engine(_) => None,
        }
    }
}
