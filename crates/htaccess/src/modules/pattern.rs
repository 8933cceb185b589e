//! Patterns and expressions as the modules of directives use them.

mod required;

use std::fmt;
use std::sync::Arc;

use memchr::memmem::Finder;

use crate::expr::Expr;
use crate::regex::Regex;
use required::required;

/// Largest number of groups that a replacement can name (`$0` to `$9`).
pub const MAX_GROUPS: usize = 10;

/// Longest text that a replacement may have, as in Apache.
const MAX_REPLACED_BYTES: usize = 64 * 1024;

/// A compiled regular expression, shared by all that use it.
#[derive(Clone)]
pub struct Pattern(Arc<Compiled>);

struct Compiled {
    regex: Regex,
    /// Finds bytes that each match has.
    required: Option<Finder<'static>>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self.0.regex.pattern()).fmt(formatter)
    }
}

/// Limits of matching were reached.
pub use crate::regex::Overrun as TooMuchWork;

/// Start and end of each group of a match.
pub type Groups = Vec<Option<(usize, usize)>>;

impl Pattern {
    /// Compiles a pattern.
    pub fn new(pattern: &[u8], ignore_case: bool) -> Result<Pattern, String> {
        let regex = Regex::new(pattern, ignore_case).map_err(|error| error.reason)?;
        let bytes = if ignore_case { Vec::new() } else { required(pattern) };
        let required = (!bytes.is_empty()).then(|| Finder::new(&bytes).into_owned());
        Ok(Pattern(Arc::new(Compiled { regex, required })))
    }

    /// Returns the regular expression.
    pub fn regex(&self) -> &Regex {
        &self.0.regex
    }

    /// Returns true if the pattern matches somewhere.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, TooMuchWork> {
        if self.cannot_match(subject) {
            return Ok(false);
        }
        self.0.regex.is_match(subject)
    }

    /// Returns the groups of the first match.
    pub fn groups(&self, subject: &[u8]) -> Result<Option<Groups>, TooMuchWork> {
        if self.cannot_match(subject) {
            return Ok(None);
        }
        let captures = self.0.regex.captures(subject)?;
        let count = self.0.regex.groups().saturating_add(1).min(MAX_GROUPS);
        Ok(captures.map(|captures| (0..count).map(|group| captures.get(group)).collect()))
    }

    fn cannot_match(&self, subject: &[u8]) -> bool {
        self.0.required.as_ref().is_some_and(|required| required.find(subject).is_none())
    }
}

/// Replaces `$0` to `$9` in a template by groups of a match in the subject; a backslash keeps the
/// next byte as it is. Returns `None` if the result is too long.
pub fn replaced(template: &[u8], subject: &[u8], groups: &Groups) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut bytes = template.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek().copied()) {
            (b'$', Some(digit)) if digit.is_ascii_digit() => {
                bytes.next();
                let group = groups.get(usize::from(digit - b'0')).copied().flatten();
                let part = group.and_then(|(start, end)| subject.get(start..end));
                text.extend_from_slice(part.unwrap_or_default());
            }
            (b'\\', Some(next)) => {
                bytes.next();
                text.push(next);
            }
            _ => text.push(byte),
        }
        if text.len() >= MAX_REPLACED_BYTES {
            return None;
        }
    }
    Some(text)
}

/// A condition, compiled.
#[derive(Debug, Clone)]
pub struct Condition(Arc<Expr>);

impl Condition {
    /// Compiles a condition.
    pub fn parse(text: &[u8]) -> Result<Condition, String> {
        Ok(Condition(Arc::new(Expr::parse(text)?)))
    }

    /// Returns the expression.
    pub fn expr(&self) -> &Expr {
        &self.0
    }
}

/// A string expression, compiled.
#[derive(Debug, Clone)]
pub struct Text(Arc<crate::expr::Text>);

impl Text {
    /// Compiles a string expression.
    pub fn parse(text: &[u8]) -> Result<Text, String> {
        Ok(Text(Arc::new(crate::expr::Text::parse(text)?)))
    }

    /// Returns the expression.
    pub fn expr(&self) -> &crate::expr::Text {
        &self.0
    }
}
