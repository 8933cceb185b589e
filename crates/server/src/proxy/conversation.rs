//! One request and its response on one connection to an upstream.
//!
//! Both directions move at the same time: an upstream may answer before it has read all of the
//! request, and some only read on when their answer is taken.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use howdah_config::Timeouts;
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::Failure;
use super::connection::Connection;
use super::response::{self, Head, Malformed, Scan};
use crate::http1::read::Input;
use crate::http1::timer::Timer;
use crate::php::body::RequestBody;

/// Bytes of a body that leave in one write with the head.
const JOINED: usize = 16 * 1024;
/// Bytes read from a file at once.
const PIECE: usize = 64 * 1024;
/// Interim responses that one request may bring.
const MOST_INTERIM: u32 = 32;

/// A request body that can be sent more than once.
#[derive(Debug, Clone)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In a file, from its start.
    File(Rc<File>, u64),
}

impl Content {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_, len) => *len,
        }
    }
}

impl From<RequestBody> for Content {
    fn from(body: RequestBody) -> Self {
        match body {
            RequestBody::Memory(bytes) => Content::Memory(bytes),
            RequestBody::File(file, len) => Content::File(Rc::new(file), len),
        }
    }
}

/// See the module.
pub struct Conversation {
    stream: Connection,
    input: Input,
    scan: Scan,
    upload: Upload,
    timeouts: Timeouts,
    timer: Timer,
    /// When the wait that is going on ends.
    deadline: Option<Instant>,
    interim: u32,
    /// Some byte of a response has come.
    answered: bool,
    to_head: bool,
}

/// What is still to be sent.
struct Upload {
    /// Goes first, with as much of the content as was joined to it.
    head: Vec<u8>,
    /// Bytes of the head that are sent.
    head_sent: usize,
    /// Goes next.
    piece: Bytes,
    content: Content,
    /// Bytes of the content that are sent or in `piece`.
    at: u64,
    /// Goes last.
    tail: Bytes,
    state: UploadState,
}

enum UploadState {
    Going,
    Sent,
    Failed(io::Error),
}

impl Upload {
    fn new(mut head: Vec<u8>, content: Content) -> Self {
        let mut at = 0;
        if let Content::Memory(bytes) = &content
            && bytes.len() <= JOINED
        {
            head.extend_from_slice(bytes);
            at = bytes.len() as u64;
        }
        Upload {
            head,
            head_sent: 0,
            piece: Bytes::new(),
            content,
            at,
            tail: Bytes::new(),
            state: UploadState::Going,
        }
    }

    /// What is to be sent next; nothing at the end.
    fn next(&mut self) -> io::Result<&[u8]> {
        if self.head_sent < self.head.len() {
            return Ok(&self.head[self.head_sent..]);
        }
        if self.piece.is_empty() {
            self.refill()?;
        }
        Ok(&self.piece)
    }

    /// So many bytes of that were sent.
    fn advance(&mut self, sent: usize) {
        match self.head_sent < self.head.len() {
            true => self.head_sent += sent,
            false => self.piece.advance(sent.min(self.piece.len())),
        }
    }

    /// Makes the next piece, which is empty at the end.
    fn refill(&mut self) -> io::Result<()> {
        let rest = self.content.len().saturating_sub(self.at);
        if rest == 0 {
            self.piece = std::mem::take(&mut self.tail);
            return Ok(());
        }
        self.piece = match &self.content {
            Content::Memory(bytes) => bytes.clone(), // more than was joined to the head: all of it
            Content::File(file, _) => {
                let mut piece = vec![0; rest.min(PIECE as u64) as usize];
                file.read_exact_at(&mut piece, self.at)?;
                piece.into()
            }
        };
        self.at += self.piece.len() as u64;
        Ok(())
    }
}

impl Conversation {
    /// Begins; nothing is sent before the first poll. `to_head`: the request is HEAD.
    pub fn new(
        stream: Connection,
        head: Vec<u8>,
        content: Content,
        to_head: bool,
        timeouts: &Timeouts,
        timer: Timer,
    ) -> Self {
        Conversation {
            stream,
            input: Input::default(),
            scan: Scan::default(),
            upload: Upload::new(head, content),
            timeouts: timeouts.clone(),
            timer,
            deadline: None,
            interim: 0,
            answered: false,
            to_head,
        }
    }

    /// The content is one chunk, and these lines are its trailer. To be called before the first
    /// poll, after a head that says so.
    pub fn end_with(&mut self, trailer: &[u8]) {
        let size = format!("{:x}\r\n", self.upload.content.len());
        // What was joined to the head goes behind the size.
        let joined = usize::try_from(self.upload.at).unwrap_or(0);
        let head = self.upload.head.len().saturating_sub(joined);
        self.upload.head.splice(head..head, size.into_bytes());
        self.upload.tail = [b"\r\n0\r\n", trailer, b"\r\n"].concat().into();
    }

    /// The next head, interim or final. The body, if it is final, follows in [`Self::input`].
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Failure>> {
        loop {
            let found = match self.input.is_empty() {
                true => None,
                false => self.scan.advance(self.input.as_bytes())?,
            };
            if let Some(len) = found {
                self.scan = Scan::default();
                let bytes = self.input.as_bytes().get(..len).unwrap_or_default();
                let head = response::parse(bytes, self.to_head)?;
                self.input.skip(len);
                if head.status < 200 {
                    self.interim += 1;
                    if self.interim > MOST_INTERIM {
                        return Poll::Ready(Err(Malformed("too many interim responses").into()));
                    }
                } else {
                    self.deadline = None;
                }
                return Poll::Ready(Ok(head));
            }
            self.poll_upload(cx);
            match self.input.poll_read(&mut self.stream, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.ended())),
                Poll::Ready(Ok(_)) => {
                    self.answered = true;
                    continue;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Read(error))),
                Poll::Pending => {}
            }
            let (patience, timeout) = match self.upload.state {
                UploadState::Going => (self.timeouts.send, Failure::SendTimeout),
                _ => (self.timeouts.first_byte, Failure::HeadTimeout),
            };
            ready!(self.poll_deadline(cx, patience));
            return Poll::Ready(Err(timeout));
        }
    }

    /// Reads more of the body into [`Self::input`]. `false` at the end of the connection.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        self.poll_upload(cx);
        match self.input.poll_read(&mut self.stream, cx) {
            Poll::Ready(Ok(read)) => {
                self.deadline = None;
                Poll::Ready(Ok(read > 0))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Failure::Read(error))),
            Poll::Pending => {
                ready!(self.poll_deadline(cx, self.timeouts.read));
                Poll::Ready(Err(Failure::ReadTimeout))
            }
        }
    }

    /// What has come and is not used yet.
    pub fn input(&mut self) -> &mut Input {
        &mut self.input
    }

    /// Whether any byte of a response has come.
    pub fn answered(&self) -> bool {
        self.answered
    }

    /// The connection, if the request was sent in full and nothing is left on it; and the timer.
    pub fn into_idle(self) -> (Option<Connection>, Timer) {
        let sent = matches!(self.upload.state, UploadState::Sent);
        ((sent && self.input.is_empty()).then_some(self.stream), self.timer)
    }

    /// The connection, and what has come on it after the head, if the request was sent in full.
    pub fn into_parts(self) -> Option<(Connection, Input)> {
        let sent = matches!(self.upload.state, UploadState::Sent);
        sent.then_some((self.stream, self.input))
    }

    /// Why there is no response.
    fn ended(&mut self) -> Failure {
        match std::mem::replace(&mut self.upload.state, UploadState::Sent) {
            UploadState::Failed(error) => Failure::Send(error),
            _ => Failure::Closed,
        }
    }

    /// Sends as much as the upstream takes. An upstream that takes no more may still have
    /// answered, so a failure is kept until nothing more can be read.
    fn poll_upload(&mut self, cx: &mut Context<'_>) {
        while let UploadState::Going = self.upload.state {
            self.upload.state = match self.poll_write(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(true)) => UploadState::Going,
                Poll::Ready(Ok(false)) => UploadState::Sent,
                Poll::Ready(Err(error)) => UploadState::Failed(error),
            };
            self.deadline = None;
        }
    }

    /// Writes once. `false` if everything is sent.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let next = self.upload.next()?;
        if next.is_empty() {
            return Poll::Ready(Ok(false));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, next))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.upload.advance(written);
        Poll::Ready(Ok(true))
    }

    /// Ready when `patience` has passed without progress.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, patience: Duration) -> Poll<()> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + patience);
        self.timer.poll(cx, deadline)
    }
}
