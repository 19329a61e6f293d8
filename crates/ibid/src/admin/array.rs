//! `ibid array` and `ibid token`.

use crate::access;
use crate::cli::{Access, ArrayCommand, TokenArgs};
use crate::output::{either, facts, json, list, print};
use crate::problem::Problem;
use units::format_capacity;
use world::files;

/// Does an `ibid array` command.
pub(crate) fn array(access: &Access, as_json: bool, command: &ArrayCommand) -> Result<(), Problem> {
    let ArrayCommand::Show = command;
    let client = access::client(access)?;
    let (array, ports) = (client.array()?, client.ports()?);
    if as_json {
        return json(&serde_json::json!({"array": array, "ports": ports}));
    }
    let space = &array.space;
    let portals: Vec<String> = ports.iter().filter_map(|port| port.portal.clone()).collect();
    let iqn = ports.iter().find_map(|port| port.iqn.clone()).unwrap_or_default();
    print(&facts(&[
        ("name", array.name),
        ("id", array.id),
        ("version", format!("{} {}", array.os, array.version)),
        ("target", iqn),
        ("portals", list(&portals)),
        ("capacity", format_capacity(array.capacity)),
        ("used", format_capacity(space.total_physical.unwrap_or_default())),
        ("provisioned", format_capacity(space.total_provisioned)),
        ("data", format_capacity(space.unique.unwrap_or_default())),
    ]))
}

/// Does `ibid token`.
pub(crate) fn token(access: &Access, as_json: bool, args: &TokenArgs) -> Result<(), Problem> {
    let token = if args.new { renew(access)? } else { current(access)? };
    either(as_json, &serde_json::json!({"token": token}), || format!("{token}\n"))
}

fn current(access: &Access) -> Result<String, Problem> {
    match &access.data {
        Some(directory) => access::admin_token(directory),
        None => Err(Problem::new("an array keeps only a hash of its token, and cannot tell it")
            .hint("use --data DIR on the array's machine, or --new to make another")),
    }
}

fn renew(access: &Access) -> Result<String, Problem> {
    let token = access::client(access)?.new_token(rest::ADMIN)?;
    // The file must not be left with a token that no longer opens anything.
    if let Some(directory) = access.data.as_ref().filter(|_| access.url.is_none()) {
        let path = directory.join(rest::ADMIN_TOKEN_FILE);
        files::replace(&path, format!("{token}\n").as_bytes(), files::Access::Owner)
            .map_err(|error| Problem::new(format!("the new token is {token}, but {}: {error}", path.display())))?;
    }
    Ok(token)
}
