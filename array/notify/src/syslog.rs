//! Syslog messages (RFC 5424) over UDP (RFC 5426), TCP (RFC 6587) and TLS (RFC 5425).

use crate::tls::{connect, connect_tls, place};
use crate::{Event, Notice, SendError};
use catalog::{Severity, SyslogServer, SyslogSettings, SyslogTransport};
use platform::net::{resolve, send_datagram};
use tokio::io::AsyncWriteExt;
use types::utc_time;

/// Default port of a syslog server.
pub const SYSLOG_PORT: u16 = 514;
/// Facility `daemon` (RFC 5424 6.2.1).
const FACILITY: u8 = 3;
/// Maximum length of the text in bytes. A receiver takes messages of 2048 bytes (RFC 5424 6.1).
const MAX_TEXT_BYTES: usize = 1024;
/// Maximum length of a value in bytes.
const MAX_VALUE_BYTES: usize = 128;
/// Id of the structured data. The array has no enterprise number of its own; this one is reserved
/// for documentation (RFC 5612).
const DATA_ID: &str = "alert@32473";

/// Sends the notice to one server.
pub(crate) async fn send(server: &SyslogServer, all: &SyslogSettings, notice: &Notice) -> Result<(), SendError> {
    let (host, port) = (server.host.as_str(), server.port);
    let message = message(notice);
    let failed = |error| SendError::Send(place(host, port), error);
    match server.transport {
        SyslogTransport::Udp => {
            let address = resolve(host, port).await.map_err(|error| SendError::Resolve(host.to_owned(), error))?;
            send_datagram(address, message.as_bytes()).await.map_err(failed)
        }
        SyslogTransport::Tcp => {
            let mut stream = connect(host, port).await?;
            stream.write_all(framed(&message).as_bytes()).await.map_err(failed)?;
            stream.shutdown().await.map_err(failed)
        }
        SyslogTransport::Tls => {
            let mut stream = connect_tls(host, port, all.ca_certificate.as_deref()).await?;
            stream.write_all(framed(&message).as_bytes()).await.map_err(failed)?;
            stream.shutdown().await.map_err(failed)
        }
    }
}

/// Returns whether the settings ask for the notice.
pub(crate) fn is_asked(all: &SyslogSettings, notice: &Notice) -> bool {
    severity(notice) <= all.minimum as u8
}

/// Returns the severity of RFC 5424 6.2.1. The end of an alert is a notice.
fn severity(notice: &Notice) -> u8 {
    match (notice.event, notice.severity()) {
        (Event::Test, _) => 6,
        (Event::Closed, _) => 5,
        (_, Severity::Critical) => 2,
        (_, Severity::Warning) => 4,
        (_, Severity::Info) => 6,
    }
}

/// Puts the length in front (RFC 6587 3.4.1).
fn framed(message: &str) -> String {
    format!("{} {message}", message.len())
}

/// Returns the message of RFC 5424 6.
fn message(notice: &Notice) -> String {
    let alert = &notice.alert;
    let priority = FACILITY * 8 + severity(notice);
    let host = header_value(&notice.array);
    let data = [
        ("id", alert.id.clone()),
        ("code", alert.code.to_string()),
        ("severity", alert.severity.clone()),
        ("state", alert.state.clone()),
        ("component", alert.component_name.clone()),
        ("array", notice.array_id.clone()),
    ];
    let data: String = data.iter().map(|(name, value)| format!(" {name}=\"{}\"", escaped(value))).collect();
    let (time, event) = (utc_time(notice.at_ms), notice.event.name());
    // The mark of UTF-8 begins the text (RFC 5424 6.4).
    let text = one_line(&format!("{} {}", notice.line(), alert.description), MAX_TEXT_BYTES);
    format!("<{priority}>1 {time} {host} ibid - {event} [{DATA_ID}{data}] \u{feff}{text}")
}

/// Replaces the characters that a field of the header must not have (RFC 5424 6).
fn header_value(text: &str) -> String {
    let value: String = text.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect();
    if value.is_empty() { "-".to_owned() } else { value }
}

/// Escapes a value of structured data (RFC 5424 6.3.3).
fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for c in one_line(value, MAX_VALUE_BYTES).chars() {
        if matches!(c, '"' | '\\' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Replaces control characters, because a line break could look like another message, and shortens
/// the text.
fn one_line(text: &str, limit: usize) -> String {
    let end = text.floor_char_boundary(limit);
    text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::SyslogSeverity;

    #[test]
    fn message_has_the_form_of_rfc_5424() {
        let mut notice = Notice::test("array-1", "id-1", 1_795_305_599_000);
        notice.event = Event::Opened;
        notice.alert.severity = "critical".to_owned();
        notice.alert.component_name = "a\"b\\c]d\ne".to_owned();
        let expected = concat!(
            "<26>1 2026-11-21T23:59:59Z array-1 ibid - opened [alert@32473 id=\"0\" code=\"0\" severity=\"critical\" ",
            "state=\"closed\" component=\"a\\\"b\\\\c\\]d e\" array=\"id-1\"] ",
            "\u{feff}critical: test of the delivery of alerts Nothing has to be done."
        );
        assert_eq!(message(&notice), expected);
        assert_eq!(framed("é"), "2 é");
        notice.alert.summary = "ö".repeat(4096);
        assert!(message(&notice).len() < 2048);
    }

    #[test]
    fn logging_severity_selects_notices() {
        let mut notice = Notice::test("a", "i", 0);
        let asked = |minimum, notice: &Notice| is_asked(&SyslogSettings { minimum, ca_certificate: None }, notice);
        assert!(asked(SyslogSeverity::Info, &notice) && !asked(SyslogSeverity::Notice, &notice));
        notice.event = Event::Closed;
        assert!(asked(SyslogSeverity::Notice, &notice) && !asked(SyslogSeverity::Warning, &notice));
        notice.event = Event::Opened;
        notice.alert.severity = "warning".to_owned();
        assert!(asked(SyslogSeverity::Warning, &notice));
    }
}
