//! Sending a range of a file without blocking the event loop.
//!
//! 1. A large range is sent on plain TCP by the kernel (`sendfile`), piece by piece, each loaded
//!    into the page cache first. The output before it is sent with `MSG_MORE`, so that both share
//!    packets.
//! 2. Any other range is read into a buffer, piece by piece.
//! 3. Content of this process that has a copy in memory of the kernel is sent from there
//!    ([`in_kernel`](crate::body::in_kernel)).
//! 4. Other connections have a turn after each piece.
//!
//! The response is cut short at the end of a file that has become shorter: it is neither padded nor
//! retried.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::yield_now;

use super::sender::Sender;
use super::transport::{Io, Transport};
use crate::body::in_kernel::InKernel;
use crate::body::{SendError, file};
use crate::exchange::Disconnect;
use crate::limits::Limits;

/// Minimum length in bytes of a range that the kernel sends. Reading a shorter one costs less.
const MIN_SENDFILE: u64 = 64 * 1024;

/// Bytes that the kernel sends in one turn.
const SENDFILE_PIECE: u64 = 1024 * 1024;

impl<I: Io> Sender<'_, I> {
    /// Sends `len` bytes of a file, starting at `offset`.
    pub async fn send_file(
        &mut self,
        file: &Arc<File>,
        mut offset: u64,
        len: u64,
    ) -> Result<(), SendError> {
        let end = offset.checked_add(len).ok_or(SendError::BodyFailed)?;
        let in_kernel = len >= MIN_SENDFILE && self.transport.borrow().io.is_tcp();
        while offset < end {
            let left = end - offset;
            offset += if in_kernel {
                let piece = left.min(SENDFILE_PIECE);
                file::preload(file, offset, piece).await?;
                self.send_buffered().await?;
                self.send_piece(file, offset, piece).await?;
                piece
            } else {
                let piece = usize::try_from(left).unwrap_or(usize::MAX).min(file::READ_SIZE);
                let bytes = file::read(file, offset, piece).await?;
                let len = bytes.len() as u64;
                self.bytes(bytes).await?;
                len
            };
            if offset < end {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Returns the copy of content that the kernel sends to plain TCP, and the offset of the
    /// content in it.
    pub fn copy_in_kernel(&self, content: &Bytes) -> Option<(Arc<InKernel>, u64)> {
        let copy = self.in_kernel.as_ref()?;
        self.transport.borrow().io.is_tcp().then(|| copy.get(content))?
    }

    /// Sends a part of a file in memory.
    pub async fn send_in_kernel(
        &mut self,
        file: &File,
        offset: u64,
        len: u64,
    ) -> Result<(), SendError> {
        self.send_buffered().await?;
        self.send_piece(file, offset, len).await
    }

    /// Sends the output buffer, and tells the kernel that more follows.
    async fn send_buffered(&mut self) -> Result<(), SendError> {
        if self.transport.borrow().work.out.is_spilled() {
            self.flush().await?;
        }
        poll_fn(|cx| {
            let transport = &mut *self.transport.borrow_mut();
            let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
            while !transport.work.out.buffered().is_empty() {
                let send = |tcp: &TcpStream, head: &[u8]| Ok(rustix::net::send(tcp, head, flags)?);
                let sent = ready!(poll_socket(transport, cx, self.limits, send))?;
                transport.work.out.advance(sent);
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Sends a piece that is in the page cache.
    async fn send_piece(
        &mut self,
        file: &File,
        mut offset: u64,
        len: u64,
    ) -> Result<(), SendError> {
        let end = offset + len;
        poll_fn(|cx| {
            let transport = &mut *self.transport.borrow_mut();
            while offset < end {
                let mut from = offset;
                let count = (end - offset).min(SENDFILE_PIECE) as usize;
                let send = |tcp: &TcpStream, _: &[u8]| {
                    Ok(rustix::fs::sendfile(tcp, file, Some(&mut from), count)?)
                };
                let sent = ready!(poll_socket(transport, cx, self.limits, send))? as u64;
                if sent == 0 {
                    // The file has become shorter since its length was announced.
                    return Poll::Ready(Err(SendError::BodyFailed));
                }
                offset += sent;
                transport.work.out.bypassed(sent);
                self.sent += sent;
            }
            Poll::Ready(Ok(()))
        })
        .await
    }
}

/// Calls `send` with the socket and the output buffer when the socket is writable. Returns the
/// number of bytes that `send` has sent.
fn poll_socket<I: Io>(
    transport: &mut Transport<I>,
    cx: &mut Context<'_>,
    limits: &Limits,
    mut send: impl FnMut(&TcpStream, &[u8]) -> io::Result<usize>,
) -> Poll<Result<usize, SendError>> {
    loop {
        let Some(tcp) = transport.io.tcp() else { return Poll::Ready(Err(SendError::ClientGone)) };
        let result = match tcp.poll_write_ready(cx) {
            Poll::Ready(Ok(())) => {
                tcp.try_io(Interest::WRITABLE, || send(tcp, transport.work.out.buffered()))
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => {
                ready!(transport.poll_send_timeout(cx, limits));
                return Poll::Ready(Err(SendError::ClientGone));
            }
        };
        let error = match result {
            Ok(sent) => {
                transport.work.has_sent(sent);
                return Poll::Ready(Ok(sent));
            }
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            // The reactor replaces the error when it notes that the socket is full.
            _ if error.kind() == io::ErrorKind::WouldBlock => {}
            Some(Errno::INTR) => {}
            // The file cannot be read.
            Some(Errno::IO | Errno::INVAL) => return Poll::Ready(Err(SendError::BodyFailed)),
            _ => {
                transport.disconnected = Some(Disconnect::Reset);
                return Poll::Ready(Err(SendError::ClientGone));
            }
        }
    }
}
