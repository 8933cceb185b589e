//! A request that a worker answers, as its router thread sees it: frames go in, parts of the
//! response come out. No I/O except for the spool's file.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use howdah_cgi::head::ScriptHead;
use howdah_http::error_status::RequestError;
use howdah_http::spool::{self, MAX_WAITING, Spool};
use howdah_wire::frame::{CUT, Head, Kind, Log, Purge, RequestUsage};
use howdah_wire::profile::Samples;

/// Maximum size of a log record in bytes; a longer message continues in another record.
const MAX_LOG_BYTES: usize = 1 << 20;
/// Maximum number of interim responses that wait for the client; further ones are dropped.
const MAX_INTERIM: usize = 16;

/// Reason why there is no complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The worker has died, for this reason (for the log).
    Died(String),
    /// The worker wrote an invalid response.
    Broken(String),
    /// The part of the response that waits for the client could not be stored.
    SpoolFailed,
    /// The application has ended or cannot start.
    Stopped(String),
    /// The script exceeded its time limit.
    TimedOut,
}

impl From<&Failure> for RequestError {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Died(_) | Failure::Broken(_) => RequestError::NoResponse,
            Failure::SpoolFailed => RequestError::NotStored,
            Failure::Stopped(_) => RequestError::NotRunning,
            Failure::TimedOut => RequestError::TimedOut,
        }
    }
}

/// Number of bytes of a response from which on it is sent although the script continues and has not
/// flushed: half of a ring.
const MAX_HELD: u64 = 64 << 10;

/// Action of the router thread that a frame requires.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// No action.
    None,
    /// Write a record to the log: syslog severity, message.
    Log(u8, Vec<u8>),
    /// Purge cached responses.
    Purge {
        /// All of the host.
        is_all: bool,
        /// The entries become stale instead of being removed.
        is_soft: bool,
        /// Entries with one of these tags.
        tags: Vec<Vec<u8>>,
    },
    /// Keep these samples of the script.
    Samples(Box<Samples>),
    /// Send the announced descriptors to the worker.
    SendDescriptors,
    /// Send the worker the status of its application.
    SendStatus,
    /// Read the rest of the request's output from the worker's pipe.
    TakeOutput,
    /// Log the reason why the response could not be stored. The response has failed without a fault
    /// of the worker.
    SpoolFailed(String),
    /// The worker is free.
    Done(RequestUsage),
}

/// State of one request.
#[derive(Debug)]
pub struct PendingResponse {
    interim: VecDeque<ScriptHead>,
    head: Option<ScriptHead>,
    head_taken: bool,
    /// The script has flushed: the client gets the response so far.
    is_flushed: bool,
    body: Spool,
    ended: bool,
    /// An error has ended the script.
    is_cut: bool,
    failure: Option<Failure>,
    /// Severity and beginning of a message for the log.
    log: (u8, Vec<u8>),
    waker: Option<Waker>,
    /// The client has gone: frames are discarded.
    is_abandoned: bool,
    /// Descriptors that the worker will request.
    pub descriptors: Vec<OwnedFd>,
}

/// Next part of a response before its body.
#[derive(Debug)]
pub enum Next {
    /// An interim response.
    Interim(ScriptHead),
    /// The head; the body follows.
    Head(ScriptHead),
    /// There is no response.
    Failed(Failure),
}

impl PendingResponse {
    /// Creates the state of a queued request; `body` is for the part of the response that the
    /// client has not taken.
    pub fn new(body: Spool, descriptors: Vec<OwnedFd>) -> Self {
        PendingResponse {
            interim: VecDeque::new(),
            head: None,
            head_taken: false,
            is_flushed: false,
            body,
            ended: false,
            is_cut: false,
            failure: None,
            log: (0, Vec::new()),
            waker: None,
            is_abandoned: false,
            descriptors,
        }
    }

    /// Returns true if frames may be taken: not while too many bytes wait for the client.
    pub fn has_room(&self) -> bool {
        self.is_abandoned || self.body.len() < MAX_WAITING
    }

    /// Takes one frame. Error: the frame violates the protocol, so the worker cannot be trusted.
    pub fn frame(&mut self, kind: u8, payload: &[u8]) -> Result<Event, String> {
        let Some(kind) = Kind::from_byte(kind) else {
            return Err(format!("a frame of unknown kind {kind}"));
        };
        let malformed = |_| format!("a malformed frame {kind:?}");
        match kind {
            Kind::Informational => {
                let head = decode_head(payload).map_err(malformed)?;
                if self.head.is_none() && !self.head_taken && self.interim.len() < MAX_INTERIM {
                    self.interim.push_back(head);
                    self.wake();
                }
            }
            Kind::Head => {
                if self.head.is_some() || self.head_taken || self.ended {
                    return Err("a second head".to_owned());
                }
                self.head = Some(decode_head(payload).map_err(malformed)?);
                self.wake();
            }
            Kind::Body => {
                return self.body(payload.len(), 0, |out| out.extend_from_slice(payload));
            }
            Kind::End => {
                if !(self.head.is_some() || self.head_taken) {
                    return Err("an end without a head".to_owned());
                }
                self.is_cut = match payload {
                    b"" => false,
                    CUT => true,
                    _ => return Err("a malformed frame End".to_owned()),
                };
                self.ended = true;
                self.wake();
            }
            Kind::Log => return self.log_frame(&Log::decode(payload).map_err(malformed)?),
            Kind::Purge => {
                let purge = Purge::decode(payload).map_err(malformed)?;
                let (is_all, is_soft) = (purge.is_all, purge.is_soft);
                let tags = purge.tags().map(<[u8]>::to_vec).collect();
                return Ok(Event::Purge { is_all, is_soft, tags });
            }
            Kind::Flush => {
                self.is_flushed = true;
                self.wake();
            }
            Kind::Samples => {
                let samples = Samples::decode(payload).map_err(malformed)?;
                return Ok(Event::Samples(Box::new(samples)));
            }
            Kind::Descriptors => return Ok(Event::SendDescriptors),
            Kind::Status => return Ok(Event::SendStatus),
            Kind::Output => return Ok(Event::TakeOutput),
            Kind::Done => {
                let done = RequestUsage::decode(payload).map_err(malformed)?;
                if !self.ended {
                    return Err("the request ended before its response was complete".to_owned());
                }
                return Ok(Event::Done(done));
            }
        }
        Ok(Event::None)
    }

    /// Takes a part of the body: `take` appends `len` bytes to its buffer. About `behind` more
    /// bytes follow immediately.
    pub fn body(
        &mut self,
        len: usize,
        behind: usize,
        take: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Event, String> {
        if self.ended || !(self.head.is_some() || self.head_taken) {
            return Err("a body without a head".to_owned());
        }
        if self.is_abandoned {
            take(&mut Vec::with_capacity(len)); // to get past it
            return Ok(Event::None);
        }
        let kept = match self.body.room(len, behind) {
            Some(room) => {
                take(room);
                Ok(())
            }
            None => {
                let mut part = Vec::with_capacity(len);
                take(&mut part);
                self.body.push(part.into())
            }
        };
        let Err(problem) = kept else {
            self.wake();
            return Ok(Event::None);
        };
        // The rest is discarded, and the stored part must not be taken for the whole response.
        (self.head, self.head_taken) = (None, true);
        self.fail(Failure::SpoolFailed);
        self.abandon();
        // All responses without room share one line of the log.
        let is_logged = !spool::is_without_room(&problem);
        Ok(if is_logged { Event::SpoolFailed(problem.to_string()) } else { Event::None })
    }

    fn log_frame(&mut self, log: &Log<'_>) -> Result<Event, String> {
        let (severity, message) = &mut self.log;
        *severity = log.severity;
        message.extend_from_slice(log.message);
        Ok(if log.more && message.len() < MAX_LOG_BYTES {
            Event::None
        } else {
            Event::Log(*severity, std::mem::take(message))
        })
    }

    /// Returns true if the client may have the response so far. A part that a worker has published
    /// only because of a message for the log waits for the rest: the length is known then, and if
    /// the worker dies before, the client gets a 502 and no truncated page.
    fn is_released(&self) -> bool {
        self.ended || self.is_flushed || self.body.len() >= MAX_HELD
    }

    /// Returns the beginning of a message for the log whose end will not come: its worker has died.
    pub fn unfinished_log(&mut self) -> Event {
        let (severity, message) = &mut self.log;
        if message.is_empty() {
            Event::None
        } else {
            Event::Log(*severity, std::mem::take(message))
        }
    }

    /// Returns true if the whole response has arrived.
    pub fn is_complete(&self) -> bool {
        self.ended
    }

    /// Returns true if the response has arrived, and an error has ended its script.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Sets the failure; no more frames will arrive.
    pub fn fail(&mut self, failure: Failure) {
        if !self.ended && self.failure.is_none() {
            self.failure = Some(failure);
        }
        self.wake();
    }

    /// Discards the response: the client has gone.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        self.waker = None;
        self.body.clear();
    }

    /// Returns the next part before the body.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if let Some(interim) = self.interim.pop_front() {
            return Poll::Ready(Next::Interim(interim));
        }
        if self.is_released()
            && let Some(head) = self.head.take()
        {
            self.head_taken = true;
            return Poll::Ready(Next::Head(head));
        }
        if let Some(failure) = &self.failure {
            return Poll::Ready(Next::Failed(failure.clone()));
        }
        self.wait(cx)
    }

    /// Returns the whole body if it is complete and in memory.
    pub fn whole_body(&mut self) -> Option<Bytes> {
        if self.ended && self.failure.is_none() { self.body.take_all() } else { None }
    }

    /// Returns the next bytes of the body; `None` at its end.
    pub fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        match self.body.pop() {
            Ok(Some(bytes)) => return Poll::Ready(Some(Ok(bytes))),
            Ok(None) => {}
            Err(error) => return Poll::Ready(Some(Err(Failure::Broken(error.to_string())))),
        }
        if let Some(failure) = &self.failure {
            return Poll::Ready(Some(Err(failure.clone())));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        self.wait(cx)
    }

    /// Registers the task to wake at the next change.
    pub fn wait<T>(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Wakes the waiting task.
    pub fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn decode_head(payload: &[u8]) -> Result<ScriptHead, howdah_wire::bytes::Malformed> {
    let head = Head::decode(payload)?;
    Ok(ScriptHead {
        status: head.status,
        reason: Bytes::copy_from_slice(head.reason),
        lines: head.fields().map(Bytes::copy_from_slice).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn pending() -> PendingResponse {
        PendingResponse::new(Spool::new(std::env::temp_dir().into()), Vec::new())
    }

    fn head() -> Vec<u8> {
        let mut out = Vec::new();
        Head::put(&mut out, 200, b"");
        Head::put_field(&mut out, b"A: b");
        out
    }

    #[test]
    fn an_answer_in_order_is_taken() {
        let mut pending = pending();
        let mut done = Vec::new();
        RequestUsage::default().put(&mut done);
        assert_eq!(pending.frame(Kind::Head as u8, &head()), Ok(Event::None));
        assert_eq!(pending.frame(Kind::Body as u8, b"x"), Ok(Event::None));
        assert_eq!(pending.frame(Kind::End as u8, b""), Ok(Event::None));
        assert_eq!(
            pending.frame(Kind::Done as u8, &done),
            Ok(Event::Done(RequestUsage::default()))
        );
        assert_eq!(pending.whole_body().unwrap(), "x");
    }

    #[test]
    fn the_end_says_whether_an_error_has_ended_the_script() {
        for (payload, is_cut) in [(b"".as_slice(), false), (CUT, true)] {
            let mut pending = pending();
            pending.frame(Kind::Head as u8, &head()).unwrap();
            assert_eq!(pending.frame(Kind::End as u8, payload), Ok(Event::None));
            assert_eq!(pending.is_cut(), is_cut);
        }
        let mut hostile = pending();
        hostile.frame(Kind::Head as u8, &head()).unwrap();
        assert!(hostile.frame(Kind::End as u8, b"\x02").is_err());
        assert!(hostile.frame(Kind::End as u8, b"\x01\x01").is_err());
    }

    #[test]
    fn frames_out_of_order_are_refused() {
        assert!(pending().frame(Kind::Body as u8, b"x").is_err());
        assert!(pending().frame(Kind::End as u8, b"").is_err());
        assert!(pending().frame(0, b"").is_err());
        assert!(pending().frame(Kind::Head as u8, b"\x01").is_err());
        let mut twice = pending();
        twice.frame(Kind::Head as u8, &head()).unwrap();
        assert!(twice.frame(Kind::Head as u8, &head()).is_err());
    }

    #[test]
    fn an_answer_that_cannot_be_kept_fails_and_what_follows_is_thrown_away() {
        let part = vec![b'x'; 100_000];
        let mut done = Vec::new();
        RequestUsage::default().put(&mut done);
        let mut cx = Context::from_waker(Waker::noop());
        for begun in [true, false] {
            let mut pending =
                PendingResponse::new(Spool::new(Path::new("/nonexistent").into()), Vec::new());
            pending.frame(Kind::Head as u8, &head()).unwrap();
            if begun {
                pending.frame(Kind::Flush as u8, b"").unwrap();
                assert!(matches!(pending.poll_head(&mut cx), Poll::Ready(Next::Head(_))));
            }
            assert_eq!(pending.frame(Kind::Body as u8, &part), Ok(Event::None));
            let Ok(Event::SpoolFailed(problem)) = pending.frame(Kind::Body as u8, &part) else {
                panic!("it cannot be kept")
            };
            assert!(problem.contains("in /nonexistent") && problem.contains("--tmp"), "{problem}");
            assert_eq!(pending.frame(Kind::Body as u8, &part), Ok(Event::None));
            assert_eq!(pending.frame(Kind::End as u8, b""), Ok(Event::None));
            assert_eq!(
                pending.frame(Kind::Done as u8, &done),
                Ok(Event::Done(RequestUsage::default()))
            );
            assert_eq!(pending.whole_body(), None);
            let body = pending.poll_body(&mut cx);
            assert!(matches!(body, Poll::Ready(Some(Err(Failure::SpoolFailed)))), "{body:?}");
            if !begun {
                let next = pending.poll_head(&mut cx);
                assert!(
                    matches!(next, Poll::Ready(Next::Failed(Failure::SpoolFailed))),
                    "{next:?}"
                );
            }
        }
    }

    #[test]
    fn what_is_published_only_for_a_message_waits_for_the_flush_or_the_end() {
        let mut cx = Context::from_waker(Waker::noop());
        let is_there = |pending: &mut PendingResponse, cx: &mut Context<'_>| {
            matches!(pending.poll_head(cx), Poll::Ready(Next::Head(_)))
        };
        let part = vec![b'x'; 50_000];
        for release in [Kind::Flush, Kind::End, Kind::Body] {
            let mut pending = pending();
            pending.frame(Kind::Head as u8, &head()).unwrap();
            pending.frame(Kind::Body as u8, &part).unwrap();
            assert!(!is_there(&mut pending, &mut cx));
            let payload = if release == Kind::Body { &part[..] } else { b"" };
            pending.frame(release as u8, payload).unwrap();
            assert!(is_there(&mut pending, &mut cx), "{release:?}");
        }
        let mut died = pending();
        died.frame(Kind::Head as u8, &head()).unwrap();
        died.fail(Failure::TimedOut);
        assert!(matches!(died.poll_head(&mut cx), Poll::Ready(Next::Failed(Failure::TimedOut))));
    }

    #[test]
    fn the_beginning_of_a_message_is_left_when_its_worker_dies() {
        let mut pending = pending();
        assert_eq!(pending.unfinished_log(), Event::None);
        let mut out = Vec::new();
        Log { severity: 3, message: b"one ", more: true }.put(&mut out);
        assert_eq!(pending.frame(Kind::Log as u8, &out), Ok(Event::None));
        assert_eq!(pending.unfinished_log(), Event::Log(3, b"one ".to_vec()));
        assert_eq!(pending.unfinished_log(), Event::None);
    }

    #[test]
    fn parts_of_one_log_message_make_one_record() {
        let mut pending = pending();
        let mut part = |more, message: &[u8]| {
            let mut out = Vec::new();
            Log { severity: 3, message, more }.put(&mut out);
            pending.frame(Kind::Log as u8, &out)
        };
        assert_eq!(part(true, b"one "), Ok(Event::None));
        assert_eq!(part(false, b"two"), Ok(Event::Log(3, b"one two".to_vec())));
    }

    #[test]
    fn of_a_log_message_without_end_nothing_is_lost_and_little_is_kept() {
        let (mut pending, mut records) = (pending(), Vec::new());
        let part = vec![b'x'; 50_000];
        for n in 1..=50 {
            let mut out = Vec::new();
            Log { severity: 3, message: &part, more: n < 50 }.put(&mut out);
            match pending.frame(Kind::Log as u8, &out) {
                Ok(Event::Log(3, record)) => records.push(record.len()),
                event => assert_eq!(event, Ok(Event::None)),
            }
        }
        assert_eq!(records.iter().sum::<usize>(), 50 * part.len());
        assert!(records.iter().all(|record| *record <= MAX_LOG_BYTES + part.len()), "{records:?}");
    }
}
