//! The transport of a connection, which inspects the frames of the client and notes blocked writes.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;
use tokio::time::Instant;

use super::blocks::{Blocks, Flaws};
use super::cost;
use super::frames::{Frames, Piece};
use crate::streams::Budget;

/// A stream that a connection can run over. Used as a trait object, so that the code of the
/// protocol exists once.
pub trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// First bytes of a client (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Units of the cooperative budget of a task (128 per turn) that a read costs. A read may have a
/// thousand short frames, and a client that sends only those must not delay others for
/// milliseconds.
const READ_COST: usize = 8;

/// Transport that records the time since which writes block, the cost of received frames and the
/// flaws of requests. It stops reading when the budget is exhausted.
pub(super) struct InspectedTransport {
    io: Box<dyn Io>,
    blocked: Rc<Cell<Option<Instant>>>,
    frames: Frames,
    blocks: Blocks,
    budget: Rc<Budget>,
}

impl InspectedTransport {
    pub fn new(
        io: Box<dyn Io>,
        blocked: Rc<Cell<Option<Instant>>>,
        budget: Rc<Budget>,
        flaws: Rc<Flaws>,
    ) -> Self {
        let (frames, blocks) = (Frames::new(PREFACE.len()), Blocks::new(flaws));
        InspectedTransport { io, blocked, frames, blocks, budget }
    }

    fn record_write<T>(&self, poll: Poll<T>) -> Poll<T> {
        match poll {
            Poll::Ready(_) => self.blocked.set(None),
            Poll::Pending => self.blocked.set(self.blocked.get().or_else(|| Some(Instant::now()))),
        }
        poll
    }
}

impl AsyncRead for InspectedTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        for _ in 0..READ_COST {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        let this = &mut *self;
        if this.budget.is_spent(Instant::now) {
            cx.waker().wake_by_ref(); // so that the driver closes the connection
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buffer))?;
        let received = buffer.filled().get(before..).unwrap_or_default();
        let (budget, blocks) = (&this.budget, &mut this.blocks);
        this.frames.read(received, |piece| {
            if let Piece::Head(frame) = piece {
                cost::spend(budget, frame);
            }
            blocks.take(piece);
        });
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for InspectedTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.record_write(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.record_write(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.io).poll_flush(cx);
        self.record_write(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.io).poll_shutdown(cx);
        self.record_write(poll)
    }
}
