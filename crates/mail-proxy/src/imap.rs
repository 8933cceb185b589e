//! IMAP with a client up to its login (RFC 9051, 6.1 and 6.2).

use std::io::Write;

use zeroize::Zeroizing;

use crate::input::{Input, TooLong, is_http};
use crate::login::{Credentials, Encryption, Event, Login, Method, Offer, SmtpFacts};
use crate::sasl::{Exchange, Failure, Progress};

/// Maximum length of a literal in bytes; of one that is sent without being asked for, too (RFC 7888,
/// 5).
const MAX_LITERAL_BYTES: usize = 4096;

/// Maximum length of a command with its literals, in bytes.
const MAX_COMMAND_BYTES: usize = 16 * 1024;

/// Maximum number of arguments of a command.
const MAX_ARGUMENTS: usize = 64;

const INVALID: &str = "BAD invalid command";

/// A session before the login.
#[derive(Debug)]
pub struct Imap {
    offer: Offer,
    encryption: Encryption,
    salt: Vec<u8>,
    errors: u32,
    command: Command,
    /// Bytes of a literal that have not arrived.
    literal: Option<usize>,
    exchange: Option<Exchange>,
}

/// A command, as far as it has arrived.
#[derive(Debug, Default)]
struct Command {
    tag: Vec<u8>,
    arguments: Vec<Zeroizing<Vec<u8>>>,
    bytes: usize,
    has_begun: bool,
}

/// The end of a piece of a command.
enum Piece {
    /// The command is complete.
    Complete,
    /// A literal of so many bytes follows; the client waits for the permission to send it if it
    /// `is_asked_for`.
    Literal { length: usize, is_asked_for: bool },
}

/// A mistake in the form of a command.
enum Mistake {
    /// The command is answered.
    Refused,
    /// What follows cannot be told from commands.
    Lost,
}

impl Imap {
    /// Begins a session. `salt` is the challenge of CRAM-MD5.
    pub fn new(offer: Offer, encryption: Encryption, salt: Vec<u8>) -> Imap {
        Imap {
            offer,
            encryption,
            salt,
            errors: 0,
            command: Command::default(),
            literal: None,
            exchange: None,
        }
    }

    /// Writes the greeting.
    pub fn greet(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"* OK IMAP4 ready\r\n");
    }

    /// Begins anew with encryption: nothing that came before counts.
    pub fn secured(&mut self, salt: Vec<u8>) {
        self.command = Command::default();
        (self.literal, self.exchange) = (None, None);
        (self.encryption, self.salt) = (Encryption::On, salt);
    }

    /// Takes bytes of the client and writes replies, up to an event; `None` if more bytes are
    /// needed.
    pub fn step(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Option<Event> {
        loop {
            if let Some(length) = self.literal {
                if input.len() < length {
                    return None;
                }
                self.command.arguments.push(input.take(length));
                self.literal = None;
            }
            let line = match input.line() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(TooLong) => {
                    out.extend_from_slice(b"* BAD line is too long\r\n");
                    return Some(Event::Close);
                }
            };
            if is_http(&line.text) {
                return Some(Event::Close);
            }
            if let Some(exchange) = self.exchange.take() {
                let event = if line.is_clean {
                    self.respond(exchange, |exchange| exchange.respond(&line.text), out)
                } else {
                    self.fail(out)
                };
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let piece =
                if line.is_clean { self.command.read(&line.text) } else { Err(Mistake::Refused) };
            let event = match piece {
                Ok(Piece::Literal { length, is_asked_for }) => {
                    if is_asked_for {
                        out.extend_from_slice(b"+ OK\r\n");
                    }
                    self.literal = Some(length);
                    None
                }
                Ok(Piece::Complete) => self.run(out),
                Err(Mistake::Refused) => self.fail(out),
                Err(Mistake::Lost) => {
                    self.fail(out);
                    Some(Event::Close)
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Writes the reply to the last command.
    fn reply(&mut self, text: &str, out: &mut Vec<u8>) {
        let tag = if self.command.tag.is_empty() { b"*" } else { self.command.tag.as_slice() };
        out.extend_from_slice(tag);
        // Writing to memory does not fail.
        let _ = write!(out, " {text}\r\n");
        self.command = Command::default();
    }

    /// Answers a command that is a mistake.
    fn fail(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        self.errors += 1;
        self.reply(INVALID, out);
        (self.errors >= self.offer.max_errors).then_some(Event::Close)
    }

    fn run(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        let Some(name) = self.command.arguments.first() else { return self.fail(out) };
        let name = name.to_ascii_uppercase();
        let count = self.command.arguments.len() - 1;
        match (name.as_slice(), count) {
            (b"CAPABILITY", 0) => {
                out.extend_from_slice(b"* CAPABILITY");
                self.write_capabilities(out);
                out.extend_from_slice(b"\r\n");
                self.reply("OK completed", out);
            }
            (b"NOOP", 0) => self.reply("OK completed", out),
            (b"ID", _) => {
                out.extend_from_slice(b"* ID NIL\r\n");
                self.reply("OK completed", out);
            }
            (b"LOGOUT", 0) => {
                out.extend_from_slice(b"* BYE\r\n");
                self.reply("OK completed", out);
                return Some(Event::Close);
            }
            (b"STARTTLS", 0) if self.encryption.is_offered() => {
                self.reply("OK completed", out);
                return Some(Event::StartTls);
            }
            (b"LOGIN", 2) if self.encryption != Encryption::Required => {
                let [_, user, password] = &mut self.command.arguments[..] else { return None };
                let (user, password) = (std::mem::take(&mut **user), std::mem::take(password));
                let found = Credentials::new(Method::Plain, user, password);
                return match found.filter(|found| !found.user.is_empty()) {
                    Some(credentials) => Some(self.login(credentials)),
                    None => self.fail(out),
                };
            }
            (b"AUTHENTICATE", 1 | 2) if self.encryption != Encryption::Required => {
                let [_, mechanism, initial @ ..] = &self.command.arguments[..] else { return None };
                let Some(mechanism) = self.offer.mechanism(mechanism) else {
                    return self.fail(out);
                };
                let initial = initial.first().map(|response| response.as_slice());
                let (exchange, progress) = Exchange::begin(mechanism, initial, &self.salt);
                return self.respond(exchange, |_| progress, out);
            }
            _ => return self.fail(out),
        }
        None
    }

    /// Takes a response to the exchange.
    fn respond(
        &mut self,
        mut exchange: Exchange,
        read: impl FnOnce(&mut Exchange) -> Progress,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        match read(&mut exchange) {
            Progress::Challenge(challenge) => {
                let _ = write!(out, "+ {challenge}\r\n");
                self.exchange = Some(exchange);
                None
            }
            Progress::Done(credentials) => Some(self.login(credentials)),
            Progress::Failed(Failure::OtherIdentity(user)) => {
                self.reply("NO [AUTHORIZATIONFAILED] you may not act as another user", out);
                Some(Event::Refused(user))
            }
            Progress::Failed(_) => self.fail(out),
        }
    }

    fn login(&mut self, credentials: Credentials) -> Event {
        let needs_salt = credentials.method == Method::CramMd5;
        let salt = if needs_salt { self.salt.clone() } else { Vec::new() };
        let tag = std::mem::take(&mut self.command).tag;
        Event::Login(Box::new(Login { credentials, salt, tag, smtp: SmtpFacts::default() }))
    }

    fn write_capabilities(&self, out: &mut Vec<u8>) {
        self.offer.capabilities.iter().for_each(|name| {
            let _ = write!(out, " {name}");
        });
        if self.encryption != Encryption::Required {
            self.offer.mechanisms().for_each(|name| {
                let _ = write!(out, " AUTH={name}");
            });
        }
        if self.encryption.is_offered() {
            out.extend_from_slice(b" STARTTLS");
        }
        if self.encryption == Encryption::Required {
            out.extend_from_slice(b" LOGINDISABLED");
        }
    }
}

impl Command {
    /// Takes a line of the command.
    fn read(&mut self, line: &[u8]) -> Result<Piece, Mistake> {
        self.bytes += line.len();
        let mut rest = line;
        if !std::mem::replace(&mut self.has_begun, true) {
            let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
            let (tag, after) = rest.split_at(end);
            if tag.is_empty() || !tag.iter().all(is_tag_char) {
                return Err(Mistake::Refused);
            }
            self.tag = tag.to_vec();
            rest = after;
        }
        if self.bytes > MAX_COMMAND_BYTES {
            return Err(Mistake::Lost);
        }
        loop {
            // Parentheses are only those of `ID`, whose content does not matter.
            let start = rest.iter().position(|byte| !matches!(byte, b' ' | b'(' | b')'));
            let Some((first, more)) = start.and_then(|start| rest[start..].split_first()) else {
                return Ok(Piece::Complete);
            };
            if self.arguments.len() >= MAX_ARGUMENTS {
                return Err(Mistake::Refused);
            }
            rest = match first {
                b'"' => self.quoted(more)?,
                b'{' => return self.literal(more),
                _ => {
                    let whole = &rest[start.unwrap_or_default()..];
                    let end = whole.iter().position(|byte| matches!(byte, b' ' | b'(' | b')'));
                    let (atom, after) = whole.split_at(end.unwrap_or(whole.len()));
                    if atom
                        .iter()
                        .any(|byte| *byte < b' ' || matches!(byte, 0x7f | b'"' | b'\\' | b'{'))
                    {
                        return Err(Mistake::Refused);
                    }
                    self.arguments.push(Zeroizing::new(atom.to_vec()));
                    after
                }
            };
            if rest.first().is_some_and(|byte| !matches!(byte, b' ' | b'(' | b')')) {
                return Err(Mistake::Refused);
            }
        }
    }

    /// Takes a quoted string. Returns the rest of the line.
    fn quoted<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], Mistake> {
        let mut content = Zeroizing::new(Vec::with_capacity(text.len()));
        let mut bytes = text.iter();
        loop {
            match bytes.next() {
                Some(b'"') => break,
                Some(b'\\') => match bytes.next() {
                    Some(escaped @ (b'"' | b'\\')) => content.push(*escaped),
                    _ => return Err(Mistake::Refused),
                },
                Some(byte) => content.push(*byte),
                None => return Err(Mistake::Refused),
            }
        }
        self.arguments.push(content);
        Ok(bytes.as_slice())
    }

    /// Reads the length of a literal, which ends the line.
    fn literal(&mut self, text: &[u8]) -> Result<Piece, Mistake> {
        let text = text.strip_suffix(b"}").ok_or(Mistake::Refused)?;
        let (digits, is_asked_for) = match text.strip_suffix(b"+") {
            Some(digits) => (digits, false),
            None => (text, true),
        };
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(digits).ok().filter(|_| is_number && digits.len() <= 10);
        // A client that does not wait sends it in any case.
        let mistake = || if is_asked_for { Mistake::Refused } else { Mistake::Lost };
        let length: usize = length.and_then(|text| text.parse().ok()).ok_or_else(mistake)?;
        self.bytes = self.bytes.saturating_add(length);
        if length > MAX_LITERAL_BYTES || self.bytes > MAX_COMMAND_BYTES {
            return Err(mistake());
        }
        Ok(Piece::Literal { length, is_asked_for })
    }
}

/// Returns true for characters of tags (RFC 9051, 9: `tag`).
fn is_tag_char(byte: &u8) -> bool {
    byte.is_ascii_graphic()
        && !matches!(byte, b'(' | b')' | b'{' | b'%' | b'*' | b'"' | b'\\' | b'+')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(encryption: Encryption) -> Imap {
        let offer = Offer {
            methods: vec![Method::Plain, Method::CramMd5],
            capabilities: vec!["IMAP4rev1".to_owned(), "UIDPLUS".to_owned()],
            server_name: "mx.test".to_owned(),
            max_errors: 3,
        };
        Imap::new(offer, encryption, b"<1.2@mx.test>".to_vec())
    }

    /// Sends text, and returns the replies and the event.
    fn send(session: &mut Imap, text: &str) -> (String, Option<Event>) {
        let (mut input, mut out, mut event) = (Input::default(), Vec::new(), None);
        for byte in text.bytes() {
            input.push(&[byte]);
            if let Some(found) = session.step(&mut input, &mut out) {
                event = Some(found);
                break;
            }
        }
        (String::from_utf8(out).unwrap(), event)
    }

    fn login(text: &str) -> (String, Vec<u8>, String, String) {
        let (out, event) = send(&mut session(Encryption::None), text);
        let Some(Event::Login(login)) = event else { panic!("{out} {event:?}") };
        let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let Credentials { user, password, .. } = &login.credentials;
        (out, login.tag.clone(), string(user), string(password))
    }

    #[test]
    fn a_login_has_atoms_quoted_strings_and_literals() {
        let expected = |out: &str, tag: &str| {
            (out.to_owned(), tag.as_bytes().to_vec(), "me".to_owned(), "s \"x\"".to_owned())
        };
        assert_eq!(login("a LOGIN me \"s \\\"x\\\"\"\r\n"), expected("", "a"));
        let text = "a/:$.1 login \"me\" {5}\r\ns \"x\"\r\n";
        assert_eq!(login(text), expected("+ OK\r\n", "a/:$.1"));
        let text = "a LOGIN {2}\r\nme {5}\r\ns \"x\"\r\n";
        assert_eq!(login(text), expected("+ OK\r\n+ OK\r\n", "a"));
        let text = "a LOGIN {2+}\r\nme {5+}\r\ns \"x\"\r\n";
        assert_eq!(login(text), expected("", "a"));
        let tag = "t".repeat(100);
        let text = format!("{tag} LOGIN me {{5}}\r\ns \"x\"\r\n");
        assert_eq!(login(&text), expected("+ OK\r\n", &tag));
    }

    #[test]
    fn sasl_begins_with_and_without_an_initial_response() {
        let plain = "AG1lAHNlY3JldA==";
        let expected =
            |out: &str| (out.to_owned(), b"a".to_vec(), "me".to_owned(), "secret".to_owned());
        assert_eq!(login(&format!("a AUTHENTICATE plain {plain}\r\n")), expected(""));
        assert_eq!(login(&format!("a AUTHENTICATE PLAIN\r\n{plain}\r\n")), expected("+ \r\n"));
        let text = "a AUTHENTICATE LOGIN\r\nbWU=\r\nc2VjcmV0\r\n";
        assert_eq!(login(text), expected("+ VXNlcm5hbWU6\r\n+ UGFzc3dvcmQ6\r\n"));
        let mut session = session(Encryption::None);
        let (out, event) = send(&mut session, "a AUTHENTICATE PLAIN\r\n*\r\nb NOOP\r\n");
        assert_eq!(out, "+ \r\na BAD invalid command\r\nb OK completed\r\n");
        assert!(event.is_none());
        let (out, event) = send(&mut session, "a AUTHENTICATE PLAIN eW91AG1lAHg=\r\n");
        assert_eq!(out, "a NO [AUTHORIZATIONFAILED] you may not act as another user\r\n");
        assert!(matches!(event, Some(Event::Refused(user)) if user == b"me"));
        let (out, _) = send(&mut session, "a AUTHENTICATE CRAM-MD5\r\n");
        assert_eq!(out, "+ PDEuMkBteC50ZXN0Pg==\r\n");
    }

    #[test]
    fn commands_before_the_login_are_answered() {
        let mut optional = session(Encryption::Optional);
        let (out, _) = send(&mut optional, "1 CAPABILITY\r\n2 NOOP\r\n3 ID (\"name\" \"x\")\r\n");
        assert_eq!(
            out,
            "* CAPABILITY IMAP4rev1 UIDPLUS AUTH=PLAIN AUTH=CRAM-MD5 STARTTLS\r\n1 OK completed\r\n\
             2 OK completed\r\n* ID NIL\r\n3 OK completed\r\n"
        );
        let (out, event) = send(&mut optional, "4 STARTTLS\r\n");
        assert!(out == "4 OK completed\r\n" && matches!(event, Some(Event::StartTls)));
        optional.secured(Vec::new());
        let (out, _) = send(&mut optional, "5 CAPABILITY\r\n6 STARTTLS\r\n");
        assert_eq!(
            out,
            "* CAPABILITY IMAP4rev1 UIDPLUS AUTH=PLAIN AUTH=CRAM-MD5\r\n5 OK completed\r\n\
             6 BAD invalid command\r\n"
        );
        let (out, event) = send(&mut optional, "7 LOGOUT\r\n");
        assert_eq!(out, "* BYE\r\n7 OK completed\r\n");
        assert!(matches!(event, Some(Event::Close)));
    }

    #[test]
    fn nothing_is_asked_before_the_encryption_that_is_required() {
        let mut required = session(Encryption::Required);
        let (out, event) = send(
            &mut required,
            "1 CAPABILITY\r\n2 LOGIN a b\r\n3 AUTHENTICATE PLAIN AG1lAHNlY3JldA==\r\n",
        );
        assert_eq!(
            out,
            "* CAPABILITY IMAP4rev1 UIDPLUS STARTTLS LOGINDISABLED\r\n1 OK completed\r\n\
             2 BAD invalid command\r\n3 BAD invalid command\r\n"
        );
        assert!(event.is_none());
    }

    #[test]
    fn mistakes_are_counted_and_what_cannot_be_read_ends_the_session() {
        let mut counted = session(Encryption::None);
        let (out, event) = send(&mut counted, "a FETCH\r\nb\r\n* x\r\nc NOOP\r\n");
        assert_eq!(
            out,
            "a BAD invalid command\r\nb BAD invalid command\r\n* BAD invalid command\r\n"
        );
        assert!(matches!(event, Some(Event::Close)));
        for (text, expected) in [
            ("a LOGIN {2000000000}\r\n", false),
            ("a LOGIN {-1}\r\n", false),
            ("a LOGIN {99999999999999999999}\r\n", false),
            ("a LOGIN {5000+}\r\n", true),
            ("a LOGIN me {2}\r\nab{3}\r\n", false),
            ("a LOGIN \"me\r\n", false),
            ("a LOGIN me \"x\"y\r\n", false),
            ("a LOGIN me x\n", false),
            ("GET / HTTP/1.1\r\n", true),
        ] {
            let (out, event) = send(&mut session(Encryption::None), text);
            assert_eq!(matches!(event, Some(Event::Close)), expected, "{text} {out}");
            assert!(!out.contains("OK completed"), "{text} {out}");
        }
    }

    #[test]
    fn names_and_passwords_that_begin_further_lines_are_refused() {
        for text in
            ["a LOGIN {4}\r\nm\r\ne x\r\n", "a LOGIN me {3}\r\n\r\nx\r\n", "a LOGIN \"\" x\r\n"]
        {
            let (out, event) = send(&mut session(Encryption::None), text);
            assert!(event.is_none() && out.ends_with("BAD invalid command\r\n"), "{out}");
        }
    }
}
