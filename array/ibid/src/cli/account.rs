//! Arguments of `ibid admin`.

use clap::{Subcommand, ValueEnum};

/// A role, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum RoleArgument {
    /// Reads everything
    Readonly,
    /// Also starts scrubs
    OpsAdmin,
    /// Also changes volumes, snapshots, hosts and groups
    StorageAdmin,
    /// Changes everything
    ArrayAdmin,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Create an administrator; `ibid admin token` makes the token
    Create {
        /// Name, in lower case
        name: String,
        /// The calls that are allowed
        #[arg(long, value_enum, default_value = "readonly")]
        role: RoleArgument,
    },
    /// List administrators
    List {
        /// Names; all administrators if absent
        names: Vec<String>,
    },
    /// Set the role of an administrator; it applies at once
    Role {
        /// Name
        name: String,
        /// The calls that are allowed
        #[arg(value_enum)]
        role: RoleArgument,
    },
    /// Make a new API token and print it; the old one and its sessions end
    Token {
        /// Name
        name: String,
        /// Time for which it is valid, such as 90d [default: no limit]
        #[arg(long, value_name = "DURATION")]
        valid: Option<String>,
    },
    /// Delete administrators, with their tokens and sessions
    Delete {
        /// Names, one or more
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Show the changes that administrators made, oldest first
    Audit {
        /// Filter expression, such as user='ops'
        #[arg(long, value_name = "EXPRESSION")]
        filter: Option<String>,
    },
}
