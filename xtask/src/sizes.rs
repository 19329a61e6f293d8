//! Lengths of files and functions, in lines of code: blank lines, comment lines and tests are not
//! counted.

use crate::exceptions::Measure;
use crate::scrub::scrub;

/// Lines of code in a file, without tests and comments.
pub(crate) const FILE_LINES: usize = 600;
/// Lines of a function from `fn` to its closing brace: one screen.
pub(crate) const FUNCTION_LINES: usize = 70;

/// Measures a file and every function in it. A file of tests only (`tests.rs`, or under `tests/`)
/// has no limit as a file, but its functions do.
pub(crate) fn measure(name: &str, source: &str) -> Vec<Measure> {
    let scrubbed = scrub(source);
    let lines: Vec<&str> = scrubbed.lines().collect();
    let mut found: Vec<Measure> = functions(&lines)
        .map(|(function, count)| Measure { what: format!("{name}::{function}"), count, limit: FUNCTION_LINES })
        .collect();
    if !is_test_file(name) {
        let code = without_tests(&lines).filter(|l| !l.trim().is_empty()).count();
        found.push(Measure { what: name.to_owned(), count: code, limit: FILE_LINES });
    }
    found
}

fn is_test_file(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.split('/').any(|folder| folder == "tests" || folder == "benches")
}

/// The lines outside of `#[cfg(test)] mod ... { ... }`.
fn without_tests<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < lines.len() {
            if lines[at].trim() == "#[cfg(test)]" {
                at = block_end(lines, at + 1);
                continue;
            }
            at += 1;
            return Some(lines[at - 1]);
        }
        None
    })
}

/// Every function with a body: its name and its lines of code from `fn` to the closing brace.
fn functions<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = (&'a str, usize)> {
    lines.iter().enumerate().filter_map(|(at, line)| {
        let name = function_name(line)?;
        let end = block_end(lines, at);
        Some((name, lines[at..end].iter().filter(|l| !l.trim().is_empty()).count()))
    })
}

/// The name after a `fn` that begins an item on this line. Function pointers and closures have no
/// name.
fn function_name(line: &str) -> Option<&str> {
    const BEFORE: &[&str] = &["pub", "const", "async", "unsafe", "extern", "default", "\"\"\""];
    let mut words = line.split_whitespace();
    let is_prefix = |w: &str| BEFORE.contains(&w) || w.starts_with("pub(") || matches!(w, "super)" | "crate)");
    loop {
        match words.next()? {
            "fn" => break,
            word if is_prefix(word) => {}
            _ => return None,
        }
    }
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

/// The line after the end of the item that begins at `from`: the line where its outermost brace
/// closes, or where a `;` comes before any brace (a declaration, `mod tests;`).
fn block_end(lines: &[&str], from: usize) -> usize {
    // Braces count once the parentheses and brackets of the signature are closed.
    let (mut braces, mut others) = (0i32, 0i32);
    for (at, line) in lines.iter().enumerate().skip(from) {
        for c in line.chars() {
            match c {
                '(' | '[' => others += 1,
                ')' | ']' => others -= 1,
                '{' => braces += 1,
                '}' => braces -= 1,
                ';' if braces == 0 && others == 0 => return at + 1,
                _ => continue,
            }
            if c == '}' && braces == 0 && others == 0 {
                return at + 1;
            }
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(source: &str, what: &str) -> Option<usize> {
        measure("a.rs", source).into_iter().find(|m| m.what == what).map(|m| m.count)
    }

    #[test]
    fn blank_lines_comments_and_tests_do_not_count() {
        let source = "//! Doc\n\nuse x;\n\n/// Says\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {\n    }\n}\n";
        assert_eq!(lines_of(source, "a.rs"), Some(2));
    }

    #[test]
    fn code_after_a_declared_test_module_counts() {
        assert_eq!(lines_of("#[cfg(test)]\nmod tests;\nstruct S;\n", "a.rs"), Some(1));
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let source =
            "pub(crate) async fn long(\n    a: [u8; 4],\n) -> u8 {\n    // why\n    \"}\";\n    a[0]\n}\nfn g() {}\n";
        assert_eq!(lines_of(source, "a.rs::long"), Some(6));
        assert_eq!(lines_of(source, "a.rs::g"), Some(1));
    }

    #[test]
    fn declarations_and_pointers_are_not_functions() {
        assert_eq!(lines_of("trait T {\n    fn f(&self);\n}\n", "a.rs::f"), Some(1));
        assert_eq!(measure("a.rs", "type F = fn(u8) -> u8;\n").len(), 1);
    }

    #[test]
    fn test_files_have_no_limit_but_their_functions_do() {
        assert_eq!(measure("array/x/src/y/tests.rs", "fn f() {}\n").len(), 1);
        assert_eq!(measure("array/x/tests/all.rs", "fn f() {}\n")[0].limit, FUNCTION_LINES);
    }
}
