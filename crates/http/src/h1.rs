//! HTTP/1.0 and HTTP/1.1 (RFC 9112): a connection from its first byte to its last.
//!
//! 1. Wait for a request head (`wait`, [`head`]). A waiting connection holds its socket and a
//!    timer; the rest of its state is in a box that exists only while there is a request.
//! 2. Read the head: request line and fields ([`head`]), target ([`target`](crate::target)), host
//!    ([`authority`](crate::authority)), length of the body ([`body_length`](crate::body_length),
//!    [`chunked`](crate::chunked)). A head that violates HTTP is refused ([`Refusal`], `refuse`)
//!    and the connection closed, since the bytes after it cannot be trusted to be a request.
//! 3. Let the [`Handler`] answer (`requests`). Meanwhile it may read the body, send interim
//!    responses and learn that the client has disconnected (`carrier`).
//! 4. Send the response (`respond`: `response_head`, `send_body`, `send_file`). Responses to
//!    pipelined requests that have all arrived are sent in one write (`output`).
//! 5. Continue with the next request, or close the connection so that the client can still read the
//!    response (`close`). After status 101 the connection is a tunnel to its end (`tunnel`).
//!
//! This module does not interpret requests and writes no log.

use std::sync::Arc;

mod body_reader;
mod carrier;
mod close;
mod connection;
pub mod head;
pub(crate) mod output;
mod record;
mod refuse;
mod requests;
mod respond;
mod response_head;
mod send_body;
mod send_file;
mod sender;
pub(crate) mod transport;
mod tunnel;
mod upgrade;
mod wait;

#[cfg(test)]
mod tests;

pub use head::Refusal;
pub use transport::Io;

use self::connection::{Connection, Next};
use crate::drain::DrainRegistration;
use crate::exchange::Handler;
use crate::message::{ConnectionInfo, Response};

/// Serves a connection to its end.
pub fn serve<I: Io, H: Handler>(
    io: I,
    info: Arc<ConnectionInfo>,
    handler: H,
    drain: DrainRegistration,
) -> impl Future<Output = ()> {
    let connection = Connection::new(io, info, handler, drain);
    // An async fn would hold its arguments beside the connection, for as long as the connection
    // lasts.
    async move {
        let mut next = Next::Wait;
        loop {
            next = match next {
                Next::Wait => connection.wait().await,
                // Boxed, so that the future of a waiting connection is small.
                Next::Answer => Box::pin(connection.answer_requests()).await,
                Next::Tunnel => Box::pin(connection.tunnel()).await,
                Next::HeadTimeout => Box::pin(connection.refuse(Refusal::HeadTimeout)).await,
                Next::IdleTimeout => Box::pin(connection.refuse(Refusal::IdleTimeout)).await,
                Next::Linger => {
                    Box::pin(connection.linger()).await;
                    return;
                }
                Next::Incomplete => connection.report_incomplete(),
                Next::Close => break,
            };
        }
        Box::pin(connection.close()).await;
    }
}

/// Answers bytes that are no request with `response`, and closes the connection.
pub async fn refuse<I: Io, H: Handler>(
    io: I,
    info: Arc<ConnectionInfo>,
    handler: &H,
    drain: DrainRegistration,
    received: &[u8],
    refusal: Refusal,
    response: Response,
) {
    let connection = Connection::new(io, info, handler, drain);
    match connection.refuse_with(refusal, response, received).await {
        Next::Linger => connection.linger().await,
        _ => connection.close().await,
    }
}
