//! `/policies` and `/policies/snapshot`.

use crate::call::{Answer, Call};
use crate::error::RestError;
use crate::listing::{LIST_PARAMETERS, page, select};
use crate::references::uuid;
use api::{
    ErrorCode, Policy, PolicyMember, PolicyMemberPost, PolicyPatch, PolicyRuleSnapshot, PolicyRuleSnapshotPost,
    Reference, TypedReference,
};
use catalog::{CatalogError, CatalogState, Draft, ObjectKind, SnapshotPolicy, SnapshotRule, VolumeOrSnapshot};
use std::sync::Arc;

/// Types of members, as requests name them.
const VOLUMES: &str = "volumes";
const VOLUME_GROUPS: &str = "volume-groups";

fn reference(state: &CatalogState, policy: &SnapshotPolicy) -> TypedReference {
    TypedReference {
        id: Some(uuid(state, policy.id.0)),
        name: Some(policy.name.clone()),
        resource_type: Some("policies/snapshot".to_owned()),
    }
}

fn show(state: &CatalogState, policy: &SnapshotPolicy) -> Policy {
    Policy {
        id: uuid(state, policy.id.0),
        name: policy.name.clone(),
        destroyed: false,
        enabled: policy.is_enabled,
        pod: Reference::default(),
        policy_type: "snapshot".to_owned(),
        time_remaining: None,
    }
}

fn answer(call: &Call, names: &[String]) -> Result<Answer, RestError> {
    let state = call.app.catalog.state();
    let policies = names.iter().filter_map(|name| state.snapshot_policy(name).ok());
    Answer::all(policies.map(|policy| show(&state, policy)).collect())
}

/// Returns the policies that the parameters `names` and `ids` select.
fn selected(call: &Call, state: &CatalogState, names: &str, ids: &str) -> Result<Vec<Arc<SnapshotPolicy>>, RestError> {
    if call.query.text(ids).is_some() {
        return select(&call.query, ids, std::iter::empty(), |id| {
            let found = state.snapshot_policies().find(|policy| uuid(state, policy.id.0).eq_ignore_ascii_case(id));
            let absent = || CatalogError::NoSuch { kind: ObjectKind::SnapshotPolicy, name: id.to_owned() };
            Ok(found.cloned().ok_or_else(absent)?)
        });
    }
    select(&call.query, names, state.snapshot_policies().cloned(), |name| Ok(state.snapshot_policy(name)?.clone()))
}

/// Returns the names of the policies that a change must name.
fn named(call: &Call, names: &str, ids: &str) -> Result<Vec<String>, RestError> {
    if call.query.text(ids).is_none() {
        return call.query.required(names);
    }
    let policies = selected(call, &call.app.catalog.state(), names, ids)?;
    Ok(policies.iter().map(|policy| policy.name.clone()).collect())
}

/// Answers `GET /policies` and `GET /policies/snapshot`.
pub(crate) fn list(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "ids", "destroyed"]])?;
    let state = call.app.catalog.state();
    let mut policies = selected(call, &state, "names", "ids")?;
    // No policy is ever destroyed, only deleted.
    policies.retain(|_| !matches!(call.query.flag("destroyed"), Ok(Some(true))));
    page(policies.iter().map(|policy| show(&state, policy)).collect(), &call.query, &["name"])
}

/// Answers `POST /policies/snapshot?names=…`.
pub(crate) fn create(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names"]])?;
    let names = call.query.required("names")?;
    let post: PolicyPatch = call.body()?;
    if post.name.is_some() {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "A new policy is named by 'names' alone."));
    }
    let (is_enabled, now_ms) = (post.enabled.unwrap_or(true), platform::clock::unix_millis());
    call.change(|draft| names.iter().try_for_each(|name| draft.create_snapshot_policy(name, is_enabled, now_ms)))?;
    tracing::info!(by = call.admin, "snapshot policies created: {}", names.join(", "));
    answer(call, &names)
}

/// Answers `PATCH /policies/snapshot?names=…`.
pub(crate) fn change(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    let names = named(call, "names", "ids")?;
    let patch: PolicyPatch = call.body()?;
    if patch.name.is_some() && names.len() > 1 {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "Only one policy at a time can be renamed."));
    }
    let new_name = patch.name.as_deref();
    call.change(|draft| names.iter().try_for_each(|name| draft.edit_snapshot_policy(name, new_name, patch.enabled)))?;
    tracing::info!(by = call.admin, new_name, enabled = patch.enabled, "policies changed: {}", names.join(", "));
    answer(call, &patch.name.map_or(names, |name| vec![name]))
}

/// Answers `DELETE /policies/snapshot?names=…`.
pub(crate) fn remove(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "ids"]])?;
    let names = named(call, "names", "ids")?;
    call.change(|draft| names.iter().try_for_each(|name| draft.delete_snapshot_policy(name)))?;
    tracing::info!(by = call.admin, "snapshot policies deleted: {}", names.join(", "));
    Answer::empty()
}

fn rule_name(policy: &SnapshotPolicy, number: u64) -> String {
    format!("{}.{number}", policy.name)
}

fn show_rule(state: &CatalogState, policy: &SnapshotPolicy, rule: &SnapshotRule) -> PolicyRuleSnapshot {
    PolicyRuleSnapshot {
        name: rule_name(policy, rule.number),
        at: rule.at_ms,
        client_name: rule.prefix.clone(),
        destroyed: false,
        every: rule.every_ms,
        keep_for: rule.keep_ms,
        policy: reference(state, policy),
        suffix: None,
        time_remaining: None,
    }
}

/// Answers `GET /policies/snapshot/rules`.
pub(crate) fn rules(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[LIST_PARAMETERS, &["names", "policy_names", "policy_ids", "destroyed"]])?;
    let state = call.app.catalog.state();
    let policies = selected(call, &state, "policy_names", "policy_ids")?;
    let rules = policies.iter().flat_map(|policy| policy.rules.iter().map(|rule| show_rule(&state, policy, rule)));
    let all: Vec<PolicyRuleSnapshot> = rules.collect();
    let find = |name: &str| {
        let found = all.iter().find(|rule| rule.name.eq_ignore_ascii_case(name));
        let absent = || CatalogError::NoSuch { kind: ObjectKind::SnapshotRule, name: name.to_owned() };
        Ok(found.cloned().ok_or_else(absent)?)
    };
    page(select(&call.query, "names", all.iter().cloned(), find)?, &call.query, &["name"])
}

/// Answers `POST /policies/snapshot/rules?policy_names=…`.
pub(crate) fn add_rules(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["policy_names", "policy_ids"]])?;
    let names = named(call, "policy_names", "policy_ids")?;
    let post: PolicyRuleSnapshotPost = call.body()?;
    if post.rules.is_empty() {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "'rules' is missing: a list of rules."));
    }
    if post.rules.iter().any(|entry| entry.suffix.is_some()) {
        let message = "This array does not support the 'suffix' of a rule: it numbers the snapshots.";
        return Err(RestError::bad(ErrorCode::Unsupported, message));
    }
    let now_ms = platform::clock::unix_millis();
    let added = call.change(|draft| {
        let mut added = Vec::new();
        for name in &names {
            for entry in &post.rules {
                let policy = draft.state().snapshot_policy(name)?.name.clone();
                let rule = SnapshotRule {
                    number: 0,
                    every_ms: entry.every,
                    at_ms: entry.at,
                    keep_ms: entry.keep_for,
                    prefix: entry.client_name.clone().unwrap_or(policy),
                    last_ms: None,
                };
                added.push((name, draft.add_snapshot_rule(name, rule, now_ms)?));
            }
        }
        Ok::<_, RestError>(added)
    })?;
    tracing::info!(by = call.admin, "rules added to snapshot policies: {added:?}");
    let state = call.app.catalog.state();
    let shown = added.iter().filter_map(|(name, number)| {
        let policy = state.snapshot_policy(name).ok()?;
        policy.rules.iter().find(|rule| rule.number == *number).map(|rule| show_rule(&state, policy, rule))
    });
    Answer::all(shown.collect())
}

/// Answers `DELETE /policies/snapshot/rules?names=…`.
pub(crate) fn remove_rules(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["names", "policy_names", "policy_ids"]])?;
    let names = call.query.required("names")?;
    let policies = selected(call, &call.app.catalog.state(), "policy_names", "policy_ids")?;
    call.change(|draft| {
        names.iter().try_for_each(|name| {
            let of_policy = policies.iter().find_map(|policy| {
                let is_named = |rule: &&SnapshotRule| rule_name(policy, rule.number).eq_ignore_ascii_case(name);
                policy.rules.iter().find(is_named).map(|rule| (policy, rule.number))
            });
            let absent = || CatalogError::NoSuch { kind: ObjectKind::SnapshotRule, name: name.clone() };
            let (policy, number) = of_policy.ok_or_else(absent)?;
            draft.remove_snapshot_rule(&policy.name, number)
        })
    })?;
    tracing::info!(by = call.admin, "rules removed from snapshot policies: {}", names.join(", "));
    Answer::empty()
}

fn show_members(state: &CatalogState, policy: &SnapshotPolicy) -> Vec<PolicyMember> {
    let member = |id: String, name: &str, kind: &str, destroyed: bool| PolicyMember {
        destroyed,
        enabled: policy.is_enabled,
        member: TypedReference { id: Some(id), name: Some(name.to_owned()), resource_type: Some(kind.to_owned()) },
        policy: reference(state, policy),
        time_remaining: None,
    };
    let volumes = policy.volumes.iter().filter_map(|id| state.volume_by_id(*id));
    let volumes = volumes.map(|volume| {
        let id = VolumeOrSnapshot::Volume(volume.clone()).uuid();
        member(id, &volume.name, VOLUMES, volume.destroyed_ms.is_some())
    });
    let groups = policy.groups.iter().filter_map(|id| state.volume_group_by_id(*id));
    let groups =
        groups.map(|group| member(uuid(state, group.id.0), &group.name, VOLUME_GROUPS, group.destroyed_ms.is_some()));
    volumes.chain(groups).collect()
}

/// Answers `GET /policies/members` and `GET /policies/snapshot/members`.
pub(crate) fn members(call: &Call) -> Result<Answer, RestError> {
    let own = &["policy_names", "policy_ids", "member_names", "member_ids", "member_types", "destroyed"];
    call.query.allow(&[LIST_PARAMETERS, own])?;
    let state = call.app.catalog.state();
    let mut members: Vec<PolicyMember> = Vec::new();
    for policy in selected(call, &state, "policy_names", "policy_ids")? {
        members.extend(show_members(&state, &policy));
    }
    let is_in = |parameter: &str, value: &Option<String>| {
        let asked = call.query.list(parameter);
        let value = value.as_deref().unwrap_or_default();
        asked.is_none_or(|asked| asked.iter().any(|asked| asked.eq_ignore_ascii_case(value)))
    };
    members.retain(|shown| {
        let member = &shown.member;
        is_in("member_names", &member.name)
            && is_in("member_ids", &member.id)
            && is_in("member_types", &member.resource_type)
    });
    if let Some(destroyed) = call.query.flag("destroyed")? {
        members.retain(|member| member.destroyed == destroyed);
    }
    page(members, &call.query, &["policy.name", "member.resource_type", "member.name"])
}

/// Returns a member of this type; a missing type means a volume.
fn typed<'n>(kind: Option<&str>, name: &'n str) -> Result<catalog::PolicyMember<'n>, RestError> {
    match kind {
        None | Some(VOLUMES) => Ok(catalog::PolicyMember::Volume(name)),
        Some(VOLUME_GROUPS) => Ok(catalog::PolicyMember::VolumeGroup(name)),
        Some(other) => {
            let message = format!(
                "This array does not support policies of {other}: a snapshot policy applies to {VOLUMES} and {VOLUME_GROUPS}."
            );
            Err(RestError::about(ErrorCode::Unsupported, name, message))
        }
    }
}

/// Answers `POST /policies/snapshot/members?policy_names=…`.
pub(crate) fn add_members(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["policy_names", "policy_ids"]])?;
    let policies = named(call, "policy_names", "policy_ids")?;
    let post: PolicyMemberPost = call.body()?;
    let mut given = Vec::new();
    for entry in &post.members {
        let Some(name) = entry.member.name.as_deref() else {
            return Err(RestError::bad(ErrorCode::InvalidRequest, "A member requires a name."));
        };
        given.push(typed(entry.member.resource_type.as_deref(), name)?);
    }
    if given.is_empty() {
        return Err(RestError::bad(ErrorCode::InvalidRequest, "'members' is missing: a list of members."));
    }
    call.change(|draft| set_members(draft, &policies, &given, true))?;
    tracing::info!(by = call.admin, "members added to snapshot policies {}: {given:?}", policies.join(", "));
    let state = call.app.catalog.state();
    let shown = policies.iter().filter_map(|name| state.snapshot_policy(name).ok());
    let is_given = |shown: &PolicyMember| {
        let mut names = post.members.iter().filter_map(|entry| entry.member.name.as_deref());
        names.any(|name| shown.member.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
    };
    Answer::all(shown.flat_map(|policy| show_members(&state, policy)).filter(is_given).collect())
}

fn set_members(
    draft: &mut Draft,
    policies: &[String],
    members: &[catalog::PolicyMember<'_>],
    is_member: bool,
) -> Result<(), CatalogError> {
    let mut pairs = policies.iter().flat_map(|policy| members.iter().map(move |member| (policy, *member)));
    pairs.try_for_each(|(policy, member)| draft.set_policy_member(policy, member, is_member))
}

/// Answers `DELETE /policies/snapshot/members?policy_names=…&member_names=…`. `member_types` has
/// one type for all members, or one for each.
pub(crate) fn remove_members(call: &Call) -> Result<Answer, RestError> {
    call.query.allow(&[&["policy_names", "policy_ids", "member_names", "member_types"]])?;
    let policies = named(call, "policy_names", "policy_ids")?;
    let names = call.query.required("member_names")?;
    let types = call.query.list("member_types").unwrap_or_default();
    if types.len() > 1 && types.len() != names.len() {
        let message = "'member_types' has one type for all members, or one for each.";
        return Err(RestError::bad(ErrorCode::InvalidParameter, message));
    }
    let kind = |index: usize| types.get(index).or(types.first()).map(String::as_str);
    let given: Result<Vec<_>, _> = names.iter().enumerate().map(|(index, name)| typed(kind(index), name)).collect();
    let given = given?;
    call.change(|draft| set_members(draft, &policies, &given, false))?;
    tracing::info!(by = call.admin, "members removed from snapshot policies {}: {given:?}", policies.join(", "));
    Answer::empty()
}
