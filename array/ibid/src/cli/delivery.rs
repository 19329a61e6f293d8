//! Arguments of `ibid delivery`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Kind of a destination, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DestinationArgument {
    /// Mail addresses
    Mail,
    /// Syslog servers
    Syslog,
    /// SNMP managers
    Snmp,
    /// Web hooks
    Webhook,
}

/// A severity, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SeverityArgument {
    /// All alerts
    Info,
    /// Warnings and critical alerts
    Warning,
    /// Critical alerts only
    Critical,
}

/// TLS of the connection to the mail server, as an argument.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EncryptionArgument {
    /// TLS after STARTTLS; no mail is sent without it
    Starttls,
    /// TLS from the first byte
    Tls,
    /// No TLS, and no user name
    None,
}

/// Options of the mail server.
#[derive(Debug, Default, Args)]
pub(crate) struct MailServerArgs {
    /// The server; '' for none [default port: 25, with tls 465]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) relay: Option<String>,
    /// TLS of the connection
    #[arg(long, value_enum)]
    pub(crate) encryption: Option<EncryptionArgument>,
    /// User name at the server; '' for none
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File with the password; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Domain of the sender
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) sender_domain: Option<String>,
    /// Local part of the sender [default: the name of the array]
    #[arg(long, value_name = "NAME")]
    pub(crate) sender_user: Option<String>,
    /// First words of every subject
    #[arg(long, value_name = "TEXT")]
    pub(crate) subject_prefix: Option<String>,
    /// First line of every mail
    #[arg(long, value_name = "TEXT")]
    pub(crate) body_prefix: Option<String>,
    /// Trust only the authorities in this PEM file; '' for the public ones
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// A destination and its settings.
#[derive(Debug, Subcommand)]
pub(crate) enum DestinationArgs {
    /// A mail address
    Mail {
        /// Mail address
        address: String,
        /// The lowest severity that is sent
        #[arg(long, value_enum)]
        severity: Option<SeverityArgument>,
        /// Whether it gets alerts
        #[arg(long, value_name = "BOOL")]
        enabled: Option<bool>,
    },
    /// A syslog server (RFC 5424)
    Syslog {
        /// Name
        name: String,
        /// udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT
        #[arg(long)]
        uri: Option<String>,
    },
    /// An SNMP manager, which gets traps of SNMP v2c
    Snmp {
        /// Name
        name: String,
        /// The manager [default port: 162]
        #[arg(long, value_name = "HOST[:PORT]")]
        host: Option<String>,
        /// File with the community; `-` reads standard input
        #[arg(long, value_name = "FILE")]
        community_file: Option<PathBuf>,
    },
    /// A web hook, which gets signed JSON over HTTPS
    Webhook {
        /// Name
        name: String,
        /// https://HOST/PATH
        #[arg(long)]
        uri: Option<String>,
        /// The lowest severity that is sent
        #[arg(long, value_enum)]
        severity: Option<SeverityArgument>,
        /// Whether it gets alerts
        #[arg(long, value_name = "BOOL")]
        enabled: Option<bool>,
        /// File with the key of the signatures [default: a new key]
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        /// Trust only the authorities in this PEM file; '' for the public ones
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeliveryCommand {
    /// List all destinations with the state of their delivery
    List,
    /// Show the mail server, or change it
    #[command(after_help = "Example:
  ibid delivery mail-server --relay mail.example.org:587 --encryption starttls --user array \\
      --password-file password.txt --sender-domain example.org")]
    MailServer(MailServerArgs),
    /// Show the settings of all syslog servers, or change them
    SyslogSettings {
        /// The lowest severity sent: debug, info, notice or warning
        #[arg(long)]
        severity: Option<String>,
        /// Trust only the authorities in this PEM file; '' for the public ones
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,
    },
    /// Add a destination
    #[command(after_help = "Examples:
  ibid delivery add mail ops@example.org --severity warning
  ibid delivery add syslog loghost --uri tls://loghost.example.org:6514
  ibid delivery add snmp nms --host nms.example.org --community-file community.txt
  ibid delivery add webhook chat --uri https://chat.example.org/hook    prints the key of the signatures")]
    Add {
        #[command(subcommand)]
        destination: DestinationArgs,
    },
    /// Change a destination
    Set {
        #[command(subcommand)]
        destination: DestinationArgs,
    },
    /// Remove destinations
    Remove {
        /// Kind
        #[arg(value_enum)]
        kind: DestinationArgument,
        /// Names, one or more
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Send a test message; exit code 1 if one is not taken
    Test {
        /// Kind [default: all destinations]
        #[arg(value_enum)]
        kind: Option<DestinationArgument>,
        /// Names; all destinations of the kind if absent
        names: Vec<String>,
    },
}
