use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use howdah_sys::packet::{self, Received};
use howdah_sys::pipe;
use howdah_wire::messages::{FromSendmail, MAX_MESSAGE, MailRoute, MailTls, ToSendmail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, LocalSet};

use super::*;

/// The supervisor's and a program's side of a process that runs in this thread.
struct Peer {
    supervisor: Socket,
    /// Counts of earlier processes.
    counted: Vec<(u64, u32)>,
    _process: JoinHandle<()>,
}

struct Program {
    requests: Sender,
    answers: Receiver,
}

impl Peer {
    fn start(counted: Vec<(u64, u32)>, idle_time: Duration) -> Peer {
        let (ours, theirs) = packet::pair().unwrap();
        let process = tokio::task::spawn_local(async move {
            serve(theirs, idle_time).await.unwrap();
        });
        let hello = ToMail::Hello { sandbox: false, host: "h.test".to_owned() };
        packet::send(&ours, &hello.encode(), &[]).unwrap();
        Peer { supervisor: Socket::new(ours).unwrap(), counted, _process: process }
    }

    fn submit(&self, number: u32, route: &MailRoute, file: Option<std::fs::File>) -> Program {
        self.submit_of("shop", number, route, file)
    }

    fn submit_of(
        &self,
        application: &str,
        number: u32,
        route: &MailRoute,
        file: Option<std::fs::File>,
    ) -> Program {
        let (requests, writing) = pipe::new().unwrap();
        let (reading, answers) = pipe::new().unwrap();
        let deliver = ToMail::Deliver {
            number,
            application: application.to_owned(),
            user: "www".to_owned(),
            route: route.clone(),
            is_to_file: file.is_some() && route.password_file.is_none(),
            has_file: file.is_some(),
            has_authorities: false,
            counted: self.counted.clone(),
        };
        let mut files = vec![requests.as_fd(), answers.as_fd()];
        files.extend(file.iter().map(AsFd::as_fd));
        packet::send(self.supervisor.0.get_ref(), &deliver.encode(), &files).unwrap();
        let (requests, answers) =
            (sender(writing).unwrap(), Receiver::from_owned_fd(reading).unwrap());
        Program { requests, answers }
    }

    /// The number of the next submission that has ended.
    async fn done(&self) -> FromMail {
        let mut ready = self.supervisor.0.readable().await.unwrap();
        loop {
            let (received, message) =
                packet::receive_next(self.supervisor.0.get_ref(), MAX_MESSAGE).unwrap();
            match received {
                Received::Packet(..) => return FromMail::decode(&message).unwrap(),
                Received::Closed => panic!("the process has ended"),
                Received::Empty => {
                    ready.clear_ready();
                    ready = self.supervisor.0.readable().await.unwrap();
                }
            }
        }
    }
}

impl Program {
    async fn send(&mut self, frame: &[u8]) {
        self.requests.write_all(&(frame.len() as u32).to_le_bytes()).await.unwrap();
        self.requests.write_all(frame).await.unwrap();
    }

    async fn envelope(&mut self, sender: Option<&str>, recipients: &[&str]) {
        let submit = FromSendmail::Submit {
            sender: sender.map(str::to_owned),
            author: Some("author@a.org".to_owned()),
            recipients: recipients.iter().map(|text| (*text).to_owned()).collect(),
            is_8bit: false,
            size: 10,
        };
        self.send(&submit.encode()).await;
    }

    async fn answer(&mut self) -> ToSendmail {
        let length = self.answers.read_u32_le().await.unwrap();
        let mut answer = vec![0; length as usize];
        self.answers.read_exact(&mut answer).await.unwrap();
        ToSendmail::decode(&answer).unwrap()
    }

    async fn failure(&mut self) -> String {
        match self.answer().await {
            ToSendmail::Failed { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    }

    async fn message(&mut self, text: &[u8]) -> ToSendmail {
        self.envelope(None, &["a@a.org"]).await;
        match self.answer().await {
            ToSendmail::Ready { .. } => {}
            other => return other,
        }
        self.send(text).await;
        self.send(b"").await;
        self.answer().await
    }
}

/// A mail server that answers commands by their first word, and keeps the lines that it gets.
struct Server {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answers: &'static [(&'static str, &'static str)]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, lines) = (listener.local_addr().unwrap().port(), Arc::default());
        let kept = Arc::clone(&lines);
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::task::spawn_local(converse(stream, answers, Arc::clone(&kept)));
            }
        });
        Server { port, lines }
    }

    fn text(&self) -> String {
        self.lines.lock().unwrap().concat()
    }
}

/// Answer of a server that closes the connection.
const CLOSE: &str = "close";

async fn converse(
    stream: TcpStream,
    answers: &[(&str, &str)],
    lines: Arc<Mutex<Vec<String>>>,
) -> Option<()> {
    let answer = |word: &str| {
        let found = answers.iter().find(|(known, _)| *known == word);
        found.map_or("250 ok\r\n", |(_, answer)| *answer).to_owned()
    };
    let mut stream = BufReader::new(stream);
    let mut is_text = false;
    let greeting = answers.iter().find(|(known, _)| *known == "greeting");
    stream.write_all(greeting.map_or("220 hello\r\n", |(_, text)| text).as_bytes()).await.ok()?;
    loop {
        let mut line = Vec::new();
        if stream.read_until(b'\n', &mut line).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        lines.lock().unwrap().push(line.clone());
        if is_text {
            if line == ".\r\n" {
                is_text = false;
                if answer("text") == CLOSE {
                    return None;
                }
                stream.write_all(answer("text").as_bytes()).await.ok()?;
            }
            continue;
        }
        let word = line.trim_end().split(' ').next()?.to_owned();
        is_text = word == "DATA" && !answers.iter().any(|(known, _)| *known == "DATA");
        let reply = if is_text { "354 go\r\n".to_owned() } else { answer(&word) };
        stream.write_all(reply.as_bytes()).await.ok()?;
        if word == "QUIT" {
            return None;
        }
    }
}

fn route(port: u16) -> MailRoute {
    MailRoute {
        host: "127.0.0.1".to_owned(),
        port,
        tls: MailTls::Off,
        user: None,
        password_file: None,
        authorities: None,
        resolver: Vec::new(),
        from: None,
        limit: 0,
        timeout: 30,
        key: String::new(),
    }
}

fn run_local(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(test));
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_message_is_delivered_in_one_conversation() {
    run_local(async {
        let (peer, server) = (Peer::start(Vec::new(), LONG), Server::start(&[]).await);
        let mut program = peer.submit(7, &route(server.port), None);
        let sent = program.message(b"Subject: x\n\n.\nMAIL FROM:<evil@a.org>\r.\r\n").await;
        assert_eq!(sent, ToSendmail::Sent {});
        assert_eq!(peer.done().await, FromMail::Done { number: 7, recipients: 1 });
        let expected = "EHLO h.test\r\nMAIL FROM:<author@a.org>\r\nRCPT TO:<a@a.org>\r\nDATA\r\n\
                        Subject: x\r\n\r\n..\r\nMAIL FROM:<evil@a.org>\r\n..\r\n.\r\nQUIT\r\n";
        assert_eq!(server.text(), expected);
    });
}

#[test]
fn a_program_that_ends_before_its_text_has_sent_nothing() {
    run_local(async {
        let (peer, server) = (Peer::start(Vec::new(), LONG), Server::start(&[]).await);
        let mut program = peer.submit(1, &route(server.port), None);
        program.envelope(Some(""), &["a@a.org"]).await;
        assert!(matches!(program.answer().await, ToSendmail::Ready { .. }));
        program.send(b"half of it\n").await;
        drop(program);
        assert_eq!(peer.done().await, FromMail::Done { number: 1, recipients: 0 });
        let text = server.text();
        assert!(text.contains("MAIL FROM:<>\r\n") && !text.contains(".\r\n"), "{text}");
    });
}

#[test]
fn a_script_that_writes_its_own_envelope_adds_no_command() {
    run_local(async {
        let (peer, server) = (Peer::start(Vec::new(), LONG), Server::start(&[]).await);
        for recipient in
            ["a@a.org>\r\nRCPT TO:<b@b.org", "a@a.org\r\nDATA", "", "a b@a.org", "<a@a.org>"]
        {
            let mut program = peer.submit(1, &route(server.port), None);
            program.envelope(None, &[recipient]).await;
            assert!(program.failure().await.contains("malformed"), "{recipient:?}");
            let mut program = peer.submit(1, &route(server.port), None);
            program.envelope(Some("x\r\nDATA"), &["a@a.org"]).await;
            assert!(program.failure().await.contains("malformed"));
        }
        let mut program = peer.submit(1, &route(server.port), None);
        program.envelope(None, &vec!["a@a.org"; MAX_RECIPIENTS + 1]).await;
        assert!(program.failure().await.contains("malformed"));
        let mut program = peer.submit(1, &route(server.port), None);
        program.send(b"garbage").await;
        assert!(program.failure().await.contains("malformed"));
        assert_eq!(server.text(), "");
    });
}

#[test]
fn refusals_say_who_refuses_what() {
    run_local(async {
        let peer = Peer::start(Vec::new(), LONG);
        for (answers, expected) in [
            (
                &[("RCPT", "550-no\r\n550 such user\r\n")][..],
                "it refuses the recipient <a@a.org>: 550 no such user",
            ),
            (
                &[("MAIL", "553 not yours\r\n")],
                "it refuses the sender <author@a.org>: 553 not yours; see \"from\"",
            ),
            (&[("text", "554 spam\u{1b}[31m\r\n")], "it refuses the message: 554 spam [31m"),
            (&[("DATA", "451 later\r\n")], "it refuses the DATA: 451 later"),
            (&[("greeting", "HTTP/1.1 400 Bad\r\n")], "its reply is not one of SMTP"),
            (&[("greeting", "421 busy\r\n")], "it refuses the connection: 421 busy"),
            (&[("MAIL", "250 ok\r\n250 ok\r\n")], "unsolicited reply"),
            (&[("EHLO", "250-h\r\n250 SIZE 5\r\n")], "room for a message"),
        ] {
            let server = Server::start(answers).await;
            let mut program = peer.submit(1, &route(server.port), None);
            match program.message(b"x").await {
                ToSendmail::Failed { reason, .. } => {
                    assert!(reason.contains(expected), "{reason}");
                    assert!(reason.contains(&format!("127.0.0.1:{}", server.port)), "{reason}");
                    assert!(!reason.contains(char::is_control), "{reason:?}");
                }
                other => panic!("{expected}: {other:?}"),
            }
        }
    });
}

#[test]
fn a_password_goes_only_where_it_belongs() {
    const OFFERS: &[(&str, &str)] =
        &[("EHLO", "250-h\r\n250 AUTH PLAIN LOGIN\r\n"), ("AUTH", "235 ok\r\n")];
    run_local(async {
        let peer = Peer::start(Vec::new(), LONG);
        let file = || {
            let memory = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
            let mut file = std::fs::File::from(memory);
            io::Write::write_all(&mut file, b"geheim\n").unwrap();
            io::Seek::rewind(&mut file).unwrap();
            file
        };
        let with_user = |port| MailRoute {
            user: Some("joe".to_owned()),
            password_file: Some("/p".to_owned()),
            ..route(port)
        };
        let server = Server::start(OFFERS).await;
        let mut program = peer.submit(1, &with_user(server.port), Some(file()));
        assert_eq!(program.message(b"x").await, ToSendmail::Sent {});
        // "\0joe\0geheim"
        assert!(server.text().contains("AUTH PLAIN AGpvZQBnZWhlaW0=\r\n"), "{}", server.text());
        let mut program = peer.submit(1, &with_user(server.port), None);
        program.envelope(None, &["a@a.org"]).await;
        assert!(program.failure().await.contains("/p cannot be read"));
        // A server that repeats its input.
        let server = Server::start(&[
            ("EHLO", "250-h\r\n250 AUTH PLAIN\r\n"),
            ("AUTH", "535-no: AGpvZQBnZWhlaW0=\r\n535 geheim, Z2VoZWlt\r\n"),
        ]);
        let server = server.await;
        let mut program = peer.submit(1, &with_user(server.port), Some(file()));
        program.envelope(None, &["a@a.org"]).await;
        let reason = program.failure().await;
        assert!(
            reason.contains("535 no: [password] [password], [password]; see \"user\""),
            "{reason}"
        );
        // STARTTLS is not offered: the password stays here.
        let server = Server::start(OFFERS).await;
        let route = MailRoute { tls: MailTls::StartTls, ..with_user(server.port) };
        let mut program = peer.submit(1, &route, Some(file()));
        program.envelope(None, &["a@a.org"]).await;
        assert!(program.failure().await.contains("STARTTLS; see \"tls\""));
        assert!(!server.text().contains("AUTH"));
    });
}

#[test]
fn what_is_inserted_before_tls_begins_is_no_reply() {
    run_local(async {
        let peer = Peer::start(Vec::new(), LONG);
        let server = Server::start(&[
            ("EHLO", "250-h\r\n250 STARTTLS\r\n"),
            ("STARTTLS", "220 go\r\n250-h\r\n250 AUTH PLAIN\r\n"),
        ]);
        let server = server.await;
        let route = MailRoute { tls: MailTls::StartTls, ..route(server.port) };
        if howdah_tls::authorities::system_file().exists() {
            let mut program = peer.submit(1, &route, None);
            program.envelope(None, &["a@a.org"]).await;
            let reason = program.failure().await;
            assert!(reason.contains("before TLS"), "{reason}");
        }
    });
}

#[test]
fn without_a_server_many_messages_fail_at_once_with_advice() {
    run_local(async {
        let peer = Peer::start(Vec::new(), LONG);
        // The port is closed by then.
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        for _ in 0..20 {
            let mut program = peer.submit(1, &route(port), None);
            program.envelope(None, &["a@a.org"]).await;
            let reason = program.failure().await;
            assert!(reason.contains("refused; set \"smtp\" in \"settings\""), "{reason}");
        }
    });
}

#[test]
fn the_limit_counts_recipients_and_outlives_the_process() {
    run_local(async {
        let peer = Peer::start(Vec::new(), Duration::from_millis(10));
        let server = Server::start(&[]).await;
        let route = MailRoute { limit: 2, ..route(server.port) };
        let mut program = peer.submit(1, &route, None);
        program.envelope(None, &["a@a.org", "b@b.org", "c@c.org"]).await;
        assert!(program.failure().await.contains("2 recipients in the last hour"));
        for _ in 0..2 {
            let mut program = peer.submit(1, &route, None);
            assert_eq!(program.message(b"x").await, ToSendmail::Sent {});
        }
        let mut counted = Vec::new();
        loop {
            match peer.done().await {
                FromMail::Counted { usage } => counted = usage.minutes,
                FromMail::Done { .. } => {}
                FromMail::Idle {} => break,
            }
        }
        assert_eq!(counted.iter().map(|(_, count)| count).sum::<u32>(), 2);
        let next = Peer::start(counted, LONG);
        let mut program = next.submit(1, &route, None);
        program.envelope(None, &["a@a.org"]).await;
        assert!(program.failure().await.contains("\"limit\""));
    });
}

/// A script holds the end of its text back until just before the deadline: the server takes the
/// message, and its confirmation comes too late.
#[test]
fn a_message_that_may_have_been_taken_counts_against_the_limit() {
    run_local(async {
        let peer = Peer::start(Vec::new(), LONG);
        for (answers, counts) in [
            (&[("text", "")], true),
            (&[("text", CLOSE)], true),
            (&[("text", "250-ok\r\nno reply\r\n")], true),
            (&[("text", "554 no\r\n")], false),
        ] {
            let (server, answer) = (Server::start(answers).await, answers[0].1);
            let application = format!("sends to {}", server.port);
            let route = MailRoute { limit: 1, timeout: 1, ..route(server.port) };
            let mut program = peer.submit_of(&application, 1, &route, None);
            assert!(matches!(program.message(b"x").await, ToSendmail::Failed { .. }), "{answer}");
            let mut program = peer.submit_of(&application, 1, &route, None);
            program.envelope(None, &["a@a.org"]).await;
            match program.answer().await {
                ToSendmail::Failed { reason, .. } => {
                    assert!(counts && reason.contains("\"limit\""), "{answer}: {reason}");
                }
                other => assert!(!counts, "{answer}: {other:?}"),
            }
        }
    });
}

#[test]
fn a_message_that_does_not_end_is_given_up() {
    run_local(async {
        let (peer, server) = (Peer::start(Vec::new(), LONG), Server::start(&[]).await);
        let slow = MailRoute { timeout: 1, ..route(server.port) };
        let mut program = peer.submit(1, &slow, None);
        program.envelope(None, &["a@a.org"]).await;
        assert!(matches!(program.answer().await, ToSendmail::Ready { .. }));
        program.send(b"half of it\n").await;
        assert!(program.failure().await.contains("within 1 seconds"));
        let mut program = peer.submit(2, &route(server.port), None);
        program.envelope(None, &["a@a.org"]).await;
        assert!(matches!(program.answer().await, ToSendmail::Ready { .. }));
        let piece = vec![b'x'; MAX_FRAME];
        // The other end is closed once it has been too much.
        let mut sent = 0;
        while program.requests.write_all(&(piece.len() as u32).to_le_bytes()).await.is_ok()
            && program.requests.write_all(&piece).await.is_ok()
        {
            sent += piece.len();
            assert!(sent < MAX_MESSAGE_BYTES * 2);
        }
        assert!(program.failure().await.contains("too long"));
        assert!(!server.text().contains("\r\n.\r\n"));
    });
}

#[test]
fn a_server_that_hangs_delays_only_its_own_messages() {
    run_local(async {
        let peer = Peer::start(Vec::new(), LONG);
        let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hung = route(hung.local_addr().unwrap().port());
        let hung = MailRoute { timeout: 1, key: "applications/shop/smtp".to_owned(), ..hung };
        let mut waiting = Vec::new();
        for _ in 0..50 {
            let mut program = peer.submit(1, &hung, None);
            program.envelope(None, &["a@a.org"]).await;
            waiting.push(program);
        }
        let server = Server::start(&[]).await;
        let mut program = peer.submit(2, &route(server.port), None);
        assert_eq!(program.message(b"x").await, ToSendmail::Sent {});
        for mut program in waiting {
            let reason = program.failure().await;
            let expected =
                ["not answered for 1 seconds; see applications/shop/smtp", "within 1 seconds"];
            assert!(expected.iter().any(|text| reason.contains(text)), "{reason}");
        }
    });
}

#[test]
fn a_file_takes_messages_in_place_of_a_server() {
    run_local(async {
        let peer = Peer::start(Vec::new(), LONG);
        let memory = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = std::fs::File::from(memory);
        let mut program = peer.submit(1, &route(1), Some(file.try_clone().unwrap()));
        assert_eq!(program.message(b"Subject: x\r\n\r\nFrom me\r\n").await, ToSendmail::Sent {});
        let mut file = file;
        let mut text = String::new();
        io::Seek::rewind(&mut file).unwrap();
        io::Read::read_to_string(&mut file, &mut text).unwrap();
        assert!(text.starts_with("From author@a.org "), "{text}");
        assert!(text.ends_with("\nX-Envelope-To: a@a.org\nSubject: x\n\n>From me\n\n"), "{text}");
    });
}

use howdah_sendmail::{MAX_FRAME, MAX_MESSAGE_BYTES, MAX_RECIPIENTS};
