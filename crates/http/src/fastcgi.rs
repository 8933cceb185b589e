//! FastCGI (FastCGI Specification 1.0): a connection of a web server that passes its requests to
//! applications of this server, as to PHP-FPM.
//!
//! 1. Wait for the parameters of a request ([`wait`]). Questions and further requests that the web
//!    server sends meanwhile are answered on the side: a connection has one request at a time.
//! 2. Make a request of the parameters ([`request`]), and let the [`Handler`] answer it.
//!    Meanwhile it may read the body and learn that the web server has abandoned the request
//!    ([`carrier`]).
//! 3. Send the response as the output of a CGI program, with the messages of the script in their
//!    own stream ([`respond`]).
//! 4. Continue with the next request if the web server keeps the connection, or close it.
//!
//! A connection without a request occupies nothing but its socket. This module does not interpret
//! requests and writes no log.

use std::sync::Arc;

mod carrier;
mod connection;
mod request;
mod respond;
#[cfg(test)]
mod tests;
mod wait;

use self::connection::Connection;
use crate::drain::DrainRegistration;
use crate::exchange::Handler;
use crate::h1::Io;
use crate::message::ConnectionInfo;

/// Serves a connection to its end.
pub fn serve<I: Io, H: Handler>(
    io: I,
    info: Arc<ConnectionInfo>,
    handler: H,
    drain: DrainRegistration,
) -> impl Future<Output = ()> {
    let connection = Connection::new(io, info, handler, drain);
    async move {
        while let Some(head) = connection.next_head().await {
            // Boxed, so that the future of a waiting connection is small.
            if !Box::pin(connection.answer(head)).await {
                break;
            }
        }
        connection.report_violation();
    }
}
