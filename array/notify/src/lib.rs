//! Delivers alerts: by mail (SMTP), to syslog servers (RFC 5424), as traps of SNMP v2c, and to web
//! hooks (HTTPS).
//!
//! [`send`] sends one notice to one destination. [`Outboxes`] decides when: a bounded queue for
//! each destination, with retries. Neither reads a setting of the array, so callers pass it.
#![forbid(unsafe_code)]

mod address;
mod destination;
mod error;
mod mail;
mod notice;
mod outbox;
mod snmp;
mod syslog;
mod tls;
mod web_hook;

pub use address::{check_certificates, check_mail_address, check_url, host_and_port};
pub use destination::{Destination, DestinationId, DestinationKind, send};
pub use error::SendError;
pub use mail::{SMTP_PORT, SMTPS_PORT};
pub use notice::{Event, Notice};
pub use outbox::{MAX_ATTEMPTS, MAX_WAITING, Outboxes};
pub use snmp::SNMP_PORT;
pub use syslog::SYSLOG_PORT;
pub use web_hook::{SECRET_PREFIX, check_secret, new_secret};
