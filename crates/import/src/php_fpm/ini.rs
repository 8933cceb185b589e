//! The syntax of a line, as PHP's scanner of ini files reads it.
//!
//! PHP-FPM gives this scanner one line at a time, so no value goes beyond its line.

mod value;

use value::read_value;

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 1 << 20;

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// `[name]`
    Section(String),
    /// `name = value` or `name[key] = value`
    Entry {
        /// The text in front of the brackets, or of `=`.
        name: String,
        /// The text between the brackets; `None` without brackets.
        key: Option<String>,
        /// `None` without `=`, which PHP-FPM refuses.
        value: Option<Value>,
    },
}

/// A value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Value {
    /// The value, as PHP-FPM has it: `1` for `yes`, empty for `no` and `none`.
    pub text: String,
    /// A `${NAME}` is in the value that is not known.
    pub has_variable: bool,
}

/// Reads a line in which no variable is known: only PHP-FPM's own process could replace them. An
/// error is the message without the place.
pub(super) fn read_line(line: &str) -> Result<Vec<Statement>, String> {
    read_line_with(line, &|_| None)
}

/// Reads a line. `variables` are the values of `${NAME}`; an unknown one is empty. An error is the
/// message without the place.
pub fn read_line_with(
    line: &str,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Statement>, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("the line is longer than {} MiB", MAX_LINE_BYTES >> 20));
    }
    let mut statements = Vec::new();
    // A carriage return ends a line of the scanner.
    for part in line.split('\r') {
        let mut cursor = Cursor { left: part, variables };
        while let Some(statement) = statement(&mut cursor)? {
            statements.push(statement);
        }
    }
    Ok(statements)
}

/// The part of a line that is not read yet.
struct Cursor<'a> {
    left: &'a str,
    variables: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<char> {
        self.left.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.left = &self.left[found.len_utf8()..];
        Some(found)
    }

    /// Returns the text up to the first character that is not accepted.
    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let end = self.left.find(|one| !accepts(one)).unwrap_or(self.left.len());
        let (taken, left) = self.left.split_at(end);
        self.left = left;
        taken
    }

    fn skip_blanks(&mut self) {
        self.take_while(is_blank);
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let is_there = self.left.starts_with(prefix);
        if is_there {
            self.left = &self.left[prefix.len()..];
        }
        is_there
    }
}

fn is_blank(one: char) -> bool {
    matches!(one, ' ' | '\t')
}

fn is_of_label(one: char) -> bool {
    !"=\n\r\t;&|^$~(){}!\"[".contains(one)
}

/// Reads the next section or entry; `None` at the end of the line.
fn statement(cursor: &mut Cursor<'_>) -> Result<Option<Statement>, String> {
    let is_at_start = !cursor.left.starts_with(is_blank);
    cursor.skip_blanks();
    match cursor.peek() {
        None | Some(';') => {
            cursor.left = "";
            return Ok(None);
        }
        Some('[') if is_at_start => return section(cursor).map(Some),
        _ => {}
    }
    let name = cursor.take_while(is_of_label).trim_end_matches(' ').to_owned();
    if name.is_empty() {
        return Err(match cursor.peek() {
            Some(one) => format!("{one:?} is not expected here: a line is NAME = VALUE"),
            None => "a line is NAME = VALUE".to_owned(),
        });
    }
    let key = if cursor.skip("[") { Some(offset(cursor)?) } else { None };
    cursor.skip_blanks();
    let value = match cursor.peek() {
        Some('=') => {
            cursor.next();
            cursor.skip_blanks();
            Some(read_value(cursor)?)
        }
        _ if key.is_some() => return Err("\"=\" is expected after \"]\"".to_owned()),
        _ => None,
    };
    Ok(Some(Statement::Entry { name, key, value }))
}

fn section(cursor: &mut Cursor<'_>) -> Result<Statement, String> {
    cursor.next();
    let name = cursor.take_while(|one| one != ']' && one != ';');
    if !cursor.skip("]") {
        return Err("the \"[\" of a section has no \"]\"".to_owned());
    }
    cursor.skip_blanks();
    let name = name.trim_matches(|one| one == '"' || one == '\'');
    Ok(Statement::Section(name.to_owned()))
}

/// Reads the text between brackets behind a name, with the closing bracket.
fn offset(cursor: &mut Cursor<'_>) -> Result<String, String> {
    cursor.skip_blanks();
    let mut key = String::new();
    loop {
        match cursor.next() {
            Some(']') => return Ok(key),
            Some(quote @ ('"' | '\'')) => {
                key += cursor.take_while(|one| one != quote);
                cursor.next();
            }
            None | Some(';' | '\n') => return Err("\"[\" has no \"]\"".to_owned()),
            Some(one) => key.push(one),
        }
    }
}

#[cfg(test)]
mod tests;
