//! The table of contents of the book lists every page of docs/.

use crate::links::{links, normal};
use std::path::Path;

/// The table of contents.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// Returns the pages of docs/ that `summary` lists not at all or twice. `names` are the paths of
/// all files.
pub(crate) fn check<'a>(summary: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let listed: Vec<String> = links(summary).filter_map(|link| normal(&Path::new("docs").join(link))).collect();
    let is_page = |name: &&str| name.starts_with("docs/") && name.ends_with(".md") && *name != SUMMARY;
    let count = |name: &str| listed.iter().filter(|listed| *listed == name).count();
    let breach = |name: &str| match count(name) {
        0 => Some(format!("{SUMMARY}: {name} is not listed")),
        1 => None,
        _ => Some(format!("{SUMMARY}: {name} is listed twice")),
    };
    names.filter(is_page).filter_map(breach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_listed_once_pass() {
        let summary = "[Ibid](../README.md)\n- [A](a.md)\n    - [B](guides/b.md)\n";
        let names = ["docs/a.md", "docs/guides/b.md", "docs/SUMMARY.md", "docs/a.json", "web/c.md"];
        assert!(check(summary, names.into_iter()).is_empty());
    }

    #[test]
    fn missing_and_repeated_pages_are_found() {
        let found = check("- [A](a.md)\n- [A](./a.md)\n", ["docs/a.md", "docs/b.md"].into_iter());
        assert_eq!(found, ["docs/SUMMARY.md: docs/a.md is listed twice", "docs/SUMMARY.md: docs/b.md is not listed"]);
    }
}
