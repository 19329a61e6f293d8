//! How the administrative commands find the array, prove themselves, and know it for the right one.

use crate::cli::Access;
use crate::endpoints::Endpoints;
use crate::problem::Problem;
use client::{Client, Trust};
use platform::files;
use std::path::Path;

/// The environment variable with the API token. There is no option for it: command lines can be read by everybody.
const TOKEN_VARIABLE: &str = "IBID_TOKEN";
/// The array's certificate in its directory.
const CERTIFICATE_FILE: &str = "certificate.pem";
/// The most bytes of a token or certificate file.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// A client of the array that is meant.
pub(crate) fn client(access: &Access) -> Result<Client, Problem> {
    let url = url(access)?;
    let token = match token_from_environment() {
        Some(token) => token,
        None => match &access.data {
            Some(directory) => admin_token(directory)?,
            None => {
                return Err(Problem::new("there is no API token")
                    .hint(format!("set {TOKEN_VARIABLE}, or use --data DIR on the array's machine")));
            }
        },
    };
    Ok(Client::new(&url, &token, &trust(access)?)?)
}

/// The token from the environment, when it is set.
pub(crate) fn token_from_environment() -> Option<String> {
    std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty())
}

/// The admin's token from the array's directory.
pub(crate) fn admin_token(directory: &Path) -> Result<String, Problem> {
    let path = directory.join(rest::ADMIN_TOKEN_FILE);
    match text(&path)? {
        Some(token) => Ok(token.trim().to_owned()),
        None => Err(Problem::new(format!("{} is not there", path.display()))
            .hint("ibid serve writes it when it creates the array; ibid serve --new-token makes another")),
    }
}

fn url(access: &Access) -> Result<String, Problem> {
    if let Some(url) = &access.url {
        return Ok(url.clone());
    }
    let Some(directory) = &access.data else {
        return Err(Problem::new("which array?")
            .hint("give --data DIR (or set IBID_DATA) on the array's machine, or set IBID_URL and IBID_TOKEN"));
    };
    match Endpoints::read(directory)? {
        Some(endpoints) => Ok(endpoints.url),
        None => Err(Problem::new(format!("no array is running in {}", directory.display()))
            .hint(format!("ibid serve --data {} starts it", directory.display()))),
    }
}

fn trust(access: &Access) -> Result<Trust, Problem> {
    if access.insecure {
        return Ok(Trust::Anyone);
    }
    if let Some(fingerprint) = &access.fingerprint {
        return Ok(Trust::fingerprint(fingerprint)?);
    }
    if let Some(path) = &access.ca {
        return Ok(Trust::authorities(&required(path)?)?);
    }
    match &access.data {
        Some(directory) => Ok(Trust::certificate(&required(&directory.join(CERTIFICATE_FILE))?)?),
        None => Err(Problem::new("nothing says which certificate is the array's").hint(
            "set IBID_FINGERPRINT or IBID_CA, use --data DIR on the array's machine, or take the risk with --insecure",
        )),
    }
}

fn required(path: &Path) -> Result<String, Problem> {
    text(path)?.ok_or_else(|| Problem::new(format!("{} is not there", path.display())))
}

fn text(path: &Path) -> Result<Option<String>, Problem> {
    files::read_text(path, MAX_FILE_BYTES).map_err(|error| Problem::new(format!("{}: {error}", path.display())))
}
