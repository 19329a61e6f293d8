//! Commit titles: `area: imperative`, at most 72 characters.

use std::path::Path;
use std::process::Command;

/// The last commit before the rule. Later commits follow it.
const SINCE: &str = "03f4a9d";
const MAX_CHARS: usize = 72;

/// Checks the titles of the commits after the rule. Reports nothing without that history (an
/// archive, a shallow clone).
pub(crate) fn check(root: &Path) -> Vec<String> {
    let range = format!("{SINCE}..HEAD");
    let log = Command::new("git").current_dir(root).args(["log", "--no-merges", "--format=%h %s", &range]).output();
    match log {
        Ok(log) if log.status.success() => judge(&String::from_utf8_lossy(&log.stdout)),
        _ => Vec::new(),
    }
}

fn judge(log: &str) -> Vec<String> {
    let breach = |line: &str| {
        let (commit, title) = line.split_once(' ')?;
        if title.chars().count() > MAX_CHARS {
            return Some(format!("commit {commit}: title is longer than {MAX_CHARS} characters"));
        }
        (!has_form(title)).then(|| format!("commit {commit}: title is not `area: imperative`: {title}"))
    };
    log.lines().filter_map(breach).collect()
}

fn has_form(title: &str) -> bool {
    let Some((area, change)) = title.split_once(": ") else { return false };
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | ',' | ' ' | '/' | '.');
    !area.is_empty()
        && area.chars().all(is_area)
        && change.chars().next().is_some_and(|c| !c.is_uppercase())
        && !change.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_titles_with_an_area_pass() {
        assert!(judge("abc fsck: report forged summaries\ndef iscsi, scsi: share the sense data").is_empty());
    }

    #[test]
    fn long_titles_are_found() {
        assert_eq!(judge(&format!("abc area: {}", "x".repeat(70))).len(), 1);
    }

    #[test]
    fn titles_of_another_form_are_found() {
        for title in ["Engine: stop", "fix the engine", "engine: Stop", "engine: stop it."] {
            assert_eq!(judge(&format!("abc {title}")).len(), 1, "{title}");
        }
    }
}
