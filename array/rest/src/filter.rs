//! The filter language: `name='vm-*' and (destroyed='false' or not space.unique > 0)`.
//!
//! ```text
//! either     = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" either ")" | condition
//! condition  = field [ operator value | "=" "(" value { "," value } ")" ]
//! operator   = "=" | "!=" | "<" | ">" | "<=" | ">="
//! value      = 'text' | "text" | number | true | false | null
//! ```
//!
//! Keywords and texts are compared without regard to case, as names are. `*` in a text matches any
//! characters. A field without operator tests whether its value is true. A condition on a list
//! holds if it holds for one of the values.

use serde_json::Value;
use std::cmp::Ordering;

/// Maximum length of a filter, in bytes.
const MAX_BYTES: usize = 16 << 10;
/// Maximum nesting of parentheses and `not`.
const MAX_DEPTH: usize = 32;

/// A parsed filter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filter {
    Or(Vec<Filter>),
    And(Vec<Filter>),
    Not(Box<Filter>),
    /// The field has the value true.
    Field(String),
    /// The comparison holds for the field and one of the values.
    Compare(String, Operator, Vec<Value>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    ///
    /// A text that names the first part that does not parse.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("longer than {MAX_BYTES} bytes"));
        }
        let mut parser = Parser { words: split(text)?, at: 0 };
        let filter = parser.either(0)?;
        match parser.peek() {
            None => Ok(filter),
            Some(word) => Err(format!("unexpected {word}")),
        }
    }

    /// Returns whether an object matches. `field` returns the value of a field of the object.
    ///
    /// # Errors
    ///
    /// The error of `field`, also if the other conditions decide.
    pub(crate) fn matches<F>(&self, field: &F) -> Result<bool, String>
    where
        F: Fn(&str) -> Result<Value, String>,
    {
        match self {
            Self::Or(filters) => filters.iter().try_fold(false, |found, filter| Ok(filter.matches(field)? || found)),
            Self::And(filters) => filters.iter().try_fold(true, |all, filter| Ok(filter.matches(field)? && all)),
            Self::Not(filter) => filter.matches(field).map(|matches| !matches),
            Self::Field(name) => Ok(field(name)? == Value::Bool(true)),
            Self::Compare(name, operator, values) => {
                let held = field(name)?;
                let hit = |held: &Value| values.iter().any(|value| equal(held, value));
                Ok(match (operator, &held) {
                    (Operator::Equal, Value::Array(all)) => all.iter().any(hit),
                    (Operator::NotEqual, Value::Array(all)) => !all.iter().any(hit),
                    (Operator::Equal, held) => hit(held),
                    (Operator::NotEqual, held) => !hit(held),
                    (operator, held) => {
                        values.iter().any(|value| order(held, value).is_some_and(|order| operator.accepts(order)))
                    }
                })
            }
        }
    }
}

impl Operator {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Returns the value of a field. Dots separate the names of nested fields.
pub(crate) fn lookup<'a>(object: &'a Value, field: &str) -> Result<&'a Value, String> {
    let found = field.split('.').try_fold(object, |value, part| value.get(part));
    found.ok_or_else(|| format!("no field '{field}'"))
}

fn equal(held: &Value, wanted: &Value) -> bool {
    match (held, wanted) {
        (Value::String(held), Value::String(pattern)) => {
            like(&held.to_ascii_lowercase(), &pattern.to_ascii_lowercase())
        }
        // Clients quote booleans and numbers.
        (Value::Bool(held), Value::String(text)) => text.eq_ignore_ascii_case(if *held { "true" } else { "false" }),
        (Value::Number(_), _) => order(held, wanted).is_some_and(Ordering::is_eq),
        (held, wanted) => held == wanted,
    }
}

fn order(held: &Value, wanted: &Value) -> Option<Ordering> {
    match (held, wanted) {
        (Value::String(held), Value::String(wanted)) => {
            Some(held.to_ascii_lowercase().cmp(&wanted.to_ascii_lowercase()))
        }
        (Value::Number(_), Value::String(text)) => order(held, &Value::Number(text.parse().ok()?)),
        (Value::Number(held), Value::Number(wanted)) => match (held.as_u64(), wanted.as_u64()) {
            (Some(held), Some(wanted)) => Some(held.cmp(&wanted)),
            _ => held.as_f64()?.partial_cmp(&wanted.as_f64()?),
        },
        _ => None,
    }
}

/// Returns whether the text matches the pattern. `*` matches any characters. Takes the first
/// match of each piece between two stars, so the cost is linear in the text for each piece.
fn like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[derive(Clone, Debug, PartialEq)]
enum Word {
    /// A field, `and`, `or`, `not`, `true`, `false`, `null` or a number.
    Bare(String),
    Text(String),
    Operator(Operator),
    Open,
    Close,
    Comma,
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bare(word) | Self::Text(word) => write!(f, "'{word}'"),
            Self::Operator(operator) => write!(f, "{operator:?}"),
            Self::Open => f.write_str("'('"),
            Self::Close => f.write_str("')'"),
            Self::Comma => f.write_str("','"),
        }
    }
}

fn split(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, length) = match first {
            '(' => (Word::Open, 1),
            ')' => (Word::Close, 1),
            ',' => (Word::Comma, 1),
            '\'' | '"' => {
                let end = rest[1..].find(first).ok_or_else(|| format!("unterminated text {rest}"))?;
                (Word::Text(rest[1..=end].to_owned()), end + 2)
            }
            '=' | '!' | '<' | '>' => operator(rest)?,
            _ => {
                let bare = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
                let end = rest.find(|c| !bare(c)).unwrap_or(rest.len());
                if end == 0 {
                    return Err(format!("unexpected '{first}'"));
                }
                (Word::Bare(rest[..end].to_owned()), end)
            }
        };
        words.push(word);
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

fn operator(text: &str) -> Result<(Word, usize), String> {
    const OPERATORS: [(&str, Operator); 6] = [
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("=", Operator::Equal),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let found = OPERATORS.iter().find(|(sign, _)| text.starts_with(sign));
    let (sign, operator) = found.ok_or("'!' is not an operator")?;
    Ok((Word::Operator(*operator), sign.len()))
}

fn is_keyword(word: &str) -> bool {
    ["and", "or", "not"].iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
}

struct Parser {
    words: Vec<Word>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.at)
    }

    fn take(&mut self) -> Option<Word> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    fn keyword(&mut self, keyword: &str) -> bool {
        let found = matches!(self.peek(), Some(Word::Bare(word)) if word.eq_ignore_ascii_case(keyword));
        self.at += usize::from(found);
        found
    }

    fn either(&mut self, depth: usize) -> Result<Filter, String> {
        let mut filters = vec![self.all(depth)?];
        while self.keyword("or") {
            filters.push(self.all(depth)?);
        }
        Ok(if filters.len() == 1 { filters.swap_remove(0) } else { Filter::Or(filters) })
    }

    fn all(&mut self, depth: usize) -> Result<Filter, String> {
        let mut filters = vec![self.one(depth)?];
        while self.keyword("and") {
            filters.push(self.one(depth)?);
        }
        Ok(if filters.len() == 1 { filters.swap_remove(0) } else { Filter::And(filters) })
    }

    fn one(&mut self, depth: usize) -> Result<Filter, String> {
        if depth >= MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} levels deep"));
        }
        if self.keyword("not") {
            return Ok(Filter::Not(Box::new(self.one(depth + 1)?)));
        }
        match self.take() {
            Some(Word::Open) => {
                let filter = self.either(depth + 1)?;
                self.expect(&Word::Close)?;
                Ok(filter)
            }
            Some(Word::Bare(word)) if is_keyword(&word) => Err(format!("unexpected '{word}'")),
            Some(Word::Bare(field)) => self.condition(field),
            Some(word) => Err(format!("unexpected {word}")),
            None => Err("unexpected end".to_owned()),
        }
    }

    fn condition(&mut self, field: String) -> Result<Filter, String> {
        let Some(Word::Operator(operator)) = self.peek().cloned() else {
            return Ok(Filter::Field(field));
        };
        self.at += 1;
        if operator != Operator::Equal || self.peek() != Some(&Word::Open) {
            return Ok(Filter::Compare(field, operator, vec![self.value()?]));
        }
        self.at += 1;
        let mut values = vec![self.value()?];
        while self.peek() == Some(&Word::Comma) {
            self.at += 1;
            values.push(self.value()?);
        }
        self.expect(&Word::Close)?;
        Ok(Filter::Compare(field, operator, values))
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.take() {
            Some(Word::Text(text)) => Ok(Value::String(text)),
            Some(Word::Bare(word)) => match word.to_ascii_lowercase().as_str() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                "null" => Ok(Value::Null),
                number => number.parse().map(Value::Number).map_err(|_| format!("text '{word}' must be quoted")),
            },
            Some(word) => Err(format!("{word} is not a value")),
            None => Err("unexpected end".to_owned()),
        }
    }

    fn expect(&mut self, expected: &Word) -> Result<(), String> {
        match self.take() {
            Some(word) if word == *expected => Ok(()),
            Some(word) => Err(format!("{expected} expected, found {word}")),
            None => Err(format!("{expected} expected at the end")),
        }
    }
}

#[cfg(test)]
mod tests;
