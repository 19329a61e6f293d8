//! Alerts, and the soundness of what is stored.

use serde::{Deserialize, Serialize};

/// Something that an administrator should know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Its number as text.
    pub id: String,
    /// Its number as text: clients know alerts by it.
    pub name: String,
    /// What was found.
    pub actual: Option<String>,
    /// `array`: the part of things that it belongs to.
    pub category: String,
    /// When it was over.
    pub closed: Option<u64>,
    /// The kind of alert, as a number.
    pub code: u64,
    /// What it is about.
    pub component_name: String,
    /// `array`, `volume` or `storage`.
    pub component_type: String,
    /// When it was first seen.
    pub created: u64,
    /// What to do.
    pub description: String,
    /// What should be.
    pub expected: Option<String>,
    /// True: nobody has taken notice yet.
    pub flagged: bool,
    /// The same as `summary`.
    pub issue: String,
    /// Null: there is no such page.
    pub knowledge_base_url: Option<String>,
    /// Null: nobody is notified.
    pub notified: Option<u64>,
    /// `info`, `warning` or `critical`.
    pub severity: String,
    /// `open` or `closed`.
    pub state: String,
    /// What is the matter, in a line.
    pub summary: String,
    /// When it last changed.
    pub updated: u64,
}

/// How far the checking of everything that is stored has come. (Ibid's own.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrub {
    /// True while it is under way.
    pub running: bool,
    /// Bytes that were checked, in the scrub that is under way or in the last one.
    pub checked: u64,
    /// Bytes that are in use, hence to be checked.
    pub used: u64,
    /// Scrubs that were completed since the array was started.
    pub completed: u64,
    /// Damage that is known, newest last.
    pub damage: Vec<String>,
}

/// How to scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScrubPost {
    /// The most bytes to check in a second; 100 MiB where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}
