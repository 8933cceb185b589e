//! Parses JSON text into a value tree, as NGINX Unit does.
//!
//! RFC 8259 with these differences: `//` and `/* */` comments are allowed where white space is
//! (their bytes need not be UTF-8), a comma may follow the last member or element, a UTF-8 byte
//! order mark may come first, and an object must not name a member twice. Members keep their order.
//!
//! The text is untrusted: its size, its nesting and the number of its values are bounded, so that
//! memory is bounded as well and the recursion cannot exhaust the stack.

use serde_json::{Map, Number, Value};

use crate::error::{Error, Position};

/// Maximum size of a text in bytes.
pub const MAX_SIZE: usize = 16 << 20;

/// Maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// Maximum number of values. A value takes at least 72 bytes in memory, and 2 bytes in the text.
pub const MAX_VALUES: usize = 1 << 20;

/// Parses a text that consists of one JSON value.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    let start = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut reader = Reader { text, at: start, depth: 0, values: 0 };
    reader
        .document()
        .map_err(|Unexpected { at, message }| Error::syntax(position(text, at), message))
}

/// Returns the place of the value with this path, in a text that [`parse`] accepts.
pub fn find(text: &[u8], path: &[String]) -> Option<Position> {
    let start = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut reader = Reader { text, at: start, depth: 0, values: 0 };
    reader.skip_space().ok()?;
    for step in path {
        reader.enter(step).ok().flatten()?;
    }
    Some(position(text, reader.at))
}

/// Returns line and column of an offset into a text; columns count characters, not bytes.
fn position(text: &[u8], offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let is_start = |byte: &&u8| **byte & 0xC0 != 0x80;
    Position {
        offset,
        line: 1 + memchr::memchr_iter(b'\n', before).count(),
        column: 1 + before.iter().skip(line_start).filter(is_start).count(),
    }
}

/// Offset of a syntax error, and the expected token.
struct Unexpected {
    at: usize,
    message: &'static str,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    values: usize,
}

type Parsed<T> = Result<T, Unexpected>;

impl Reader<'_> {
    fn document(&mut self) -> Parsed<Value> {
        if self.text.len() > MAX_SIZE {
            return Err(Unexpected { at: MAX_SIZE, message: "the text is longer than 16 MiB" });
        }
        self.skip_space()?;
        if self.peek().is_none() {
            return self.fail("the text is empty; the smallest configuration is {}");
        }
        let value = self.value()?;
        self.skip_space()?;
        match self.peek() {
            None => Ok(value),
            Some(_) => self.fail("something follows the end of the JSON value"),
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return self.fail("the document has more than 1,048,576 values");
        }
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true", Value::Bool(true)),
            Some(b'f') => self.literal(b"false", Value::Bool(false)),
            Some(b'n') => self.literal(b"null", Value::Null),
            Some(_) => self.fail(EXPECTED_VALUE),
            None => self.fail("the text ends where a value must follow"),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Parsed<Value>) -> Parsed<Value> {
        if self.depth >= MAX_DEPTH {
            return self.fail("arrays and objects are nested more than 128 deep");
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Continues to a member or an element of the value here; `None` if it has none of this name.
    fn enter(&mut self, step: &str) -> Parsed<Option<()>> {
        let (is_object, end) = match self.peek() {
            Some(b'{') => (true, b'}'),
            Some(b'[') => (false, b']'),
            _ => return Ok(None),
        };
        for index in 0_usize.. {
            // Skip the bracket or the comma.
            self.at += 1;
            self.skip_space()?;
            if self.peek().is_none_or(|byte| byte == end) {
                break;
            }
            let is_found = if is_object {
                let name = self.string()?;
                self.skip_space()?;
                self.at += 1;
                self.skip_space()?;
                name == step
            } else {
                index.to_string() == step
            };
            if is_found {
                return Ok(Some(()));
            }
            self.value()?;
            self.skip_space()?;
            if self.peek() != Some(b',') {
                break;
            }
        }
        Ok(None)
    }

    fn object(&mut self) -> Parsed<Value> {
        let mut members = Map::new();
        loop {
            // Skip the brace that opens the object or the comma before this member.
            self.at += 1;
            self.skip_space()?;
            match self.peek() {
                Some(b'}') => break,
                Some(b'"') => {}
                Some(_) => {
                    return self.fail("a member name in double quotes or } is expected here");
                }
                None => return self.fail("the text ends inside an object; its } is missing"),
            }
            let name_at = self.at;
            let name = self.string()?;
            if members.contains_key(&name) {
                let message = "the object has two members of this name";
                return Err(Unexpected { at: name_at, message });
            }
            self.skip_space()?;
            if self.peek() != Some(b':') {
                return self.fail("a colon is expected after the member name");
            }
            self.at += 1;
            self.skip_space()?;
            let value = self.value()?;
            members.insert(name, value);
            self.skip_space()?;
            match self.peek() {
                Some(b'}') => break,
                Some(b',') => {}
                Some(_) => return self.fail("a comma or } is expected here"),
                None => return self.fail("the text ends inside an object; its } is missing"),
            }
        }
        self.at += 1;
        Ok(Value::Object(members))
    }

    fn array(&mut self) -> Parsed<Value> {
        let mut elements = Vec::new();
        loop {
            // Skip the bracket that opens the array or the comma before this element.
            self.at += 1;
            self.skip_space()?;
            match self.peek() {
                Some(b']') => break,
                Some(_) => {}
                None => return self.fail("the text ends inside an array; its ] is missing"),
            }
            elements.push(self.value()?);
            self.skip_space()?;
            match self.peek() {
                Some(b']') => break,
                Some(b',') => {}
                Some(_) => return self.fail("a comma or ] is expected here"),
                None => return self.fail("the text ends inside an array; its ] is missing"),
            }
        }
        self.at += 1;
        Ok(Value::Array(elements))
    }

    fn string(&mut self) -> Parsed<String> {
        let start = self.at;
        let unclosed = Unexpected {
            at: start,
            message: "the string that begins here is not closed; its second quote is missing",
        };
        self.at += 1;
        let mut value = Vec::new();
        loop {
            let run = self.rest();
            let plain = run.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ');
            let Some((text, end)) = plain.and_then(|n| Some((run.get(..n)?, *run.get(n)?))) else {
                return Err(unclosed);
            };
            match std::str::from_utf8(text) {
                Ok(text) => value.extend_from_slice(text.as_bytes()),
                Err(error) => {
                    self.at += error.valid_up_to();
                    return self.fail("the string is not valid UTF-8 here");
                }
            }
            self.at += text.len();
            match end {
                b'"' => break,
                b'\\' => self.escape(&mut value)?,
                b'\n' | b'\r' => return Err(unclosed),
                _ => return self.fail("a control character in a string must be written \\uXXXX"),
            }
        }
        self.at += 1;
        match String::from_utf8(value) {
            Ok(string) => Ok(string),
            // Unreachable: each piece was checked or came from a `char`.
            Err(_) => self.fail("the string is not valid UTF-8"),
        }
    }

    /// Parses the escape sequence that starts here.
    fn escape(&mut self, value: &mut Vec<u8>) -> Parsed<()> {
        let start = self.at;
        let byte = match self.text.get(start + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'u') => return self.unicode_escape(value),
            _ => return self.fail("a backslash in a string must be written \\\\"),
        };
        self.at = start + 2;
        value.push(byte);
        Ok(())
    }

    /// Parses `\uXXXX`, or two of them that form a UTF-16 surrogate pair.
    fn unicode_escape(&mut self, value: &mut Vec<u8>) -> Parsed<()> {
        let start = self.at;
        let unit = self.code_unit()?;
        let code = match unit {
            0xD800..=0xDBFF if self.rest().starts_with(b"\\u") => {
                let low = self.code_unit()?;
                if !(0xDC00..=0xDFFF).contains(&low) {
                    return Err(Unexpected { at: start, message: BAD_SURROGATES });
                }
                0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
            }
            other => other,
        };
        // Fails only for surrogates without their other half.
        let Some(character) = char::from_u32(code) else {
            return Err(Unexpected { at: start, message: BAD_SURROGATES });
        };
        value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Parses `\uXXXX`, whose `\u` the caller has checked.
    fn code_unit(&mut self) -> Parsed<u32> {
        self.at += 2;
        let mut unit = 0;
        for _ in 0..4 {
            match self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
                Some(digit) => unit = unit << 4 | digit,
                None => return self.fail("\\u must be followed by four hexadecimal digits"),
            }
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Parsed<Value> {
        let start = self.at;
        self.skip_byte(b'-');
        let leading_zero = self.peek() == Some(b'0');
        match self.digits() {
            0 => return self.fail("a digit is expected here"),
            1 => {}
            _ if leading_zero => return self.fail_at(start, "a number must not start with 0"),
            _ => {}
        }
        let mut integral = true;
        if self.skip_byte(b'.') {
            integral = false;
            if self.digits() == 0 {
                return self.fail("a digit must follow the decimal point");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integral = false;
            self.at += 1;
            if !self.skip_byte(b'-') {
                self.skip_byte(b'+');
            }
            if self.digits() == 0 {
                return self.fail("a digit must follow in the exponent");
            }
        }
        let text =
            self.text.get(start..self.at).and_then(|digits| std::str::from_utf8(digits).ok());
        match text.and_then(|text| number(text, integral)) {
            Some(number) => Ok(Value::Number(number)),
            None => self.fail_at(start, "the number is outside the range of 64-bit integers"),
        }
    }

    /// Skips decimal digits and returns their number.
    fn digits(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn literal(&mut self, text: &[u8], value: Value) -> Parsed<Value> {
        if !self.rest().starts_with(text) {
            return self.fail(EXPECTED_VALUE);
        }
        self.at += text.len();
        Ok(value)
    }

    fn skip_space(&mut self) -> Parsed<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Parsed<()> {
        let rest = self.rest();
        let length = match rest.get(1) {
            // As in Unit, a line comment must end with a line feed, not with the text.
            Some(b'/') => memchr::memchr(b'\n', rest).map(|newline| newline + 1),
            Some(b'*') => {
                let body = rest.get(2..).unwrap_or_default();
                memchr::memmem::find(body, b"*/").map(|end| end + 4)
            }
            _ => return self.fail("a comment starts with // or /*; this is neither"),
        };
        match length {
            Some(length) => self.at += length,
            None => return self.fail("the comment that starts here does not end"),
        }
        Ok(())
    }

    fn skip_byte(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fail<T>(&self, message: &'static str) -> Parsed<T> {
        self.fail_at(self.at, message)
    }

    fn fail_at<T>(&self, at: usize, message: &'static str) -> Parsed<T> {
        Err(Unexpected { at, message })
    }
}

/// Returns the value of a well-formed number. As in Unit, a number with a fraction or exponent
/// whose value is an integer is an integer (`2e2` is 200).
fn number(text: &str, integral: bool) -> Option<Number> {
    /// Up to this value, every integer has an exact double.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if integral {
        return text.parse::<i64>().ok().map(Number::from);
    }
    let value: f64 = text.parse().ok()?;
    if value.abs() > i64::MAX as f64 {
        return None;
    }
    if value.trunc() == value && value.abs() <= EXACT {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

const EXPECTED_VALUE: &str = "a value is expected here: null, true, false, a number, a \
                              \"string\", an [array] or an {object}";
const BAD_SURROGATES: &str = "this \\u sequence is half of a UTF-16 surrogate pair";

#[cfg(test)]
mod tests;
