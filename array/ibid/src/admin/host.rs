//! `ibid host`.

use crate::access::{self, Access};
use crate::admin::monitor::{monitor, paths};
use crate::admin::secret::read_secret;
use crate::cli::{ChapArgs, HostCommand, Names};
use crate::output::{ListForm, either, facts, json, list, list_as, print, table};
use crate::problem::Problem;
use api::{Chap, Connection, Host, HostPatch, HostPost, Reference};
use client::{Client, HostsAndVolumes, Listing, Monitored};

/// Runs an `ibid host` command.
pub(crate) fn host(access: &Access, as_json: bool, command: HostCommand) -> Result<(), Problem> {
    let client = access::client(access)?;
    match command {
        HostCommand::Create { name, iqn, personality, chap } => {
            let post = HostPost { iqns: Some(iqn), personality, chap: secrets(chap)?, ..HostPost::default() };
            one(as_json, &client.create_host(&name, &post)?)
        }
        HostCommand::List { names, list } => {
            let hosts = client.hosts(&list.listing(&names, None))?;
            list_as(ListForm::new(as_json, list.csv), &hosts, || lines(&hosts))
        }
        HostCommand::Monitor { names, args } => monitor(&client, as_json, Monitored::Hosts, &names, &args),
        HostCommand::Paths { names } => paths(&client, as_json, &names),
        HostCommand::Show { name } => show(&client, as_json, name),
        HostCommand::Set { name, iqn, add_iqn, remove_iqn, personality, chap } => {
            let given = |iqns: Vec<String>| Some(iqns).filter(|iqns| !iqns.is_empty());
            let patch = HostPatch {
                add_iqns: given(add_iqn),
                chap: secrets(chap)?,
                iqns: given(iqn),
                personality,
                remove_iqns: given(remove_iqn),
                ..HostPatch::default()
            };
            if patch == HostPatch::default() {
                return Err(Problem::new("nothing to change")
                    .hint("give at least one setting; `ibid host set --help` lists them"));
            }
            one(as_json, &client.change_host(&name, &patch)?)
        }
        HostCommand::Prefer { name, arrays, none: _ } => {
            let arrays = arrays.into_iter().map(Reference::named).collect();
            let patch = HostPatch { preferred_arrays: Some(arrays), ..HostPatch::default() };
            let host = client.change_host(&name, &patch)?;
            either(as_json, &host, || match preferred(&host) {
                arrays if arrays.is_empty() => format!("{} prefers no array\n", host.name),
                arrays => format!("{} prefers {}\n", host.name, list(&arrays)),
            })
        }
        HostCommand::Rename { name, new_name } => {
            one(as_json, &client.change_host(&name, &HostPatch { name: Some(new_name), ..HostPatch::default() })?)
        }
        HostCommand::Delete(Names { names }) => {
            client.delete_hosts(&names)?;
            if as_json { json(&names) } else { print(&format!("deleted {}\n", list(&names))) }
        }
        HostCommand::Connect { host, volume, lun } => {
            let made = client.connect(&host, &volume, lun)?;
            either(as_json, &made, || connections(std::slice::from_ref(&made)))
        }
        HostCommand::Disconnect { host, volume } => {
            client.disconnect(&host, &volume)?;
            let gone = serde_json::json!({"host": host, "volume": volume});
            either(as_json, &gone, || format!("disconnected {volume} from {host}\n"))
        }
    }
}

/// Reads the secrets from their files.
fn secrets(chap: ChapArgs) -> Result<Option<Chap>, Problem> {
    let secret = |path: Option<std::path::PathBuf>| path.as_deref().map(read_secret).transpose();
    let chap = Chap {
        host_password: secret(chap.chap_secret_file)?,
        host_user: chap.chap_user,
        target_password: secret(chap.target_secret_file)?,
        target_user: chap.target_user,
    };
    Ok(Some(chap).filter(|chap| *chap != Chap::default()))
}

fn show(client: &Client, as_json: bool, name: String) -> Result<(), Problem> {
    let names = [name];
    let hosts = client.hosts(&Listing { names: &names, ..Listing::default() })?;
    let Some(host) = hosts.first() else {
        return Err(Problem::new("no such host").hint("run `ibid host list` to list the hosts"));
    };
    let seen = client.connections(&HostsAndVolumes { hosts: &names, ..HostsAndVolumes::default() })?;
    if as_json {
        return json(&serde_json::json!({"host": host, "connections": seen}));
    }
    let mut rows = vec![
        ("name", host.name.clone()),
        ("iqns", list(&host.iqns)),
        ("personality", host.personality.clone().unwrap_or_else(|| "-".to_owned())),
        ("chap", chap(host)),
        ("volumes", host.connection_count.to_string()),
    ];
    let arrays = preferred(host);
    if !arrays.is_empty() {
        rows.push(("preferred arrays", list(&arrays)));
    }
    print(&facts(&rows))?;
    if seen.is_empty() { Ok(()) } else { print(&format!("\n{}", connections(&seen))) }
}

/// Returns the names of the arrays that a host prefers; the id of one that is not connected.
fn preferred(host: &Host) -> Vec<String> {
    host.preferred_arrays.iter().filter_map(|array| array.name.clone().or(array.id.clone())).collect()
}

fn chap(host: &Host) -> String {
    match (&host.chap.host_user, &host.chap.target_user) {
        (None, _) => "-".to_owned(),
        (Some(user), None) => format!("host authenticates as {user}"),
        (Some(user), Some(target)) => format!("host authenticates as {user}, array as {target}"),
    }
}

fn one(as_json: bool, host: &Host) -> Result<(), Problem> {
    either(as_json, host, || lines(std::slice::from_ref(host)))
}

fn lines(hosts: &[Host]) -> String {
    let row = |host: &Host| {
        let chap = match (&host.chap.host_user, &host.chap.target_user) {
            (None, _) => "-",
            (Some(_), None) => "one-way",
            (Some(_), Some(_)) => "mutual",
        };
        vec![host.name.clone(), host.connection_count.to_string(), chap.to_owned(), list(&host.iqns)]
    };
    table(&["NAME", "VOLUMES", "CHAP", "IQNS"], &[1], hosts.iter().map(row).collect())
}

fn connections(connections: &[Connection]) -> String {
    let mut connections: Vec<&Connection> = connections.iter().collect();
    connections.sort_by_key(|connection| connection.lun);
    let row = |connection: &&Connection| {
        let name = |reference: &api::Reference| reference.name.clone().unwrap_or_default();
        vec![name(&connection.host), connection.lun.to_string(), name(&connection.volume)]
    };
    table(&["HOST", "LUN", "VOLUME"], &[1], connections.iter().map(row).collect())
}
