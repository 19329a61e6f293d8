//! Calls about the delivery of alerts.

use super::Client;
use crate::ClientError;
use api::{
    AlertWatcher, AlertWatcherPatch, AlertWebHook, AlertWebHookPatch, SmtpServer, SmtpServerPatch, SnmpManager,
    SnmpManagerPatch, SyslogServer, SyslogServerPatch, SyslogServerSettings, SyslogServerSettingsPatch, TestResult,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::Method;

/// A kind of destination of alerts.
pub trait AlertDestination: DeserializeOwned {
    /// Path of its list.
    const PATH: &'static str;
    /// Its settings in a request.
    type Patch: Serialize;
}

impl AlertDestination for AlertWatcher {
    const PATH: &'static str = "alert-watchers";
    type Patch = AlertWatcherPatch;
}

impl AlertDestination for SyslogServer {
    const PATH: &'static str = "syslog-servers";
    type Patch = SyslogServerPatch;
}

impl AlertDestination for SnmpManager {
    const PATH: &'static str = "snmp-managers";
    type Patch = SnmpManagerPatch;
}

impl AlertDestination for AlertWebHook {
    const PATH: &'static str = "alert-webhooks";
    type Patch = AlertWebHookPatch;
}

impl Client {
    /// Lists the destinations of one kind.
    pub fn destinations<T: AlertDestination>(&self) -> Result<Vec<T>, ClientError> {
        self.list(T::PATH, &[])
    }

    /// Adds a destination.
    pub fn add_destination<T: AlertDestination>(&self, name: &str, post: &T::Patch) -> Result<T, ClientError> {
        self.one(Method::POST, T::PATH, &[("names", name)], Some(post))
    }

    /// Changes a destination.
    pub fn change_destination<T: AlertDestination>(&self, name: &str, patch: &T::Patch) -> Result<T, ClientError> {
        self.one(Method::PATCH, T::PATH, &[("names", name)], Some(patch))
    }

    /// Removes destinations: all of them, or on error none.
    pub fn remove_destinations<T: AlertDestination>(&self, names: &[String]) -> Result<(), ClientError> {
        self.call(Method::DELETE, T::PATH, &[("names", &names.join(","))], None::<&()>).map(|_| ())
    }

    /// Sends a test message to destinations of one kind; to all of them if `names` is empty.
    pub fn test_destinations<T: AlertDestination>(&self, names: &[String]) -> Result<Vec<TestResult>, ClientError> {
        let (path, names) = (format!("{}/test", T::PATH), names.join(","));
        let parameters = [("names", names.as_str())];
        self.list(&path, if names.is_empty() { &[] } else { &parameters })
    }

    /// Returns the mail server.
    pub fn smtp_server(&self) -> Result<SmtpServer, ClientError> {
        self.one(Method::GET, "smtp-servers", &[], None::<&()>)
    }

    /// Changes the mail server.
    pub fn change_smtp_server(&self, patch: &SmtpServerPatch) -> Result<SmtpServer, ClientError> {
        self.one(Method::PATCH, "smtp-servers", &[], Some(patch))
    }

    /// Returns the settings of all syslog servers.
    pub fn syslog_settings(&self) -> Result<SyslogServerSettings, ClientError> {
        self.one(Method::GET, "syslog-servers/settings", &[], None::<&()>)
    }

    /// Changes the settings of all syslog servers.
    pub fn change_syslog_settings(
        &self,
        patch: &SyslogServerSettingsPatch,
    ) -> Result<SyslogServerSettings, ClientError> {
        self.one(Method::PATCH, "syslog-servers/settings", &[], Some(patch))
    }
}
