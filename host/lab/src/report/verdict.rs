//! Verdict on an experiment and HTML escaping, used by all parts of the page.

use crate::results::{Ending, ExperimentOutcome, Figure, ReportNote};

/// Escapes text for use between tags or in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the verdict on an experiment as a CSS class and a label.
pub(super) fn verdict(outcome: &ExperimentOutcome) -> (&'static str, &'static str) {
    let goals: Vec<bool> = outcome.findings.figures.iter().filter_map(Figure::is_met).collect();
    let fallback = outcome.findings.notes.iter().any(|note| matches!(note, ReportNote::Unsupported(_)));
    match &outcome.ending {
        Ending::Failed(_) => ("bad", "failed"),
        Ending::NotPossible(_) => ("dull", "not possible"),
        Ending::Done if fallback => ("warn", "fall-back measured"),
        Ending::Done if goals.is_empty() => ("plain", "measured"),
        Ending::Done if goals.iter().all(|met| *met) => ("good", "goal met"),
        Ending::Done => ("bad", "goal missed"),
    }
}
