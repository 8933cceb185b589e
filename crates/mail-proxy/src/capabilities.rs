//! Capabilities that a server behind names to clients that have not logged in.

use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_http::handling::Handling;
use howdah_http::message::Request;
use howdah_stream::connect::{Connected, connect};
use howdah_stream::hops::Ends;
use howdah_tls::TlsClient;
use howdah_upstream::servers::upstream::Upstream;
use howdah_upstream::thread::UpstreamThread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::backend::greeting;
use crate::conversation::start_tls;
use crate::input::Input;
use crate::login::Protocol;

/// Time for which the answer of a server is used.
const TIME_TO_LIVE: Duration = Duration::from_secs(60);

/// Maximum time for an answer. Clients wait for it before the greeting.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of bytes of an answer.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// Beginnings of capabilities that this server has or has not by itself.
const OWN: [&str; 7] = ["AUTH", "LOGINDISABLED", "SASL", "STARTTLS", "STLS", "XCLIENT", "XFORWARD"];

/// The last answer, which the threads share.
#[derive(Debug, Default)]
pub struct Known(Mutex<Option<(Instant, Arc<[String]>)>>);

impl Known {
    fn get(&self, now: Instant) -> Option<Arc<[String]>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(end, _)| now < *end).map(|(_, names)| Arc::clone(names))
    }

    fn put(&self, names: Arc<[String]>, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((now + TIME_TO_LIVE, names));
    }
}

/// Returns the capabilities of a server of the upstream; `None` if none answers. With `starttls`,
/// encryption begins before.
pub async fn of_backend(
    thread: &Rc<UpstreamThread>,
    upstream: &Arc<Upstream>,
    known: &Known,
    (protocol, own_name, starttls): (Protocol, &str, Option<&TlsClient>),
    request: &Request,
    client: Option<Ends>,
) -> Option<Arc<[String]>> {
    if let Some(names) = known.get(Instant::now()) {
        return Some(names);
    }
    let asking = Request { handling: Handling::default(), ..request.clone() };
    let asked = async {
        let connected = connect(thread, upstream, &asking, Instant::now(), client).await;
        let Connected { mut connection, active, hop: _hop } = connected.ok()?;
        let mut first: &[u8] = &[];
        if let Some(tls) = starttls {
            let server = (tls, &*active.server()?.name);
            connection = start_tls(connection, protocol, own_name, server, TIMEOUT).await.ok()?;
            first = greeting(protocol);
        }
        ask(&mut connection, Question::new(protocol, own_name), first).await.ok()?
    };
    let names: Arc<[String]> = timeout(TIMEOUT, asked).await.ok()??.into();
    known.put(Arc::clone(&names), Instant::now());
    Some(names)
}

/// Asks a server. `None` if it does not answer as its protocol says.
async fn ask(
    connection: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin),
    mut question: Question,
    greeting: &[u8],
) -> io::Result<Option<Vec<String>>> {
    let (mut input, mut out, mut received) = (Input::default(), Vec::new(), 0);
    let mut room = [0; 2048];
    input.push(greeting);
    loop {
        let end = question.step(&mut input, &mut out);
        connection.write_all(&out).await?;
        connection.flush().await?;
        out.clear();
        if let Some(end) = end {
            return Ok(end.then_some(question.names));
        }
        let count = connection.read(&mut room).await?;
        received += count;
        if count == 0 || received > MAX_ANSWER_BYTES {
            return Ok(None);
        }
        input.push(room.get(..count).unwrap_or_default());
    }
}

/// The question and its answer.
struct Question {
    protocol: Protocol,
    command: String,
    state: State,
    names: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    First,
    More,
}

impl Question {
    fn new(protocol: Protocol, server_name: &str) -> Question {
        let command = match protocol {
            Protocol::Imap => "a CAPABILITY\r\n".to_owned(),
            Protocol::Pop3 => "CAPA\r\n".to_owned(),
            Protocol::Smtp => format!("EHLO {server_name}\r\n"),
        };
        Question { protocol, command, state: State::Greeting, names: Vec::new() }
    }

    /// Takes bytes of the server, and writes what it is sent. At the end, returns true if it has
    /// answered.
    fn step(&mut self, input: &mut Input, out: &mut Vec<u8>) -> Option<bool> {
        loop {
            let line = match input.line() {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(_) => return Some(false),
            };
            let Ok(text) = std::str::from_utf8(&line.text) else { return Some(false) };
            let end = match (self.protocol, self.state) {
                (Protocol::Imap, State::Greeting) if text.starts_with("* OK") => self.send(out),
                (Protocol::Imap, State::First) => match text.strip_prefix("* ") {
                    Some(rest) => {
                        let mut words = rest.split(' ');
                        if words.next().is_some_and(|one| one.eq_ignore_ascii_case("CAPABILITY")) {
                            words.for_each(|word| self.add(word));
                        }
                        None
                    }
                    None => Some(text.starts_with("a OK")),
                },
                (Protocol::Pop3, State::Greeting) if text.starts_with("+OK") => self.send(out),
                (Protocol::Pop3, State::First) if text.starts_with("+OK") => {
                    self.state = State::More;
                    None
                }
                (Protocol::Pop3, State::More) if text == "." => Some(true),
                (Protocol::Pop3, State::More) => {
                    self.add(text);
                    None
                }
                (Protocol::Smtp, State::Greeting) if text.starts_with("220-") => None,
                (Protocol::Smtp, State::Greeting) if text.starts_with("220") => self.send(out),
                (Protocol::Smtp, State::First | State::More) if text.starts_with("250") => {
                    // The first line has the name of the server.
                    if self.state == State::More {
                        self.add(text.get(4..).unwrap_or_default());
                    }
                    self.state = State::More;
                    (!text.starts_with("250-")).then_some(true)
                }
                _ => Some(false),
            };
            if let Some(end) = end {
                // Politeness: an error does not matter.
                out.extend_from_slice(match self.protocol {
                    Protocol::Imap => b"b LOGOUT\r\n",
                    Protocol::Pop3 | Protocol::Smtp => b"QUIT\r\n",
                });
                return Some(end);
            }
        }
    }

    fn send(&mut self, out: &mut Vec<u8>) -> Option<bool> {
        out.extend_from_slice(self.command.as_bytes());
        self.state = State::First;
        None
    }

    /// Adds a capability, unless it is about what this server does itself.
    fn add(&mut self, name: &str) {
        let upper = name.to_ascii_uppercase();
        let is_text = !name.is_empty() && name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if is_text && !OWN.iter().any(|own| upper.starts_with(own)) {
            self.names.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(protocol: Protocol, lines: &str) -> (String, Option<bool>, Vec<String>) {
        let mut question = Question::new(protocol, "mx.test");
        let (mut input, mut out, mut end) = (Input::default(), Vec::new(), None);
        for byte in lines.bytes() {
            input.push(&[byte]);
            end = question.step(&mut input, &mut out);
            if end.is_some() {
                break;
            }
        }
        (String::from_utf8(out).unwrap(), end, question.names)
    }

    #[test]
    fn capabilities_of_a_server_are_told_without_those_of_this_one() {
        let (sent, end, names) = answer(
            Protocol::Imap,
            "* OK [CAPABILITY X] hi\r\n* CAPABILITY IMAP4rev1 IDLE AUTH=PLAIN STARTTLS LOGINDISABLED\r\na OK\r\n",
        );
        assert_eq!((sent.as_str(), end), ("a CAPABILITY\r\nb LOGOUT\r\n", Some(true)));
        assert_eq!(names, ["IMAP4rev1", "IDLE"]);
        let pop3 = "+OK hi\r\n+OK\r\nTOP\r\nSASL PLAIN\r\nSTLS\r\nEXPIRE NEVER\r\n.\r\n";
        let (sent, _, names) = answer(Protocol::Pop3, pop3);
        assert_eq!(
            (sent.as_str(), names.join(",")),
            ("CAPA\r\nQUIT\r\n", "TOP,EXPIRE NEVER".into())
        );
        let smtp =
            "220-mx\r\n220 mx\r\n250-mx.other\r\n250-SIZE 10\r\n250-AUTH PLAIN\r\n250 8BITMIME\r\n";
        let (sent, _, names) = answer(Protocol::Smtp, smtp);
        assert_eq!(
            (sent.as_str(), names.join(",")),
            ("EHLO mx.test\r\nQUIT\r\n", "SIZE 10,8BITMIME".into())
        );
    }

    #[test]
    fn a_server_that_does_not_answer_the_question_is_not_believed() {
        for (protocol, lines) in [
            (Protocol::Imap, "* BYE\r\n"),
            (Protocol::Imap, "* OK\r\na BAD\r\n"),
            (Protocol::Pop3, "+OK\r\n-ERR\r\n"),
            (Protocol::Smtp, "554 no\r\n"),
            (Protocol::Smtp, "220 a\r\n500 what\r\n"),
        ] {
            assert_eq!(answer(protocol, lines).1, Some(false), "{lines}");
        }
    }
}
