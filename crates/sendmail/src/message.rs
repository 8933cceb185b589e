//! The fields of a message: its recipients, missing fields, and fields that must not be sent.
//!
//! Everything else stays as it is, in the same order. `Bcc` goes, as its addresses are secret;
//! `Date`, `Message-ID` and `From` are added if they are missing (RFC 6409, 8).

use crate::address::{self, Address};
use crate::arguments::shown;
use crate::{Failure, MAX_RECIPIENTS, date, status};

/// Maximum length of the fields in bytes.
const MAX_HEAD_BYTES: usize = 1 << 20;

/// A message, divided into its fields and its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    fields: Vec<Field>,
    /// The text, as it came.
    pub body: &'a [u8],
}

#[derive(Debug, PartialEq, Eq)]
struct Field {
    /// Length of the name.
    name: usize,
    /// Name, colon and value, with the line ends of a folded one.
    text: Vec<u8>,
}

/// Values for fields that are missing.
#[derive(Debug, Clone, Copy)]
pub struct Missing<'a> {
    /// Address of `From`.
    pub from: &'a str,
    /// Name in `From`.
    pub full_name: Option<&'a str>,
    /// Host name in `Message-ID`.
    pub host: &'a str,
    /// Time in seconds since 1970.
    pub now: u64,
    /// A random number.
    pub random: u64,
}

impl<'a> Message<'a> {
    /// Divides a message. With `dot_ends`, a line with a single dot ends it.
    pub fn parse(input: &'a [u8], dot_ends: bool) -> Result<Message<'a>, Failure> {
        let input = if dot_ends { before_dot(input) } else { input };
        let (mut fields, mut rest) = (Vec::<Field>::new(), input);
        let mut is_first = true;
        while !rest.is_empty() {
            let (line, after) = next_line(rest);
            if input.len() - after.len() > MAX_HEAD_BYTES {
                let reason =
                    format!("the fields of the message are longer than {MAX_HEAD_BYTES} bytes");
                return Err(Failure::new(status::DATA, reason));
            }
            if line.is_empty() {
                rest = after;
                break;
            }
            // The line that separates messages in a mailbox.
            let is_separator = std::mem::take(&mut is_first)
                && line.starts_with(b"From ")
                && name_length(&line).is_none();
            match (fields.last_mut(), name_length(&line)) {
                _ if is_separator => {}
                (Some(field), _) if matches!(line.first(), Some(b' ' | b'\t')) => {
                    field.text.extend_from_slice(b"\r\n");
                    field.text.extend_from_slice(&line);
                }
                (_, Some(name)) => fields.push(Field { name, text: line }),
                // No field: the text begins without an empty line.
                (_, None) => break,
            }
            rest = after;
        }
        Ok(Message { fields, body: rest })
    }

    /// Returns the recipients that the fields name.
    pub fn recipients(&self) -> Result<Vec<Address>, Failure> {
        let is_resent = self.has("resent-to") || self.has("resent-cc") || self.has("resent-bcc");
        let names =
            if is_resent { ["resent-to", "resent-cc", "resent-bcc"] } else { ["to", "cc", "bcc"] };
        let mut found = Vec::new();
        for field in self.fields.iter().filter(|field| names.iter().any(|name| field.is(name))) {
            let addresses = address::list(&field.value()).map_err(|wrong| {
                let name = String::from_utf8_lossy(field.name());
                let reason = format!("\"{}\" in \"{name}\" is no address", shown(&wrong));
                Failure::new(status::DATA, reason)
            })?;
            for address in addresses {
                if !found.contains(&address) {
                    found.push(address);
                }
                if found.len() > MAX_RECIPIENTS {
                    let reason = format!("the message has more than {MAX_RECIPIENTS} recipients");
                    return Err(Failure::new(status::DATA, reason));
                }
            }
        }
        Ok(found)
    }

    /// Returns the first address of `From`.
    pub fn author(&self) -> Option<Address> {
        let field = self.fields.iter().find(|field| field.is("from"))?;
        address::list(&field.value()).ok()?.into_iter().next()
    }

    /// Returns true if the message has bytes above 127.
    pub fn is_8bit(&self) -> bool {
        !self.body.is_ascii() || self.fields.iter().any(|field| !field.text.is_ascii())
    }

    /// Returns the length in bytes, as far as it is known.
    pub fn size(&self) -> u64 {
        let fields: usize = self.fields.iter().map(|field| field.text.len() + 2).sum();
        (fields + self.body.len()) as u64
    }

    /// Returns the fields to send, with the empty line after them.
    pub fn head(&self, missing: &Missing<'_>) -> Vec<u8> {
        let mut head = Vec::new();
        let mut add = |text: &[u8]| {
            head.extend_from_slice(text);
            head.extend_from_slice(b"\r\n");
        };
        let is_kept = |field: &&Field| !field.is("bcc") && !field.is("resent-bcc");
        self.fields.iter().filter(is_kept).for_each(|field| add(&field.text));
        if !self.has("from") {
            let from = match missing.full_name.map(quoted).filter(|name| !name.is_empty()) {
                Some(name) => format!("From: {name} <{}>", missing.from),
                None => format!("From: {}", missing.from),
            };
            add(from.as_bytes());
        }
        if !self.has("date") {
            add(format!("Date: {}", date::rfc5322(missing.now)).as_bytes());
        }
        if !self.has("message-id") {
            let Missing { now, random, host, .. } = missing;
            add(format!("Message-ID: <{now:x}.{random:016x}@{host}>").as_bytes());
        }
        add(b"");
        head
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.is(name))
    }
}

impl Field {
    fn name(&self) -> &[u8] {
        self.text.get(..self.name).unwrap_or_default().trim_ascii_end()
    }

    fn is(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the value in one line.
    fn value(&self) -> String {
        let value = self.text.get(self.name + 1..).unwrap_or_default();
        String::from_utf8_lossy(value).replace("\r\n", "")
    }
}

/// Returns the first line, and the rest. In the line, NUL is left out, and a carriage return that
/// does not end it is a space: it must not begin a field.
fn next_line(input: &[u8]) -> (Vec<u8>, &[u8]) {
    let (line, after) = match input.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[][..]),
    };
    let mut end = line.len();
    while end > 0 && matches!(line[end - 1], b'\r') {
        end -= 1;
    }
    let bytes = line[..end].iter().filter(|byte| **byte != 0);
    (bytes.map(|byte| if *byte == b'\r' { b' ' } else { *byte }).collect(), after)
}

/// Returns the length of the name that begins a line, if it begins a field.
fn name_length(line: &[u8]) -> Option<usize> {
    let length = line.iter().position(|byte| *byte == b':')?;
    let name = line.get(..length)?.trim_ascii_end();
    let is_name = !name.is_empty() && name.iter().all(|byte| matches!(byte, b'!'..=b'~'));
    is_name.then_some(length)
}

/// Returns the part of a message before a line with a single dot.
fn before_dot(input: &[u8]) -> &[u8] {
    let mut from = 0;
    while from < input.len() {
        let rest = input.get(from..).unwrap_or_default();
        let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        if matches!(&rest[..length], b"." | b".\n" | b".\r\n") {
            return input.get(..from).unwrap_or_default();
        }
        from += length;
    }
    input
}

/// Returns a name as a quoted string, or as an encoded word (RFC 2047) if it is not ASCII.
fn quoted(name: &str) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(200).collect();
    if name.trim().is_empty() {
        return String::new();
    }
    if name.is_ascii() {
        return format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    }
    let words = name.chars().collect::<Vec<_>>();
    // An encoded word has at most 75 characters.
    let words = words.chunks(4).map(|part| {
        let text: String = part.iter().collect();
        let encoded: String = text.bytes().map(|byte| format!("={byte:02X}")).collect();
        format!("=?UTF-8?Q?{encoded}?=")
    });
    words.collect::<Vec<_>>().join("\r\n ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MISSING: Missing<'static> = Missing {
        from: "www-data@host.test",
        full_name: None,
        host: "host.test",
        now: 0,
        random: 0xabc,
    };

    const ADDED: &str = "From: www-data@host.test\r\nDate: Thu, 1 Jan 1970 00:00:00 +0000\r\n\
                         Message-ID: <0.0000000000000abc@host.test>\r\n\r\n";

    fn parse(input: &str) -> Message<'_> {
        Message::parse(input.as_bytes(), false).unwrap()
    }

    fn head(input: &str) -> String {
        String::from_utf8(parse(input).head(&MISSING)).unwrap()
    }

    fn recipients(input: &str) -> Vec<String> {
        let found = parse(input).recipients().unwrap();
        found.iter().map(|address| address.to_string()).collect()
    }

    #[test]
    fn a_message_is_sent_as_it_is_but_for_what_is_missing_and_secret() {
        let input =
            "To: joe@a.org\r\nSubject: x\n y\r\nBCC: sue@b.org,\r\n tim@c.org\r\nX-A:b\n\nHello\n";
        let message = parse(input);
        assert_eq!(message.body, b"Hello\n");
        assert_eq!(head(input), format!("To: joe@a.org\r\nSubject: x\r\n y\r\nX-A:b\r\n{ADDED}"));
        assert_eq!(recipients(input), ["joe@a.org", "sue@b.org", "tim@c.org"]);
        let whole = "Date: d\nFrom: A <a@a.org>\nMESSAGE-ID: <1@a>\n\n";
        assert_eq!(head(whole), "Date: d\r\nFrom: A <a@a.org>\r\nMESSAGE-ID: <1@a>\r\n\r\n");
        assert_eq!(parse(whole).author().unwrap().as_str(), "a@a.org");
        assert_eq!(parse(input).author(), None);
    }

    #[test]
    fn a_text_without_fields_is_a_text() {
        for input in ["Hello\n", "\nHello\n", "no field: but this\n"] {
            let message = parse(input);
            assert_eq!(head(input), ADDED, "{input:?}");
            assert_eq!(message.body, input.trim_start_matches('\n').as_bytes());
        }
        let input = "From joe Thu Nov 27 2026\nTo: a@b.org\nno field here\nText";
        assert_eq!(recipients(input), ["a@b.org"]);
        assert_eq!(parse(input).body, b"no field here\nText");
        assert_eq!(parse("").body, b"");
        assert_eq!(parse("From : a@b.org\n\n").author().unwrap().as_str(), "a@b.org");
    }

    #[test]
    fn a_name_for_from_cannot_add_a_field() {
        for (name, expected) in [
            ("Joe", "From: \"Joe\" <"),
            ("J\"o\\e", "From: \"J\\\"o\\\\e\" <"),
            ("a\r\nBcc: x@y.org", "From: \"aBcc: x@y.org\" <"),
            ("Jö", "From: =?UTF-8?Q?=4A=C3=B6?= <"),
            ("\r\n", "From: www"),
        ] {
            let missing = Missing { full_name: Some(name), ..MISSING };
            let head = String::from_utf8(parse("\nx").head(&missing)).unwrap();
            assert!(head.starts_with(expected), "{head:?}");
            assert_eq!(head.lines().count(), 4, "{head:?}");
        }
    }

    #[test]
    fn no_carriage_return_or_nul_begins_a_field() {
        let input = "Subject: x\rBcc: secret@a.org\r\nTo: joe@a.org\nX: a\r\r\nB\0cc: x@y.org\n\nb";
        assert_eq!(recipients(input), ["joe@a.org", "x@y.org"]);
        let head = head(input);
        assert!(
            head.starts_with("Subject: x Bcc: secret@a.org\r\nTo: joe@a.org\r\nX: a\r\nFrom:"),
            "{head:?}"
        );
        // Nor does a colon without a name.
        assert_eq!(recipients(": a\nTo: joe@a.org\n"), [""; 0]);
    }

    #[test]
    fn the_dot_ends_a_message_only_if_it_should() {
        let input = b"To: a@b.org\n\na\n..\n.\nb\n";
        assert_eq!(Message::parse(input, true).unwrap().body, b"a\n..\n");
        assert_eq!(Message::parse(input, false).unwrap().body, b"a\n..\n.\nb\n");
        assert_eq!(Message::parse(b".", true).unwrap().body, b"");
    }

    #[test]
    fn hostile_fields_have_limits() {
        let many: String = (0..1001).map(|n| format!("x{n}@a.org,")).collect();
        assert_eq!(parse(&format!("To: {many}\n")).recipients().unwrap_err().status, status::DATA);
        let long = format!("X: {}\n", "x".repeat(MAX_HEAD_BYTES));
        assert!(Message::parse(long.as_bytes(), false).is_err());
        let error = parse("To: joe@a.org\nCc: <x\u{7}\n").recipients().unwrap_err();
        assert!(error.reason.contains("\"Cc\"") && !error.reason.contains('\u{7}'), "{error:?}");
        assert_eq!(recipients("To: a@b.org\nResent-To: c@d.org\n"), ["c@d.org"]);
    }

    proptest! {
        #[test]
        fn the_head_is_always_one(input in any::<Vec<u8>>(), dot_ends: bool) {
            let Ok(message) = Message::parse(&input, dot_ends) else { return Ok(()) };
            let head = message.head(&MISSING);
            prop_assert!(head.ends_with(b"\r\n\r\n"));
            let inner = &head[..head.len() - 4];
            prop_assert!(!inner.windows(4).any(|four| four == b"\r\n\r\n"), "it ends early");
            // The message reads back as the same fields, without the secret ones.
            let again = Message::parse(&head, false).unwrap();
            prop_assert_eq!(again.head(&MISSING), head.clone());
            prop_assert!(!again.has("bcc") && !again.has("resent-bcc"));
            prop_assert!(again.body.is_empty() && again.has("from") && again.has("date"));
            let _ = message.recipients();
        }
    }
}
