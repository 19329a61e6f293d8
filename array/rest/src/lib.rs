//! The REST server: administration of the array over HTTPS or a Unix socket, in the dialect of
//! [`api`].
//!
//! Each connection is a task, which authenticates and reads requests. Handlers run on blocking
//! threads, because a change of the catalog waits for the engine's log.
#![forbid(unsafe_code)]

mod absent;
mod access_token;
mod admins;
mod alert_condition;
mod alert_monitor;
mod alerts;
mod api_clients;
mod app;
mod array_connections;
mod arrays;
mod audit;
mod audit_text;
mod call;
mod change_feed;
mod change_watch;
mod clock_watch;
mod connections;
mod console;
mod contract;
mod credential;
mod delivery;
mod delivery_tasks;
mod destinations;
mod error;
mod events;
mod filter;
mod hardware;
mod host_groups;
mod hosts;
mod jwt;
mod limiter;
mod listing;
mod login;
mod measurements;
mod metrics;
mod oauth;
mod openapi;
mod performance;
mod pod_administration;
mod pod_alerts;
mod pod_arrays;
mod pod_control;
mod pod_replication;
mod pod_reports;
mod pod_words;
mod pods;
mod policies;
mod protection;
mod query;
mod references;
mod rest1;
mod router;
mod routes;
mod scrub;
mod scrub_schedule;
mod server;
mod session;
mod slots;
mod snapshots;
mod snmp_managers;
mod source;
mod space;
mod syslog_servers;
mod tags;
mod tls;
mod token;
mod volume_groups;
mod volumes;
mod watchers;
mod web_hooks;

pub use app::{App, Drive, Growth};
pub use delivery_tasks::deliver_alerts;
pub use measurements::Telemetry;
pub use pod_control::{
    MediatorState, PodArrayView, PodControl, PodControlError, PodEvent, PodFlow, PodPart, PodState, PodTieRule,
    PodView, PodWait, PodWaitEvent,
};
pub use pod_reports::{
    PodCheckGrade, PodCheckLine, PodDifferenceKind, PodDifferenceView, PodEvacuation, PodEvacuationResult,
    PodVerificationState, PodVerificationView,
};
pub use server::{SOCKET_FILE, ServeError, Server};
pub use space::COUNT_PART;
pub use tls::{IDENTITY_FILES, Identity, IdentityError};
pub use token::{ADMIN, ADMIN_TOKEN_FILE, TokenError, ensure_admin, new_admin_token, prepare_admin_token};

#[cfg(test)]
mod tests;
