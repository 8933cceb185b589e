//! Connections that leave HTTP: the response with status 101, and the tunnel after it.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Connection, Next};
use super::response_head::Framing;
use super::transport::{Io, Transport};
use super::upgrade::Upgrade;
use crate::exchange::{Handler, RequestRecord, SendOutcome};
use crate::forward::End;
use crate::message::Response;

impl<I: Io, H: Handler> Connection<I, H> {
    /// Sends the response after which the connection is a tunnel.
    pub(super) async fn upgrade(&self, mut upgrade: Upgrade, response: Response) -> Next {
        let limits = Rc::clone(&upgrade.limits);
        let added = upgrade.connection_fields();
        let request = Some(&upgrade.request);
        let sent = self.respond(request, response, Framing::NoBody, &added, false, &limits).await;
        let is_open = sent.outcome == SendOutcome::Complete;
        upgrade.sent = Some(sent);
        if !is_open {
            self.report_upgrade(&upgrade);
            return Next::Close;
        }
        self.upgrade.set(Some(Box::new(upgrade)));
        Next::Tunnel
    }

    /// Runs the tunnel to its end, and reports its request.
    pub(super) async fn tunnel(&self) -> Next {
        let Some(mut upgrade) = self.upgrade.take() else { return Next::Close };
        let Some(tunnel) = upgrade.tunnel.take() else { return Next::Close };
        let input = {
            let transport = &mut *self.transport.borrow_mut();
            transport.work.release();
            std::mem::take(&mut transport.input)
        };
        let carried = tunnel.run(&mut Client(&self.transport), input, &self.drain).await;
        upgrade.received += carried.from_client;
        if let Some(sent) = &mut upgrade.sent {
            sent.bytes += carried.to_client;
            sent.body += carried.to_client;
            sent.outcome = carried.end.into();
        }
        self.report_upgrade(&upgrade);
        match carried.end {
            End::TimedOut => Next::Linger,
            _ => Next::Close,
        }
    }

    fn report_upgrade(&self, upgrade: &Upgrade) {
        let Some(sent) = &upgrade.sent else { return };
        let elapsed = upgrade.started_at.elapsed();
        self.handler.log_request(&RequestRecord {
            request: Some(&upgrade.request),
            ..sent.record(&self.info, upgrade.connection_fields(), upgrade.received, elapsed)
        });
    }
}

/// The client's end of a tunnel.
struct Client<'c, I>(&'c RefCell<Transport<I>>);

impl<I: Io> AsyncRead for Client<'_, I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().io).poll_read(cx, buffer)
    }
}

impl<I: Io> AsyncWrite for Client<'_, I> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.borrow_mut().io).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().io).poll_shutdown(cx)
    }
}
