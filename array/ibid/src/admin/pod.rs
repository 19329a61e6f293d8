//! `ibid pod`.

use super::stretched;
use super::volume::state;
use crate::access::{self, Access};
use crate::admin::monitor::monitor;
use crate::cli::{ContentsArgs, Names, PodCommand};
use crate::output::{ListForm, json, list, list_as, parse_size, print, table, time};
use crate::problem::Problem;
use api::{BytesLimit, Pod, PodPatch, PodPost, Reference};
use client::Monitored;
use types::format_capacity;

/// Runs an `ibid pod` command.
pub(crate) fn pod(access: &Access, as_json: bool, command: PodCommand) -> Result<(), Problem> {
    // Limits are parsed before the array is called.
    let mut limits = PodPatch::default();
    let quota = match &command {
        PodCommand::Set { quota, resync_limit, ignore_usage, .. } => {
            limits.quota_limit = quota.as_deref().map(limit).transpose()?;
            limits.resync_limit = resync_limit.as_deref().map(limit).transpose()?;
            limits.ignore_usage = ignore_usage.then_some(true);
            None
        }
        PodCommand::Create { quota, .. } | PodCommand::Clone { quota, .. } => {
            quota.as_deref().map(parse_size).transpose()?
        }
        _ => None,
    };
    let client = access::client(access)?;
    let form = ListForm::new(as_json, false);
    let post = PodPost { quota_limit: quota, ..PodPost::default() };
    let change =
        |names: &[String], patch: PodPatch, contents: bool| show(form, &client.change_pods(names, &patch, contents)?);
    match command {
        PodCommand::Create { names, .. } => show(form, &client.create_pods(&names, &post)?),
        PodCommand::Clone { source, name, .. } => {
            let post = PodPost { source: Some(Reference::named(source)), ..post };
            show(form, &client.create_pods(&[name], &post)?)
        }
        PodCommand::Stretched(command) => stretched::run(&client, as_json, command),
        PodCommand::List { names, destroyed, all, replication, list } => {
            let listing = list.listing(&names, if all { None } else { Some(destroyed) });
            if replication {
                return stretched::list(&client, ListForm::new(as_json, list.csv), &client.pods(&listing)?);
            }
            show(ListForm::new(as_json, list.csv), &client.pods(&listing)?)
        }
        PodCommand::Monitor { names, args } => monitor(&client, as_json, Monitored::Pods, &names, &args),
        PodCommand::Set { names, .. } => change(&names, limits, false),
        PodCommand::Rename { name, new_name } => {
            change(&[name], PodPatch { name: Some(new_name), ..PodPatch::default() }, false)
        }
        PodCommand::Destroy(ContentsArgs { names, contents }) => {
            change(&names, PodPatch { destroyed: Some(true), ..PodPatch::default() }, contents)
        }
        PodCommand::Recover(Names { names }) => {
            change(&names, PodPatch { destroyed: Some(false), ..PodPatch::default() }, false)
        }
        PodCommand::Eradicate(ContentsArgs { names, contents }) => {
            client.eradicate_pods(&names, contents)?;
            if as_json { json(&names) } else { print(&format!("eradicated {}\n", list(&names))) }
        }
    }
}

/// Parses a limit, or `none`.
fn limit(text: &str) -> Result<BytesLimit, Problem> {
    match text {
        "none" => Ok(BytesLimit::Text(String::new())),
        _ => Ok(BytesLimit::Bytes(parse_size(text)?)),
    }
}

fn show(form: ListForm, pods: &[Pod]) -> Result<(), Problem> {
    let array = |array: &api::PodArrayStatus| format!("{} {}", array.name, array.status);
    let row = |pod: &Pod| {
        vec![
            pod.name.clone(),
            pod.volume_count.to_string(),
            format_capacity(pod.space.total_provisioned),
            pod.quota_limit.map_or_else(|| "none".to_owned(), format_capacity),
            pod.space.r#virtual.map_or_else(|| "-".to_owned(), format_capacity),
            list(&pod.arrays.iter().map(array).collect::<Vec<_>>()),
            time(pod.created),
            state(pod.time_remaining),
        ]
    };
    let head = ["NAME", "VOLUMES", "SIZE", "QUOTA", "WRITTEN", "ARRAYS", "CREATED", "STATE"];
    list_as(form, pods, || table(&head, &[1, 2, 3, 4], pods.iter().map(row).collect()))
}
