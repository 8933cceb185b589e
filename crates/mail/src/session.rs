//! A conversation with a mail server (RFC 5321), as its client.
//!
//! Commands go one after the other. All parts of them are checked before: addresses by their type,
//! the host name here. Bytes that a server sends before it is asked are an error, so text that was
//! inserted before `STARTTLS` is not taken for a reply after it.

use std::io;

use howdah_sendmail::address::Address;
use howdah_text::base64;
use howdah_tls::AnonymousClient;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::reply::{Extensions, NoReply, Reply};

/// A connection, with TLS or without.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Reason why a conversation has failed.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The connection has failed.
    Connection(io::Error),
    /// The server has sent something that is no reply, or an unsolicited reply.
    Protocol(&'static str),
    /// The TLS handshake has failed.
    Tls(String),
    /// The server lacks an extension.
    Lacks(&'static str),
    /// The server refuses a command.
    Refused {
        /// The command, for messages.
        command: String,
        reply: Reply,
    },
}

impl Problem {
    /// Returns true if the server has refused a command or the message (codes 400 to 599).
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Problem::Refused { reply, .. } if matches!(reply.code, 400..600))
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        Problem::Connection(error)
    }
}

/// The envelope of a message.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    /// Sender; `None` for the empty one.
    pub(crate) sender: Option<Address>,
    pub(crate) recipients: Vec<Address>,
    pub(crate) is_8bit: bool,
    pub(crate) size: u64,
}

/// A conversation.
pub(crate) struct Session {
    stream: Box<dyn Stream>,
    /// Bytes that were received and not read.
    buffer: Vec<u8>,
    extensions: Extensions,
    /// Host name of this machine.
    host: String,
}

impl Session {
    /// Creates a session on a new connection. `host` is the name of this machine.
    pub(crate) fn new(stream: Box<dyn Stream>, host: &str) -> Session {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let host = if !host.is_empty() && host.chars().all(is_name) { host } else { "localhost" };
        Session {
            stream,
            buffer: Vec::new(),
            extensions: Extensions::default(),
            host: host.to_owned(),
        }
    }

    /// Begins TLS before the first reply.
    pub(crate) async fn begin_tls(
        self,
        client: &AnonymousClient,
        name: &str,
    ) -> Result<Session, Problem> {
        let Session { stream, host, .. } = self;
        let stream = client.connect(stream, name).await.map_err(Problem::Tls)?;
        Ok(Session::new(Box::new(stream), &host))
    }

    /// Reads the greeting.
    pub(crate) async fn greeting(&mut self) -> Result<(), Problem> {
        let reply = self.reply().await?;
        self.check("connection", reply).map(drop)
    }

    /// Introduces this machine.
    pub(crate) async fn hello(&mut self) -> Result<(), Problem> {
        let reply = self.ask(&format!("EHLO {}", self.host)).await?;
        if reply.is_ok() {
            self.extensions = Extensions::of(&reply);
            return Ok(());
        }
        let reply = self.ask(&format!("HELO {}", self.host)).await?;
        self.check("HELO", reply).map(drop)
    }

    /// Changes to TLS.
    pub(crate) async fn starttls(
        mut self,
        client: &AnonymousClient,
        name: &str,
    ) -> Result<Session, Problem> {
        if !self.extensions.starttls {
            return Err(Problem::Lacks("STARTTLS"));
        }
        let reply = self.ask("STARTTLS").await?;
        self.check("STARTTLS", reply)?;
        if !self.buffer.is_empty() {
            return Err(Problem::Protocol("it has sent more than its reply before TLS"));
        }
        let mut session = self.begin_tls(client, name).await?;
        session.hello().await?;
        Ok(session)
    }

    /// Logs in.
    pub(crate) async fn log_in(&mut self, user: &str, password: &str) -> Result<(), Problem> {
        let reply = if self.extensions.auth_plain {
            let token = base64::encode(format!("\0{user}\0{password}").as_bytes());
            self.ask(&format!("AUTH PLAIN {token}")).await?
        } else if self.extensions.auth_login {
            let mut reply = self.ask("AUTH LOGIN").await?;
            for text in [user, password] {
                if reply.code != 334 {
                    break;
                }
                reply = self.ask(&base64::encode(text.as_bytes())).await?;
            }
            reply
        } else {
            return Err(Problem::Lacks("AUTH PLAIN or AUTH LOGIN"));
        };
        self.check("AUTH", without_secrets(reply, user, password)).map(drop)
    }

    /// Sends the envelope. Afterwards the server waits for the text.
    pub(crate) async fn envelope(&mut self, envelope: &Envelope) -> Result<(), Problem> {
        let Extensions { eight_bit, utf8, has_size, size, .. } = self.extensions;
        if size.is_some_and(|most| most < envelope.size) {
            return Err(Problem::Lacks("room for a message of this length"));
        }
        let sender = envelope.sender.as_ref().map_or("", Address::as_str);
        let all = envelope.recipients.iter().map(Address::as_str);
        let needs_utf8 = !all.chain([sender]).all(str::is_ascii);
        if needs_utf8 && !utf8 {
            return Err(Problem::Lacks("SMTPUTF8, which addresses of this message need"));
        }
        let mut command = format!("MAIL FROM:<{sender}>");
        if has_size {
            command.push_str(&format!(" SIZE={}", envelope.size));
        }
        if envelope.is_8bit && eight_bit {
            command.push_str(" BODY=8BITMIME");
        }
        if needs_utf8 {
            command.push_str(" SMTPUTF8");
        }
        let reply = self.ask(&command).await?;
        self.check(&format!("sender <{sender}>"), reply)?;
        for recipient in &envelope.recipients {
            let reply = self.ask(&format!("RCPT TO:<{recipient}>")).await?;
            self.check(&format!("recipient <{recipient}>"), reply)?;
        }
        let reply = self.ask("DATA").await?;
        match reply.code {
            354 => Ok(()),
            _ => Err(Problem::Refused { command: "DATA".to_owned(), reply }),
        }
    }

    /// Sends a piece of the text, which is encoded already.
    pub(crate) async fn text(&mut self, piece: &[u8]) -> Result<(), Problem> {
        match self.stream.write_all(piece).await {
            Ok(()) => Ok(()),
            // The server may have said why it does not continue.
            Err(error) => match self.reply().await {
                Ok(reply) => Err(Problem::Refused { command: "message".to_owned(), reply }),
                Err(_) => Err(error.into()),
            },
        }
    }

    /// Sends the end of the text, and waits for the reply to the whole of it. If this fails without
    /// a refusal, the server may have taken the message.
    pub(crate) async fn finish(&mut self, end: &[u8]) -> Result<(), Problem> {
        self.text(end).await?;
        self.stream.flush().await?;
        let reply = self.reply().await?;
        self.check("message", reply).map(drop)
    }

    /// Takes leave. Failures are ignored: the message is delivered already.
    pub(crate) async fn quit(&mut self) {
        let _ = self.ask("QUIT").await;
    }

    async fn ask(&mut self, command: &str) -> Result<Reply, Problem> {
        if !self.buffer.is_empty() {
            return Err(Problem::Protocol("it has sent an unsolicited reply"));
        }
        self.stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        self.stream.flush().await?;
        self.reply().await
    }

    async fn reply(&mut self) -> Result<Reply, Problem> {
        loop {
            match Reply::take(&mut self.buffer) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(NoReply) => return Err(Problem::Protocol("its reply is not one of SMTP")),
            }
            let mut piece = [0; 4096];
            let read = self.stream.read(&mut piece).await?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.buffer.extend_from_slice(piece.get(..read).unwrap_or_default());
        }
    }

    fn check(&self, command: &str, reply: Reply) -> Result<Reply, Problem> {
        if reply.is_ok() {
            Ok(reply)
        } else {
            Err(Problem::Refused { command: command.to_owned(), reply })
        }
    }
}

/// Takes a password out of a server's reply, also in the forms in which it was sent: the reply
/// becomes a message for the script and the log.
fn without_secrets(mut reply: Reply, user: &str, password: &str) -> Reply {
    let secrets = [
        base64::encode(format!("\0{user}\0{password}").as_bytes()),
        base64::encode(password.as_bytes()),
        password.to_owned(),
    ];
    for line in &mut reply.lines {
        for secret in &secrets {
            *line = line.replace(secret, "[password]");
        }
    }
    reply
}
