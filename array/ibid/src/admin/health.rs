//! `ibid scrub` and `ibid alert`.

use crate::access::{self, Access};
use crate::cli::{AlertCommand, ScrubCommand};
use crate::output::{ListForm, either, facts, list_as, parse_size, table, time};
use crate::problem::Problem;
use api::{Alert, Scrub, ScrubPost};
use types::format_capacity;

/// Runs an `ibid scrub` command.
pub(crate) fn scrub(access: &Access, as_json: bool, command: ScrubCommand) -> Result<(), Problem> {
    // The pace is parsed before the array is called.
    let post = match command {
        ScrubCommand::Start { pace } => {
            Some(ScrubPost { bytes_per_second: pace.as_deref().map(parse_size).transpose()? })
        }
        ScrubCommand::Status => None,
    };
    let client = access::client(access)?;
    let scrub = match post {
        Some(post) => client.start_scrub(&post)?,
        None => client.scrub()?,
    };
    either(as_json, &scrub, || progress(&scrub))
}

fn progress(scrub: &Scrub) -> String {
    let state = match (scrub.running, scrub.audit_postponed, scrub.completed) {
        (true, ..) => "running".to_owned(),
        (false, Some(since), _) => format!("not complete: audit of counts postponed since {}", time(since)),
        (false, None, 0) => "not completed since the array started".to_owned(),
        (false, None, _) => "completed".to_owned(),
    };
    let damage: String = scrub.damage.iter().map(|damage| format!("damaged: {damage}\n")).collect();
    let text = facts(&[
        ("state", state),
        ("checked", format!("{} of {} in use", format_capacity(scrub.checked), format_capacity(scrub.used))),
        ("completed", format!("{} since the array started", scrub.completed)),
        ("last", scrub.last.map_or_else(|| "never".to_owned(), time)),
        ("next", scrub.next.map_or_else(|| "not scheduled".to_owned(), time)),
        ("damage", if scrub.damage.is_empty() { "none known".to_owned() } else { scrub.damage.len().to_string() }),
    ]);
    text + &damage
}

/// Runs an `ibid alert` command.
pub(crate) fn alert(access: &Access, as_json: bool, command: AlertCommand) -> Result<(), Problem> {
    let AlertCommand::List { all, mut list } = command;
    if !all {
        let given = list.filter.take().map_or_else(String::new, |filter| format!(" and ({filter})"));
        list.filter = Some(format!("state='open'{given}"));
    }
    let alerts = access::client(access)?.alerts(&list.listing(&[], None))?;
    let row = |alert: &Alert| {
        let state = alert.closed.map_or_else(|| "open".to_owned(), |closed| format!("closed {}", time(closed)));
        vec![alert.name.clone(), alert.severity.clone(), time(alert.created), state, alert.summary.clone()]
    };
    let head = ["ID", "SEVERITY", "SINCE", "STATE", "SUMMARY"];
    list_as(ListForm::new(as_json, list.csv), &alerts, || table(&head, &[0], alerts.iter().map(row).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postponed_audit_is_shown_as_not_complete() {
        let scrub = Scrub {
            running: false,
            checked: 1 << 20,
            used: 1 << 20,
            completed: 3,
            audit_postponed: Some(0),
            damage: Vec::new(),
            last: None,
            next: None,
        };
        assert!(progress(&scrub).contains("not complete: audit of counts postponed since 1970-01-01"));
        assert!(!progress(&Scrub { audit_postponed: None, ..scrub }).contains("not complete"));
    }
}
