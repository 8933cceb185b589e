//! The state of a connection that all its parts share: socket, what came, what goes, the timer.
//!
//! What matters only between the first byte of a request and the last of its answer is lent by
//! the thread ([`Work`]), as most connections wait for most of their life.

use std::cell::Cell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::head::{Scan, Scanned};
use super::write::Output;
use crate::exchange::Gone;
use crate::input::Input;
use crate::limits::Limits;
use crate::timer::{Pace, Timer, Wait};

/// What a connection runs over.
pub trait Io: AsyncRead + AsyncWrite + Unpin {
    /// Whether there is [a socket](Io::tcp).
    fn is_tcp(&self) -> bool {
        false
    }

    /// The socket, if what is written to it is what the client gets: then files are sent from the
    /// kernel, and the socket is closed without a farewell.
    fn tcp(&mut self) -> Option<&TcpStream> {
        None
    }
}

impl Io for TcpStream {
    fn is_tcp(&self) -> bool {
        true
    }

    fn tcp(&mut self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Io for UnixStream {}

/// See the module. Parts borrow it for the time of a poll, never across an await.
pub(super) struct Core<I> {
    pub io: I,
    pub input: Input,
    pub timer: Timer,
    /// How the client left, if it did.
    pub gone: Option<Gone>,
    /// Requests that came so far.
    pub served: u32,
    pub work: Lent,
}

/// Where reading and sending are.
#[derive(Default)]
pub(super) struct Work {
    pub scan: Scan,
    pub out: Output,
    /// The client's speed in taking what goes out, and the wait for it.
    pub send_pace: Pace,
    pub send_wait: Wait,
}

impl Work {
    /// The client took `bytes`.
    pub fn has_sent(&mut self, bytes: usize) {
        self.send_wait.over(&mut self.send_pace, bytes);
    }
}

thread_local! {
    static SPARE: Cell<Option<Box<Work>>> = const { Cell::new(None) };
}

/// What a connection without work has.
static NONE: LazyLock<Work> = LazyLock::new(Work::default);

/// The [`Work`] of a connection: borrowed when it is first changed.
#[derive(Default)]
pub(super) struct Lent(Option<Box<Work>>);

impl Lent {
    /// Gives it back if everything has been sent. Nothing may have come that is not used.
    pub fn give_back(&mut self) {
        if self.0.as_ref().is_some_and(|work| work.out.is_empty())
            && let Some(mut work) = self.0.take()
        {
            *work = Work::default();
            SPARE.set(Some(work));
        }
    }
}

impl Deref for Lent {
    type Target = Work;

    fn deref(&self) -> &Work {
        self.0.as_deref().unwrap_or_else(|| &NONE)
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Work {
        self.0.get_or_insert_with(|| SPARE.take().unwrap_or_default())
    }
}

impl<I: Io> Core<I> {
    pub fn new(io: I) -> Self {
        Core {
            io,
            input: Input::default(),
            timer: Timer::default(),
            gone: None,
            served: 0,
            work: Lent::default(),
        }
    }

    /// Looks for a head in what has come.
    pub fn scan(&mut self, limits: &Limits) -> Scanned {
        match self.input.as_bytes() {
            [] => Scanned::Partial,
            input => self.work.scan.advance(input, limits),
        }
    }

    /// Reads once; 0 at the end. A failed or ended connection gives the same again.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.gone {
            Some(Gone::Reset) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Gone::Closed) => return Poll::Ready(Ok(0)),
            None => {}
        }
        let result = ready!(self.input.poll_read(&mut self.io, cx));
        self.gone = match result {
            Ok(0) => Some(Gone::Closed),
            Ok(_) => None,
            Err(_) => Some(Gone::Reset),
        };
        Poll::Ready(result)
    }

    /// Reads ahead, within bounds, to learn whether the client has left.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        loop {
            if let Some(gone) = self.gone {
                return Poll::Ready(gone);
            }
            if self.input.is_full() {
                return Poll::Pending;
            }
            let _ = ready!(self.poll_read(cx));
        }
    }

    /// Sends all that waits, within the limits for sending.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<io::Result<()>> {
        loop {
            if self.gone == Some(Gone::Reset) {
                self.work.out.clear();
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            match self.work.out.poll_write(&mut self.io, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(sent)) => self.work.has_sent(sent),
                Poll::Ready(Err(_)) => self.gone = Some(Gone::Reset),
                Poll::Pending => ready!(self.poll_send_limit(cx, limits)),
            }
        }
    }

    /// Whether some of a head has come.
    pub fn has_begun(&self) -> bool {
        self.input.as_bytes().len() > self.work.scan.start()
    }

    /// While the client takes nothing: ready when it has had its time. The connection is given
    /// up then.
    pub fn poll_send_limit(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<()> {
        let pace = self.work.send_pace;
        let deadline = self
            .work
            .send_wait
            .deadline(|| pace.patience(limits.send_timeout, limits.min_rate, limits.grace));
        ready!(self.timer.poll(cx, deadline));
        self.gone = Some(Gone::Reset);
        Poll::Ready(())
    }
}
