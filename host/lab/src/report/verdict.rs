//! Verdict on an experiment and HTML escaping, used by all parts of the page.

use crate::results::{ExperimentOutcome, Verdict};

/// Escapes text for use between tags or in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the verdict on an experiment as a CSS class and a label.
pub(super) fn verdict(outcome: &ExperimentOutcome) -> (&'static str, &'static str) {
    let class = match outcome.verdict {
        Verdict::Failed | Verdict::GoalMissed => "bad",
        Verdict::NotPossible | Verdict::CannotTell => "dull",
        Verdict::FallBack => "warn",
        Verdict::Measured => "plain",
        Verdict::GoalMet => "good",
    };
    (class, outcome.verdict.words())
}
