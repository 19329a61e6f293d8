//! Paths of the author's machine and marks of unfinished work, which the repository may not have.

use std::path::Path;

/// Marks of unfinished work. Split, so that this file does not contain them.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("#[ign", "ore]")];

/// The breaches in one file. `parent` is the folder of the checkout on this machine; a file that
/// names it works on one machine only.
pub(crate) fn check(name: &str, text: &str, parent: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let folder = format!("{}/", parent.display());
    // A checkout in a common folder does not identify a machine.
    let is_telling = !["/", "//", "/tmp/", "/src/", "/usr/src/", "/home/"].contains(&folder.as_str());
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        if is_telling && names_folder(line, &folder) {
            found.push(format!("{place}: names a folder of this machine, {folder}"));
        }
        if let Some(mark) = UNFINISHED.iter().find(|mark| has_word(line, mark)) {
            found.push(format!("{place}: {mark} is for the issue tracker"));
        }
    }
    found
}

/// Whether `line` holds the path `folder` from its beginning on, not as a part of a longer path.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '*' | '$' | ')'))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_folders_are_not_named() {
        let parent = Path::new("/home/ann");
        assert_eq!(check("a", "see /home/ann/notes", parent).len(), 1);
        assert!(check("a", "see target/home/ann/notes", parent).is_empty());
        assert!(check("a", "see /tmp/x", Path::new("/tmp")).is_empty());
    }

    #[test]
    fn unfinished_work_is_found_as_a_word() {
        let parent = Path::new("/");
        assert_eq!(check("a", &format!("// {}: later", UNFINISHED[0]), parent).len(), 1);
        assert!(check("a", &format!("mas{}r", UNFINISHED[0]), parent).is_empty());
        assert_eq!(check("a", &format!("    {}", UNFINISHED[3]), parent).len(), 1);
    }
}
