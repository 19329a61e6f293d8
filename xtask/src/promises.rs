//! Tests that SPECIFICATION.md names must exist.

/// The page with the promises.
pub(crate) const PAGE: &str = "SPECIFICATION.md";

/// Every `crate: name` of the page, and each name that follows it on the same line, must be a
/// function in that crate.
pub(crate) fn check<'a>(page: &str, sources: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<String> {
    let mut found = Vec::new();
    for line in page.lines() {
        let mut part = None;
        for quoted in line.split('`').skip(1).step_by(2) {
            let name = match quoted.split_once(": ") {
                Some((krate, name)) if is_name(krate) => {
                    part = Some(krate);
                    name
                }
                _ => quoted,
            };
            let Some(krate) = part.filter(|_| is_name(name) && name.contains('_')) else { continue };
            let function = format!("fn {name}(");
            let is_in = |path: &str| path.split('/').any(|folder| folder == krate);
            if !sources.clone().any(|(path, text)| is_in(path) && text.contains(&function)) {
                found.push(format!("{PAGE}: no test `{krate}: {name}`"));
            }
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: [(&str, &str); 2] =
        [("common/scsi/src/a.rs", "fn one_is_one() {}"), ("array/map/src/b.rs", "fn two_is_two() {}")];

    fn found(page: &str) -> Vec<String> {
        check(page, SOURCES.into_iter())
    }

    #[test]
    fn tests_that_are_there_are_fine() {
        assert!(found("| D1 | said | `scsi: one_is_one`; `map: two_is_two`; `tests/run.py crash` |").is_empty());
        assert!(found("`--write-cache` and `WRITE SAME` and `some_word` are no tests").is_empty());
    }

    #[test]
    fn tests_that_are_elsewhere_or_nowhere_are_found() {
        assert_eq!(found("`scsi: two_is_two`"), ["SPECIFICATION.md: no test `scsi: two_is_two`"]);
        assert_eq!(found("`scsi: one_is_one`, `three_is_three`").len(), 1);
    }
}
