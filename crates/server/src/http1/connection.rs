//! The state of a connection that all its parts share: socket, what came, what goes, the timer.

use std::io;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::head::{Scan, Scanned};
use super::read::Input;
use super::timer::{Pace, Timer, Wait};
use super::write::Output;
use crate::exchange::Gone;
use crate::limits::Limits;

/// What a connection runs over.
pub trait Io: AsyncRead + AsyncWrite + Unpin {
    /// The socket, if what is written to it is what the client gets: then files are sent from the
    /// kernel, and the socket is closed without a farewell.
    fn tcp(&self) -> Option<&TcpStream> {
        None
    }
}

impl Io for TcpStream {
    fn tcp(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl Io for UnixStream {}

/// See the module. Parts borrow it for the time of a poll, never across an await.
pub(super) struct Core<I> {
    pub io: I,
    pub input: Input,
    pub scan: Scan,
    pub out: Output,
    pub timer: Timer,
    /// How the client left, if it did.
    pub gone: Option<Gone>,
    /// The client's speed in taking what goes out, and the wait for it.
    pub send_pace: Pace,
    pub send_wait: Wait,
}

impl<I: Io> Core<I> {
    pub fn new(io: I) -> Self {
        Core {
            io,
            input: Input::default(),
            scan: Scan::default(),
            out: Output::default(),
            timer: Timer::default(),
            gone: None,
            send_pace: Pace::default(),
            send_wait: Wait::default(),
        }
    }

    /// Looks for a head in what has come.
    pub fn scan(&mut self, limits: &Limits) -> Scanned {
        self.scan.advance(self.input.as_bytes(), limits)
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
                self.out.clear();
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            match self.out.poll_write(&mut self.io, cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(sent)) => self.send_wait.over(&mut self.send_pace, sent),
                Poll::Ready(Err(_)) => self.gone = Some(Gone::Reset),
                Poll::Pending => ready!(self.poll_send_limit(cx, limits)),
            }
        }
    }

    /// Whether some of a head has come.
    pub fn has_begun(&self) -> bool {
        self.input.as_bytes().len() > self.scan.start()
    }

    /// While the client takes nothing: ready when it has had its time. The connection is given
    /// up then.
    pub fn poll_send_limit(&mut self, cx: &mut Context<'_>, limits: &Limits) -> Poll<()> {
        let pace = self.send_pace;
        let deadline = self
            .send_wait
            .deadline(|| pace.patience(limits.send_timeout, limits.min_rate, limits.grace));
        ready!(self.timer.poll(cx, deadline));
        self.gone = Some(Gone::Reset);
        Poll::Ready(())
    }
}
