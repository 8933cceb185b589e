//! `RewriteCond`: a test that a rule depends on.

use std::sync::Arc;

use super::arguments::{each_flag, unknown_flag, words};
use super::template::Template;
use crate::expr::{Expr, number};
use crate::regex::Regex;

/// A condition, compiled.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    /// Text that is tested.
    pub input: Template,
    pub test: Test,
    /// As it was written, for the trace.
    pub pattern: Vec<u8>,
    pub is_negated: bool,
    pub ignores_case: bool,
    /// `OR`: the next condition is an alternative.
    pub is_alternative: bool,
    /// `NV`: does not add to `Vary`.
    pub hides_vary: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Test {
    Regex(Arc<Regex>),
    File,
    NotEmptyFile,
    Directory,
    Link,
    Executable,
    AllowedUrl,
    AllowedFile,
    Text(Relation, Vec<u8>),
    Number(Relation, i32),
    Expr(Arc<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Less,
    LessOrEqual,
    Equal,
    Greater,
    GreaterOrEqual,
}

impl Condition {
    /// Parses the arguments of the directive. The error is Apache's text.
    pub fn parse(line: &[u8]) -> Result<Condition, String> {
        let Some(words) = words(line) else {
            let line = String::from_utf8_lossy(line);
            return Err(format!("RewriteCond: bad argument line '{line}'"));
        };
        let (mut ignores_case, mut is_alternative, mut hides_vary) = (false, false, false);
        if let Some(flags) = words.third {
            let result = each_flag(flags, |name, _| {
                match name.to_ascii_lowercase().as_slice() {
                    b"nocase" | b"nc" => ignores_case = true,
                    b"ornext" | b"or" => is_alternative = true,
                    b"novary" | b"nv" => hides_vary = true,
                    _ => return Err(unknown_flag(name)),
                }
                Ok(())
            });
            result.map_err(|error| format!("RewriteCond: {error}"))?;
        }
        let (mut is_negated, pattern) = match words.second {
            [b'!', pattern @ ..] => (true, pattern),
            pattern => (false, pattern),
        };
        let test = if words.first.eq_ignore_ascii_case(b"expr") {
            let expr = Expr::parse(pattern).map_err(|error| {
                let pattern = String::from_utf8_lossy(pattern);
                format!(
                    "RewriteCond: cannot compile expression in htaccess context \"{pattern}\" \
                     {error}"
                )
            })?;
            Test::Expr(Arc::new(expr))
        } else if let Some(test) = file_test(pattern) {
            test
        } else if let Some((test, inverts)) = comparison(pattern) {
            is_negated ^= inverts;
            test
        } else {
            let regex = Regex::new(pattern, ignores_case).map_err(|_| {
                let pattern = String::from_utf8_lossy(pattern);
                format!("RewriteCond: cannot compile regular expression '{pattern}'")
            })?;
            Test::Regex(Arc::new(regex))
        };
        Ok(Condition {
            input: Template::parse(words.first),
            test,
            pattern: words.second.to_vec(),
            is_negated,
            ignores_case,
            is_alternative,
            hides_vary,
        })
    }
}

fn file_test(pattern: &[u8]) -> Option<Test> {
    let [b'-', letter] = pattern else { return None };
    Some(match letter {
        b'f' => Test::File,
        b's' => Test::NotEmptyFile,
        b'd' => Test::Directory,
        b'x' => Test::Executable,
        b'h' | b'L' | b'l' => Test::Link,
        b'U' => Test::AllowedUrl,
        b'F' => Test::AllowedFile,
        _ => return None,
    })
}

/// Reads `-ge5`, `>=text` and so on; true for `-ne`, which is the opposite of `-eq`.
fn comparison(pattern: &[u8]) -> Option<(Test, bool)> {
    if let [b'-', first, second, rest @ ..] = pattern
        && !rest.is_empty()
    {
        let relation = match [*first, *second] {
            [b'l', b't'] => Relation::Less,
            [b'l', b'e'] => Relation::LessOrEqual,
            [b'g', b't'] => Relation::Greater,
            [b'g', b'e'] => Relation::GreaterOrEqual,
            [b'e', b'q'] | [b'n', b'e'] => Relation::Equal,
            _ => return None,
        };
        return Some((Test::Number(relation, int(rest)), [*first, *second] == *b"ne"));
    }
    if pattern.len() < 2 {
        return None;
    }
    let (relation, text) = match pattern {
        [b'>', b'=', text @ ..] => (Relation::GreaterOrEqual, text),
        [b'>', text @ ..] => (Relation::Greater, text),
        [b'<', b'=', text @ ..] => (Relation::LessOrEqual, text),
        [b'<', text @ ..] => (Relation::Less, text),
        b"=\"\"" => (Relation::Equal, [].as_slice()),
        [b'=', text @ ..] => (Relation::Equal, text),
        _ => return None,
    };
    Some((Test::Text(relation, text.to_vec()), false))
}

/// Reads a number as C's `atoi` does on 64-bit Linux: the low 32 bits of a saturated 64-bit number.
#[expect(clippy::cast_possible_truncation, reason = "atoi truncates")]
pub(super) fn int(text: &[u8]) -> i32 {
    number(text) as i32
}

impl Relation {
    /// Returns true if an ordering of the left and the right side satisfies the relation.
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Relation::Less => ordering.is_lt(),
            Relation::LessOrEqual => ordering.is_le(),
            Relation::Equal => ordering.is_eq(),
            Relation::Greater => ordering.is_gt(),
            Relation::GreaterOrEqual => ordering.is_ge(),
        }
    }
}
