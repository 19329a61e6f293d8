//! Findings of a check and their texts.

use crate::layout::geometry::Resource;
use std::fmt;

/// An inconsistency.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A copy of the superblock is damaged or differs.
    Superblock {
        /// Sector of the copy.
        sector: u64,
    },
    /// A heartbeat slot is damaged. No host can use it, and locks of its host cannot be broken.
    Slot {
        /// Slot number.
        index: u16,
        /// Sector of the slot.
        sector: u64,
    },
    /// A journal changes a sector that carries no valid lock.
    Journal {
        /// Slot of the journal's host.
        slot: u16,
        /// The sector.
        sector: u64,
    },
    /// A cluster is damaged.
    Cluster {
        /// Sector of the cluster.
        sector: u64,
    },
    /// The free count of a cluster differs from its bitmap.
    FreeCount {
        /// Sector of the cluster.
        sector: u64,
        /// Free count in the cluster.
        recorded: u32,
        /// Free bits in the bitmap.
        counted: u32,
    },
    /// A descriptor, or a page of its file, is damaged.
    Descriptor {
        /// Descriptor number.
        descriptor: u32,
        /// The damaged sector.
        sector: u64,
    },
    /// Two files use the same block or page.
    TakenTwice {
        /// `block` or `page`.
        what: &'static str,
        /// Its number.
        number: u32,
        /// Descriptor of one of the files.
        descriptor: u32,
    },
    /// A file uses something that its cluster marks as free, so another file may get it too.
    NotMarked {
        /// `block`, `page` or `descriptor`.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// A cluster marks numbers as used that no file uses: the space is lost.
    Leaked {
        /// `block`, `page` or `descriptor`.
        what: &'static str,
        /// The first number.
        first: u32,
        /// Count in this cluster.
        count: u32,
    },
    /// A directory entry refers to a file that does not exist.
    Dangling {
        /// The directory's descriptor.
        directory: u32,
        /// Name of the entry.
        name: String,
    },
    /// A directory contains a name twice.
    NameTwice {
        /// The directory's descriptor.
        directory: u32,
        /// The name.
        name: String,
    },
    /// No directory refers to a file or directory.
    Orphan {
        /// Descriptor number.
        descriptor: u32,
    },
    /// The parent recorded in a file or directory differs from the directory that contains it.
    Parent {
        /// Descriptor number.
        descriptor: u32,
    },
    /// The counts or the length in a descriptor differ from its map.
    Counts {
        /// Descriptor number.
        descriptor: u32,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock { sector } => {
                write!(f, "superblock at sector {sector} is damaged or differs from its copy")
            }
            Self::Slot { index, sector } => {
                write!(
                    f,
                    "heartbeat slot {index} at sector {sector} is damaged: no host can use it or break locks of its host"
                )
            }
            Self::Journal { slot, sector } => {
                write!(f, "journal of slot {slot} changes sector {sector}, which holds no valid metadata")
            }
            Self::Cluster { sector } => write!(f, "resource cluster at sector {sector} is damaged"),
            Self::FreeCount { sector, recorded, counted } => {
                write!(f, "resource cluster at sector {sector} records {recorded} free items, its bitmap has {counted}")
            }
            Self::Descriptor { descriptor, sector } => {
                write!(f, "file descriptor {descriptor}: sector {sector} of its metadata is damaged")
            }
            Self::TakenTwice { what, number, descriptor } => {
                write!(f, "{what} {number} is used by file descriptor {descriptor} and by another one")
            }
            Self::NotMarked { what, number } => {
                write!(f, "{what} {number} is in use but marked as free: it may be allocated again")
            }
            Self::Leaked { what, first, count } => {
                write!(f, "{count} {what}s from {first} are marked as used but unused: their space is lost")
            }
            Self::Dangling { directory, name } => {
                write!(f, "directory {directory} contains '{name}', which does not exist")
            }
            Self::NameTwice { directory, name } => write!(f, "directory {directory} contains '{name}' twice"),
            Self::Orphan { descriptor } => {
                write!(f, "file descriptor {descriptor} is in use but in no directory")
            }
            Self::Parent { descriptor } => {
                write!(f, "file descriptor {descriptor} records another parent than its directory")
            }
            Self::Counts { descriptor } => {
                write!(f, "file descriptor {descriptor}: length or counts do not match its map")
            }
        }
    }
}

/// A harmless finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckNote {
    /// A host has the datastore mounted, or died while it had.
    Host {
        /// Heartbeat slot.
        slot: u16,
        /// Host name.
        name: String,
        /// Another host is breaking the slot.
        breaking: bool,
        /// The journal holds an unfinished change. The check continued as if it were finished.
        unfinished: bool,
    },
    /// A lock whose owner no longer exists. The next host that needs it takes it.
    StaleLock {
        /// Sector of the lock.
        sector: u64,
        /// Heartbeat slot of the former owner.
        slot: u16,
    },
    /// A file is open for writing.
    OpenFile {
        /// Descriptor number.
        descriptor: u32,
        /// Heartbeat slot of the host.
        slot: u16,
    },
}

impl fmt::Display for CheckNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { slot, name, breaking, unfinished } => {
                let state = if *breaking {
                    "is dead and being broken"
                } else {
                    "has the datastore mounted or died while it had"
                };
                let change = if *unfinished { "; its journal holds an unfinished change" } else { "" };
                write!(f, "host '{name}' in heartbeat slot {slot} {state}{change}")
            }
            Self::StaleLock { sector, slot } => {
                write!(f, "lock at sector {sector} is stale: its owner in slot {slot} no longer exists")
            }
            Self::OpenFile { descriptor, slot } => {
                write!(f, "file descriptor {descriptor} is locked by the host in slot {slot}")
            }
        }
    }
}

/// Returns the name of one item of a resource.
pub(super) fn resource_name(resource: Resource) -> &'static str {
    match resource {
        Resource::Descriptors => "descriptor",
        Resource::Pages => "page",
        Resource::Blocks => "block",
    }
}
