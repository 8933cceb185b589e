//! A value: text, quoted text, booleans, constants and operators.

use super::{Cursor, Value, is_blank};

/// Maximum nesting of operators and parentheses.
const MAX_DEPTH: usize = 64;

/// Constants of PHP in values. All others are text.
const CONSTANTS: &[(&str, i32)] = &[
    ("E_ALL", 32767),
    ("E_COMPILE_ERROR", 64),
    ("E_COMPILE_WARNING", 128),
    ("E_CORE_ERROR", 16),
    ("E_CORE_WARNING", 32),
    ("E_DEPRECATED", 8192),
    ("E_ERROR", 1),
    ("E_NOTICE", 8),
    ("E_PARSE", 4),
    ("E_RECOVERABLE_ERROR", 4096),
    ("E_STRICT", 2048),
    ("E_USER_DEPRECATED", 16384),
    ("E_USER_ERROR", 256),
    ("E_USER_NOTICE", 1024),
    ("E_USER_WARNING", 512),
    ("E_WARNING", 2),
];

/// Reads the value up to the end of the line or a comment.
pub(super) fn read_value(cursor: &mut Cursor<'_>) -> Result<Value, String> {
    let mut has_variable = false;
    let text = match word_of_boolean(cursor) {
        Some(text) => text,
        None if is_at_end(cursor) => String::new(),
        None => expression(cursor, 0, &mut has_variable)?,
    };
    if !is_at_end(cursor) {
        let message = match cursor.peek() {
            Some('=') => "a value with \"=\" needs quotation marks around it".to_owned(),
            Some(one) => format!("{one:?} is not expected here; put the value in quotation marks"),
            None => "the value has an end that is not expected".to_owned(),
        };
        return Err(message);
    }
    cursor.left = "";
    Ok(Value { text, has_variable })
}

/// Returns true at the end of the value. An apostrophe without another one ends it, too.
fn is_at_end(cursor: &mut Cursor<'_>) -> bool {
    let left = cursor.left.trim_start_matches(is_blank);
    left.is_empty() || left.starts_with(';') || is_open_apostrophe(left)
}

fn is_open_apostrophe(left: &str) -> bool {
    left.strip_prefix('\'').is_some_and(|rest| !rest.contains('\''))
}

/// Reads a word such as `yes`, which stands alone; its value is `1` or empty.
fn word_of_boolean(cursor: &mut Cursor<'_>) -> Option<String> {
    let word = cursor.left.split(|one| !is_of_text(one)).next()?;
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    let text = match () {
        () if cursor.left[word.len()..].starts_with('$') => return None,
        () if is(&["true", "on", "yes"]) => "1",
        () if is(&["false", "off", "no", "none", "null"]) => "",
        () => return None,
    };
    cursor.left = &cursor.left[word.len()..];
    cursor.skip_blanks();
    Some(text.to_owned())
}

fn is_of_text(one: char) -> bool {
    !"$= \t\n\r;&|^~()!\"'".contains(one)
}

/// Reads operands with operators of the same precedence between them, from the left.
fn expression(
    cursor: &mut Cursor<'_>,
    depth: usize,
    has_variable: &mut bool,
) -> Result<String, String> {
    let mut left = operand(cursor, depth, has_variable)?;
    while let Some(operator @ ('|' | '&' | '^')) = cursor.peek() {
        cursor.next();
        cursor.skip_blanks();
        let right = operand(cursor, depth, has_variable)?;
        let (a, b) = (number(&left), number(&right));
        left = match operator {
            '|' => a | b,
            '&' => a & b,
            _ => a ^ b,
        }
        .to_string();
    }
    Ok(left)
}

fn operand(
    cursor: &mut Cursor<'_>,
    depth: usize,
    has_variable: &mut bool,
) -> Result<String, String> {
    if depth > MAX_DEPTH {
        return Err(format!("operators are nested more than {MAX_DEPTH} deep"));
    }
    match cursor.peek() {
        Some(operator @ ('~' | '!')) => {
            cursor.next();
            cursor.skip_blanks();
            let value = number(&operand(cursor, depth + 1, has_variable)?);
            Ok(if operator == '~' { !value } else { i32::from(value == 0) }.to_string())
        }
        Some('(') => {
            cursor.next();
            cursor.skip_blanks();
            let value = expression(cursor, depth + 1, has_variable)?;
            if !cursor.skip(")") {
                return Err("\"(\" has no \")\"".to_owned());
            }
            cursor.skip_blanks();
            Ok(value)
        }
        _ => text(cursor, has_variable),
    }
}

/// Reads texts, quoted texts and variables that follow each other.
fn text(cursor: &mut Cursor<'_>, has_variable: &mut bool) -> Result<String, String> {
    let mut found = String::new();
    let mut is_empty = true;
    while !is_at_end(cursor) {
        let before = cursor.left.len();
        if cursor.skip("${") {
            *has_variable |= !variable(cursor, &mut found)?;
        } else if cursor.left.trim_start_matches(is_blank).starts_with('"') {
            cursor.skip_blanks();
            cursor.next();
            quoted(cursor, &mut found, has_variable)?;
        } else if cursor.skip("'") {
            found += cursor.take_while(|one| one != '\'');
            cursor.next();
        } else {
            found += cursor.take_while(is_blank);
            found += &plain(cursor)?;
        }
        if cursor.left.len() == before {
            break;
        }
        is_empty = false;
    }
    if is_empty {
        return Err("a value is expected here".to_owned());
    }
    Ok(found)
}

/// Reads text without quotation marks. A constant has its value.
fn plain(cursor: &mut Cursor<'_>) -> Result<String, String> {
    let start = cursor.left;
    loop {
        cursor.take_while(is_of_text);
        // A dollar sign takes the next character with it, but for the brace of a variable.
        match (cursor.peek(), cursor.left.chars().nth(1)) {
            (Some('$'), Some('{')) | (None, _) => break,
            (Some('$'), _) => {
                cursor.next();
                cursor.next();
            }
            _ => break,
        }
    }
    let word = &start[..start.len() - cursor.left.len()];
    let is_boolean = ["true", "on", "yes", "false", "off", "no", "none", "null"]
        .iter()
        .any(|name| word.eq_ignore_ascii_case(name));
    if is_boolean {
        return Err(format!("{word:?} is a value of its own; put the value in quotation marks"));
    }
    let constant = CONSTANTS.iter().find(|(name, _)| *name == word);
    Ok(constant.map_or_else(|| word.to_owned(), |(_, value)| value.to_string()))
}

/// Reads the text up to the closing quotation mark.
fn quoted(
    cursor: &mut Cursor<'_>,
    found: &mut String,
    has_variable: &mut bool,
) -> Result<(), String> {
    loop {
        if cursor.skip("${") {
            *has_variable |= !variable(cursor, found)?;
            continue;
        }
        match (cursor.next(), cursor.peek()) {
            (None, _) => return Err("a quotation mark is not closed in this line".to_owned()),
            (Some('"'), _) => {
                cursor.skip_blanks();
                return Ok(());
            }
            (Some('\\'), Some(escaped @ ('"' | '\\' | '\''))) => {
                cursor.next();
                found.push(escaped);
            }
            (Some(one), _) => found.push(one),
        }
    }
}

/// Reads a variable behind `${`, and adds its value. Returns true if it is known.
fn variable(cursor: &mut Cursor<'_>, found: &mut String) -> Result<bool, String> {
    let name = cursor.take_while(|one| one != '}');
    if !cursor.skip("}") {
        return Err("\"${\" has no \"}\"".to_owned());
    }
    let value = (cursor.variables)(name);
    found.push_str(value.as_deref().unwrap_or_default());
    Ok(value.is_some())
}

/// Returns the number at the start of a text, as atoi(3) does.
fn number(text: &str) -> i32 {
    let text = text.trim_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut value: i64 = 0;
    for digit in digits.bytes().take_while(u8::is_ascii_digit) {
        value = (value * 10 + i64::from(digit - b'0')).min(i64::from(u32::MAX));
    }
    // The upper bits are dropped, as by the conversion to an int.
    (sign * value) as i32
}
