//! POP3 with a client up to its login (RFC 1939, RFC 2449, RFC 5034).

use std::io::Write;

use zeroize::Zeroizing;

use crate::input::{Input, TooLong, is_http};
use crate::login::{Credentials, Encryption, Event, Login, Method, Offer, SmtpFacts};
use crate::sasl::{Exchange, Failure, Progress};

const INVALID: &[u8] = b"-ERR invalid command\r\n";

/// A session before the login.
#[derive(Debug)]
pub struct Pop3 {
    offer: Offer,
    encryption: Encryption,
    salt: Vec<u8>,
    errors: u32,
    /// Name of a command `USER`.
    user: Option<Vec<u8>>,
    exchange: Option<Exchange>,
}

impl Pop3 {
    /// Begins a session. `salt` is the challenge of APOP and CRAM-MD5.
    pub fn new(offer: Offer, encryption: Encryption, salt: Vec<u8>) -> Pop3 {
        Pop3 { offer, encryption, salt, errors: 0, user: None, exchange: None }
    }

    /// Writes the greeting.
    pub fn greet(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"+OK POP3 ready");
        if self.offer.methods.iter().any(|one| matches!(one, Method::Apop | Method::CramMd5)) {
            out.push(b' ');
            out.extend_from_slice(&self.salt);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Begins anew with encryption: nothing that came before counts. The challenge of APOP stays, as
    /// there is no further greeting.
    pub fn secured(&mut self) {
        (self.user, self.exchange, self.encryption) = (None, None, Encryption::On);
    }

    /// Takes bytes of the client and writes replies, up to an event; `None` if more bytes are
    /// needed.
    pub fn step(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Option<Event> {
        loop {
            let line = match input.line() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(TooLong) => {
                    out.extend_from_slice(b"-ERR line is too long\r\n");
                    return Some(Event::Close);
                }
            };
            if is_http(&line.text) {
                return Some(Event::Close);
            }
            let event = match self.exchange.take() {
                _ if !line.is_clean => self.fail(out),
                Some(exchange) => {
                    self.respond(exchange, |exchange| exchange.respond(&line.text), out)
                }
                None => self.run(&line.text, out),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Answers a command that is a mistake.
    fn fail(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        self.errors += 1;
        self.user = None;
        out.extend_from_slice(INVALID);
        (self.errors >= self.offer.max_errors).then_some(Event::Close)
    }

    fn run(&mut self, line: &[u8], out: &mut Vec<u8>) -> Option<Event> {
        let mut words = line.splitn(2, |byte| *byte == b' ');
        let name = words.next().unwrap_or_default().to_ascii_uppercase();
        let argument = words.next();
        let may_log_in = self.encryption != Encryption::Required;
        match (name.as_slice(), argument) {
            (b"CAPA", None) => self.write_capabilities(out),
            (b"NOOP", None) => out.extend_from_slice(b"+OK\r\n"),
            (b"QUIT", None) => {
                out.extend_from_slice(b"+OK\r\n");
                return Some(Event::Close);
            }
            (b"STLS", None) if self.encryption.is_offered() && self.user.is_none() => {
                out.extend_from_slice(b"+OK\r\n");
                return Some(Event::StartTls);
            }
            (b"USER", Some(user)) if may_log_in && !user.is_empty() => {
                self.user = Some(user.to_vec());
                out.extend_from_slice(b"+OK\r\n");
            }
            // A password may have spaces (RFC 1939, 7).
            (b"PASS", Some(password)) => {
                let password = Zeroizing::new(password.to_vec());
                let user = self.user.take();
                let found = user.and_then(|user| Credentials::new(Method::Plain, user, password));
                return match found {
                    Some(credentials) => Some(self.login(credentials)),
                    None => self.fail(out),
                };
            }
            (b"APOP", Some(argument)) if may_log_in => {
                let is_offered = self.offer.methods.contains(&Method::Apop);
                let at = argument.iter().rposition(|byte| *byte == b' ').filter(|_| is_offered);
                let found = at.and_then(|at| {
                    let (user, digest) = argument.split_at(at);
                    let digest = digest.get(1..).filter(|digest| {
                        digest.len() == 32 && digest.iter().all(u8::is_ascii_hexdigit)
                    })?;
                    let digest = Zeroizing::new(digest.to_vec());
                    Credentials::new(Method::Apop, user.to_vec(), digest)
                });
                return match found.filter(|found| !found.user.is_empty()) {
                    Some(credentials) => Some(self.login(credentials)),
                    None => self.fail(out),
                };
            }
            (b"AUTH", None) if may_log_in => {
                out.extend_from_slice(b"+OK methods supported:\r\n");
                self.mechanisms().iter().for_each(|name| {
                    let _ = write!(out, "{name}\r\n");
                });
                out.extend_from_slice(b".\r\n");
            }
            (b"AUTH", Some(argument)) if may_log_in => {
                let mut words = argument.splitn(2, |byte| *byte == b' ');
                let mechanism = self.offer.mechanism(words.next().unwrap_or_default());
                let Some(mechanism) = mechanism else { return self.fail(out) };
                let (exchange, progress) = Exchange::begin(mechanism, words.next(), &self.salt);
                return self.respond(exchange, |_| progress, out);
            }
            _ => return self.fail(out),
        }
        None
    }

    fn respond(
        &mut self,
        mut exchange: Exchange,
        read: impl FnOnce(&mut Exchange) -> Progress,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        match read(&mut exchange) {
            Progress::Challenge(challenge) => {
                // Writing to memory does not fail.
                let _ = write!(out, "+ {challenge}\r\n");
                self.exchange = Some(exchange);
                None
            }
            Progress::Done(credentials) => Some(self.login(credentials)),
            Progress::Failed(Failure::OtherIdentity(user)) => {
                out.extend_from_slice(b"-ERR [AUTH] you may not act as another user\r\n");
                Some(Event::Refused(user))
            }
            Progress::Failed(_) => self.fail(out),
        }
    }

    fn login(&mut self, credentials: Credentials) -> Event {
        let needs_salt = matches!(credentials.method, Method::Apop | Method::CramMd5);
        let salt = if needs_salt { self.salt.clone() } else { Vec::new() };
        let (tag, smtp) = (Vec::new(), SmtpFacts::default());
        Event::Login(Box::new(Login { credentials, salt, tag, smtp }))
    }

    /// Returns the mechanisms that are announced. As in nginx, `LOGIN` is beside `PLAIN`.
    fn mechanisms(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.offer.mechanisms().collect();
        if let Some(at) = names.iter().position(|name| *name == "PLAIN")
            && !names.contains(&"LOGIN")
        {
            names.insert(at + 1, "LOGIN");
        }
        names
    }

    fn write_capabilities(&self, out: &mut Vec<u8>) {
        let is_required = self.encryption == Encryption::Required;
        out.extend_from_slice(b"+OK Capability list follows\r\n");
        let usable = self.offer.capabilities.iter().filter(|name| !is_required || *name != "USER");
        usable.for_each(|name| {
            let _ = write!(out, "{name}\r\n");
        });
        let mechanisms = self.mechanisms();
        if !is_required && !mechanisms.is_empty() {
            let _ = write!(out, "SASL {}\r\n", mechanisms.join(" "));
        }
        if self.encryption.is_offered() {
            out.extend_from_slice(b"STLS\r\n");
        }
        out.extend_from_slice(b".\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(encryption: Encryption, methods: &[Method]) -> Pop3 {
        let offer = Offer {
            methods: methods.to_vec(),
            capabilities: vec!["TOP".to_owned(), "USER".to_owned()],
            server_name: "mx.test".to_owned(),
            max_errors: 3,
        };
        Pop3::new(offer, encryption, b"<1.2@mx.test>".to_vec())
    }

    fn send(session: &mut Pop3, text: &str) -> (String, Option<Event>) {
        let (mut input, mut out) = (Input::default(), Vec::new());
        input.push(text.as_bytes());
        let event = session.step(&mut input, &mut out);
        (String::from_utf8(out).unwrap(), event)
    }

    fn login(session: &mut Pop3, text: &str) -> (String, String, String) {
        let (out, event) = send(session, text);
        let Some(Event::Login(login)) = event else { panic!("{out} {event:?}") };
        let string = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (out, string(&login.credentials.user), string(&login.credentials.password))
    }

    #[test]
    fn clients_log_in_by_user_and_pass_by_apop_and_by_sasl() {
        let methods = [Method::Plain, Method::Apop];
        let mut session = session(Encryption::None, &methods);
        let mut out = Vec::new();
        session.greet(&mut out);
        assert_eq!(out, b"+OK POP3 ready <1.2@mx.test>\r\n");
        let expected =
            |out: &str, password: &str| (out.to_owned(), "me".to_owned(), password.to_owned());
        let found = login(&mut session, "USER me\r\nPASS se cret \r\n");
        assert_eq!(found, expected("+OK\r\n", "se cret "));
        let digest = "0123456789abcdef0123456789abcdef";
        let found = login(&mut session, &format!("apop me {digest}\r\n"));
        assert_eq!(found, expected("", digest));
        let found = login(&mut session, "AUTH PLAIN\r\nAG1lAHNlY3JldA==\r\n");
        assert_eq!(found, expected("+ \r\n", "secret"));
        let found = login(&mut session, "AUTH LOGIN bWU=\r\nc2VjcmV0\r\n");
        assert_eq!(found, expected("+ UGFzc3dvcmQ6\r\n", "secret"));
    }

    #[test]
    fn capabilities_depend_on_the_encryption() {
        let mut optional = session(Encryption::Optional, &[Method::Plain]);
        let (out, _) = send(&mut optional, "CAPA\r\nAUTH\r\n");
        assert_eq!(
            out,
            "+OK Capability list follows\r\nTOP\r\nUSER\r\nSASL PLAIN LOGIN\r\nSTLS\r\n.\r\n\
             +OK methods supported:\r\nPLAIN\r\nLOGIN\r\n.\r\n"
        );
        let mut required = session(Encryption::Required, &[Method::Plain]);
        let (out, _) = send(&mut required, "CAPA\r\nUSER me\r\nAUTH PLAIN AG1lAHNlY3JldA==\r\n");
        assert_eq!(
            out,
            "+OK Capability list follows\r\nTOP\r\nSTLS\r\n.\r\n-ERR invalid command\r\n\
             -ERR invalid command\r\n"
        );
        let (out, event) = send(&mut required, "STLS\r\n");
        assert!(out == "+OK\r\n" && matches!(event, Some(Event::StartTls)));
        required.secured();
        let (out, _) = send(&mut required, "CAPA\r\n");
        assert_eq!(out, "+OK Capability list follows\r\nTOP\r\nUSER\r\nSASL PLAIN LOGIN\r\n.\r\n");
    }

    #[test]
    fn a_password_needs_a_name_that_came_in_the_same_encryption() {
        let mut session = session(Encryption::Optional, &[Method::Plain]);
        let (out, event) = send(&mut session, "PASS x\r\n");
        assert!(out == "-ERR invalid command\r\n" && event.is_none());
        let (out, _) = send(&mut session, "USER me\r\n");
        assert_eq!(out, "+OK\r\n");
        session.secured();
        let (out, event) = send(&mut session, "PASS x\r\nNOOP\r\nQUIT\r\n");
        assert_eq!(out, "-ERR invalid command\r\n+OK\r\n+OK\r\n");
        assert!(matches!(event, Some(Event::Close)));
    }
}
