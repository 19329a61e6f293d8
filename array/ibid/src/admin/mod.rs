//! The administrative commands: each calls the REST API once or twice and prints the result.

mod account;
mod api_client;
mod array;
mod confirm;
mod delivery;
mod health;
mod host;
mod link;
mod monitor;
mod pod;
mod pod_reports;
mod pod_top;
mod policy;
mod secret;
mod snap;
mod stretched;
mod vgroup;
mod volume;
mod wait;

pub(crate) use account::account;
pub(crate) use api_client::api_client;
pub(crate) use array::{array, token};
pub(crate) use delivery::delivery;
pub(crate) use health::{alert, scrub};
pub(crate) use host::host;
pub(crate) use monitor::{latency, rate};
pub(crate) use pod::pod;
pub(crate) use policy::policy;
pub(crate) use snap::snap;
pub(crate) use vgroup::vgroup;
pub(crate) use volume::volume;

use crate::problem::Problem;

/// Parses `80`, `80%`, or `none`, which a request expresses as 0.
fn percent(text: &str) -> Result<u8, Problem> {
    if text == "none" {
        return Ok(0);
    }
    let number = text.trim_end_matches('%').trim().parse::<u8>().ok().filter(|percent| (1..=100).contains(percent));
    number.ok_or_else(|| Problem::new(format!("'{text}' is not a percentage")).hint("write 1 to 100, or none"))
}

/// Describes a space threshold.
fn threshold(percent: Option<u8>) -> String {
    percent
        .map_or_else(|| "none: hosts are not warned".to_owned(), |percent| format!("hosts are warned at {percent} %"))
}
