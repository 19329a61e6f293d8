//! `ibid admin`: administrators with their roles and tokens, and the audit trail.

use crate::access::{self, Access};
use crate::cli::{AccountCommand, RoleArgument};
use crate::output::{either, json, list, parse_duration, print, table, time};
use crate::problem::Problem;
use api::Audit;

/// Runs an `ibid admin` command.
pub(crate) fn account(access: &Access, as_json: bool, command: AccountCommand) -> Result<(), Problem> {
    let client = access::client(access)?;
    match command {
        AccountCommand::Create { name, role } => {
            let made = client.create_admin(&name, role_name(role))?;
            either(as_json, &made, || lines(std::slice::from_ref(&made)))
        }
        AccountCommand::List { names } => {
            let admins = client.admins(&names)?;
            either(as_json, &admins, || lines(&admins))
        }
        AccountCommand::Role { name, role } => {
            let changed = client.set_role(&name, role_name(role))?;
            either(as_json, &changed, || lines(std::slice::from_ref(&changed)))
        }
        AccountCommand::Token { name, valid } => {
            let valid = valid.as_deref().map(parse_duration).transpose()?;
            let token = client.make_token(&name, valid)?;
            either(as_json, &token, || format!("{}\n", token.token))
        }
        AccountCommand::Delete { names } => {
            client.delete_admins(&names)?;
            if as_json { json(&names) } else { print(&format!("deleted {}\n", list(&names))) }
        }
        AccountCommand::Audit { filter } => {
            let audits = client.audits(filter.as_deref())?;
            either(as_json, &audits, || trail(&audits))
        }
    }
}

/// Returns the name of a role in the REST dialect.
pub(super) fn role_name(role: RoleArgument) -> &'static str {
    match role {
        RoleArgument::Readonly => "readonly",
        RoleArgument::OpsAdmin => "ops_admin",
        RoleArgument::StorageAdmin => "storage_admin",
        RoleArgument::ArrayAdmin => "array_admin",
    }
}

fn lines(admins: &[api::Admin]) -> String {
    let row = |admin: &api::Admin| {
        let until = match (admin.api_token.created_at, admin.api_token.expires_at) {
            (0, _) => "-".to_owned(),
            (_, None) => "no limit".to_owned(),
            (_, Some(expires)) => time(expires),
        };
        vec![admin.name.clone(), admin.role.name.clone().unwrap_or_default(), until]
    };
    table(&["NAME", "ROLE", "TOKEN VALID UNTIL"], &[], admins.iter().map(row).collect())
}

fn trail(audits: &[Audit]) -> String {
    let row = |audit: &Audit| {
        let call = format!("{} {} {}", audit.subcommand, audit.command, audit.arguments);
        vec![time(audit.time), audit.user.clone(), audit.location.clone(), call]
    };
    table(&["TIME", "ADMIN", "FROM", "CALL"], &[], audits.iter().map(row).collect())
}
