//! `esxcli storage nmp satp` and `esxcli storage core claimrule`: rules for newly claimed devices.

use super::record::{Formatter, Record};
use crate::failure::Failure;
use clap::{Args, Subcommand};
use esxi_host::{EsxiHost, SatpRule};
use multipath::PathPolicy;

/// The commands per path of a rule for round robin without the option `iops`.
const DEFAULT_IOPS: u32 = 1000;

/// `esxcli storage nmp satp`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Satp {
    /// Manage the rules
    #[command(subcommand)]
    Rule(Rule),
}

/// `esxcli storage nmp satp rule`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Rule {
    /// List the rules
    List {
        /// Show the rules of this plug-in
        #[arg(short, long, value_name = "SATP")]
        satp: Option<String>,
    },
    /// Add a rule for devices that are claimed later
    Add(RuleArgs),
    /// Remove a rule
    Remove(RuleArgs),
}

/// Options of `rule add` and `rule remove`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RuleArgs {
    /// Storage array type plug-in
    #[arg(short, long, value_name = "SATP", value_parser = ["VMW_SATP_ALUA", "VMW_SATP_DEFAULT_AA"])]
    satp: String,
    /// Vendor of the devices
    #[arg(short = 'V', long, value_name = "VENDOR", default_value = "")]
    vendor: String,
    /// Model of the devices
    #[arg(short = 'M', long, value_name = "MODEL", default_value = "")]
    model: String,
    /// VMW_PSP_RR, VMW_PSP_FIXED or VMW_PSP_MRU
    #[arg(short = 'P', long, value_name = "POLICY", default_value = "VMW_PSP_RR")]
    psp: PathPolicy,
    /// Option of the policy: iops=NUMBER for VMW_PSP_RR
    #[arg(short = 'O', long, value_name = "OPTION", value_parser = iops)]
    psp_option: Option<u32>,
    /// Description
    #[arg(short = 'e', long, value_name = "TEXT", default_value = "")]
    description: String,
}

fn iops(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("iops=").and_then(|number| number.parse().ok());
    number.filter(|number| *number > 0).ok_or_else(|| format!("'{text}' is not iops=NUMBER"))
}

impl RuleArgs {
    fn rule(&self) -> Result<SatpRule, Failure> {
        let policy = match (self.psp, self.psp_option) {
            (PathPolicy::RoundRobin { .. }, iops) => PathPolicy::RoundRobin { iops: iops.unwrap_or(DEFAULT_IOPS) },
            (policy, None) => policy,
            (policy, Some(_)) => {
                return Err(Failure::usage(format!("{policy} has no option iops"), "use -P VMW_PSP_RR"));
            }
        };
        Ok(SatpRule {
            satp: self.satp.clone(),
            vendor: self.vendor.clone(),
            model: self.model.clone(),
            policy,
            description: self.description.clone(),
        })
    }
}

/// Runs `esxcli storage nmp satp` and returns its output.
pub(super) fn satp(host: &EsxiHost, verb: &Satp, formatter: Formatter) -> Result<String, Failure> {
    let Satp::Rule(verb) = verb;
    match verb {
        Rule::List { satp } => {
            let rules = host.satp_rules();
            let chosen = rules.iter().filter(|rule| satp.as_ref().is_none_or(|name| *name == rule.satp));
            Ok(formatter.print_table(&RULE_KEYS, &chosen.map(describe).collect::<Vec<_>>()))
        }
        Rule::Add(args) => Ok(host.add_satp_rule(&args.rule()?).map(|()| String::new())?),
        Rule::Remove(args) => Ok(host.remove_satp_rule(&args.rule()?).map(|()| String::new())?),
    }
}

const RULE_KEYS: [&str; 7] = ["Name", "Vendor", "Model", "Rule Group", "Default PSP", "PSP Options", "Description"];

fn describe(rule: &SatpRule) -> Record {
    let options = match rule.policy {
        PathPolicy::RoundRobin { iops } => format!("iops={iops}"),
        _ => String::new(),
    };
    Record::default()
        .with("Name", rule.satp.as_str())
        .with("Vendor", rule.vendor.as_str())
        .with("Model", rule.model.as_str())
        .with("Rule Group", "user")
        .with("Default PSP", rule.policy.name())
        .with("PSP Options", options)
        .with("Description", rule.description.as_str())
}

/// `esxcli storage core claimrule`.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum ClaimRule {
    /// List the rules that assign devices to plug-ins
    List,
}

const CLAIM_KEYS: [&str; 6] = ["Rule Class", "Rule", "Class", "Type", "Plugin", "Matches"];

/// Lists the claim rules. The host has ESXi's last rule only: NMP claims every device.
pub(super) fn claim_rules(verb: &ClaimRule, formatter: Formatter) -> String {
    let ClaimRule::List = verb;
    let rule = Record::default()
        .with("Rule Class", "MP")
        .with("Rule", 65_535)
        .with("Class", "runtime")
        .with("Type", "vendor")
        .with("Plugin", "NMP")
        .with("Matches", "vendor=* model=*");
    formatter.print_table(&CLAIM_KEYS, &[rule])
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        verb: Satp,
    }

    fn run(host: &EsxiHost, line: &str) -> Result<String, Failure> {
        let words = std::iter::once("satp").chain(line.split(' '));
        satp(host, &Line::try_parse_from(words).unwrap().verb, Formatter::Text)
    }

    #[test]
    fn rules_are_added_listed_and_removed() {
        let host = EsxiHost::transient("esx01").unwrap();
        let line = "-s VMW_SATP_ALUA -V IBID -M Volume -P VMW_PSP_RR -O iops=1";
        run(&host, &format!("rule add {line}")).unwrap();
        assert_eq!(host.satp_rules()[0].policy, PathPolicy::RoundRobin { iops: 1 });
        assert_eq!(
            run(&host, "rule list").unwrap(),
            concat!(
                "Name           Vendor  Model   Rule Group  Default PSP  PSP Options  Description\n",
                "-------------  ------  ------  ----------  -----------  -----------  -----------\n",
                "VMW_SATP_ALUA  IBID    Volume  user        VMW_PSP_RR   iops=1\n",
            )
        );
        assert!(run(&host, &format!("rule add {line}")).is_err());
        assert!(run(&host, "rule add -s VMW_SATP_ALUA -P VMW_PSP_MRU -O iops=1").is_err());
        run(&host, &format!("rule remove {line}")).unwrap();
        assert!(host.satp_rules().is_empty());
    }
}
