//! A notice: one change of an alert, and its texts.

use api::Alert;
use catalog::Severity;
use types::utc_time;

/// A change of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The alert was opened.
    Opened,
    /// An open alert became critical.
    Worsened,
    /// The alert was closed.
    Closed,
    /// An administrator tests the delivery.
    Test,
}

impl Event {
    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Worsened => "worsened",
            Self::Closed => "closed",
            Self::Test => "test",
        }
    }
}

/// One change of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The change.
    pub event: Event,
    /// The alert after the change.
    pub alert: Alert,
    /// Name of the array.
    pub array: String,
    /// Permanent id of the array.
    pub array_id: String,
    /// Time of the change, in milliseconds since 1970.
    pub at_ms: u64,
}

impl Notice {
    /// Creates a notice that tests the delivery.
    pub fn test(array: &str, array_id: &str, at_ms: u64) -> Self {
        let alert = Alert {
            id: "0".to_owned(),
            name: "0".to_owned(),
            actual: None,
            category: "array".to_owned(),
            closed: None,
            code: 0,
            component_name: array.to_owned(),
            component_type: "array".to_owned(),
            created: at_ms,
            description: "Nothing has to be done.".to_owned(),
            expected: None,
            flagged: false,
            issue: "test of the delivery of alerts".to_owned(),
            knowledge_base_url: None,
            notified: None,
            severity: Severity::Info.name().to_owned(),
            state: "closed".to_owned(),
            summary: "test of the delivery of alerts".to_owned(),
            updated: at_ms,
        };
        Self { event: Event::Test, alert, array: array.to_owned(), array_id: array_id.to_owned(), at_ms }
    }

    /// Returns the severity of the alert.
    pub fn severity(&self) -> Severity {
        Severity::named(&self.alert.severity).unwrap_or(Severity::Critical)
    }

    /// Returns an id that no other notice of the array has.
    pub(crate) fn id(&self) -> String {
        format!("{}-{}-{}-{}", self.array_id, self.alert.id, self.event.name(), self.at_ms)
    }

    /// Returns the change in one line.
    pub(crate) fn line(&self) -> String {
        match self.event {
            Event::Opened | Event::Worsened => format!("{}: {}", self.alert.severity, self.alert.summary),
            Event::Closed => format!("closed: {}", self.alert.summary),
            Event::Test => self.alert.summary.clone(),
        }
    }

    /// Returns the change in several lines.
    pub(crate) fn text(&self) -> String {
        let alert = &self.alert;
        let mut lines = vec![
            ("Array", self.array.clone()),
            ("Alert", format!("{} (code {})", alert.id, alert.code)),
            ("Severity", alert.severity.clone()),
            ("State", alert.state.clone()),
            ("Since", utc_time(alert.created)),
            ("Summary", alert.summary.clone()),
            ("Concerns", format!("{} {}", alert.component_type, alert.component_name)),
        ];
        lines.extend(alert.closed.map(|closed| ("Closed", utc_time(closed))));
        lines.extend(alert.actual.clone().map(|actual| ("Measured", actual)));
        lines.extend(alert.expected.clone().map(|expected| ("Expected", expected)));
        let facts: String = lines.iter().map(|(name, value)| format!("{:<10}{value}\n", format!("{name}:"))).collect();
        match alert.code {
            0 => format!("{facts}\n{}\n", alert.description),
            code => format!("{facts}\n{}\n\nRunbook: docs/alerts.md#{code}\n", alert.description),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_array_alert_and_action() {
        let mut notice = Notice::test("array-1", "id-1", 1_795_305_599_000);
        assert_eq!(notice.line(), "test of the delivery of alerts");
        notice.event = Event::Closed;
        notice.alert.code = 1;
        notice.alert.closed = Some(1_795_305_600_000);
        notice.alert.actual = Some("81 %".to_owned());
        assert_eq!(notice.line(), "closed: test of the delivery of alerts");
        let text = notice.text();
        for line in ["Array:    array-1", "Closed:   2026-11-22T00:00:00Z", "Measured: 81 %", "docs/alerts.md#1"] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(notice.id(), "id-1-0-closed-1795305599000");
    }
}
