//! Resources of the dialect that this array does not have.
//!
//! Clients that enumerate an array stop at the first error. A kind of object that an array may lack
//! is therefore an empty list. A function that the array lacks is refused in words.

use crate::app::App;
use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::page;
use api::ErrorCode;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use catalog::Role;
use serde_json::Value;
use std::sync::Arc;

/// A part of the dialect that the array lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absent {
    /// A kind of object: lists are empty, and other calls are refused.
    Objects(&'static str),
    /// A function: all calls are refused.
    Function(&'static str),
    /// A setting that every array of the dialect has once: the list has one object, in JSON, which
    /// states that nothing is set. Other calls are refused.
    Setting(&'static str, &'static str),
}

use Absent::{Function, Objects, Setting};

/// An SNMP agent without a community and users, so nothing can read it.
const SNMP_AGENT: &str = r#"{"name": "localhost", "engine_id": "", "version": "v2c", "v2c": {"community": null},
    "v3": {"auth_passphrase": null, "auth_protocol": null, "privacy_passphrase": null, "privacy_protocol": null,
    "user": null}}"#;
/// No protocol of storage management initiatives is served.
const SMI_S: &str = r#"{"name": "smi-s", "slp_enabled": false, "wbem_https_enabled": false}"#;

/// Paths below the version. An entry that ends with `/` covers all paths below it.
const ABSENT: &[(&str, Absent)] = &[
    ("active-directory", Objects("Active Directory accounts")),
    ("admins/cache", Objects("directory services")),
    ("alerts/", Function("alert events and rules")),
    ("apps", Objects("apps")),
    ("apps/nodes", Objects("apps")),
    ("arrays/cloud-capacity", Objects("cloud capacity")),
    ("arrays/cloud-provider-tags", Objects("tags of a cloud provider")),
    ("arrays/eula", Function("an end user agreement")),
    ("arrays/factory-reset-token", Function("factory resets")),
    ("arrays/ntp-test", Function("NTP settings; the operating system keeps the clock")),
    ("arrays/performance/", Function("performance counters")),
    ("certificates", Objects("certificates over REST; see certificate.pem in the array's directory")),
    ("certificates/", Function("certificates over REST; see certificate.pem in the array's directory")),
    ("directories", Objects("directories")),
    ("directories/", Objects("directories")),
    ("directory-exports", Objects("directories")),
    ("directory-quotas", Objects("directories")),
    ("directory-services", Objects("directory services")),
    ("directory-services/local/", Objects("local users")),
    ("directory-services/roles", Objects("directory services")),
    ("directory-services/test", Function("directory services")),
    ("directory-snapshots", Objects("directories")),
    ("dns", Objects("DNS settings; the operating system has them")),
    ("file-systems", Objects("file systems")),
    ("fleets", Objects("fleets")),
    ("fleets/members", Objects("fleets")),
    ("host-groups/protection-groups", Objects("protection groups of host groups")),
    ("host-groups/tags", Objects("tags of host groups")),
    ("host-groups/performance", Function("performance counters")),
    ("host-groups/performance/by-array", Function("performance counters")),
    ("hosts/protection-groups", Objects("protection groups of hosts")),
    ("hosts/tags", Objects("tags of hosts")),
    ("hosts/performance/", Function("performance counters")),
    ("hosts/performance/balance", Objects("counters of the balance of a host's paths")),
    ("kmip", Objects("key servers")),
    ("kmip/", Function("key servers")),
    ("logs", Function("log downloads")),
    ("maintenance-windows", Objects("maintenance windows")),
    ("network-interfaces/neighbors", Objects("network neighbors")),
    ("network-interfaces/performance", Function("performance counters")),
    ("network-interfaces/port-details", Objects("optical transceivers")),
    ("offloads", Objects("offload targets")),
    ("pod-replica-links", Objects("links between pods")),
    ("pod-replica-links/", Objects("links between pods")),
    ("pods/members", Objects("pods over several arrays, or in realms")),
    ("pods/performance/by-array", Function("performance counters")),
    ("pods/performance/replication", Objects("replication of pods")),
    ("pods/performance/replication/by-array", Objects("replication of pods")),
    ("pods/tags", Objects("tags of pods")),
    ("pods/tags/batch", Function("tags of pods")),
    (
        "policies/",
        Objects("policies of this type; a volume has QoS limits, and snapshot policies or protection groups"),
    ),
    ("ports/initiators", Function("lists of the initiators at a port")),
    ("presets/workload", Objects("workloads")),
    ("protection-group-snapshots/", Objects("replication")),
    ("protection-groups/", Objects("replication")),
    ("protection-groups/host-groups", Objects("protection groups of host groups")),
    ("protection-groups/hosts", Objects("protection groups of hosts")),
    ("protection-groups/space", Function("space of protection groups apart from their list")),
    ("realms", Objects("realms")),
    ("realms/", Objects("realms")),
    ("remote-pods", Objects("replicated objects of other arrays")),
    ("remote-protection-group-snapshots", Objects("replicated objects of other arrays")),
    ("remote-protection-group-snapshots/", Objects("replicated objects of other arrays")),
    ("remote-protection-groups", Objects("replicated objects of other arrays")),
    ("remote-volume-snapshots", Objects("replicated objects of other arrays")),
    ("remote-volume-snapshots/", Objects("replicated objects of other arrays")),
    ("smi-s", Setting("SMI-S", SMI_S)),
    ("snmp-agents", Setting("SNMP requests", SNMP_AGENT)),
    ("snmp-agents/mib", Function("SNMP requests; see docs/monitoring/IBID-ALERT-MIB.txt")),
    ("software", Objects("software packages")),
    ("software-bundle", Objects("software packages")),
    ("software-check", Objects("software packages")),
    ("software-installation-steps", Objects("software packages")),
    ("software-installations", Objects("software packages")),
    ("software-patches", Objects("software packages")),
    ("software-patches/", Objects("software packages")),
    ("software-versions", Objects("software packages")),
    ("sso/saml2/idps", Objects("single sign-on")),
    ("sso/saml2/idps/test", Function("single sign-on")),
    ("subnets", Objects("subnets; the operating system has them")),
    ("subscription-assets", Objects("subscription assets")),
    ("support/test", Function("remote support")),
    ("vchosts", Objects("vCenter hosts")),
    ("vchosts/", Objects("vCenter hosts")),
    ("virtual-machine-snapshots", Objects("virtual machines")),
    ("virtual-machines", Objects("virtual machines")),
    ("volume-groups/performance/by-array", Function("performance counters")),
    ("volume-groups/tags", Objects("tags of volume groups")),
    ("volume-groups/tags/batch", Function("tags of volume groups")),
    ("volume-snapshots/tags", Objects("tags of snapshots")),
    ("volume-snapshots/transfer", Objects("replicated objects of other arrays")),
    ("volumes/diff", Function("differences of volumes")),
    ("volumes/performance/", Function("performance counters")),
    ("workloads", Objects("workloads")),
    ("workloads/", Objects("workloads")),
];

/// Parameters that select objects. No object has these names.
const SELECTORS: &[&str] = &["names", "ids"];

/// Returns the entry for a path below the version, such as `/apps/nodes`.
fn find(path: &str) -> Option<Absent> {
    let below = path.trim_start_matches('/');
    let exact = ABSENT.iter().find(|(entry, _)| *entry == below);
    let covering =
        || ABSENT.iter().filter(|(entry, _)| entry.ends_with('/')).find(|(entry, _)| below.starts_with(entry));
    exact.or_else(covering).map(|(_, absent)| *absent)
}

/// Answers calls of paths without a handler.
pub(crate) async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let Some(absent) = find(request.uri().path()) else {
        return RestError::NotFound.into_response();
    };
    let is_list = request.method() == Method::GET;
    // A refusal says nothing about the array, so every role may get it.
    let call = match Call::accept(app, request, Role::Readonly).await {
        Ok(call) => call,
        Err(error) => return error.into_response(),
    };
    let answer = match absent {
        Objects(what) if is_list => list(&call, what, Vec::new()),
        Setting(what, object) if is_list => match serde_json::from_str(object) {
            Ok(object) => list(&call, what, vec![object]),
            Err(error) => Err(RestError::Internal(error.to_string())),
        },
        Objects(what) | Function(what) | Setting(what, _) => Err(unsupported(what)),
    };
    answer.map_or_else(RestError::into_response, Answer::into_response)
}

fn list(call: &Call, what: &str, objects: Vec<Value>) -> Result<Answer, RestError> {
    for selector in SELECTORS {
        if let Some(name) = call.query.list(selector).unwrap_or_default().first() {
            let message = format!("It does not exist: this array does not support {what}.");
            return Err(RestError::about(ErrorCode::Unsupported, name, message));
        }
    }
    let has_names = objects.iter().all(|object| object.get("name").is_some());
    page(objects, &call.query, if has_names { &["name"] } else { &[] })
}

fn unsupported(what: &str) -> RestError {
    RestError::bad(ErrorCode::Unsupported, format!("This array does not support {what}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_json_objects() {
        let objects = ABSENT.iter().filter_map(|(_, absent)| match absent {
            Setting(_, object) => Some(*object),
            _ => None,
        });
        assert!(objects.clone().count() > 0);
        objects.for_each(|object| assert!(serde_json::from_str::<Value>(object).unwrap().is_object(), "{object}"));
    }

    #[test]
    fn path_selects_its_own_entry_first() {
        assert!(matches!(find("/snmp-agents"), Some(Setting(..))));
        let functions = ["hosts/performance/by-array", "kmip/test", "directory-services/test"];
        assert!(functions.iter().all(|path| matches!(find(&format!("/{path}")), Some(Function(_)))));
        for path in ["pods/tags", "realms", "realms/performance/by-array", "apps/nodes", "directory-services"] {
            assert!(matches!(find(&format!("/{path}")), Some(Objects(_))), "{path}");
        }
        for path in ["/realmsx", "/", "", "/2.26/realms", "/volumes", "/pods"] {
            assert_eq!(find(path), None, "{path}");
        }
    }
}
