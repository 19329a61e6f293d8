//! Findings of a check: the structure, its position on the drive, the consequence and the remedy.

use serde::Serialize;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Maximum number of findings that are kept. Further ones are only counted.
pub const MAX_FINDINGS: usize = 1000;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Expected after a crash and harmless.
    Note,
    /// One of several copies is bad. Nothing is lost while another copy is good.
    Redundancy,
    /// Data are lost, or the array's own accounts are wrong.
    Damage,
}

/// Part of the on-disk format that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Structure {
    /// A copy of the superblock.
    Superblock,
    /// The owner block.
    Owner,
    /// A copy of the key block.
    KeyBlock,
    /// A run of the manifest, or its content.
    Manifest,
    /// A part of a patch list, or a patch.
    PatchList,
    /// A page of the slot directory.
    SlotDirectory,
    /// A page of the slot table, or a slot.
    SlotTable,
    /// A page of a volume's map.
    MapPage,
    /// Data blocks.
    Data,
    /// A summary of the contents of a segment.
    Summary,
    /// The live-sector account of a segment.
    SegmentAccount,
    /// The reference count of a slot.
    Count,
    /// The root of a volume.
    Volume,
    /// The log.
    Log,
}

impl Structure {
    /// Returns the name of the structure, for use in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Owner => "owner block",
            Self::KeyBlock => "key block",
            Self::Manifest => "manifest",
            Self::PatchList => "patch list",
            Self::SlotDirectory => "slot directory",
            Self::SlotTable => "slot table",
            Self::MapPage => "map page",
            Self::Data => "data",
            Self::Summary => "summary",
            Self::SegmentAccount => "segment account",
            Self::Count => "reference count",
            Self::Volume => "volume",
            Self::Log => "log",
        }
    }
}

/// A range of bytes on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// A problem found by a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity of the problem.
    pub severity: Severity,
    /// Structure that the problem is about.
    pub structure: Structure,
    /// Name of the affected item.
    pub name: String,
    /// Position on the drive, if it has one.
    pub place: Option<Span>,
    /// Description of the problem.
    pub what: String,
    /// Consequence of the problem.
    pub meaning: String,
    /// Suggested remedy.
    pub advice: String,
    /// True if the item was rewritten from a good copy.
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
            return write!(f, " It was rewritten from a good copy.");
        }
        if self.advice.is_empty() { Ok(()) } else { write!(f, " {}", self.advice) }
    }
}

impl Finding {
    /// Creates a finding without a position.
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

/// Collects findings from several threads.
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
    /// Adds a finding.
    pub fn add(&self, finding: Finding) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.kept.len() < MAX_FINDINGS {
            inner.kept.push(finding);
        } else {
            inner.others += 1;
        }
    }

    /// Returns the kept findings, sorted by severity (worst first) and position, and the number of
    /// those not kept.
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
