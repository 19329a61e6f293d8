//! The list of what is longer than it should be. It may only shrink: an entry names the exact size it excuses, so that
//! growing breaks the rule, and shrinking makes the entry stale until it is lowered or taken out.

use crate::sizes::Measure;
use std::collections::BTreeMap;

/// Where the list lies: lines of `path[::function] lines`, `#` begins a comment.
pub(crate) const LIST: &str = "xtask/exceptions.txt";

/// Compares what was measured with the limits and the list.
pub(crate) fn judge(list: &str, measured: Vec<Measure>) -> Vec<String> {
    let (mut excused, mut found) = parse(list);
    for m in measured.iter().filter(|m| m.lines > m.limit) {
        match excused.remove(m.what.as_str()) {
            None => found.push(format!("{}: {} lines, more than {}", m.what, m.lines, m.limit)),
            Some(n) if m.lines > n => found.push(format!("{}: grew from {n} to {} lines", m.what, m.lines)),
            Some(n) if m.lines < n => found.push(format!("{LIST}: {} is {} lines now, not {n}", m.what, m.lines)),
            Some(_) => {}
        }
    }
    found.extend(excused.keys().map(|what| format!("{LIST}: {what} needs no exception any more")));
    found
}

fn parse(list: &str) -> (BTreeMap<&str, usize>, Vec<String>) {
    let (mut excused, mut wrong) = (BTreeMap::new(), Vec::new());
    for line in list.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        match line.split_once(' ').map(|(what, n)| (what, n.trim().parse())) {
            Some((what, Ok(lines))) if excused.insert(what, lines).is_none() => {}
            _ => wrong.push(format!("{LIST}: not `path[::function] lines`, or twice: {line}")),
        }
    }
    (excused, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(lines: usize) -> Vec<Measure> {
        vec![Measure { what: "a.rs::f".into(), lines, limit: 70 }]
    }

    #[test]
    fn within_the_limit_nothing_is_said() {
        assert!(judge("", one(70)).is_empty());
        assert_eq!(judge("", one(71)), ["a.rs::f: 71 lines, more than 70"]);
    }

    #[test]
    fn the_list_excuses_exactly_what_it_names() {
        assert!(judge("# why\na.rs::f 80\n", one(80)).is_empty());
        assert_eq!(judge("a.rs::f 80", one(81)), ["a.rs::f: grew from 80 to 81 lines"]);
    }

    #[test]
    fn the_list_may_only_shrink() {
        assert_eq!(judge("a.rs::f 80", one(79)), ["xtask/exceptions.txt: a.rs::f is 79 lines now, not 80"]);
        assert_eq!(judge("a.rs::f 80", one(60)), ["xtask/exceptions.txt: a.rs::f needs no exception any more"]);
        assert_eq!(judge("gone.rs 900", vec![]).len(), 1);
    }

    #[test]
    fn a_line_that_is_no_entry_is_a_breach() {
        assert_eq!(judge("a.rs::f", vec![]).len(), 1);
    }
}
