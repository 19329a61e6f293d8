//! `ibid-host targets`: lists the targets of a portal.

use super::outcome::print_json;
use crate::cli::ConnectionArgs;
use crate::failure::Failure;
use crate::out::outln;
use clap::Args;
use initiator::Url;
use serde::Serialize;

/// Options of the verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct TargetsArgs {
    /// iscsi://host[:port]
    pub(crate) url: Url,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

#[derive(Serialize)]
struct Row {
    target: String,
    addresses: Vec<String>,
}

/// Runs the verb.
pub(crate) async fn run(args: &TargetsArgs) -> Result<(), Failure> {
    let targets = args.connection.discover(&args.url).await?;
    let rows: Vec<Row> =
        targets.into_iter().map(|target| Row { target: target.name, addresses: target.addresses }).collect();
    if args.json {
        return print_json(&rows);
    }
    for row in rows {
        outln!("{}  {}", row.target, row.addresses.join(" "));
    }
    Ok(())
}
