//! The byte level of a connection: socket, input, output and timer.
//!
//! State that is needed only while a request is read or answered is in [`Work`]. A thread keeps a
//! spare one for its connections, as most connections are idle most of the time.

use std::cell::Cell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};

use howdah_sys::sockets;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::head::{Scan, Scanned};
use super::output::Output;
use crate::exchange::Disconnect;
use crate::input::Input;
use crate::limits::Limits;
use crate::memory::Charge;
use crate::timer::{ProgressDeadline, Throughput, Timer, is_progress};

/// A stream that a connection can run over.
pub trait Io: AsyncRead + AsyncWrite + Unpin {
    /// Returns true if [`Io::tcp`] returns a socket.
    fn is_tcp(&self) -> bool {
        false
    }

    /// Returns the socket, if the bytes written to it are the bytes that the client gets: then the
    /// kernel sends files, and the socket is closed without a shutdown.
    fn tcp(&mut self) -> Option<&TcpStream> {
        None
    }

    /// Returns the number of bytes that were written and that the client has not taken; `None` if
    /// it is not known.
    fn unsent(&self) -> Option<usize> {
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

    fn unsent(&self) -> Option<usize> {
        sockets::unsent(self).ok()
    }
}

impl Io for UnixStream {
    fn unsent(&self) -> Option<usize> {
        sockets::unsent(self).ok()
    }
}

/// The byte level of a connection. Borrowed for the time of a poll, never across an await.
pub(crate) struct Transport<I> {
    pub io: I,
    pub input: Input,
    pub timer: Timer,
    /// State after the client has disconnected.
    pub disconnected: Option<Disconnect>,
    /// Number of requests received.
    pub served: u32,
    pub work: PooledWork,
}

/// State of reading a head and of sending.
#[derive(Default)]
pub(crate) struct Work {
    pub scan: Scan,
    pub out: Output,
    /// Speed at which the client takes the output.
    pub send_rate: Throughput,
    pub send_deadline: ProgressDeadline,
    /// Bytes that the client had not taken when the server began to wait for it.
    pub unsent: Option<usize>,
    /// The memory of a head that has not arrived as a whole.
    pub head: Option<Charge>,
}

impl Work {
    /// Records that the client took `bytes`.
    pub fn has_sent(&mut self, bytes: usize) {
        self.send_deadline.progress(&mut self.send_rate, bytes);
    }
}

thread_local! {
    static SPARE_WORK: Cell<Option<Box<Work>>> = const { Cell::new(None) };
}

/// State of connections that have not taken their own.
static INITIAL_WORK: LazyLock<Work> = LazyLock::new(Work::default);

/// The [`Work`] of a connection, taken from the thread when it is first changed.
#[derive(Default)]
pub(crate) struct PooledWork(Option<Box<Work>>);

impl PooledWork {
    /// Returns it to the thread if all output was sent. The input must be empty.
    pub fn release(&mut self) {
        if self.0.as_ref().is_some_and(|work| work.out.is_empty())
            && let Some(mut work) = self.0.take()
        {
            *work = Work::default();
            SPARE_WORK.set(Some(work));
        }
    }
}

impl Deref for PooledWork {
    type Target = Work;

    fn deref(&self) -> &Work {
        self.0.as_deref().unwrap_or_else(|| &INITIAL_WORK)
    }
}

impl DerefMut for PooledWork {
    fn deref_mut(&mut self) -> &mut Work {
        self.0.get_or_insert_with(|| SPARE_WORK.take().unwrap_or_default())
    }
}

impl<I: Io> Transport<I> {
    /// Creates the state of a new connection.
    pub fn new(io: I) -> Self {
        Transport {
            io,
            input: Input::default(),
            timer: Timer::default(),
            disconnected: None,
            served: 0,
            work: PooledWork::default(),
        }
    }

    /// Looks for the end of a request head in the input.
    pub fn scan(&mut self, limits: &Limits) -> Scanned {
        match self.input.as_bytes() {
            [] => Scanned::Partial,
            input => self.work.scan.advance(input, limits),
        }
    }

    /// Returns true if a part of a request head was received.
    pub fn has_begun(&self) -> bool {
        self.input.as_bytes().len() > self.work.scan.start()
    }

    /// Reads once, and returns the number of bytes; 0 at the end. After the end or an error, each
    /// call returns the same again.
    pub fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.poll_read_with(cx, Input::poll_read)
    }

    /// Reads with a method of the input, like [`Transport::poll_read`].
    pub fn poll_read_with(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut Input, &mut I, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match self.disconnected {
            Some(Disconnect::Reset) => {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            Some(Disconnect::Closed) => return Poll::Ready(Ok(0)),
            None => {}
        }
        let result = ready!(read(&mut self.input, &mut self.io, cx));
        self.disconnected = match result {
            Ok(0) => Some(Disconnect::Closed),
            Ok(_) => None,
            Err(_) => Some(Disconnect::Reset),
        };
        Poll::Ready(result)
    }

    /// Reads ahead, within bounds, until the client disconnects.
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        loop {
            if let Some(disconnected) = self.disconnected {
                return Poll::Ready(disconnected);
            }
            if self.input.is_full() {
                return Poll::Pending;
            }
            let _ = ready!(self.poll_read_with(cx, Input::poll_read_ahead));
        }
    }

    /// Sends all output, within the limits for sending.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<io::Result<()>> {
        loop {
            if self.disconnected == Some(Disconnect::Reset) {
                self.work.out.clear();
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            match self.work.out.poll_write(&mut self.io, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(sent)) => self.work.has_sent(sent),
                Poll::Ready(Err(_)) => self.disconnected = Some(Disconnect::Reset),
                Poll::Pending => ready!(self.poll_send_timeout(cx, limits)),
            }
        }
    }

    /// Ready when the client, which does not take the output now, is too slow. The connection
    /// counts as reset from then on.
    ///
    /// The kernel reports a socket as writable only when a third of its buffer or more is free,
    /// which can be a megabyte: a client that has taken less than that meanwhile, at the minimum
    /// rate, has the time once more.
    pub fn poll_send_timeout(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<()> {
        loop {
            let rate = self.work.send_rate;
            let timeout = || rate.remaining(limits.send_timeout, limits.min_rate, limits.grace);
            if !self.work.send_deadline.is_waiting() {
                self.work.unsent = self.io.unsent();
            }
            let deadline = self.work.send_deadline.get(timeout);
            ready!(self.timer.poll(cx, deadline));
            let levels = self.work.unsent.zip(self.io.unsent());
            let taken = levels.map_or(0, |(before, now)| before.saturating_sub(now));
            if !is_progress(taken, limits.send_timeout, limits.min_rate) {
                self.disconnected = Some(Disconnect::Reset);
                return Poll::Ready(());
            }
            self.work.has_sent(0);
        }
    }
}
