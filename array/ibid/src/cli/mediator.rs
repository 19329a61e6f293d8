//! Arguments of the `ibid mediator` commands.

use clap::Subcommand;
use std::net::SocketAddr;

#[derive(Debug, Subcommand)]
pub(crate) enum MediatorCommand {
    /// Run a mediator in the foreground
    ///
    /// The first start makes the mediator in DIR. SIGTERM or Ctrl-C stops it; a register that was
    /// answered survives a crash. Run it on a third machine, which fails with neither array: a
    /// small virtual machine is enough. It sees no data and no host.
    #[command(after_help = "Example: ibid mediator serve --data /srv/mediator --listen 192.0.2.30:8118

Exit status: 0 stopped by a signal; 1 not started, or a register could not be stored. A supervisor should
start it again.")]
    Serve {
        /// Address on which arrays connect; port 0 chooses a free port
        #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8118")]
        listen: SocketAddr,
    },
    /// Allow an array to have registers at the mediator in DIR, which may run
    ///
    /// Both arrays of a pod have to be allowed. Each proves itself with the certificate of its
    /// links.
    #[command(after_help = "Example:
  on each array:   openssl x509 -in /srv/array/link.pem -noout -fingerprint -sha256
  on this machine: ibid mediator allow CERTIFICATE --data /srv/mediator")]
    Allow {
        /// SHA-256 of the certificate of its links, with or without colons
        certificate: String,
    },
    /// List the registers of the mediator in DIR, which may run
    #[command(after_help = "Example: ibid mediator list --data /srv/mediator")]
    List {
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Connect to a mediator and show its certificate and instance
    ///
    /// Compare both with those that `ibid mediator serve` prints on its machine.
    #[command(after_help = "Example: ibid mediator check 192.0.2.30")]
    Check {
        /// Its address: HOST or HOST:PORT; the default port is 8118
        address: String,
        /// Refuse a certificate with another SHA-256 than this one
        #[arg(long, value_name = "HEX")]
        certificate: Option<String>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}
