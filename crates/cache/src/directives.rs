//! Directives of `Cache-Control` (RFC 9111, 5.2), parsed leniently: an argument that cannot be
//! parsed is ignored.

use std::borrow::Cow;

/// A directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive<'a> {
    /// The name as sent; names are case-insensitive.
    pub name: &'a [u8],
    /// The argument without quotes; empty if it is malformed.
    pub argument: Option<Cow<'a, [u8]>>,
}

impl Directive<'_> {
    /// Returns true if the directive has this name, given in lower case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the argument as a number of seconds (RFC 9111, 1.2.2), at most [`MAX_SECONDS`]. A
    /// malformed or missing one is 0: a response whose lifetime is unknown is stale.
    pub fn seconds(&self) -> u64 {
        let argument = self.argument.as_deref().unwrap_or_default();
        parse_seconds(argument).unwrap_or(0)
    }

    /// Returns true if the directive, of `Surrogate-Control`, is for every cache or for this one:
    /// if its argument has no parameter, or this one.
    pub fn is_for(&self, cache: &str) -> bool {
        let argument = self.argument.as_deref().unwrap_or_default();
        match memchr::memchr(b';', argument) {
            None => true,
            Some(at) => argument.get(at + 1..).unwrap_or_default().trim_ascii() == cache.as_bytes(),
        }
    }

    /// Returns the directive, of `Surrogate-Control`, without the text after the first number in
    /// its argument: `+` and the seconds of an extension, `;` and a parameter.
    pub fn without_extension(&self) -> Directive<'_> {
        let argument = self.argument.as_deref().map(|argument| {
            let end = memchr::memchr2(b';', b'+', argument).unwrap_or(argument.len());
            Cow::Borrowed(argument.get(..end).unwrap_or_default())
        });
        Directive { name: self.name, argument }
    }

    /// Returns the seconds for which a response may be used stale while it is refreshed: in
    /// `max-age=60+30` of `Surrogate-Control`, those after the plus (Edge Architecture
    /// Specification, 2.3).
    pub fn extension(&self) -> Option<u64> {
        let argument = self.argument.as_deref()?.split(|byte| *byte == b';').next()?;
        let (lifetime, extension) = argument.split_at_checked(memchr::memchr(b'+', argument)?)?;
        parse_seconds(lifetime)?;
        parse_seconds(extension.get(1..)?)
    }

    /// Returns the names of fields in the argument.
    pub fn names(&self) -> Vec<Box<[u8]>> {
        let list = self.argument.as_deref().unwrap_or_default();
        let names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.filter(|name| !name.is_empty()).map(Into::into).collect()
    }
}

/// Largest number of seconds (RFC 9111, 1.2.2).
pub const MAX_SECONDS: u64 = 1 << 31;

/// Parses a non-negative number, at most [`MAX_SECONDS`]. `None` for anything but digits.
pub fn parse_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |sum: u64, byte: &u8| {
        sum.saturating_mul(10).saturating_add(u64::from(byte - b'0')).min(MAX_SECONDS)
    };
    Some(text.iter().fold(0, digit))
}

/// Iterates over the directives of a field value.
pub fn directives(value: &[u8]) -> Directives<'_> {
    Directives { rest: value }
}

/// Iterator of [`directives`].
#[derive(Debug, Clone)]
pub struct Directives<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Directives<'a> {
    type Item = Directive<'a>;

    fn next(&mut self) -> Option<Directive<'a>> {
        loop {
            let start = self.rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
            self.rest = self.rest.get(start..)?;
            if self.rest.starts_with(b"\"") {
                // A string in place of a name: its text is no directive.
                let (_, after) = quoted(self.rest);
                self.rest = after;
                self.skip_element();
                continue;
            }
            let is_end = |byte: &u8| matches!(byte, b'=' | b',' | b' ' | b'\t' | b'"');
            let end = self.rest.iter().position(is_end).unwrap_or(self.rest.len());
            let (name, rest) = self.rest.split_at_checked(end)?;
            self.rest = rest;
            let argument = match rest {
                [b'=', b'"', ..] => {
                    let (text, after) = quoted(rest.get(1..).unwrap_or_default());
                    self.rest = after;
                    if self.skip_element().is_empty() {
                        Some(text)
                    } else {
                        Some(Cow::Borrowed(&b""[..]))
                    }
                }
                [b'=', ..] => {
                    let text = self.skip_element();
                    Some(Cow::Borrowed(text.get(1..).unwrap_or_default()))
                }
                _ => {
                    if self.skip_element().is_empty() {
                        None
                    } else {
                        Some(Cow::Borrowed(&b""[..]))
                    }
                }
            };
            if name.is_empty() {
                continue;
            }
            return Some(Directive { name, argument });
        }
    }
}

impl<'a> Directives<'a> {
    /// Skips the rest of an element, strings included, and returns it without trailing blanks.
    fn skip_element(&mut self) -> &'a [u8] {
        let text = self.rest;
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match byte {
                b',' => break,
                b'"' => {
                    let (_, after) = quoted(text.get(at..).unwrap_or_default());
                    at = text.len() - after.len();
                }
                _ => at += 1,
            }
        }
        let (element, rest) = text.split_at_checked(at).unwrap_or((text, b""));
        self.rest = rest;
        element.trim_ascii_end()
    }
}

/// Returns the text of a string that begins with a quote, and the rest behind it. A string without
/// an end reaches to the end.
fn quoted(text: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let text = text.get(1..).unwrap_or_default();
    let mut unescaped: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => break,
            b'\\' => {
                let own =
                    unescaped.get_or_insert_with(|| text.get(..at).unwrap_or_default().into());
                own.extend(text.get(at + 1));
                at += 2;
            }
            byte => {
                if let Some(own) = &mut unescaped {
                    own.push(*byte);
                }
                at += 1;
            }
        }
    }
    let at = at.min(text.len());
    let after = text.get(at + 1..).unwrap_or_default();
    match unescaped {
        Some(own) => (Cow::Owned(own), after),
        None => (Cow::Borrowed(text.get(..at).unwrap_or_default()), after),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(value: &str) -> Vec<(String, Option<String>)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        directives(value.as_bytes())
            .map(|found| (text(found.name), found.argument.as_deref().map(text)))
            .collect()
    }

    fn seconds(value: &str) -> Vec<u64> {
        directives(value.as_bytes()).filter(|d| d.is("max-age")).map(|d| d.seconds()).collect()
    }

    #[test]
    fn names_and_arguments_are_told_apart() {
        let some = |text: &str| Some(text.to_owned());
        let name = |text: &str| text.to_owned();
        assert_eq!(
            list("no-store, max-age=60 ,private=\"a, \\\"b\" ,,x"),
            [
                (name("no-store"), None),
                (name("max-age"), some("60")),
                (name("private"), some("a, \"b")),
                (name("x"), None)
            ]
        );
        assert_eq!(list(" , ,"), []);
        assert_eq!(list("=5, \"max-age=5\", a"), [(name("a"), None)]);
        assert_eq!(list("a=\"unclosed, b"), [(name("a"), some("unclosed, b"))]);
    }

    #[test]
    fn a_malformed_lifetime_is_zero_and_a_long_one_is_cut() {
        for (value, expected) in [
            ("max-age=60", 60),
            ("MAX-age=\"60\"", 60),
            ("max-age=0060", 60),
            ("max-age=2147483649", MAX_SECONDS),
            ("max-age=99999999999999999999999", MAX_SECONDS),
            ("max-age='60'", 0),
            ("max-age=60.0", 0),
            ("max-age=-1", 0),
            ("max-age=+1", 0),
            ("max-age = 60", 0),
            ("max-age =60", 0),
            ("max-age= 60", 0),
            ("max-age=60s", 0),
            ("max-age=\"60\"s", 0),
            ("max-age", 0),
            ("max-age=", 0),
        ] {
            assert_eq!(seconds(value), [expected], "{value}");
        }
    }

    #[test]
    fn nothing_in_a_string_is_a_directive() {
        assert_eq!(seconds("a=\"max-age=60\", max-age=1"), [1]);
        assert_eq!(seconds("max-age=1, a=\"b, max-age=60\""), [1]);
        assert_eq!(seconds("\"max-age=60\""), [0; 0]);
        assert_eq!(seconds("a=\"\\\", max-age=60\""), [0; 0]);
    }

    proptest! {
        #[test]
        fn every_list_ends_and_directives_are_parts_of_it(value: Vec<u8>) {
            let found: Vec<_> = directives(&value).collect();
            prop_assert!(found.len() <= value.len());
            for directive in found {
                prop_assert!(!directive.name.is_empty());
                let bad = |byte: &u8| matches!(byte, b',' | b'=' | b'"' | b' ');
                prop_assert!(!directive.name.iter().any(bad));
            }
        }

        #[test]
        fn what_is_written_is_read(
            pairs in prop::collection::vec(
                ("[a-z-]{1,9}", prop::option::of("[a-z0-9, \"\\\\]{0,9}")), 0..9)
        ) {
            let quote = |text: &str|
                format!("=\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let written: Vec<_> = pairs.iter()
                .map(|(name, argument)| {
                    name.clone() + &argument.as_deref().map_or(String::new(), quote)
                })
                .collect();
            prop_assert_eq!(list(&written.join(", ")), pairs);
        }
    }
}
