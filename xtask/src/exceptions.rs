//! Lists of allowed exceptions. A list may only shrink: an entry states the exact count that it
//! allows, so growth breaks the rule, and a smaller count makes the entry stale until it is lowered
//! or removed.

use std::collections::BTreeMap;

/// The list for [`crate::sizes`].
pub(crate) const SIZES: List = List { path: "xtask/exceptions.txt", counted: "lines" };
/// The list for [`crate::imports`].
pub(crate) const IMPORTS: List = List { path: "xtask/imports.txt", counted: "files in import circles, or stray impls" };
/// The list for [`crate::prose`].
pub(crate) const PROSE: List = List { path: "xtask/prose.txt", counted: "comment lines with a marker" };

/// A list of exceptions: lines of `what count`; `#` begins a comment.
pub(crate) struct List {
    pub(crate) path: &'static str,
    /// The unit of the counts.
    counted: &'static str,
}

/// One thing that has a count and a limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Measure {
    /// `path` for a file, `path::function` for a function.
    pub(crate) what: String,
    pub(crate) count: usize,
    pub(crate) limit: usize,
}

impl List {
    /// Compares measurements with the limits and with the list's text.
    pub(crate) fn judge(&self, text: &str, measured: Vec<Measure>) -> Vec<String> {
        let (mut allowed, mut found) = self.parse(text);
        let (list, counted) = (self.path, self.counted);
        for m in measured.iter().filter(|m| m.count > m.limit) {
            match allowed.remove(m.what.as_str()) {
                None => found.push(format!("{}: {} {counted}, more than {}", m.what, m.count, m.limit)),
                Some(n) if m.count > n => found.push(format!("{}: grew from {n} to {} {counted}", m.what, m.count)),
                Some(n) if m.count < n => {
                    found.push(format!("{list}: {} has {} {counted} now, not {n}", m.what, m.count));
                }
                Some(_) => {}
            }
        }
        found.extend(allowed.keys().map(|what| format!("{list}: {what} needs no exception any more")));
        found
    }

    fn parse<'a>(&self, text: &'a str) -> (BTreeMap<&'a str, usize>, Vec<String>) {
        let (mut allowed, mut wrong) = (BTreeMap::new(), Vec::new());
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            match line.split_once(' ').map(|(what, n)| (what, n.trim().parse())) {
                Some((what, Ok(count))) if allowed.insert(what, count).is_none() => {}
                _ => wrong.push(format!("{}: not `what count`, or twice: {line}", self.path)),
            }
        }
        (allowed, wrong)
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    fn judge(list: &str, measured: Vec<Measure>) -> Vec<String> {
        SIZES.judge(list, measured)
    }

    fn one(lines: usize) -> Vec<Measure> {
        vec![Measure { what: "a.rs::f".into(), count: lines, limit: 70 }]
    }

    #[test]
    fn within_the_limit_nothing_is_reported() {
        assert!(judge("", one(70)).is_empty());
        assert_eq!(judge("", one(71)), ["a.rs::f: 71 lines, more than 70"]);
    }

    #[test]
    fn an_entry_allows_exactly_its_count() {
        assert!(judge("# why\na.rs::f 80\n", one(80)).is_empty());
        assert_eq!(judge("a.rs::f 80", one(81)), ["a.rs::f: grew from 80 to 81 lines"]);
    }

    #[test]
    fn the_list_may_only_shrink() {
        assert_eq!(judge("a.rs::f 80", one(79)), ["xtask/exceptions.txt: a.rs::f has 79 lines now, not 80"]);
        assert_eq!(judge("a.rs::f 80", one(60)), ["xtask/exceptions.txt: a.rs::f needs no exception any more"]);
        assert_eq!(judge("gone.rs 900", vec![]).len(), 1);
    }

    #[test]
    fn a_malformed_line_is_a_breach() {
        assert_eq!(judge("a.rs::f", vec![]).len(), 1);
    }
}
