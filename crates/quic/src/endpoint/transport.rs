//! Connections and streams as HTTP/3 wants them.

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use howdah_http::h3::transport::{self, ReceiveStream, SendStream, Transport};

use super::{Connection, Recv, Send};
use crate::errors::{Closed, ReadError, WriteError};

fn closed(_: Closed) -> transport::Closed {
    transport::Closed
}

impl Transport for Connection {
    type Sender = Send;
    type Receiver = Recv;

    fn remote(&self) -> SocketAddr {
        self.remote()
    }

    fn rtt(&self) -> Duration {
        self.rtt()
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<(Send, Recv), transport::Closed>> {
        self.poll_accept_bi(cx).map_err(closed)
    }

    fn poll_accept_uni(&self, cx: &mut Context<'_>) -> Poll<Result<Recv, transport::Closed>> {
        self.poll_accept_uni(cx).map_err(closed)
    }

    fn poll_open_uni(&self, cx: &mut Context<'_>) -> Poll<Result<Send, transport::Closed>> {
        self.poll_open_uni(cx).map_err(closed)
    }

    fn poll_acknowledged(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_acknowledged(cx)
    }

    fn close(&self, code: u64, reason: &str) {
        self.close(code, reason.as_bytes());
    }
}

impl ReceiveStream for Recv {
    fn id(&self) -> u64 {
        self.id()
    }

    fn poll_read(
        &mut self,
        max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, transport::ReadError>> {
        self.poll_read(max, cx).map_err(|error| match error {
            ReadError::Reset(_) => transport::ReadError::Reset,
            ReadError::Closed(_) => transport::ReadError::Closed,
        })
    }

    fn stop(&mut self, code: u64) {
        self.stop(code);
    }
}

impl SendStream for Send {
    fn id(&self) -> u64 {
        self.id()
    }

    fn poll_write(
        &mut self,
        bytes: &mut Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), transport::WriteError>> {
        self.poll_write(bytes, cx).map_ok(|_| ()).map_err(|error| match error {
            WriteError::Stopped(_) | WriteError::Ended => transport::WriteError::Stopped,
            WriteError::Closed(_) => transport::WriteError::Closed,
        })
    }

    fn finish(&mut self) {
        self.finish();
    }

    fn reset(&mut self, code: u64) {
        self.reset(code);
    }

    fn set_priority(&mut self, priority: i32) {
        self.set_priority(priority);
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_stopped(cx)
    }
}
