//! Rust source without comments and without the content of literals, so that braces and words can
//! be counted.

/// Returns `source` with every comment and every string or character literal replaced by blanks.
/// Lines stay lines. Literals keep their quotes, so that a line that holds only a string still
/// counts as code.
pub(crate) fn scrub(source: &str) -> String {
    let text: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < text.len() {
        let end = match text[at] {
            '/' if text.get(at + 1) == Some(&'/') => line_end(&text, at),
            '/' if text.get(at + 1) == Some(&'*') => block_comment_end(&text, at),
            'r' if !follows_word(&text, at) && raw_string_hashes(&text, at).is_some() => raw_string_end(&text, at),
            '"' => quoted_end(&text, at, '"'),
            '\'' if is_char_literal(&text, at) => quoted_end(&text, at, '\''),
            other => {
                out.push(other);
                at += 1;
                continue;
            }
        };
        let is_literal = text[at] != '/';
        out.extend(text[at..end].iter().map(|c| match c {
            '\n' => '\n',
            _ if is_literal => '"',
            _ => ' ',
        }));
        at = end;
    }
    out
}

fn line_end(text: &[char], from: usize) -> usize {
    text[from..].iter().position(|c| *c == '\n').map_or(text.len(), |n| from + n)
}

/// Block comments nest.
fn block_comment_end(text: &[char], from: usize) -> usize {
    let mut depth = 0;
    let mut at = from;
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => depth += 1,
            ('*', Some('/')) => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn follows_word(text: &[char], at: usize) -> bool {
    at > 0 && (text[at - 1].is_alphanumeric() && text[at - 1] != 'b' || text[at - 1] == '_')
}

fn raw_string_hashes(text: &[char], at: usize) -> Option<usize> {
    let hashes = text[at + 1..].iter().take_while(|c| **c == '#').count();
    (text.get(at + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn raw_string_end(text: &[char], from: usize) -> usize {
    let hashes = raw_string_hashes(text, from).unwrap_or(0);
    let mut at = from + hashes + 2;
    while at < text.len() {
        if text[at] == '"' && text[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    text.len()
}

fn quoted_end(text: &[char], from: usize, quote: char) -> usize {
    let mut at = from + 1;
    while at < text.len() {
        match text[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// `'a'` and `'\n'` are characters; `'a` is a lifetime.
fn is_char_literal(text: &[char], at: usize) -> bool {
    text.get(at + 1) == Some(&'\\') || text.get(at + 2) == Some(&'\'')
}

#[cfg(test)]
mod tests {
    use super::scrub;

    #[test]
    fn comments_go_and_lines_stay() {
        assert_eq!(scrub("a // {\nb /* } /* { */ \n */ c"), "a     \nb              \n    c");
    }

    #[test]
    fn literals_lose_their_braces() {
        for source in [r#"x("{\"{")"#, r##"x(r#"{"{"#)"##, "x('{')", r"x('\'')", r#"x(b"{")"#, r##"x(br#"{"#)"##] {
            let out = scrub(source);
            assert!(!out.contains('{') && out.starts_with("x(") && out.ends_with(')'), "{source} -> {out}");
            assert_eq!(out.chars().count(), source.chars().count());
        }
    }

    #[test]
    fn a_lifetime_is_no_character() {
        assert_eq!(scrub("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn an_identifier_ending_in_r_begins_no_raw_string() {
        assert_eq!(scrub(r#"for"x"{"#), "for\"\"\"{");
    }
}
