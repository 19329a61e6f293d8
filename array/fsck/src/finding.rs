//! What a check finds, in words: which structure, where on the drive, what it means, what to do.

use serde::Serialize;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The most findings that are kept; the others are counted.
pub const MAX_FINDINGS: usize = 1000;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, and no damage: what a crash leaves behind.
    Note,
    /// One of several copies is bad: nothing is lost as long as another one is good.
    Redundancy,
    /// Something is lost, or the array's own accounts are wrong.
    Damage,
}

/// Which part of the format it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Structure {
    /// A copy of the superblock.
    Superblock,
    /// A run of the manifest, or what stands in it.
    Manifest,
    /// A page of the slot directory.
    SlotDirectory,
    /// A page of the slot table, or a slot.
    SlotTable,
    /// A page of a volume's map.
    MapPage,
    /// Blocks of data.
    Data,
    /// A summary of what a segment holds.
    Summary,
    /// What the array counts as live in a segment.
    SegmentAccount,
    /// How many references a slot counts.
    Count,
    /// The root of a volume.
    Volume,
    /// The log.
    Log,
}

impl Structure {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Manifest => "manifest",
            Self::SlotDirectory => "slot directory",
            Self::SlotTable => "slot table",
            Self::MapPage => "map page",
            Self::Data => "data",
            Self::Summary => "summary",
            Self::SegmentAccount => "segment account",
            Self::Count => "count of references",
            Self::Volume => "volume",
            Self::Log => "log",
        }
    }
}

/// Bytes on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// First byte.
    pub offset: u64,
    /// Length.
    pub bytes: u64,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub structure: Structure,
    /// Which one, by name.
    pub name: String,
    /// Where it stands, when it stands somewhere.
    pub place: Option<Span>,
    /// What was found.
    pub what: String,
    /// What that means.
    pub meaning: String,
    /// What to do.
    pub advice: String,
    /// It was written again from a good copy.
    pub is_repaired: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(Span { offset, bytes }) = self.place {
            write!(f, " ({bytes} bytes at {offset} of the drive)")?;
        }
        write!(f, ": {}. {}", self.what, self.meaning)?;
        if self.is_repaired {
            return write!(f, " It was written again from a good copy.");
        }
        if self.advice.is_empty() { Ok(()) } else { write!(f, " {}", self.advice) }
    }
}

impl Finding {
    /// A finding without a place.
    pub(crate) fn new(severity: Severity, structure: Structure, name: impl Into<String>) -> Self {
        Self {
            severity,
            structure,
            name: name.into(),
            place: None,
            what: String::new(),
            meaning: String::new(),
            advice: String::new(),
            is_repaired: false,
        }
    }

    pub(crate) fn at(mut self, offset: u64, bytes: u64) -> Self {
        self.place = Some(Span { offset, bytes });
        self
    }

    pub(crate) fn what(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    pub(crate) fn meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    pub(crate) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}

/// Takes findings from several threads.
#[derive(Default)]
pub struct FsckFindings {
    inner: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    kept: Vec<Finding>,
    others: u64,
}

impl FsckFindings {
    /// Takes one.
    pub fn add(&self, finding: Finding) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.kept.len() < MAX_FINDINGS {
            inner.kept.push(finding);
        } else {
            inner.others += 1;
        }
    }

    /// All that were kept, the worst first and then by place, and how many more there were.
    pub fn take(self) -> (Vec<Finding>, u64) {
        let inner = self.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut kept = inner.kept;
        kept.sort_by_key(|finding| {
            (
                std::cmp::Reverse(finding.severity),
                finding.structure,
                finding.place.map(|place| place.offset),
                finding.name.clone(),
            )
        });
        (kept, inner.others)
    }
}
