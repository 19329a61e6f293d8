//! The table of calls: method, path, handler, and the lowest role that may make the call.

use crate::call::Action;
use crate::{
    admins, alerts, api_clients, array_connections, arrays, audit, connections, contract, hardware, host_groups, hosts,
    openapi, performance, pod_administration, pod_arrays, pod_replication, pods, policies, protection, scrub,
    snapshots, snmp_managers, syslog_servers, tags, volume_groups, volumes, watchers, web_hooks,
};
use axum::routing::MethodFilter;
use catalog::Role;

/// One call of the API.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// Name of the HTTP method.
    pub(crate) method: &'static str,
    /// Path below the version.
    pub(crate) path: &'static str,
    /// The lowest role that may make the call.
    pub(crate) role: Role,
    /// The handler.
    pub(crate) action: Action,
}

impl Route {
    const fn new(method: &'static str, path: &'static str, role: Role, action: Action) -> Self {
        Self { method, path, role, action }
    }

    /// Returns the HTTP method for the router.
    pub(crate) fn filter(&self) -> MethodFilter {
        match self.method {
            "POST" => MethodFilter::POST,
            "PATCH" => MethodFilter::PATCH,
            "PUT" => MethodFilter::PUT,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        }
    }
}

const fn read(path: &'static str, action: Action) -> Route {
    Route::new("GET", path, Role::Readonly, action)
}

const fn storage(method: &'static str, path: &'static str, action: Action) -> Route {
    Route::new(method, path, Role::StorageAdmin, action)
}

const fn array(method: &'static str, path: &'static str, action: Action) -> Route {
    Route::new(method, path, Role::ArrayAdmin, action)
}

/// A test of the delivery of alerts. It is a GET in the dialect, but it sends.
const fn test(path: &'static str, action: Action) -> Route {
    Route::new("GET", path, Role::OpsAdmin, action)
}

/// All calls that need a session, but those of `absent` and the end of the session.
pub(crate) const ROUTES: &[Route] = &[
    read("/admins", admins::list),
    array("POST", "/admins", admins::create),
    array("PATCH", "/admins", admins::change),
    array("DELETE", "/admins", admins::remove),
    read("/admins/api-tokens", admins::tokens),
    // Every administrator may replace and remove the own token; the handlers check that.
    Route::new("POST", "/admins/api-tokens", Role::Readonly, admins::new_token),
    Route::new("DELETE", "/admins/api-tokens", Role::Readonly, admins::remove_token),
    read("/admins/settings", admins::settings),
    read("/alert-watchers", watchers::list),
    array("POST", "/alert-watchers", watchers::create),
    array("PATCH", "/alert-watchers", watchers::change),
    array("DELETE", "/alert-watchers", watchers::remove),
    test("/alert-watchers/test", watchers::test),
    read("/alert-webhooks", web_hooks::list),
    array("POST", "/alert-webhooks", web_hooks::create),
    array("PATCH", "/alert-webhooks", web_hooks::change),
    array("DELETE", "/alert-webhooks", web_hooks::remove),
    test("/alert-webhooks/test", web_hooks::test),
    read("/alerts", alerts::list),
    read("/api-clients", api_clients::list),
    array("POST", "/api-clients", api_clients::create),
    array("PATCH", "/api-clients", api_clients::change),
    array("DELETE", "/api-clients", api_clients::remove),
    read("/array-connections", array_connections::list),
    array("POST", "/array-connections", array_connections::create),
    array("PATCH", "/array-connections", array_connections::change),
    array("DELETE", "/array-connections", array_connections::remove),
    // The handler shows a key to the role `array_admin` only.
    read("/array-connections/connection-key", array_connections::key),
    array("POST", "/array-connections/connection-key", array_connections::new_key),
    read("/array-connections/path", array_connections::paths),
    Route::new("POST", "/array-connections/test", Role::OpsAdmin, array_connections::test),
    read("/arrays", arrays::list),
    array("PATCH", "/arrays", arrays::change),
    read("/arrays/performance", performance::of_array),
    read("/arrays/scrub", scrub::status),
    Route::new("POST", "/arrays/scrub", Role::OpsAdmin, scrub::start),
    read("/arrays/space", arrays::space_of_array),
    read("/audits", audit::list),
    read("/connections", connections::list),
    storage("POST", "/connections", connections::create),
    storage("DELETE", "/connections", connections::remove),
    read("/connections/performance", performance::of_connections),
    read("/container-default-protections", contract::default_protections),
    read("/controllers", hardware::controllers),
    read("/drives", hardware::drives),
    read("/hardware", hardware::hardware),
    read("/host-groups", host_groups::list),
    storage("POST", "/host-groups", host_groups::create),
    storage("PATCH", "/host-groups", host_groups::change),
    storage("DELETE", "/host-groups", host_groups::remove),
    read("/host-groups/hosts", host_groups::members),
    storage("POST", "/host-groups/hosts", host_groups::add_members),
    storage("DELETE", "/host-groups/hosts", host_groups::remove_members),
    read("/host-groups/space", host_groups::space),
    read("/hosts", hosts::list),
    storage("POST", "/hosts", hosts::create),
    storage("PATCH", "/hosts", hosts::change),
    storage("DELETE", "/hosts", hosts::remove),
    read("/hosts/host-groups", host_groups::members),
    storage("POST", "/hosts/host-groups", host_groups::add_members),
    storage("DELETE", "/hosts/host-groups", host_groups::remove_members),
    read("/hosts/performance", performance::of_hosts),
    read("/hosts/space", hosts::space_of_hosts),
    read("/iscsi-sessions", performance::sessions),
    read("/iscsi-sessions/refused", performance::refused_logins),
    read("/network-interfaces", hardware::network_interfaces),
    read("/offloads/performance", performance::of_offloads),
    read("/openapi.json", openapi::document),
    read("/policies", policies::list),
    read("/policies/members", policies::members),
    read("/policies/snapshot", policies::list),
    storage("POST", "/policies/snapshot", policies::create),
    storage("PATCH", "/policies/snapshot", policies::change),
    storage("DELETE", "/policies/snapshot", policies::remove),
    read("/policies/snapshot/members", policies::members),
    storage("POST", "/policies/snapshot/members", policies::add_members),
    storage("DELETE", "/policies/snapshot/members", policies::remove_members),
    read("/policies/snapshot/rules", policies::rules),
    storage("POST", "/policies/snapshot/rules", policies::add_rules),
    storage("DELETE", "/policies/snapshot/rules", policies::remove_rules),
    read("/pods", pods::list),
    storage("POST", "/pods", pods::create),
    storage("PATCH", "/pods", pods::change),
    storage("DELETE", "/pods", pods::remove),
    read("/pods/arrays", pod_arrays::list),
    storage("POST", "/pods/arrays", pod_arrays::stretch),
    storage("DELETE", "/pods/arrays", pod_arrays::unstretch),
    read("/pods/check", pod_administration::check),
    storage("POST", "/pods/discard", pod_replication::discard),
    read("/pods/evacuate", pod_administration::list_evacuation),
    storage("POST", "/pods/evacuate", pod_administration::evacuate),
    storage("POST", "/pods/forget", pod_administration::forget),
    read("/pods/performance", performance::of_pods),
    storage("POST", "/pods/promote", pod_replication::promote),
    read("/pods/replication", pod_replication::list),
    storage("POST", "/pods/resign", pod_replication::resign),
    read("/pods/space", pods::space),
    read("/pods/verify", pod_administration::list_verifications),
    storage("POST", "/pods/verify", pod_administration::verify),
    storage("DELETE", "/pods/verify", pod_administration::stop_verify),
    read("/ports", hardware::ports),
    read("/ports/performance", performance::of_ports),
    read("/protection-group-snapshots", protection::list_snapshots),
    storage("POST", "/protection-group-snapshots", protection::create_snapshots),
    storage("PATCH", "/protection-group-snapshots", protection::change_snapshots),
    storage("DELETE", "/protection-group-snapshots", protection::remove_snapshots),
    read("/protection-groups", protection::list),
    storage("POST", "/protection-groups", protection::create),
    storage("PATCH", "/protection-groups", protection::change),
    storage("DELETE", "/protection-groups", protection::remove),
    read("/protection-groups/volumes", protection::members),
    storage("POST", "/protection-groups/volumes", protection::add_members),
    storage("DELETE", "/protection-groups/volumes", protection::remove_members),
    read("/sessions", audit::sessions),
    read("/smtp-servers", watchers::server),
    array("PATCH", "/smtp-servers", watchers::change_server),
    read("/snmp-managers", snmp_managers::list),
    array("POST", "/snmp-managers", snmp_managers::create),
    array("PATCH", "/snmp-managers", snmp_managers::change),
    array("DELETE", "/snmp-managers", snmp_managers::remove),
    test("/snmp-managers/test", snmp_managers::test),
    read("/subscriptions", contract::subscriptions),
    read("/support", contract::support),
    read("/syslog-servers", syslog_servers::list),
    array("POST", "/syslog-servers", syslog_servers::create),
    array("PATCH", "/syslog-servers", syslog_servers::change),
    array("DELETE", "/syslog-servers", syslog_servers::remove),
    read("/syslog-servers/settings", syslog_servers::settings),
    array("PATCH", "/syslog-servers/settings", syslog_servers::change_settings),
    test("/syslog-servers/test", syslog_servers::test),
    read("/volume-groups", volume_groups::list),
    storage("POST", "/volume-groups", volume_groups::create),
    storage("PATCH", "/volume-groups", volume_groups::change),
    storage("DELETE", "/volume-groups", volume_groups::remove),
    read("/volume-groups/performance", performance::of_volume_groups),
    read("/volume-groups/space", volume_groups::space),
    read("/volume-groups/volumes", volume_groups::members),
    read("/volume-snapshots", snapshots::list),
    storage("POST", "/volume-snapshots", snapshots::create),
    storage("PATCH", "/volume-snapshots", snapshots::change),
    storage("DELETE", "/volume-snapshots", snapshots::remove),
    read("/volumes", volumes::list),
    storage("POST", "/volumes", volumes::create),
    storage("PATCH", "/volumes", volumes::change),
    storage("DELETE", "/volumes", volumes::remove),
    read("/volumes/performance", performance::of_volumes),
    read("/volumes/protection-groups", protection::members),
    storage("POST", "/volumes/protection-groups", protection::add_members),
    storage("DELETE", "/volumes/protection-groups", protection::remove_members),
    read("/volumes/space", volumes::space_of_volumes),
    read("/volumes/tags", tags::list),
    storage("DELETE", "/volumes/tags", tags::remove),
    storage("PUT", "/volumes/tags/batch", tags::put),
    read("/volumes/volume-groups", volume_groups::members),
];
