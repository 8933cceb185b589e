//! Dictionaries of structured fields (RFC 8941, 3.2), as far as `CDN-Cache-Control` and
//! `No-Vary-Search` need them: keys with the numbers, booleans and strings among their values. A
//! malformed dictionary has no members.

/// A member's value; other types are [`Value::Other`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// True or false.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A string.
    Text(Vec<u8>),
    /// A list of strings only, also an empty one.
    Texts(Vec<Vec<u8>>),
    /// A value of another type.
    Other,
}

/// Parses a dictionary. `None` if it is malformed. The last of several members with one key counts.
pub fn dictionary(text: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
    let mut parser = Parser { rest: text };
    let mut members: Vec<(Vec<u8>, Value)> = Vec::new();
    parser.skip_spaces();
    while !parser.rest.is_empty() {
        let key = parser.key()?;
        let value = if parser.take(b'=') {
            parser.member()?
        } else {
            parser.parameters()?;
            Value::Boolean(true)
        };
        members.retain(|(known, _)| known != key);
        members.push((key.to_vec(), value));
        parser.skip_blanks();
        if parser.rest.is_empty() {
            break;
        }
        if !parser.take(b',') {
            return None;
        }
        parser.skip_blanks();
        if parser.rest.is_empty() {
            return None; // a comma at the end
        }
    }
    Some(members)
}

struct Parser<'a> {
    rest: &'a [u8],
}

impl<'a> Parser<'a> {
    fn take(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.advance(1);
        }
        found
    }

    fn advance(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at_checked(count).unwrap_or((self.rest, b""));
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, accepts: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !accepts(*byte)).unwrap_or(self.rest.len());
        self.advance(end)
    }

    fn skip_spaces(&mut self) {
        self.take_while(|byte| byte == b' ');
    }

    fn skip_blanks(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let starts = |byte: u8| byte.is_ascii_lowercase() || byte == b'*';
        if !self.rest.first().is_some_and(|byte| starts(*byte)) {
            return None;
        }
        Some(self.take_while(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        }))
    }

    fn member(&mut self) -> Option<Value> {
        if !self.take(b'(') {
            return self.item();
        }
        let mut texts = Some(Vec::new());
        loop {
            self.skip_spaces();
            if self.take(b')') {
                self.parameters()?;
                return Some(texts.map_or(Value::Other, Value::Texts));
            }
            match (self.item()?, &mut texts) {
                (Value::Text(text), Some(texts)) => texts.push(text),
                _ => texts = None,
            }
            if !matches!(self.rest.first(), Some(b' ' | b')')) {
                return None;
            }
        }
    }

    fn item(&mut self) -> Option<Value> {
        let value = self.bare_item()?;
        self.parameters()?;
        Some(value)
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip_spaces();
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<Value> {
        match self.rest.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'?' => {
                self.advance(1);
                match self.advance(1) {
                    b"1" => Some(Value::Boolean(true)),
                    b"0" => Some(Value::Boolean(false)),
                    _ => None,
                }
            }
            b'"' => self.string().map(Value::Text),
            b':' => {
                self.advance(1);
                self.take_while(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
                self.take(b':').then_some(Value::Other)
            }
            byte if byte.is_ascii_alphabetic() || *byte == b'*' => {
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
                });
                Some(Value::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let is_negative = self.take(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            let fits = digits.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(Value::Other);
        }
        if digits.len() > 15 {
            return None;
        }
        let number = digits.iter().fold(0i64, |sum, byte| sum * 10 + i64::from(byte - b'0'));
        Some(Value::Integer(if is_negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        self.advance(1);
        let mut text = Vec::new();
        loop {
            match self.advance(1) {
                b"\"" => return Some(text),
                b"\\" => match self.advance(1) {
                    [byte @ (b'"' | b'\\')] => text.push(*byte),
                    _ => return None,
                },
                [byte @ b' '..=b'~'] => text.push(*byte),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<Vec<(String, Value)>> {
        let members = dictionary(text.as_bytes())?;
        Some(members.into_iter().map(|(k, v)| (String::from_utf8(k).unwrap(), v)).collect())
    }

    #[test]
    fn members_have_types() {
        let expected = [
            ("max-age", Value::Integer(60)),
            ("no-store", Value::Boolean(true)),
            ("private", Value::Boolean(false)),
            ("a", Value::Text(b"b, \"c".to_vec())),
            ("b", Value::Other),
            ("c", Value::Other),
            ("e", Value::Texts(vec![b"1".to_vec(), b"\\".to_vec()])),
            ("f", Value::Texts(vec![])),
            ("d", Value::Integer(-1)),
        ]
        .map(|(key, value)| (key.to_owned(), value));
        let text = "max-age=60;x, no-store;y=1 ,\tprivate=?0, a=\"b, \\\"c\", b=(1 \"x\";y z), \
                    c=1.5, e=(\"1\" \"\\\\\";x), f=(), d=-1";
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read("a=1, a=2"), Some(vec![("a".to_owned(), Value::Integer(2))]));
        assert_eq!(read(""), Some(vec![]));
    }

    #[test]
    fn a_malformed_dictionary_is_none() {
        for text in [
            "Max-Age=1",
            "a=",
            "a,",
            "a b",
            "a=1.",
            "a=1.2345",
            "a=?2",
            "a=\"x",
            "a=\"\\x\"",
            "a=(1",
            "a=(1,2)",
            "a=:x",
            "a=-",
            "a=1234567890123456",
            "a=é",
            ",a",
            "a = 1",
            "a;B",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(text: Vec<u8>) {
            for (key, _) in dictionary(&text).unwrap_or_default() {
                prop_assert!(!key.is_empty() && key.is_ascii());
            }
        }

        #[test]
        fn integers_are_read_back(
            numbers in prop::collection::vec(-999_999_999i64..999_999_999, 1..9),
        ) {
            let text: Vec<_> = numbers.iter().enumerate().map(|(i, n)| format!("k{i}={n}"))
                .collect();
            let read = dictionary(text.join(", ").as_bytes()).unwrap();
            let values: Vec<_> = read.into_iter().map(|(_, value)| value).collect();
            let expected: Vec<_> = numbers.into_iter().map(Value::Integer).collect();
            prop_assert_eq!(values, expected);
        }
    }
}
