//! `ibid api-client`: programs that exchange signed ID tokens for access tokens.

use super::account::role_name;
use super::secret::read_small_file;
use crate::access::{self, Access};
use crate::cli::{ApiClientCommand, Names};
use crate::output::{duration, either, json, list, parse_duration, print, table};
use crate::problem::Problem;
use api::{ApiClient, ApiClientPost};

/// Runs an `ibid api-client` command.
pub(crate) fn api_client(access: &Access, as_json: bool, command: ApiClientCommand) -> Result<(), Problem> {
    // The arguments are checked before the array is called.
    let post = match &command {
        ApiClientCommand::Create { max_role, public_key_file, issuer, valid, .. } => Some(ApiClientPost {
            access_token_ttl_in_ms: valid.as_deref().map(parse_duration).transpose()?,
            issuer: issuer.clone(),
            max_role: role_name(*max_role).to_owned(),
            public_key: read_small_file(public_key_file)?,
        }),
        _ => None,
    };
    let client = access::client(access)?;
    let show = |clients: &[ApiClient]| either(as_json, &clients, || lines(clients));
    match command {
        ApiClientCommand::Create { name, .. } => show(&[client.create_api_client(&name, &post.unwrap_or_default())?]),
        ApiClientCommand::List { names } => show(&client.api_clients(&names)?),
        ApiClientCommand::Enable(Names { names }) => show(&client.enable_api_clients(&names, true)?),
        ApiClientCommand::Disable(Names { names }) => show(&client.enable_api_clients(&names, false)?),
        ApiClientCommand::Delete(Names { names }) => {
            client.delete_api_clients(&names)?;
            if as_json { json(&names) } else { print(&format!("deleted {}\n", list(&names))) }
        }
    }
}

fn lines(clients: &[ApiClient]) -> String {
    let row = |client: &ApiClient| {
        vec![
            client.name.clone(),
            client.max_role.clone(),
            if client.enabled { "enabled" } else { "disabled" }.to_owned(),
            duration(client.access_token_ttl_in_ms),
            client.issuer.clone(),
            client.id.clone(),
            client.key_id.clone(),
        ]
    };
    let head = ["NAME", "MAX ROLE", "STATE", "TOKENS", "ISSUER (iss)", "CLIENT ID (aud)", "KEY ID (kid)"];
    table(&head, &[], clients.iter().map(row).collect())
}
