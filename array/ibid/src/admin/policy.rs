//! `ibid policy`.

use crate::access::{self, Access};
use crate::cli::{MemberArgs, Names, PolicyCommand, RuleArgs};
use crate::output::{duration, either, json, list, parse_duration, print, table};
use crate::problem::Problem;
use api::{Policy, PolicyMember, PolicyPatch, PolicyRuleSnapshot, PolicyRuleSnapshotEntry};
use client::Client;

/// Types of members.
const VOLUMES: &str = "volumes";
const VOLUME_GROUPS: &str = "volume-groups";

/// Runs an `ibid policy` command.
pub(crate) fn policy(access: &Access, as_json: bool, command: PolicyCommand) -> Result<(), Problem> {
    // Times are parsed before the array is called.
    let entry = match &command {
        PolicyCommand::Create { rule, .. } | PolicyCommand::AddRule { rule, .. } => Some(parse_rule(rule)?),
        _ => None,
    };
    let client = access::client(access)?;
    let change = |names: &[String], patch: PolicyPatch| {
        let changed = client.change_policies(names, &patch)?;
        show(&client, as_json, &changed)
    };
    match command {
        PolicyCommand::Create { name, .. } => {
            let made = client.create_policy(&name)?;
            if let Some(entry) = entry
                && let Err(error) = client.add_policy_rule(&name, entry)
            {
                // A policy without its rule would look as if it worked.
                client.delete_policies(std::slice::from_ref(&name))?;
                return Err(error.into());
            }
            show(&client, as_json, &[made])
        }
        PolicyCommand::List { names } => show(&client, as_json, &client.policies(&names)?),
        PolicyCommand::AddRule { policy, .. } => {
            entry.map_or(Ok(()), |entry| client.add_policy_rule(&policy, entry).map(|_| ()))?;
            show(&client, as_json, &client.policies(&[policy])?)
        }
        PolicyCommand::RemoveRule(Names { names }) => {
            client.remove_policy_rules(&names)?;
            if as_json { json(&names) } else { print(&format!("removed {}\n", list(&names))) }
        }
        PolicyCommand::Add(args) => {
            each_kind(&args, |kind, names| client.add_policy_members(&args.policy, kind, names).map(|_| ()))?;
            show(&client, as_json, &client.policies(&[args.policy])?)
        }
        PolicyCommand::Remove(args) => {
            each_kind(&args, |kind, names| client.remove_policy_members(&args.policy, kind, names))?;
            show(&client, as_json, &client.policies(&[args.policy])?)
        }
        PolicyCommand::Enable(Names { names }) => {
            change(&names, PolicyPatch { enabled: Some(true), ..PolicyPatch::default() })
        }
        PolicyCommand::Disable(Names { names }) => {
            change(&names, PolicyPatch { enabled: Some(false), ..PolicyPatch::default() })
        }
        PolicyCommand::Rename { name, new_name } => {
            change(&[name], PolicyPatch { name: Some(new_name), ..PolicyPatch::default() })
        }
        PolicyCommand::Delete(Names { names }) => {
            client.delete_policies(&names)?;
            if as_json { json(&names) } else { print(&format!("deleted {}\n", list(&names))) }
        }
    }
}

fn each_kind<E>(args: &MemberArgs, call: impl Fn(&str, &[String]) -> Result<(), E>) -> Result<(), E> {
    let kinds = [(VOLUMES, &args.volume), (VOLUME_GROUPS, &args.vgroup)];
    kinds.into_iter().filter(|(_, names)| !names.is_empty()).try_for_each(|(kind, names)| call(kind, names))
}

fn parse_rule(rule: &RuleArgs) -> Result<PolicyRuleSnapshotEntry, Problem> {
    Ok(PolicyRuleSnapshotEntry {
        at: rule.at.as_deref().map(parse_time_of_day).transpose()?,
        client_name: rule.prefix.clone(),
        every: parse_duration(&rule.every)?,
        keep_for: parse_duration(&rule.keep)?,
        suffix: None,
    })
}

/// Parses `HH:MM` to milliseconds since midnight.
fn parse_time_of_day(text: &str) -> Result<u64, Problem> {
    let parse = || {
        let (hours, minutes) = text.split_once(':')?;
        let (hours, minutes) = (hours.parse::<u64>().ok()?, minutes.parse::<u64>().ok()?);
        (hours < 24 && minutes < 60).then_some((hours * 60 + minutes) * 60_000)
    };
    parse()
        .ok_or_else(|| Problem::new(format!("'{text}' is not a time of day")).hint("write HH:MM in UTC, such as 02:30"))
}

fn show(client: &Client, as_json: bool, policies: &[Policy]) -> Result<(), Problem> {
    let (rules, members) = (client.policy_rules()?, client.policy_members()?);
    let shown: Vec<serde_json::Value> = policies
        .iter()
        .map(|policy| {
            let own_rules: Vec<_> =
                rules.iter().filter(|rule| rule.policy.name.as_ref() == Some(&policy.name)).collect();
            let own_members: Vec<_> =
                members.iter().filter(|member| member.policy.name.as_ref() == Some(&policy.name)).collect();
            serde_json::json!({"policy": policy, "rules": own_rules, "members": own_members})
        })
        .collect();
    either(as_json, &shown, || lines(policies, &rules, &members))
}

fn lines(policies: &[Policy], rules: &[PolicyRuleSnapshot], members: &[PolicyMember]) -> String {
    let mut rows = Vec::new();
    for policy in policies {
        let of_policy = |name: &Option<String>| name.as_ref() == Some(&policy.name);
        let names: Vec<String> = members
            .iter()
            .filter(|member| of_policy(&member.policy.name))
            .map(|member| {
                let name = member.member.name.clone().unwrap_or_default();
                match member.member.resource_type.as_deref() {
                    Some(VOLUME_GROUPS) => format!("{name}/*"),
                    _ => name,
                }
            })
            .collect();
        let state = if policy.enabled { "enabled" } else { "disabled" };
        let own: Vec<&PolicyRuleSnapshot> = rules.iter().filter(|rule| of_policy(&rule.policy.name)).collect();
        let first = vec![policy.name.clone(), state.to_owned()];
        let row = |rule: &PolicyRuleSnapshot| {
            let at = rule.at.map_or_else(String::new, |at| {
                let minutes = at / 60_000;
                format!(" at {:02}:{:02} UTC", minutes / 60, minutes % 60)
            });
            vec![rule.name.clone(), format!("{}{at}", duration(rule.every)), duration(rule.keep_for)]
        };
        let none = || vec!["-".to_owned(); 3];
        let mut cells: Vec<Vec<String>> = own.iter().map(|rule| row(rule)).collect();
        if cells.is_empty() {
            cells.push(none());
        }
        for rule in cells {
            rows.push([first.clone(), rule, vec![list(&names)]].concat());
        }
    }
    table(&["POLICY", "STATE", "RULE", "EVERY", "KEEP", "MEMBERS"], &[], rows)
}
