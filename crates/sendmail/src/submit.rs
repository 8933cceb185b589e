//! Submits a message to the mail process.
//!
//! An application has one end of a packet socket, on which it can only receive. Each packet has the
//! two pipes of one submission. The server keeps one packet in the socket: a process that takes it
//! has a connection to the mail process, which identifies the application by the pipes, independent
//! of the writer. So no script can send in the name of another application, in any namespaces and
//! root directory, and no path or process id has to be trusted.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use howdah_sys::clock::wall_seconds;
use howdah_sys::packet::{self, Received};
use howdah_wire::messages::{FromSendmail, ToSendmail};
use rustix::event::PollFlags;

use crate::address::Address;
use crate::arguments::Arguments;
use crate::frames::{Pipe, wait};
use crate::message::{Message, Missing};
use crate::{Failure, MAX_MESSAGE_BYTES, MAX_RECIPIENTS, status};

/// Number of the descriptor that is the socket, in all processes of an application. Above those
/// that shell scripts use.
pub const DESCRIPTOR: i32 = 110;

/// Maximum wait for a connection: other messages of the application may be on their way.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time of a submission. The mail process has shorter limits, which end it earlier.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Number of connections that are tried: one may come from a mail process that has just ended.
const ATTEMPTS: u32 = 3;

/// Length of a piece of the text in bytes.
const PIECE: usize = 16 * 1024;

/// The envelope of a message.
#[derive(Debug, Clone, Default)]
pub struct Envelope {
    /// Sender; `None` if it was not given, `None` inside for the empty one.
    pub sender: Option<Option<Address>>,
    /// Recipients.
    pub recipients: Vec<Address>,
    /// Name in a `From` that is missing.
    pub full_name: Option<String>,
}

/// Sends a message as `sendmail` with these arguments does.
pub fn deliver(socket: impl AsFd, arguments: &Arguments, input: &[u8]) -> Result<(), Failure> {
    let message = Message::parse(input, !arguments.ignores_dots)?;
    let mut recipients = arguments.recipients.clone();
    if arguments.from_header {
        for address in message.recipients()? {
            if !recipients.contains(&address) {
                recipients.push(address);
            }
        }
    }
    let envelope = Envelope {
        sender: arguments.sender.clone(),
        recipients,
        full_name: arguments.full_name.clone(),
    };
    submit(socket, &envelope, &message)
}

/// Submits a message.
pub fn submit(
    socket: impl AsFd,
    envelope: &Envelope,
    message: &Message<'_>,
) -> Result<(), Failure> {
    if envelope.recipients.is_empty() {
        return Err(Failure::new(status::USAGE, "the message has no recipient"));
    }
    if envelope.recipients.len() > MAX_RECIPIENTS {
        let reason = format!("the message has more than {MAX_RECIPIENTS} recipients");
        return Err(Failure::new(status::DATA, reason));
    }
    if message.size() > MAX_MESSAGE_BYTES as u64 {
        let reason = format!("the message is longer than {} MB", MAX_MESSAGE_BYTES >> 20);
        return Err(Failure::new(status::DATA, reason));
    }
    let texts = |addresses: &[Address]| addresses.iter().map(Address::to_string).collect();
    let request = FromSendmail::Submit {
        sender: { envelope.sender.as_ref() }
            .map(|sender| sender.as_ref().map(Address::to_string).unwrap_or_default()),
        author: message.author().map(|author| author.to_string()),
        recipients: texts(&envelope.recipients),
        is_8bit: message.is_8bit(),
        size: message.size(),
    };
    let request = request.encode();
    let taken_until = Instant::now() + CONNECTION_TIMEOUT;
    let deadline = Instant::now() + TIMEOUT;
    let mut attempts = 0;
    let (connection, answer) = loop {
        attempts += 1;
        let connection = Connection::take(&socket, taken_until)?;
        match connection.ask(&request, deadline) {
            // The mail process that this connection was for has ended.
            Err(error) if is_closed(&error) && attempts < ATTEMPTS => {}
            Err(error) => return Err(broken(&error)),
            Ok(answer) => break (connection, answer),
        }
    };
    let (from, host) = match answer {
        ToSendmail::Ready { from, host } => (from, host),
        ToSendmail::Failed { status, reason } => return Err(Failure { status, reason }),
        ToSendmail::Sent {} => return Err(unexpected()),
    };
    let missing = Missing {
        from: &from,
        full_name: envelope.full_name.as_deref(),
        host: &host,
        now: wall_seconds(),
        random: random(),
    };
    let sent = connection.send_text(&message.head(&missing), message.body, deadline);
    // A server that refuses the text may have done so before all of it came.
    match (connection.answer(deadline), sent) {
        (Ok(ToSendmail::Sent {}), Ok(())) => Ok(()),
        (Ok(ToSendmail::Failed { status, reason }), _) => Err(Failure { status, reason }),
        (Ok(_), Ok(())) => Err(unexpected()),
        (Ok(_), Err(error)) | (Err(error), _) => Err(broken(&error)),
    }
}

/// The two pipes of a submission.
struct Connection {
    requests: Pipe,
    answers: Pipe,
}

impl Connection {
    /// Takes the next connection from the socket.
    fn take(socket: impl AsFd, deadline: Instant) -> Result<Connection, Failure> {
        let mut buffer = [0; 16];
        loop {
            match packet::receive(&socket, &mut buffer) {
                Ok(Received::Packet(_, descriptors)) => {
                    return Connection::of(descriptors).map_err(|error| broken(&error));
                }
                Ok(Received::Empty) => {}
                Ok(Received::Closed) => {
                    let reason = "the application is being ended";
                    return Err(Failure::new(status::UNAVAILABLE, reason));
                }
                Err(error) => return Err(no_socket(&error.into())),
            }
            wait(&socket, PollFlags::IN, deadline).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => Failure::new(
                    status::UNAVAILABLE,
                    "too many messages of this application are being sent at the same time",
                ),
                _ => no_socket(&error),
            })?;
        }
    }

    fn of(descriptors: Vec<OwnedFd>) -> io::Result<Connection> {
        let [requests, answers]: [OwnedFd; 2] =
            descriptors.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Connection { requests: Pipe::new(requests)?, answers: Pipe::new(answers)? })
    }

    /// Sends the envelope, and waits for the answer of the mail server.
    fn ask(&self, request: &[u8], deadline: Instant) -> io::Result<ToSendmail> {
        let sent = self.requests.send(request, deadline);
        match self.answer(deadline) {
            Err(error) => Err(sent.err().unwrap_or(error)),
            answer => answer,
        }
    }

    fn send_text(&self, head: &[u8], body: &[u8], deadline: Instant) -> io::Result<()> {
        for piece in head.chunks(PIECE).chain(body.chunks(PIECE)) {
            self.requests.send(piece, deadline)?;
        }
        self.requests.send(&[], deadline)
    }

    fn answer(&self, deadline: Instant) -> io::Result<ToSendmail> {
        let answer = self.answers.receive(deadline)?;
        ToSendmail::decode(&answer).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof)
}

fn no_socket(error: &io::Error) -> Failure {
    let reason = format!(
        "this process has no connection to Howdah's mail process ({error}); only applications that \
         Howdah runs have one"
    );
    Failure::new(status::UNAVAILABLE, reason)
}

fn broken(error: &io::Error) -> Failure {
    let reason = if is_closed(error) {
        "the mail process has ended; see the server's log".to_owned()
    } else {
        format!("the mail process does not answer: {error}")
    };
    Failure::new(status::UNAVAILABLE, reason)
}

fn unexpected() -> Failure {
    Failure::new(status::SOFTWARE, "the mail process has sent a wrong answer")
}

/// Returns a random number: the kernel's, with which the library seeds its hash tables.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use howdah_sys::pipe;

    use super::*;

    /// A server's side: sends connections, and answers the first messages of each.
    fn serve(answers: Vec<Vec<ToSendmail>>) -> (OwnedFd, std::thread::JoinHandle<Vec<Vec<u8>>>) {
        let (ours, theirs) = packet::one_way().unwrap();
        let handle = std::thread::spawn(move || {
            let mut received = Vec::new();
            for answers in answers {
                let (requests, request_end) = pipe::new().unwrap();
                let (answer_end, answering) = pipe::new().unwrap();
                packet::send(&ours, b"c", &[request_end.as_fd(), answer_end.as_fd()]).unwrap();
                drop((request_end, answer_end));
                let requests = Pipe::new(requests).unwrap();
                let deadline = Instant::now() + TIMEOUT;
                for answer in answers {
                    let is_ready = matches!(answer, ToSendmail::Ready { .. });
                    received.push(requests.receive(deadline).unwrap());
                    pipe::send(&answering, &answer.encode()).unwrap();
                    if !is_ready {
                        continue;
                    }
                    let pieces = || Some(requests.receive(deadline).unwrap());
                    let text = std::iter::from_fn(|| pieces().filter(|piece| !piece.is_empty()));
                    received.extend(text);
                    pipe::send(&answering, &ToSendmail::Sent {}.encode()).unwrap();
                }
            }
            received
        });
        (theirs, handle)
    }

    fn ready() -> ToSendmail {
        ToSendmail::Ready { from: "www@h.test".to_owned(), host: "h.test".to_owned() }
    }

    fn arguments(line: &[&str]) -> Arguments {
        Arguments::parse(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_message_goes_to_all_its_recipients_with_a_head_of_its_own() {
        let (socket, server) = serve(vec![vec![ready()]]);
        let input = b"To: a@a.org\nBcc: b@b.org\nFrom: c@c.org\n\nHello\n";
        deliver(&socket, &arguments(&["-t", "-i", "-f", "x@x.org", "a@a.org"]), input).unwrap();
        let received = server.join().unwrap();
        let FromSendmail::Submit { sender, author, recipients, is_8bit, .. } =
            FromSendmail::decode(&received[0]).unwrap();
        assert_eq!((sender.as_deref(), author.as_deref()), (Some("x@x.org"), Some("c@c.org")));
        assert_eq!((recipients.join(" "), is_8bit), ("a@a.org b@b.org".to_owned(), false));
        let text = String::from_utf8(received[1..].concat()).unwrap();
        assert!(text.starts_with("To: a@a.org\r\nFrom: c@c.org\r\nDate: "), "{text}");
        assert!(text.ends_with("@h.test>\r\n\r\nHello\n"), "{text}");
    }

    #[test]
    fn a_connection_whose_mail_process_has_ended_is_followed_by_the_next() {
        let (socket, server) = serve(vec![vec![], vec![ready()]]);
        deliver(&socket, &arguments(&["a@a.org"]), b"\nx").unwrap();
        assert!(!server.join().unwrap().is_empty());
        let (socket, server) = serve(vec![vec![], vec![], vec![]]);
        let failure = deliver(&socket, &arguments(&["a@a.org"]), b"\nx").unwrap_err();
        assert!(failure.reason.contains("has ended"), "{failure:?}");
        server.join().unwrap();
    }

    #[test]
    fn a_refusal_is_the_failure() {
        let refusal = ToSendmail::Failed { status: 69, reason: "no".to_owned() };
        let (socket, server) = serve(vec![vec![refusal]]);
        let failure = deliver(&socket, &arguments(&["a@a.org"]), b"x").unwrap_err();
        assert_eq!(failure, Failure::new(69, "no"));
        server.join().unwrap();
        let (socket, _) = serve(Vec::new());
        let failure = deliver(&socket, &arguments(&["-t"]), b"Subject: x\n\n").unwrap_err();
        assert_eq!(failure.status, status::USAGE);
    }

    #[test]
    fn without_a_socket_it_says_who_has_one() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let failure = deliver(&null, &arguments(&["a@a.org"]), b"x").unwrap_err();
        assert!(failure.reason.contains("only applications"), "{failure:?}");
    }
}
