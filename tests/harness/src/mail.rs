//! A mail server for tests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use super::time::patience;

/// A message that the server has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Sender of the envelope.
    pub from: String,
    /// Recipients of the envelope.
    pub to: Vec<String>,
    /// The text, with `\r\n` and without the dots that were added.
    pub text: String,
}

/// A mail server that takes each message, except for recipients with "refused" in them. It takes
/// any line end, and so the end of a text that another server would not see.
pub struct MailServer {
    /// Its address.
    pub address: SocketAddr,
    taken: Arc<(Mutex<Vec<Mail>>, Condvar)>,
}

impl MailServer {
    /// Starts the server.
    pub fn start() -> MailServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taken: Arc<(Mutex<Vec<Mail>>, Condvar)> = Arc::default();
        let shared = Arc::clone(&taken);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || converse(&stream, &shared));
            }
        });
        MailServer { address, taken }
    }

    /// Waits until the server has taken this many messages, and returns all.
    pub fn wait_for(&self, count: usize) -> Vec<Mail> {
        let (mails, arrived) = &*self.taken;
        let mails = mails.lock().unwrap();
        let (mails, result) =
            arrived.wait_timeout_while(mails, patience(), |mails| mails.len() < count).unwrap();
        assert!(!result.timed_out(), "{count} messages have not come: {mails:?}");
        mails.clone()
    }

    /// Returns the messages so far.
    pub fn mails(&self) -> Vec<Mail> {
        self.taken.0.lock().unwrap().clone()
    }
}

fn converse(stream: &TcpStream, taken: &(Mutex<Vec<Mail>>, Condvar)) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let say = |text: &str| (&mut &*stream).write_all(format!("{text}\r\n").as_bytes()).ok();
    say("220 test")?;
    let (mut from, mut to) = (String::new(), Vec::new());
    loop {
        let line = next_line(&mut reader)?;
        let address = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
        match line.get(..4)?.to_ascii_uppercase().as_str() {
            "EHLO" => say("250-test\r\n250-8BITMIME\r\n250 SIZE 10000000")?,
            "MAIL" => {
                (from, to) = (address, Vec::new());
                say("250 ok")?;
            }
            "RCPT" if address.contains("refused") => say("550 no such user")?,
            "RCPT" => {
                to.push(address);
                say("250 ok")?;
            }
            "DATA" => {
                say("354 go")?;
                let mut text = String::new();
                loop {
                    let line = next_line(&mut reader)?;
                    if line == "." {
                        break;
                    }
                    text.push_str(line.strip_prefix('.').unwrap_or(&line));
                    text.push_str("\r\n");
                }
                taken.0.lock().unwrap().push(Mail { from: from.clone(), to: to.clone(), text });
                taken.1.notify_all();
                say("250 taken")?;
            }
            "QUIT" => return say("221 bye"),
            _ => say("500 unknown")?,
        }
    }
}

/// Reads a line that any line end ends.
fn next_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let byte = *reader.fill_buf().ok()?.first()?;
        reader.consume(1);
        match byte {
            b'\n' => break,
            b'\r' => {
                if reader.fill_buf().ok()?.first() == Some(&b'\n') {
                    reader.consume(1);
                }
                break;
            }
            byte => line.push(byte),
        }
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}
