//! Sending a range of a file without ever waiting for the disk in the event loop.
//!
//! 1. Ask whether the page cache has the end of the next piece (`RWF_NOWAIT`); if not, a thread
//!    of the blocking pool reads the piece first.
//! 2. On plain TCP, a large piece goes from the page cache to the socket in the kernel
//!    (`sendfile`); the head before it is sent with `MSG_MORE`, so that both share packets.
//!    Otherwise it is read into a buffer.
//! 3. After each piece other connections have their turn.
//!
//! A file that has become shorter ends the response: nothing is padded, nothing is retried.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::{spawn_blocking, yield_now};

use super::connection::{Core, Io};
use super::send::{Cut, Sender};
use crate::exchange::Gone;
use crate::limits::Limits;

/// From this size on a file is sent by the kernel; below, reading it costs less.
const SENDFILE: u64 = 64 * 1024;

/// Bytes sent by the kernel in one turn.
const PIECE: u64 = 1024 * 1024;

/// Bytes read in one turn.
const READ: usize = 64 * 1024;

/// Sends `len` bytes of `file` from `offset` on.
pub(super) async fn send<I: Io>(
    sender: &mut Sender<'_, I>,
    file: &Arc<File>,
    mut offset: u64,
    len: u64,
) -> Result<(), Cut> {
    let end = offset.checked_add(len).ok_or(Cut::Body)?;
    let in_kernel = len >= SENDFILE && sender.core.borrow().io.is_tcp();
    while offset < end {
        let left = end - offset;
        let moved = if in_kernel {
            let piece = left.min(PIECE);
            warm(file, offset, piece).await?;
            send_head(sender).await?;
            send_piece(sender, file, offset, piece).await?;
            piece
        } else {
            let piece = usize::try_from(left).unwrap_or(READ).min(READ);
            let bytes = read(file, offset, piece).await?;
            let moved = bytes.len() as u64;
            sender.bytes(bytes).await?;
            moved
        };
        offset += moved;
        if offset < end {
            yield_now().await;
        }
    }
    Ok(())
}

/// Makes sure that the end of a piece is in the page cache. What lies before it was read with
/// it, or will be by the kernel's read-ahead.
async fn warm(file: &Arc<File>, offset: u64, len: u64) -> Result<(), Cut> {
    let mut byte = [0];
    let last = offset + len.saturating_sub(1);
    match preadv2(&**file, &mut [IoSliceMut::new(&mut byte)], last, ReadWriteFlags::NOWAIT) {
        Ok(0) => return Err(Cut::Body),
        Ok(_) => return Ok(()),
        // Not cached, or a file system that cannot tell.
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR | Errno::NOSYS) => {}
        Err(_) => return Err(Cut::Body),
    }
    let file = Arc::clone(file);
    let read = spawn_blocking(move || {
        let mut buffer = vec![0; READ];
        let mut at = offset;
        while at < offset + len {
            let most = (offset + len - at).min(READ as u64) as usize;
            match file.read_at(buffer.get_mut(..most).unwrap_or_default(), at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => at += n as u64,
            }
        }
        io::Result::Ok(())
    });
    read.await.map_err(|_| Cut::Body)?.map_err(|_| Cut::Body)
}

/// Sends what waits, telling the kernel that more follows.
async fn send_head<I: Io>(sender: &Sender<'_, I>) -> Result<(), Cut> {
    poll_fn(|cx| {
        let core = &mut *sender.core.borrow_mut();
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        while !core.work.out.head().is_empty() {
            let send = |tcp: &TcpStream, head: &[u8]| Ok(rustix::net::send(tcp, head, flags)?);
            let sent = ready!(poll_socket(core, cx, sender.limits, send))?;
            core.work.out.advance(sent);
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Sends a piece that is in the page cache.
async fn send_piece<I: Io>(
    sender: &mut Sender<'_, I>,
    file: &File,
    mut offset: u64,
    len: u64,
) -> Result<(), Cut> {
    let end = offset + len;
    poll_fn(|cx| {
        let core = &mut *sender.core.borrow_mut();
        while offset < end {
            let mut from = offset;
            let count = (end - offset).min(PIECE) as usize;
            let send = |tcp: &TcpStream, _: &[u8]| {
                Ok(rustix::fs::sendfile(tcp, file, Some(&mut from), count)?)
            };
            let sent = ready!(poll_socket(core, cx, sender.limits, send))? as u64;
            if sent == 0 {
                // The file has become shorter since its length was announced.
                return Poll::Ready(Err(Cut::Body));
            }
            offset += sent;
            core.work.out.passed(sent);
            sender.sent += sent;
        }
        Poll::Ready(Ok(()))
    })
    .await
}

/// Sends with `send`, which gets the socket and what waits, as soon as the socket takes something.
fn poll_socket<I: Io>(
    core: &mut Core<I>,
    cx: &mut Context<'_>,
    limits: &Limits,
    mut send: impl FnMut(&TcpStream, &[u8]) -> io::Result<usize>,
) -> Poll<Result<usize, Cut>> {
    loop {
        let Some(tcp) = core.io.tcp() else { return Poll::Ready(Err(Cut::Client)) };
        let result = match tcp.poll_write_ready(cx) {
            Poll::Ready(Ok(())) => {
                tcp.try_io(Interest::WRITABLE, || send(tcp, core.work.out.head()))
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => {
                ready!(core.poll_send_limit(cx, limits));
                return Poll::Ready(Err(Cut::Client));
            }
        };
        let error = match result {
            Ok(sent) => {
                core.work.has_sent(sent);
                return Poll::Ready(Ok(sent));
            }
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            // The reactor replaces the error when it notes that the socket is full.
            _ if error.kind() == io::ErrorKind::WouldBlock => {}
            Some(Errno::INTR) => {}
            // It is the file that cannot be read.
            Some(Errno::IO | Errno::INVAL) => return Poll::Ready(Err(Cut::Body)),
            _ => {
                core.gone = Some(Gone::Reset);
                return Poll::Ready(Err(Cut::Client));
            }
        }
    }
}

/// Reads up to `len` bytes, at least one.
pub async fn read(file: &Arc<File>, offset: u64, len: usize) -> Result<Bytes, Cut> {
    let mut buffer = vec![0; len];
    let now = preadv2(&**file, &mut [IoSliceMut::new(&mut buffer)], offset, ReadWriteFlags::NOWAIT);
    let count = match now {
        Ok(count) => count,
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR | Errno::NOSYS) => {
            let file = Arc::clone(file);
            let reading = spawn_blocking(move || {
                let count = file.read_at(&mut buffer, offset)?;
                io::Result::Ok((buffer, count))
            });
            let (read, count) = reading.await.map_err(|_| Cut::Body)?.map_err(|_| Cut::Body)?;
            buffer = read;
            count
        }
        Err(_) => return Err(Cut::Body),
    };
    if count == 0 {
        return Err(Cut::Body);
    }
    buffer.truncate(count);
    Ok(buffer.into())
}
