//! One request and its answer on one connection to a FastCGI server. Both directions move at the
//! same time, as in [`crate::proxy`].

use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use howdah_config::Timeouts;
use howdah_wire::fastcgi::{
    Answer, Answers, Kind, MOST_CONTENT, Protocol, header, put_end_of_stream, put_stream,
};
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use super::{JOINED, REQUEST};
use crate::http1::read::Input;
use crate::http1::timer::Timer;
use crate::proxy::response::Malformed;
use crate::proxy::transport::Stream;
use crate::proxy::{Content, Failure};

/// Bytes for the log that one request may bring.
const MOST_LOG: usize = 1 << 20;

/// A part of an answer.
#[derive(Debug)]
pub enum Part {
    /// Bytes of head or body.
    Output(Bytes),
    /// Bytes for the log.
    Log(Bytes),
    /// The answer is complete.
    End,
}

/// See the module.
pub struct Conversation {
    stream: Stream,
    input: Input,
    answers: Answers,
    upload: Upload,
    timeouts: Timeouts,
    timer: Timer,
    /// When the wait that is going on ends.
    deadline: Option<Instant>,
    /// Bytes that may still come for the log.
    log: usize,
    /// Some byte of an answer has come.
    answered: bool,
    /// The head has come.
    head: bool,
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
    state: UploadState,
}

enum UploadState {
    Going,
    Sent,
    Failed(io::Error),
}

impl Upload {
    fn new(mut request: Vec<u8>, content: Content) -> Self {
        let mut at = 0;
        if let Content::Memory(bytes) = &content
            && bytes.len() <= JOINED
        {
            put_stream(Kind::Stdin, REQUEST, bytes, &mut request);
            put_end_of_stream(Kind::Stdin, REQUEST, &mut request);
            at = bytes.len() as u64;
        }
        Upload {
            head: request,
            head_sent: 0,
            piece: Bytes::new(),
            content,
            at,
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

    /// Makes the next record, if there is one.
    fn refill(&mut self) -> io::Result<()> {
        let rest = self.content.len().saturating_sub(self.at);
        if rest == 0 {
            return Ok(());
        }
        let len = rest.min(MOST_CONTENT as u64) as u16;
        let mut record = header(Kind::Stdin, REQUEST, len).to_vec();
        let start = record.len();
        match &self.content {
            Content::Memory(bytes) => {
                let from = usize::try_from(self.at).unwrap_or(usize::MAX);
                record.extend(bytes.iter().skip(from).take(usize::from(len)));
            }
            Content::File(file, _) => {
                record.resize(start + usize::from(len), 0);
                file.read_exact_at(record.get_mut(start..).unwrap_or_default(), self.at)?;
            }
        }
        self.at += u64::from(len);
        if self.at >= self.content.len() {
            put_end_of_stream(Kind::Stdin, REQUEST, &mut record);
        }
        self.piece = record.into();
        Ok(())
    }
}

impl Conversation {
    /// Begins, on a connection that the runtime has just been given. `request`: its records up to
    /// the body.
    pub fn new(
        stream: Stream,
        request: Vec<u8>,
        content: Content,
        timeouts: &Timeouts,
        timer: Timer,
    ) -> Self {
        let mut upload = Upload::new(request, content);
        upload.head_sent = stream.send_at_once(&upload.head);
        Conversation {
            stream,
            input: Input::default(),
            answers: Answers::new(REQUEST),
            upload,
            timeouts: timeouts.clone(),
            timer,
            deadline: None,
            log: MOST_LOG,
            answered: false,
            head: false,
        }
    }

    /// The head has come: from now on a pause is one within the body.
    pub fn has_head(&mut self) {
        self.head = true;
        self.deadline = None;
    }

    /// Whether any byte of an answer has come.
    pub fn answered(&self) -> bool {
        self.answered
    }

    /// The next part of the answer.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Failure>> {
        loop {
            while let Some(part) = self.decode()? {
                match part {
                    Part::Log(bytes) if bytes.len() > self.log => {}
                    Part::Log(bytes) => {
                        self.log -= bytes.len();
                        return Poll::Ready(Ok(Part::Log(bytes)));
                    }
                    part => return Poll::Ready(Ok(part)),
                }
            }
            self.poll_upload(cx);
            match self.input.poll_read(&mut self.stream, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.ended())),
                Poll::Ready(Ok(_)) => {
                    self.answered = true;
                    if self.head {
                        self.deadline = None;
                    }
                    continue;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Read(error))),
                Poll::Pending => {}
            }
            let (patience, timeout) = match self.upload.state {
                UploadState::Going => (self.timeouts.send, Failure::SendTimeout),
                _ if self.head => (self.timeouts.read, Failure::ReadTimeout),
                _ => (self.timeouts.first_byte, Failure::HeadTimeout),
            };
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + patience);
            ready!(self.timer.poll(cx, deadline));
            return Poll::Ready(Err(timeout));
        }
    }

    /// Takes a part out of what has come.
    fn decode(&mut self) -> Result<Option<Part>, Malformed> {
        const NO_RECORD: Malformed = Malformed("it does not answer with FastCGI records");
        let all = self.input.as_bytes();
        let mut rest = all;
        let answer = self.answers.next(&mut rest).map_err(|_| NO_RECORD)?;
        // Content is the last that was taken.
        let (taken, is_log) = (all.len() - rest.len(), matches!(answer, Some(Answer::Stderr(_))));
        let part = match answer {
            None => None,
            Some(Answer::Stdout(bytes) | Answer::Stderr(bytes)) => Some(bytes.len()),
            Some(Answer::End(end)) => {
                self.input.skip(taken);
                return match end.protocol {
                    Protocol::RequestComplete => Ok(Some(Part::End)),
                    Protocol::Overloaded => Err(Malformed("it has no room for the request")),
                    Protocol::CannotMultiplex | Protocol::UnknownRole => {
                        Err(Malformed("it does not answer such requests"))
                    }
                };
            }
        };
        let len = part.unwrap_or(0);
        self.input.skip(taken - len);
        Ok(part.map(|len| {
            let content = self.input.take(len);
            if is_log { Part::Log(content) } else { Part::Output(content) }
        }))
    }

    /// The connection, if the request was sent in full and nothing is left on it; and the timer.
    pub fn into_idle(mut self) -> (Option<Stream>, Timer) {
        let mut rest = self.input.as_bytes();
        let quiet = matches!(self.answers.next(&mut rest), Ok(None)) && rest.is_empty();
        let sent = matches!(self.upload.state, UploadState::Sent);
        ((quiet && sent && self.answers.is_between()).then_some(self.stream), self.timer)
    }

    /// Why there is no more.
    fn ended(&mut self) -> Failure {
        match std::mem::replace(&mut self.upload.state, UploadState::Sent) {
            UploadState::Failed(error) => Failure::Send(error),
            _ => Failure::Closed,
        }
    }

    /// Sends as much as the server takes. A server that takes no more may still have answered, so
    /// a failure is kept until nothing more can be read.
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
}
