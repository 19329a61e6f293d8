//! Arguments of `ibid policy`.

use super::lists::Names;
use clap::{Args, Subcommand};

/// When snapshots are taken, and how long they are kept.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// Time between two snapshots, from 5min to 400d
    #[arg(long, value_name = "TIME")]
    pub(crate) every: String,
    /// Time for which a snapshot is kept, at least that of --every
    #[arg(long, value_name = "TIME")]
    pub(crate) keep: String,
    /// Time of day (UTC) for whole days, such as 02:30
    #[arg(long, value_name = "HH:MM")]
    pub(crate) at: Option<String>,
    /// First part of the suffix of the snapshots [default: the policy]
    #[arg(long, value_name = "NAME")]
    pub(crate) prefix: Option<String>,
}

/// Members of a policy.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    /// Policy
    pub(crate) policy: String,
    /// Volume; repeatable
    #[arg(long, value_name = "NAME", required_unless_present = "vgroup")]
    pub(crate) volume: Vec<String>,
    /// Volume group, with all its present and future volumes; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) vgroup: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Create a snapshot policy with one rule and without members
    #[command(after_help = "Example:
  ibid policy create prod --every 1h --keep 24h
  ibid policy add-rule prod --every 1d --at 02:30 --keep 30d
  ibid policy add prod --vgroup prod")]
    Create {
        /// 1 to 63 letters, digits, - and _
        name: String,
        #[command(flatten)]
        rule: RuleArgs,
    },
    /// List snapshot policies with their rules and members
    List {
        /// List only these policies
        names: Vec<String>,
    },
    /// Add a rule; rules that are due together share one snapshot
    AddRule {
        /// Policy
        policy: String,
        #[command(flatten)]
        rule: RuleArgs,
    },
    /// Remove rules; their snapshots expire as planned
    RemoveRule(Names),
    /// Apply a policy to volumes and volume groups
    Add(MemberArgs),
    /// Stop snapshots of volumes and volume groups
    Remove(MemberArgs),
    /// Take snapshots again
    Enable(Names),
    /// Take no snapshots; those that exist expire as planned
    Disable(Names),
    /// Rename a policy
    Rename {
        /// Policy
        name: String,
        /// New name
        new_name: String,
    },
    /// Delete policies; their snapshots expire as planned
    Delete(Names),
}
