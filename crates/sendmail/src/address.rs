//! Addresses: those of header fields (RFC 5322, 3.4), and those of an envelope (RFC 5321, 4.1.2).

use std::fmt;

/// An address that is safe in a command of SMTP: it has no line ends, no angle brackets and,
/// outside of quotes, no spaces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address(String);

/// Maximum length of an address in bytes.
const MAX_BYTES: usize = 320;

/// Maximum length of the domain in bytes.
const MAX_DOMAIN_BYTES: usize = 255;

impl Address {
    /// Reads an address such as `joe@example.org`, or the name of a local user.
    pub fn parse(text: &str) -> Option<Address> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let is_valid = match text.rsplit_once('@') {
            Some((local, domain)) => is_local_part(local) && is_domain(domain),
            None => is_local_part(text),
        };
        is_valid.then(|| Address(text.to_owned()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_local_part(text: &str) -> bool {
    match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => is_quoted(quoted),
        None => !text.is_empty() && text.chars().all(is_atom),
    }
}

/// Returns true for a character that needs no quotes; a dot is one of them.
fn is_atom(character: char) -> bool {
    if character.is_ascii() {
        character.is_ascii_graphic() && !"()<>[]:;@\\,\"".contains(character)
    } else {
        !character.is_control() && !character.is_whitespace()
    }
}

/// Returns true for the text between quotes. Angle brackets are left out: a server that looks for
/// the first `>` would find another address.
fn is_quoted(text: &str) -> bool {
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let usable = |c: char| matches!(c, ' '..='~') && c != '<' && c != '>';
        let is_usable = match character {
            '\\' => characters.next().is_some_and(usable),
            '"' => false,
            other => usable(other),
        };
        if !is_usable {
            return false;
        }
    }
    true
}

fn is_domain(text: &str) -> bool {
    if text.is_empty() || text.len() > MAX_DOMAIN_BYTES {
        return false;
    }
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(literal) => literal.bytes().all(|b| b.is_ascii_alphanumeric() || b".:-".contains(&b)),
        None => text.chars().all(|c| {
            if c.is_ascii() {
                c.is_ascii_alphanumeric() || "-._".contains(c)
            } else {
                c.is_alphanumeric()
            }
        }),
    }
}

/// Reads the addresses of a header field, such as `Joe <joe@example.org>, "Sue, B." <sue@a.b>`.
/// Error: the part that is no address.
pub fn list(value: &str) -> Result<Vec<Address>, String> {
    let mut reader = Reader::default();
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        reader.take(character, &mut characters);
    }
    reader.finish();
    match reader.wrong {
        Some(wrong) => Err(wrong),
        None => Ok(reader.found),
    }
}

#[derive(Default)]
struct Reader {
    /// Text outside of comments and angle brackets: a name, or an address without brackets.
    text: String,
    /// Text in angle brackets.
    in_angle: Option<String>,
    is_in_angle: bool,
    is_quoted: bool,
    comments: u32,
    found: Vec<Address>,
    wrong: Option<String>,
}

impl Reader {
    fn take(&mut self, character: char, rest: &mut std::str::Chars<'_>) {
        if self.comments > 0 {
            match character {
                '\\' => drop(rest.next()),
                '(' => self.comments += 1,
                ')' => self.comments -= 1,
                _ => {}
            }
            return;
        }
        if self.is_quoted {
            self.put(character);
            match character {
                '\\' => rest.next().into_iter().for_each(|next| self.put(next)),
                '"' => self.is_quoted = false,
                _ => {}
            }
            return;
        }
        match character {
            '"' => {
                self.is_quoted = true;
                self.put(character);
            }
            '(' => self.comments = 1,
            '<' if !self.is_in_angle && self.in_angle.is_none() => {
                self.is_in_angle = true;
                self.in_angle = Some(String::new());
            }
            '>' if self.is_in_angle => self.is_in_angle = false,
            // The route before an address (RFC 5322, 4.4), which is obsolete.
            ':' if self.is_in_route() => self.in_angle = Some(String::new()),
            // The name of a group.
            ':' if self.in_angle.is_none() && !self.text.contains('@') => self.text.clear(),
            ',' if self.is_in_route() => {}
            ',' | ';' => self.finish(),
            other => self.put(other),
        }
    }

    fn is_in_route(&self) -> bool {
        self.is_in_angle && self.in_angle.as_ref().is_some_and(|text| text.starts_with('@'))
    }

    fn put(&mut self, character: char) {
        match (self.is_in_angle, &mut self.in_angle) {
            (true, Some(text)) => text.push(character),
            // `<a@b>c` is no address.
            (false, Some(text)) if !character.is_whitespace() => {
                text.push('>');
                text.push(character);
            }
            (_, Some(_)) => {}
            (_, None) => self.text.push(character),
        }
    }

    /// Ends an address.
    fn finish(&mut self) {
        let is_open = self.is_in_angle || self.is_quoted || self.comments > 0;
        let name = std::mem::take(&mut self.text);
        let address = self.in_angle.take();
        (self.is_in_angle, self.is_quoted, self.comments) = (false, false, 0);
        let text = match &address {
            Some(text) => text.trim(),
            None => name.trim(),
        };
        if text.is_empty() && address.is_none() {
            return; // as between two commas
        }
        match Address::parse(text).filter(|_| !is_open) {
            Some(address) => self.found.push(address),
            None => drop(self.wrong.get_or_insert_with(|| text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses(value: &str) -> Result<Vec<String>, String> {
        list(value).map(|found| found.iter().map(|address| address.to_string()).collect())
    }

    #[test]
    fn lists_are_read_as_mail_programs_write_them() {
        for (value, expected) in [
            ("joe@a.org", &["joe@a.org"][..]),
            ("Joe <joe@a.org>, sue@b.org", &["joe@a.org", "sue@b.org"]),
            ("\"Doe, Joe\" <joe@a.org>", &["joe@a.org"]),
            ("joe@a.org (Joe, of (course) A)", &["joe@a.org"]),
            ("team: joe@a.org, <sue@b.org>;, x@c.org", &["joe@a.org", "sue@b.org", "x@c.org"]),
            ("undisclosed-recipients:;", &[]),
            ("\"a b\"@a.org", &["\"a b\"@a.org"]),
            ("<@x.org,@y.org:joe@a.org>", &["joe@a.org"]),
            (", ,joe@a.org,", &["joe@a.org"]),
            ("root", &["root"]),
            ("=?UTF-8?Q?J=C3=B6?= <joe@a.org>", &["joe@a.org"]),
            ("Jö <jö@ä.org>", &["jö@ä.org"]),
            ("joe@[127.0.0.1]", &["joe@[127.0.0.1]"]),
            ("\"<x@y>\" <joe@a.org>", &["joe@a.org"]),
        ] {
            assert_eq!(addresses(value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for value in [
            "Joe Doe",
            "<joe@a.org",
            "joe@a.org <",
            "<joe@a.org>x",
            "<joe:x@a.org>",
            "joe@a.org>\r\nDATA",
            "<joe@a.org> RCPT TO:<x@y.org>",
            "joe@a b.org",
            "joe@",
            "@a.org",
            "<>",
            "a@b@c@",
            "\"joe\r\n\"@a.org",
            "\"<\"@a.org",
            "joe@a.org\0",
        ] {
            assert!(addresses(value).is_err(), "{value:?}: {:?}", addresses(value));
        }
        assert_eq!(Address::parse(&format!("{}@a.org", "x".repeat(400))), None);
    }

    proptest! {
        #[test]
        fn no_address_ends_a_command(value in any::<String>()) {
            for address in list(&value).unwrap_or_default() {
                let text = address.as_str();
                prop_assert!(!text.contains(['\r', '\n', '\0', '<', '>']), "{text:?}");
                prop_assert!(text.contains('"') || !text.contains(' '), "{text:?}");
                prop_assert!(text.len() <= MAX_BYTES);
            }
        }

        #[test]
        fn an_address_with_a_name_is_the_address(
            name in "[a-zA-Z ,<>()@]{0,20}", local in "[a-z0-9.+_-]{1,20}",
            domain in "[a-z0-9.-]{1,20}",
        ) {
            let value = format!("\"{name}\" <{local}@{domain}>");
            prop_assert_eq!(addresses(&value).unwrap(), [format!("{local}@{domain}")]);
        }
    }
}
