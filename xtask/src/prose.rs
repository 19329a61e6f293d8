//! Plain English in comments and test names: markers of a private idiom, comment width, length of
//! test names.
//!
//! A marker is a phrase that slows a reader down: archaic words, or clauses that begin with a
//! relative pronoun. A few are justified, so each file has an allowance in `xtask/prose.txt`, which
//! may only shrink, and there is a limit for all files.

use crate::exceptions::Measure;
use anyhow::Result;
use regex::Regex;

/// Markers per hundred comment lines, over the whole repository.
const MAX_PERCENT: usize = 2;
const MAX_COMMENT_COLUMNS: usize = 100;
const MAX_TEST_NAME: usize = 50;
/// Shorter comment lines are not counted.
const MIN_CHARS: usize = 30;

/// The phrases, as regular expressions.
const MARKERS: &[&str] = &[
    r"\b(who|whoever)\b",
    r"\b(tell|tells|told)\b",
    r"\b(nobody|somebody)\b",
    r"\bgo(es)? on\b",
    r"\b(give|gives|given|gave) back\b",
    r"\b(of|in|by) which\b",
    r"\bso (many|much)\b",
    r"\bstands?\b",
    r"\b(lies|lay)\b",
    r"\bchance\b",
    r"\banew\b",
    r"\bfor ever\b",
    r"\bmeanwhile\b",
    r"\bof late\b",
    r"\b(is|are) there\b",
    r"\bwhat (is|was|it|they|has)\b",
    r"^\s*//[/!]?\s*What\b",
    r"\bcome(s)? about\b",
    r"\bmend(s|ed|ing)?\b",
    r"\bshall\b",
    r"\bbehind\b",
    r"\bas far as\b",
];

/// Counts and breaches in the sources.
#[derive(Default)]
pub(crate) struct Prose {
    /// Markers in each file, to be held against the allowances.
    pub(crate) markers: Vec<Measure>,
    /// Breaches that have no allowance.
    pub(crate) found: Vec<String>,
    comment_lines: usize,
    marked_lines: usize,
}

impl Prose {
    /// One line for the summary.
    pub(crate) fn summary(&self) -> String {
        let percent = 100.0 * self.marked_lines as f64 / self.comment_lines.max(1) as f64;
        format!("{} of {} comment lines carry a marker ({percent:.1} %)", self.marked_lines, self.comment_lines)
    }

    /// The breach of the limit for the whole, if there is one.
    pub(crate) fn over_limit(&self) -> Option<String> {
        let is_over = self.marked_lines * 100 > self.comment_lines * MAX_PERCENT;
        is_over.then(|| format!("{}, more than {MAX_PERCENT} %", self.summary()))
    }
}

/// Counts all sources, given as (path, text).
pub(crate) fn check<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Prose> {
    let markers = Regex::new(&format!("(?i){}", MARKERS.join("|")))?;
    let mut prose = Prose::default();
    for (name, text) in sources {
        let mut marked = 0;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//")) {
            let columns = line.chars().count();
            if columns > MAX_COMMENT_COLUMNS {
                let place = format!("{name}:{}", number + 1);
                prose.found.push(format!("{place}: comment of {columns} columns, more than {MAX_COMMENT_COLUMNS}"));
            }
            if line.trim().chars().count() > MIN_CHARS {
                prose.comment_lines += 1;
                marked += usize::from(markers.is_match(line));
            }
        }
        prose.marked_lines += marked;
        prose.markers.push(Measure { what: name.to_owned(), count: marked, limit: 0 });
        let long = test_names(text).filter(|test| test.chars().count() > MAX_TEST_NAME);
        prose
            .found
            .extend(long.map(|test| format!("{name}: test name of more than {MAX_TEST_NAME} characters: {test}")));
    }
    Ok(prose)
}

/// The names of functions under a `#[test]` of any kind.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            return None;
        }
        let after = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        let name = after.filter(|_| is_test).map(|name| name.split(['(', '<']).next().unwrap_or(name));
        is_test &= line.is_empty() || line.starts_with("//");
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Prose {
        check(std::iter::once(("a.rs", text))).unwrap()
    }

    #[test]
    fn marked_comment_lines_are_counted() {
        let prose = one(
            "// A reader is told of every one of these here.\n// The cleaner relocates live blocks to a segment.\nfn f() {}\n",
        );
        assert_eq!((prose.marked_lines, prose.comment_lines), (1, 2));
        assert_eq!(prose.markers[0].count, 1);
        assert!(prose.over_limit().is_some());
    }

    #[test]
    fn code_and_short_comments_are_not_counted() {
        let prose = one("// told\nlet told = \"nobody tells who stands behind\";\n");
        assert_eq!(prose.comment_lines, 0);
        assert!(prose.over_limit().is_none());
    }

    #[test]
    fn wide_comments_are_found() {
        assert_eq!(one(&format!("    // {}\n", "x".repeat(93))).found.len(), 0);
        assert_eq!(one(&format!("    // {}\n", "x".repeat(94))).found.len(), 1);
    }

    #[test]
    fn long_test_names_are_found() {
        let name = "a".repeat(51);
        assert_eq!(one(&format!("#[tokio::test]\nasync fn {name}() {{}}\n")).found.len(), 1);
        assert_eq!(one(&format!("fn {name}() {{}}\n")).found.len(), 0);
        assert_eq!(one(&format!("#[test]\nfn {}() {{}}\n", "a".repeat(50))).found.len(), 0);
    }
}
