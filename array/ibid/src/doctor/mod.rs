//! `ibid doctor`: examines the machine, the drive and the addresses of an array.

mod checks;
mod finding;
mod flush;

use crate::cli::{DoctorArgs, ServeArgs};
use crate::output;
use crate::problem::Problem;
use crate::serve::Settings;
use finding::{Finding, Level};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status: at least one error.
const ERRORS: u8 = 1;
/// Exit status: warnings, but no errors.
const WARNINGS: u8 = 3;

/// The findings as JSON.
#[derive(Serialize)]
struct Report<'r> {
    status: Level,
    findings: &'r [Finding],
}

/// Runs the checks, prints the findings and returns the exit status.
pub(crate) fn run(data: Option<PathBuf>, args: DoctorArgs) -> ExitCode {
    let as_json = args.json;
    let printed = examine(data, args).and_then(|findings| {
        let status = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
        output::either(as_json, &Report { status, findings: &findings }, || text(&findings))?;
        Ok(status)
    });
    match printed {
        Ok(Level::Error) => ExitCode::from(ERRORS),
        Ok(Level::Warning) => ExitCode::from(WARNINGS),
        Ok(_) => ExitCode::SUCCESS,
        Err(problem) => {
            problem.report();
            ExitCode::from(problem.code())
        }
    }
}

fn examine(data: Option<PathBuf>, args: DoctorArgs) -> Result<Vec<Finding>, Problem> {
    let DoctorArgs { config, iscsi, api, device, .. } = args;
    let settings = Settings::new(data, ServeArgs { config, iscsi, api, device, ..ServeArgs::default() })?;
    let mut findings = vec![checks::files(), checks::memory(&settings), checks::clock(), checks::io_uring()];
    findings.extend(checks::storage(&settings)?);
    findings.extend(checks::addresses(&settings)?);
    Ok(findings)
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { check, level, finding, advice } in findings {
        let level = match level {
            Level::Ok => "ok",
            Level::Info => "info",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
        };
        text.push_str(&format!("{level:<8} {check:<10} {finding}\n"));
        if !advice.is_empty() {
            text.push_str(&format!("{:<19} hint: {advice}\n", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_finding_has_its_advice_below() {
        let findings = [Finding::ok("clock", "synchronized"), Finding::error("space", "none", "free some")];
        let expected =
            "ok       clock      synchronized\nERROR    space      none\n                    hint: free some\n";
        assert_eq!(text(&findings), expected);
        assert!(Level::Error > Level::Warning && Level::Warning > Level::Info && Level::Info > Level::Ok);
    }
}
