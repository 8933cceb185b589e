//! A connection that leaves HTTP: the response that says so, and all that follows it.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::connection::{Core, Io};
use super::requests::Sent;
use super::respond::Framing;
use super::{Connection, Next};
use crate::exchange::{Finished, Handler, Outcome};
use crate::limits::Limits;
use crate::message::{Added, Request, Response};
use crate::tunnel::{End, Tunnel};

/// A tunnel, and what is to be reported at its end.
pub(super) struct Opened {
    tunnel: Option<Tunnel>,
    request: Request,
    begun: Instant,
    received: u64,
    limits: Rc<Limits>,
    adds_server: bool,
    adds_date: bool,
    sent: Option<Sent>,
}

impl Opened {
    pub fn new(
        tunnel: Tunnel,
        request: Request,
        begun: Instant,
        received: u64,
        limits: &Rc<Limits>,
    ) -> Self {
        let limits = Rc::clone(limits);
        let (tunnel, sent) = (Some(tunnel), None);
        Opened {
            tunnel,
            request,
            begun,
            received,
            limits,
            adds_server: true,
            adds_date: true,
            sent,
        }
    }

    fn added(&self) -> Added<'_> {
        Added {
            server: if self.adds_server { &self.limits.server } else { b"" },
            date: self.adds_date,
            connection: "upgrade",
            ..Added::default()
        }
    }
}

impl<I: Io, H: Handler> Connection<I, H> {
    /// Sends the response after which the connection is a tunnel.
    pub(super) async fn open(&self, mut opened: Opened, response: Response) -> Next {
        (opened.adds_server, opened.adds_date) = (response.adds_server, response.adds_date);
        let limits = Rc::clone(&opened.limits);
        let added = opened.added();
        let sent = self.respond(response, Framing::NoBody, &added, false, &limits).await;
        let is_open = sent.outcome == Outcome::Complete;
        opened.sent = Some(sent);
        if !is_open {
            self.report(&opened);
            return Next::Close;
        }
        self.opened.set(Some(Box::new(opened)));
        Next::Tunnel
    }

    /// Joins client and server until the end.
    pub(super) async fn tunnel(&self) -> Next {
        let Some(mut opened) = self.opened.take() else { return Next::Close };
        let Some(tunnel) = opened.tunnel.take() else { return Next::Close };
        let early = {
            let core = &mut *self.core.borrow_mut();
            core.work.give_back();
            std::mem::take(&mut core.input)
        };
        let carried = tunnel.run(&mut Client(&self.core), early, &self.drain).await;
        opened.received += carried.from_client;
        if let Some(sent) = &mut opened.sent {
            sent.bytes += carried.to_client;
            sent.body += carried.to_client;
            sent.outcome = match carried.end {
                End::Finished | End::Over => Outcome::Complete,
                End::Client => Outcome::ClientGone,
                End::Server => Outcome::BodyFailed,
            };
        }
        self.report(&opened);
        if carried.end == End::Over { Next::Linger } else { Next::Close }
    }

    fn report(&self, opened: &Opened) {
        let Some(sent) = &opened.sent else { return };
        self.handler.finished(&Finished {
            connection: &self.info,
            request: Some(&opened.request),
            refused_line: &[],
            refusal: None,
            status: sent.status,
            fields: &sent.fields,
            added: opened.added(),
            received: opened.received,
            sent: sent.bytes,
            body_sent: sent.body,
            elapsed: opened.begun.elapsed(),
            outcome: sent.outcome,
        });
    }
}

/// The client, borrowed for the time of each poll.
struct Client<'c, I>(&'c RefCell<Core<I>>);

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
