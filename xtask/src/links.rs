//! Broken links in Markdown pages.

use std::path::Path;

/// Checks every relative link of one page: the file must exist inside the repository, and so must
/// the heading.
pub(crate) fn check(root: &Path, name: &str, text: &str) -> Vec<String> {
    let here = Path::new(name).parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for link in links(text) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let to = if file.is_empty() { Some(name.to_owned()) } else { normal(&here.join(file)) };
        let Some(to) = to else {
            found.push(format!("{name}: link leaves the repository: {link}"));
            continue;
        };
        let path = root.join(&to);
        if !path.exists() {
            found.push(format!("{name}: link is broken: {link}"));
        } else if !heading.is_empty() && path.extension().is_some_and(|e| e == "md") {
            let page = std::fs::read_to_string(&path).unwrap_or_default();
            if !headings(&page).any(|h| h == heading) {
                found.push(format!("{name}: no such heading: {link}"));
            }
        }
    }
    found
}

/// The targets of `[text](target)`, outside of code.
pub(crate) fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        line.match_indices("](").filter_map(move |(at, _)| {
            let rest = &line[at + 2..];
            rest.find([')', ' ']).map(|end| &rest[..end])
        })
    })
}

/// The lines outside of fenced code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The anchors of a page's headings, as code forges generate them: lower case, dashes for blanks,
/// no other signs.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|l| l.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let keep = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        title.chars().filter_map(keep).collect()
    })
}

/// The path without `.` and `..`; nothing if it leaves the repository.
pub(crate) fn normal(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter().filter_map(|p| p.to_str()) {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn valid_links_pass() {
        let page = "[a](Cargo.toml) [b](src/../Cargo.toml) [c](https://example.org/x)\n```\n[d](nowhere)\n```\n# A B, c\n[e](#a-b-c)";
        assert_eq!(links(page).count(), 4);
        let found = check(here(), "page.md", "[a](Cargo.toml) [b](src/../Cargo.toml) [c](https://example.org/x)");
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn broken_and_outside_links_are_found() {
        assert_eq!(check(here(), "page.md", "[a](gone.md)"), ["page.md: link is broken: gone.md"]);
        assert_eq!(check(here(), "page.md", "[a](../x.md)"), ["page.md: link leaves the repository: ../x.md"]);
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(headings("## The way of a write, `once`\n").collect::<Vec<_>>(), ["the-way-of-a-write-once"]);
    }
}
