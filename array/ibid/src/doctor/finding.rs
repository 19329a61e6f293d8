//! The result of a check.

use serde::Serialize;

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// A property of the machine that needs no action.
    Info,
    /// Works, but slowly or less safely.
    Warning,
    /// The array does not start, or may lose data.
    Error,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) finding: String,
    /// The next step, in the imperative. Empty if none is needed.
    pub(super) advice: String,
}

impl Finding {
    pub(super) fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, finding: finding.into(), advice: String::new() }
    }

    pub(super) fn info(check: &'static str, finding: impl Into<String>) -> Self {
        Self { level: Level::Info, ..Self::ok(check, finding) }
    }

    pub(super) fn warning(check: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warning, advice: advice.into(), ..Self::ok(check, finding) }
    }

    pub(super) fn error(check: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Error, advice: advice.into(), ..Self::ok(check, finding) }
    }
}
