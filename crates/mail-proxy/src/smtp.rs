//! SMTP with a client up to its login (RFC 5321, RFC 4954, RFC 3207), or, for clients that do not log
//! in, up to the first recipient.

use std::io::Write;

use zeroize::Zeroizing;

use crate::input::{Input, TooLong, is_http};
use crate::login::{Credentials, Encryption, Event, Login, Method, Offer, SmtpFacts};
use crate::sasl::{Exchange, Failure, Progress};

const INVALID_COMMAND: &str = "500 5.5.1 Invalid command";
const INVALID_ARGUMENT: &str = "501 5.5.4 Invalid argument";
const BAD_SEQUENCE: &str = "503 5.5.1 Bad sequence of commands";
const NO_LOGIN: &str = "530 5.7.1 Authentication required";
const NO_TLS: &str = "530 5.7.0 Must issue a STARTTLS command first";

/// A session before the login.
#[derive(Debug)]
pub struct Smtp {
    offer: Offer,
    encryption: Encryption,
    salt: Vec<u8>,
    errors: u32,
    facts: SmtpFacts,
    exchange: Option<Exchange>,
}

impl Smtp {
    /// Begins a session. `salt` is the challenge of CRAM-MD5.
    pub fn new(offer: Offer, encryption: Encryption, salt: Vec<u8>) -> Smtp {
        Smtp { offer, encryption, salt, errors: 0, facts: SmtpFacts::default(), exchange: None }
    }

    /// Writes the greeting.
    pub fn greet(&self, out: &mut Vec<u8>) {
        reply(out, &format!("220 {} ESMTP ready", self.offer.server_name));
    }

    /// Begins anew with encryption: nothing that came before counts (RFC 3207, 4.2).
    pub fn secured(&mut self, salt: Vec<u8>) {
        (self.facts, self.exchange) = (SmtpFacts::default(), None);
        (self.encryption, self.salt) = (Encryption::On, salt);
    }

    /// Takes bytes of the client and writes replies, up to an event; `None` if more bytes are
    /// needed.
    pub fn step(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Option<Event> {
        loop {
            let line = match input.line() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(TooLong) => {
                    reply(out, "500 5.5.2 Line is too long");
                    return Some(Event::Close);
                }
            };
            if is_http(&line.text) {
                return Some(Event::Close);
            }
            let event = match self.exchange.take() {
                _ if !line.is_clean => self.fail(INVALID_COMMAND, out),
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
    fn fail(&mut self, text: &str, out: &mut Vec<u8>) -> Option<Event> {
        self.errors += 1;
        reply(out, text);
        (self.errors >= self.offer.max_errors).then_some(Event::Close)
    }

    fn takes_mail(&self) -> bool {
        self.offer.methods.contains(&Method::None)
    }

    fn run(&mut self, line: &[u8], out: &mut Vec<u8>) -> Option<Event> {
        let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (name, argument) = line.split_at(end);
        let argument = argument.trim_ascii();
        let is_required = self.encryption == Encryption::Required;
        match name.to_ascii_uppercase().as_slice() {
            name @ (b"HELO" | b"EHLO") => {
                if argument.is_empty() || argument.contains(&b' ') || has_control(argument) {
                    return self.fail(INVALID_ARGUMENT, out);
                }
                let is_esmtp = name == b"EHLO";
                let helo = argument.to_vec();
                self.facts = SmtpFacts { helo, is_esmtp, ..SmtpFacts::default() };
                if is_esmtp {
                    self.write_capabilities(out)
                } else {
                    reply(out, &format!("250 {}", self.offer.server_name))
                }
            }
            b"NOOP" => reply(out, "250 2.0.0 OK"),
            b"RSET" => {
                (self.facts.from, self.facts.to) = (Vec::new(), Vec::new());
                reply(out, "250 2.0.0 OK");
            }
            b"QUIT" => {
                reply(out, "221 2.0.0 Bye");
                return Some(Event::Close);
            }
            b"STARTTLS" if self.encryption.is_offered() => {
                if !argument.is_empty() {
                    return self.fail(INVALID_ARGUMENT, out);
                }
                reply(out, "220 2.0.0 Start TLS");
                return Some(Event::StartTls);
            }
            b"AUTH" if is_required => return self.fail(NO_TLS, out),
            b"AUTH" => return self.auth(argument, out),
            b"MAIL" | b"RCPT" if is_required => return self.fail(NO_TLS, out),
            b"MAIL" if self.takes_mail() => {
                // Whether a greeting is needed is the server's to decide.
                if !self.facts.from.is_empty() {
                    return self.fail(BAD_SEQUENCE, out);
                }
                if !is_path(argument, b"FROM:") {
                    return self.fail(INVALID_ARGUMENT, out);
                }
                self.facts.from = line.to_vec();
                reply(out, "250 2.0.0 OK");
            }
            b"RCPT" if self.takes_mail() => {
                if self.facts.from.is_empty() {
                    return self.fail(BAD_SEQUENCE, out);
                }
                if !is_path(argument, b"TO:") {
                    return self.fail(INVALID_ARGUMENT, out);
                }
                self.facts.to = line.to_vec();
                let none = Credentials::new(Method::None, Vec::new(), Zeroizing::default());
                return none.map(|credentials| self.login(credentials));
            }
            b"MAIL" => return self.fail(NO_LOGIN, out),
            b"RCPT" | b"DATA" => return self.fail(BAD_SEQUENCE, out),
            _ => return self.fail(INVALID_COMMAND, out),
        }
        None
    }

    fn auth(&mut self, argument: &[u8], out: &mut Vec<u8>) -> Option<Event> {
        if argument.is_empty() {
            return self.fail(INVALID_ARGUMENT, out);
        }
        let mut words = argument.splitn(2, |byte| *byte == b' ');
        match self.offer.mechanism(words.next().unwrap_or_default()) {
            None if self.offer.mechanisms().next().is_none() => self.fail(INVALID_COMMAND, out),
            None => self.fail("504 5.5.4 Mechanism is not offered", out),
            Some(mechanism) => {
                let (exchange, progress) = Exchange::begin(mechanism, words.next(), &self.salt);
                self.respond(exchange, |_| progress, out)
            }
        }
    }

    fn respond(
        &mut self,
        mut exchange: Exchange,
        read: impl FnOnce(&mut Exchange) -> Progress,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        match read(&mut exchange) {
            Progress::Challenge(challenge) => {
                reply(out, &format!("334 {challenge}"));
                self.exchange = Some(exchange);
                None
            }
            Progress::Done(credentials) => Some(self.login(credentials)),
            Progress::Failed(Failure::OtherIdentity(user)) => {
                reply(out, "535 5.7.8 You may not act as another user");
                Some(Event::Refused(user))
            }
            Progress::Failed(Failure::Cancelled) => self.fail("501 5.7.0 Cancelled", out),
            Progress::Failed(Failure::Malformed) => {
                self.fail("501 5.5.2 Cannot decode the response", out)
            }
        }
    }

    fn login(&mut self, credentials: Credentials) -> Event {
        let needs_salt = credentials.method == Method::CramMd5;
        let salt = if needs_salt { self.salt.clone() } else { Vec::new() };
        let (tag, smtp) = (Vec::new(), self.facts.clone());
        Event::Login(Box::new(Login { credentials, salt, tag, smtp }))
    }

    fn write_capabilities(&self, out: &mut Vec<u8>) {
        let mut lines = vec![self.offer.server_name.clone()];
        lines.extend_from_slice(&self.offer.capabilities);
        let mechanisms: Vec<_> = self.offer.mechanisms().collect();
        if self.encryption != Encryption::Required && !mechanisms.is_empty() {
            lines.push(format!("AUTH {}", mechanisms.join(" ")));
        }
        if self.encryption.is_offered() {
            lines.push("STARTTLS".to_owned());
        }
        let last = lines.len() - 1;
        for (index, line) in lines.iter().enumerate() {
            // Writing to memory does not fail.
            let _ = write!(out, "250{}{line}\r\n", if index == last { ' ' } else { '-' });
        }
    }
}

fn reply(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn has_control(text: &[u8]) -> bool {
    text.iter().any(|byte| *byte < b' ' || *byte == 0x7f)
}

/// Returns true for an argument of `MAIL` or `RCPT`.
fn is_path(argument: &[u8], prefix: &[u8]) -> bool {
    argument.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        && argument.len() > prefix.len()
        && !has_control(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(encryption: Encryption, methods: &[Method]) -> Smtp {
        let offer = Offer {
            methods: methods.to_vec(),
            capabilities: vec!["SIZE 1000".to_owned()],
            server_name: "mx.test".to_owned(),
            max_errors: 4,
        };
        Smtp::new(offer, encryption, b"<1.2@mx.test>".to_vec())
    }

    fn send(session: &mut Smtp, text: &str) -> (String, Option<Event>) {
        let (mut input, mut out) = (Input::default(), Vec::new());
        input.push(text.as_bytes());
        let event = session.step(&mut input, &mut out);
        (String::from_utf8(out).unwrap(), event)
    }

    #[test]
    fn clients_log_in_by_sasl() {
        let mut session = session(Encryption::None, &[Method::Plain, Method::Login]);
        let mut out = Vec::new();
        session.greet(&mut out);
        assert_eq!(out, b"220 mx.test ESMTP ready\r\n");
        let (out, event) = send(&mut session, "EHLO me\r\nAUTH PLAIN AG1lAHNlY3JldA==\r\n");
        assert_eq!(out, "250-mx.test\r\n250-SIZE 1000\r\n250 AUTH PLAIN LOGIN\r\n");
        let Some(Event::Login(login)) = event else { panic!("{event:?}") };
        assert_eq!(
            (&*login.credentials.user, &**login.credentials.password),
            (&b"me"[..], &b"secret"[..])
        );
        assert!(login.smtp.helo == b"me" && login.smtp.is_esmtp);
        let (out, event) = send(&mut session, "AUTH LOGIN\r\nbWU=\r\nc2VjcmV0\r\n");
        assert_eq!(out, "334 VXNlcm5hbWU6\r\n334 UGFzc3dvcmQ6\r\n");
        assert!(matches!(event, Some(Event::Login(_))));
        let (out, event) =
            send(&mut session, "AUTH PLAIN\r\n*\r\nAUTH PLAIN\r\n!\r\nMAIL FROM:<a>\r\n");
        assert_eq!(
            out,
            "334 \r\n501 5.7.0 Cancelled\r\n334 \r\n501 5.5.2 Cannot decode the response\r\n\
             530 5.7.1 Authentication required\r\n"
        );
        assert!(event.is_none());
    }

    #[test]
    fn mail_without_a_login_is_decided_at_its_first_recipient() {
        let mut session = session(Encryption::Optional, &[Method::None]);
        let (out, event) = send(
            &mut session,
            "RCPT TO:<b>\r\nEHLO me\r\nMAIL FROM:<a> SIZE=5\r\nRSET\r\nMAIL FROM:<c>\r\nRCPT TO:<b>\r\n",
        );
        assert_eq!(
            out,
            "503 5.5.1 Bad sequence of commands\r\n250-mx.test\r\n250-SIZE 1000\r\n250 STARTTLS\r\n\
             250 2.0.0 OK\r\n250 2.0.0 OK\r\n250 2.0.0 OK\r\n"
        );
        let Some(Event::Login(login)) = event else { panic!("{event:?}") };
        assert_eq!(login.credentials.method, Method::None);
        assert_eq!(
            (&*login.smtp.from, &*login.smtp.to),
            (&b"MAIL FROM:<c>"[..], &b"RCPT TO:<b>"[..])
        );
        let (out, _) = send(&mut session, "AUTH PLAIN AG1lAHNlY3JldA==\r\n");
        assert_eq!(out, "500 5.5.1 Invalid command\r\n");
    }

    #[test]
    fn encryption_that_is_required_comes_before_mail_and_login() {
        let mut session = session(Encryption::Required, &[Method::None, Method::Plain]);
        let (out, event) = send(
            &mut session,
            "EHLO me\r\nMAIL FROM:<a>\r\nAUTH PLAIN AG1lAHNlY3JldA==\r\nSTARTTLS\r\n",
        );
        assert_eq!(
            out,
            "250-mx.test\r\n250-SIZE 1000\r\n250 STARTTLS\r\n\
             530 5.7.0 Must issue a STARTTLS command first\r\n\
             530 5.7.0 Must issue a STARTTLS command first\r\n220 2.0.0 Start TLS\r\n"
        );
        assert!(matches!(event, Some(Event::StartTls)));
        session.secured(Vec::new());
        assert_eq!(session.facts, SmtpFacts::default(), "EHLO is forgotten");
    }

    #[test]
    fn what_is_no_command_is_refused_and_ends_the_session() {
        let mut session = session(Encryption::None, &[Method::Plain]);
        let (out, event) = send(&mut session, "EHLO a\nEHLO\r\nEHLO a b\r\nX\r\nNOOP\r\n");
        assert_eq!(out.matches("\r\n").count(), 4, "{out}");
        assert!(matches!(event, Some(Event::Close)));
        let (out, event) = send(&mut session, "POST / HTTP/1.1\r\n");
        assert!(out.is_empty() && matches!(event, Some(Event::Close)));
    }
}
