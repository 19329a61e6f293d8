//! Arguments of `ibid api-client`.

use super::{Names, RoleArgument};
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum ApiClientCommand {
    /// Register an API client with its public key; disabled at first
    #[command(after_help = "Example:
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out robot.pem
  openssl pkey -in robot.pem -pubout -out robot.pub.pem
  ibid api-client create robot --max-role storage_admin --public-key-file robot.pub.pem
  ibid api-client enable robot")]
    Create {
        /// 1 to 63 letters, digits, - and _
        name: String,
        /// The highest role of its access tokens
        #[arg(long, value_enum, default_value = "readonly")]
        max_role: RoleArgument,
        /// File with the RSA public key in PEM form
        #[arg(long, value_name = "FILE")]
        public_key_file: PathBuf,
        /// Issuer that its ID tokens name [default: the name of the client]
        #[arg(long, value_name = "TEXT")]
        issuer: Option<String>,
        /// Lifetime of its access tokens, 1s to 30d [default: 1d]
        #[arg(long, value_name = "DURATION")]
        valid: Option<String>,
    },
    /// List API clients
    List {
        /// Names; all API clients if absent
        names: Vec<String>,
    },
    /// Let API clients exchange ID tokens for access tokens
    Enable(Names),
    /// Refuse API clients, and end their access tokens
    Disable(Names),
    /// Delete API clients, and end their access tokens
    Delete(Names),
}
