//! Questions to an authentication server in nginx's protocol (`auth_http`), and its answers.

use std::fmt::Write;
use std::time::Duration;

use howdah_http::handshake::Handshake;
use zeroize::Zeroizing;

use crate::login::{Login, Method, Protocol};

/// Maximum length of the head of an answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Maximum time for which an answer can have a client wait.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Minimum time before the question is asked again.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// What the server is asked about.
#[derive(Debug)]
pub struct Question<'a> {
    /// Fields of the configuration.
    pub headers: &'a [(String, String)],
    /// The client's protocol.
    pub protocol: Protocol,
    /// The login.
    pub login: &'a Login,
    /// Its number in the session, from 1.
    pub attempt: u32,
    /// Address of the client.
    pub client: &'a str,
    /// Name of the client; `None` if it has none, or none was looked up.
    pub client_name: Option<&'a str>,
    /// Addresses and ports of the client and of this server, as a balancer has named them.
    pub proxied: Option<(std::net::SocketAddr, std::net::SocketAddr)>,
    /// Facts about the client's handshake; `None` without TLS.
    pub handshake: Option<&'a Handshake>,
}

/// What the server has decided.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The client may log in at this server.
    Pass {
        /// Address, or the name of a host.
        server: String,
        /// Port.
        port: u16,
        /// Name at the server, if it is another.
        user: Option<Vec<u8>>,
        /// Password at the server, if it is another.
        password: Option<Zeroizing<Vec<u8>>>,
    },
    /// The question is asked again after this time.
    Again(Duration),
    /// The login is refused.
    Refused {
        /// Reason for the client.
        text: String,
        /// Code of SMTP; `None` for the usual one.
        code: Option<String>,
        /// Time after which the client is answered and may try again; without it, the session ends.
        wait: Option<Duration>,
    },
}

impl Question<'_> {
    /// Returns the request to a server, for this path and query, with the field `Host`. It has the
    /// password.
    pub fn request(&self, target: &str, host: &str) -> Zeroizing<String> {
        let password = &self.login.credentials.password;
        let mut text = Zeroizing::new(String::with_capacity(2048 + 3 * password.len()));
        // Writing to memory does not fail.
        let _ = write!(text, "GET {target} HTTP/1.0\r\nHost: {host}\r\n");
        self.fields(&mut |name, value| {
            let _ = write!(text, "{name}: {value}\r\n");
        });
        text.push_str("\r\n");
        text
    }

    /// Calls `add` for each field of the request but `Host`. No value has control characters.
    pub fn fields(&self, add: &mut dyn FnMut(&str, &str)) {
        let Question { login, protocol, .. } = self;
        let credentials = &login.credentials;
        let method = match credentials.method {
            Method::Login => Method::Plain,
            method => method,
        };
        add("Auth-Method", method.name());
        if method != Method::None {
            add("Auth-User", &escaped(&credentials.user));
            add("Auth-Pass", &escaped(&credentials.password));
        }
        if !login.salt.is_empty() {
            add("Auth-Salt", &printable(&login.salt));
        }
        add("Auth-Protocol", protocol.name());
        add("Auth-Login-Attempt", &self.attempt.to_string());
        add("Client-IP", self.client);
        if *protocol == Protocol::Smtp {
            add("Client-Host", self.client_name.unwrap_or("[UNAVAILABLE]"));
        }
        if let Some((client, server)) = self.proxied {
            add("Proxy-Protocol-Addr", &client.ip().to_string());
            add("Proxy-Protocol-Port", &client.port().to_string());
            add("Proxy-Protocol-Server-Addr", &server.ip().to_string());
            add("Proxy-Protocol-Server-Port", &server.port().to_string());
        }
        if method == Method::None {
            add("Auth-SMTP-Helo", &printable(&login.smtp.helo));
            add("Auth-SMTP-From", &printable(&login.smtp.from));
            add("Auth-SMTP-To", &printable(&login.smtp.to));
        }
        if let Some(handshake) = self.handshake {
            add("Auth-SSL", "on");
            add("Auth-SSL-Protocol", handshake.protocol);
            add("Auth-SSL-Cipher", handshake.cipher);
            if handshake.requests_client_certificate {
                add("Auth-SSL-Verify", handshake.verified());
            }
            if let Some(client) = &handshake.client {
                add("Auth-SSL-Subject", &printable(client.subject.as_bytes()));
                add("Auth-SSL-Issuer", &printable(client.issuer.as_bytes()));
                add("Auth-SSL-Serial", &client.serial);
                add("Auth-SSL-Fingerprint", &client.fingerprint);
                add("Auth-SSL-Cert", &escaped(client.pem.as_bytes()));
            }
        }
        self.headers.iter().for_each(|(name, value)| add(name, value));
    }
}

/// Escapes a value as nginx does, and each byte that is not ASCII. No value can begin another field.
fn escaped(value: &[u8]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(3 * value.len()));
    for byte in value {
        match byte {
            b'%' => text.push_str("%25"),
            b'!'..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

/// Returns text that was checked to have no control characters; others are escaped.
fn printable(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

impl Answer {
    /// Reads the head of an answer: its fields, as its status and its body do not matter. Error: the
    /// reason why it decides nothing.
    pub fn read(head: &[u8]) -> Result<Answer, String> {
        let mut lines = head.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        if !first.starts_with(b"HTTP/1.") {
            return Err("it does not speak HTTP/1".to_owned());
        }
        Answer::of(lines.filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..at], line[at + 1..].trim_ascii()))
        }))
    }

    /// Reads the fields of an answer. Of several with one name, the last one counts.
    pub fn of<'f>(found: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Result<Answer, String> {
        let mut fields: [(&str, Option<&[u8]>); 7] = [
            ("Auth-Status", None),
            ("Auth-Server", None),
            ("Auth-Port", None),
            ("Auth-Wait", None),
            ("Auth-User", None),
            ("Auth-Pass", None),
            ("Auth-Error-Code", None),
        ];
        for (name, value) in found {
            let known =
                fields.iter_mut().find(|(one, _)| one.as_bytes().eq_ignore_ascii_case(name));
            if let Some((_, place)) = known {
                *place = Some(value);
            }
        }
        let [status, server, port, wait, user, password, code] = fields.map(|(_, value)| value);
        let text = |value: &[u8]| -> String {
            let text = String::from_utf8_lossy(value).into_owned();
            text.chars().filter(|one| !one.is_control()).collect()
        };
        let wait = wait.and_then(|wait| std::str::from_utf8(wait).ok()?.parse().ok());
        let wait = wait.map(Duration::from_secs).map(|wait| wait.min(MAX_WAIT));
        let status = status.ok_or("it sends no \"Auth-Status\"")?;
        match status {
            b"OK" => {}
            b"WAIT" => return Ok(Answer::Again(wait.unwrap_or_default().max(MIN_WAIT))),
            reason => {
                let code = code.map(text).filter(|code| is_code(code));
                return Ok(Answer::Refused {
                    text: text(reason),
                    code,
                    wait: wait.filter(|wait| !wait.is_zero()),
                });
            }
        }
        let server =
            server.filter(|server| !server.is_empty()).ok_or("it sends no \"Auth-Server\"")?;
        let port = port.ok_or("it sends no \"Auth-Port\"")?;
        let number = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
        let port = number.filter(|port| *port > 0).ok_or("its \"Auth-Port\" is no port")?;
        let is_valid = |value: &&[u8]| !value.iter().any(|byte| *byte < b' ' || *byte == 0x7f);
        if [user, password].into_iter().flatten().any(|value| !is_valid(&value)) {
            return Err("its \"Auth-User\" or \"Auth-Pass\" has control characters".to_owned());
        }
        Ok(Answer::Pass {
            server: text(server),
            port,
            user: user.map(<[u8]>::to_vec),
            password: password.map(|password| Zeroizing::new(password.to_vec())),
        })
    }
}

/// Returns true for a code of SMTP with or without an enhanced one.
fn is_code(code: &str) -> bool {
    let (first, rest) = code.split_once(' ').unwrap_or((code, ""));
    first.len() == 3
        && first.starts_with(['4', '5'])
        && first.bytes().all(|byte| byte.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::{Credentials, SmtpFacts};

    fn request(credentials: Credentials, salt: &str, protocol: Protocol) -> String {
        let smtp = SmtpFacts {
            helo: b"me".to_vec(),
            is_esmtp: true,
            from: b"MAIL FROM:<a> SIZE=1".to_vec(),
            to: b"RCPT TO:<b>".to_vec(),
        };
        let login = Login { credentials, salt: salt.as_bytes().to_vec(), tag: Vec::new(), smtp };
        let question = Question {
            headers: &[("X-Key".to_owned(), "k".to_owned())],
            protocol,
            login: &login,
            attempt: 2,
            client: "192.0.2.1",
            client_name: None,
            proxied: None,
            handshake: None,
        };
        question.request("/auth?x=1", "auth.test").to_string()
    }

    fn credentials(method: Method, user: &[u8], password: &[u8]) -> Credentials {
        Credentials { method, user: user.to_vec(), password: Zeroizing::new(password.to_vec()) }
    }

    #[test]
    fn a_question_has_the_fields_of_nginx() {
        let login = credentials(Method::Login, b"me@a b", b"p%\xe4\t:");
        assert_eq!(
            request(login, "", Protocol::Imap),
            "GET /auth?x=1 HTTP/1.0\r\nHost: auth.test\r\nAuth-Method: plain\r\n\
             Auth-User: me@a%20b\r\nAuth-Pass: p%25%E4%09:\r\nAuth-Protocol: imap\r\n\
             Auth-Login-Attempt: 2\r\nClient-IP: 192.0.2.1\r\nX-Key: k\r\n\r\n"
        );
        let none = request(credentials(Method::None, b"", b""), "", Protocol::Smtp);
        assert!(!none.contains("Auth-User") && none.contains("Client-Host: [UNAVAILABLE]\r\n"));
        assert!(none.contains("Auth-SMTP-From: MAIL FROM:<a> SIZE=1\r\n"), "{none}");
        let salted = request(credentials(Method::CramMd5, b"me", b"00"), "<1@a>", Protocol::Pop3);
        assert!(
            salted.contains("Auth-Method: cram-md5\r\n") && salted.contains("Auth-Salt: <1@a>\r\n")
        );
    }

    #[test]
    fn an_answer_passes_delays_or_refuses() {
        let read =
            |fields: &str| Answer::read(format!("HTTP/1.0 200 OK\r\n{fields}\r\n").as_bytes());
        let passed = Answer::Pass {
            server: "10.0.0.1".to_owned(),
            port: 143,
            user: Some(b"you".to_vec()),
            password: None,
        };
        let fields =
            "auth-status: OK\r\nAuth-Server: 10.0.0.1\r\nAuth-Port: 143\r\nAuth-User: you\r\n";
        assert_eq!(read(fields), Ok(passed));
        let refused = |code: Option<&str>, wait: Option<u64>| Answer::Refused {
            text: "Wrong password".to_owned(),
            code: code.map(str::to_owned),
            wait: wait.map(Duration::from_secs),
        };
        let fields = "Auth-Status: Wrong password\r\n";
        assert_eq!(read(fields), Ok(refused(None, None)));
        let fields =
            "Auth-Status: Wrong password\r\nAuth-Wait: 3\r\nAuth-Error-Code: 451 4.3.0\r\n";
        assert_eq!(read(fields), Ok(refused(Some("451 4.3.0"), Some(3))));
        let fields = "Auth-Status: Wrong password\r\nAuth-Error-Code: 250 yes\r\n";
        assert_eq!(read(fields), Ok(refused(None, None)));
        assert_eq!(
            read("Auth-Status: WAIT\r\nAuth-Wait: 2\r\n"),
            Ok(Answer::Again(Duration::from_secs(2)))
        );
        for at_once in ["", "Auth-Wait: 0\r\n", "Auth-Wait: x\r\n"] {
            let fields = format!("Auth-Status: WAIT\r\n{at_once}");
            assert_eq!(read(&fields), Ok(Answer::Again(Duration::from_secs(1))), "{at_once}");
        }
        for wrong in [
            "",
            "Auth-Status: OK\r\n",
            "Auth-Status: OK\r\nAuth-Server: 10.0.0.1\r\n",
            "Auth-Status: OK\r\nAuth-Server: 10.0.0.1\r\nAuth-Port: 0\r\n",
            "Auth-Status: OK\r\nAuth-Server: 10.0.0.1\r\nAuth-Port: x\r\n",
            "Auth-Status: OK\r\nAuth-Server: 10.0.0.1\r\nAuth-Port: 1\r\nAuth-User: a\rb\r\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(Answer::read(b"SSH-2.0\r\n").is_err());
    }
}
