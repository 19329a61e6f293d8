//! What a check finds, and what it means, in words.

use crate::layout::geometry::Resource;
use std::fmt;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A copy of the superblock is damaged or differs.
    Superblock {
        /// Its sector.
        sector: u64,
    },
    /// A heartbeat slot is damaged: no host can mount there, and locks of it cannot be broken.
    Slot {
        /// Which slot.
        index: u16,
        /// Its sector.
        sector: u64,
    },
    /// A journal changes a sector that carries no lock.
    Journal {
        /// Whose journal.
        slot: u16,
        /// The sector.
        sector: u64,
    },
    /// A cluster is damaged.
    Cluster {
        /// Its sector.
        sector: u64,
    },
    /// A cluster's count of what is free is not what its bitmap says.
    FreeCount {
        /// Its sector.
        sector: u64,
        /// What it tells.
        told: u32,
        /// What the bitmap says.
        counted: u32,
    },
    /// A descriptor, or a page of its file, is damaged.
    Descriptor {
        /// Which descriptor.
        descriptor: u32,
        /// The damaged sector.
        sector: u64,
    },
    /// Two files have the same block or page.
    TakenTwice {
        /// "block" or "page".
        what: &'static str,
        /// Its number.
        number: u32,
        /// One of the files' descriptors.
        descriptor: u32,
    },
    /// A file has something that its cluster calls free: another file may get it.
    NotMarked {
        /// "block", "page" or "descriptor".
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// Clusters call taken what no file has: the room is lost.
    Leaked {
        /// "block", "page" or "descriptor".
        what: &'static str,
        /// The first of them.
        first: u32,
        /// How many in this cluster.
        count: u32,
    },
    /// A directory names something that is not there.
    Dangling {
        /// The directory's descriptor.
        directory: u32,
        /// The name.
        name: String,
    },
    /// A directory has a name twice.
    NameTwice {
        /// The directory's descriptor.
        directory: u32,
        /// The name.
        name: String,
    },
    /// A file or directory that no directory names.
    Orphan {
        /// Its descriptor.
        descriptor: u32,
    },
    /// A file or directory tells another parent than the directory that names it.
    Parent {
        /// Its descriptor.
        descriptor: u32,
    },
    /// A descriptor's counts, or its length, are not those of its map.
    Counts {
        /// Which descriptor.
        descriptor: u32,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock { sector } => {
                write!(f, "the superblock at sector {sector} is damaged, or differs from its copy")
            }
            Self::Slot { index, sector } => {
                write!(
                    f,
                    "heartbeat slot {index} at sector {sector} is damaged: no host can use it, nor break locks of its host"
                )
            }
            Self::Journal { slot, sector } => {
                write!(f, "the journal of slot {slot} changes sector {sector}, which is no sound metadata")
            }
            Self::Cluster { sector } => write!(f, "the resource cluster at sector {sector} is damaged"),
            Self::FreeCount { sector, told, counted } => {
                write!(f, "the resource cluster at sector {sector} tells {told} free, its bitmap {counted}")
            }
            Self::Descriptor { descriptor, sector } => {
                write!(f, "file descriptor {descriptor}: sector {sector} of its metadata is damaged")
            }
            Self::TakenTwice { what, number, descriptor } => {
                write!(
                    f,
                    "{what} {number} belongs to file descriptor {descriptor} and to another: one overwrites the other"
                )
            }
            Self::NotMarked { what, number } => {
                write!(f, "{what} {number} is in use, but marked as free: it may be given out again")
            }
            Self::Leaked { what, first, count } => {
                write!(
                    f,
                    "{count} {what}s, the first {first}, are marked as used, but nothing uses them: the room is lost"
                )
            }
            Self::Dangling { directory, name } => {
                write!(f, "directory {directory} names '{name}', which is not there")
            }
            Self::NameTwice { directory, name } => write!(f, "directory {directory} has '{name}' twice"),
            Self::Orphan { descriptor } => {
                write!(f, "file descriptor {descriptor} is in use, but no directory names it")
            }
            Self::Parent { descriptor } => {
                write!(f, "file descriptor {descriptor} tells another parent than the directory that names it")
            }
            Self::Counts { descriptor } => {
                write!(f, "file descriptor {descriptor}: its length or its counts are not those of its map")
            }
        }
    }
}

/// Something that may be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckNote {
    /// A host has the datastore mounted, or had when it died.
    Host {
        /// Its heartbeat slot.
        slot: u16,
        /// Its name.
        name: String,
        /// Another host is breaking it.
        breaking: bool,
        /// Its journal holds a change that was not finished; the check went on as if it were.
        unfinished: bool,
    },
    /// A lock of a life that is over: whoever wants it takes it.
    StaleLock {
        /// Its sector.
        sector: u64,
        /// Slot of the life.
        slot: u16,
    },
    /// A file is open for writing.
    OpenFile {
        /// Its descriptor.
        descriptor: u32,
        /// Slot of the host.
        slot: u16,
    },
}

impl fmt::Display for CheckNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { slot, name, breaking, unfinished } => {
                let state =
                    if *breaking { "is dead and being broken" } else { "has the datastore mounted, or died with it" };
                let change = if *unfinished { "; a change in its journal is not finished" } else { "" };
                write!(f, "host '{name}' in heartbeat slot {slot} {state}{change}")
            }
            Self::StaleLock { sector, slot } => {
                write!(
                    f,
                    "the lock at sector {sector} belongs to a former host of slot {slot}: the next one who wants it takes it"
                )
            }
            Self::OpenFile { descriptor, slot } => {
                write!(f, "file descriptor {descriptor} is locked by the host in slot {slot}")
            }
        }
    }
}

/// The word for one of a resource.
pub(super) fn word(resource: Resource) -> &'static str {
    match resource {
        Resource::Descriptors => "descriptor",
        Resource::Pages => "page",
        Resource::Blocks => "block",
    }
}
