//! Finds the array that a command administers: its address, the API token and the trusted
//! certificate.

use crate::cli::ClientOptions;
use crate::endpoints::Endpoints;
use crate::problem::Problem;
use client::{Client, Trust};
use platform::files;
use std::path::{Path, PathBuf};

/// The environment variable with the API token. No option exists for it, because every user of the
/// machine can read command lines.
const TOKEN_VARIABLE: &str = "IBID_TOKEN";
/// The certificate in the array's directory.
const CERTIFICATE_FILE: &str = "certificate.pem";
/// Maximum size of a token or certificate file, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// Where the array is, and how to authenticate.
#[derive(Debug)]
pub(crate) struct Access {
    /// The array's directory, if it is on this machine.
    pub(crate) data: Option<PathBuf>,
    pub(crate) options: ClientOptions,
}

/// Creates a client of the array. On the array's machine it uses the Unix socket in the array's
/// directory, unless an option selects an address or the certificates to trust.
pub(crate) fn client(access: &Access) -> Result<Client, Problem> {
    let url = url(access)?;
    let token = match token_from_environment() {
        Some(token) => token,
        None => match &access.data {
            Some(directory) => admin_token(directory)?,
            None => {
                return Err(Problem::new("no API token")
                    .hint(format!("set {TOKEN_VARIABLE}, or use --data DIR on the array's machine")));
            }
        },
    };
    match local_socket(access) {
        Some(socket) => Ok(Client::local(&socket, &token)),
        None => Ok(Client::new(&url, &token, &trust(access)?)?),
    }
}

/// Returns the Unix socket of the array, if this user may use it.
fn local_socket(access: &Access) -> Option<PathBuf> {
    let options = &access.options;
    let is_remote = options.url.is_some() || options.fingerprint.is_some() || options.ca.is_some() || options.insecure;
    let socket = access.data.as_ref().filter(|_| !is_remote)?.join(rest::SOCKET_FILE);
    // Other users connect over HTTPS, with a token of their own.
    platform::net::connect_local(&socket).is_ok().then_some(socket)
}

/// The token from the environment, if it is set.
pub(crate) fn token_from_environment() -> Option<String> {
    std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty())
}

/// Reads the admin's token from the array's directory.
pub(crate) fn admin_token(directory: &Path) -> Result<String, Problem> {
    let path = directory.join(rest::ADMIN_TOKEN_FILE);
    match text(&path)? {
        Some(token) => Ok(token.trim().to_owned()),
        None => Err(Problem::new(format!("{}: no such file", path.display()))
            .hint("check --data; `ibid serve --new-token` writes a new token")),
    }
}

fn url(access: &Access) -> Result<String, Problem> {
    if let Some(url) = &access.options.url {
        return Ok(url.clone());
    }
    let Some(directory) = &access.data else {
        return Err(Problem::new("no array given")
            .hint("give --data DIR (or set IBID_DATA) on the array's machine, or set IBID_URL and IBID_TOKEN"));
    };
    match Endpoints::read(directory)? {
        Some(endpoints) => Ok(endpoints.url),
        None => Err(Problem::new(format!("no array is running in {}", directory.display()))
            .hint(format!("run `ibid serve --data {}` to start it", directory.display()))),
    }
}

fn trust(access: &Access) -> Result<Trust, Problem> {
    let options = &access.options;
    if options.insecure {
        return Ok(Trust::AnyCertificate);
    }
    if let Some(fingerprint) = &options.fingerprint {
        let hint = "print it with `openssl x509 -noout -fingerprint -sha256 -in DIR/certificate.pem`";
        return Trust::fingerprint(fingerprint).map_err(|error| Problem::from(error).hint(hint));
    }
    if let Some(path) = &options.ca {
        let failed = |error| Problem::new(format!("{}: {error}", path.display()));
        let text = required(path)?;
        return Trust::authorities(&text).map_err(|error| failed(error).hint("choose a file of PEM certificates"));
    }
    match &access.data {
        Some(directory) => Ok(Trust::certificate(&required(&directory.join(CERTIFICATE_FILE))?)?),
        None => Err(Problem::new("no trusted certificate given").hint(
            "set IBID_FINGERPRINT or IBID_CA, use --data DIR on the array's machine, or skip the check with --insecure",
        )),
    }
}

fn required(path: &Path) -> Result<String, Problem> {
    text(path)?.ok_or_else(|| Problem::new(format!("{}: no such file", path.display())).hint("check the path"))
}

fn text(path: &Path) -> Result<Option<String>, Problem> {
    files::read_text(path, MAX_FILE_BYTES).map_err(|error| {
        Problem::new(format!("{}: {error}", path.display())).hint("check the path and its permissions")
    })
}
