//! Handshakes with clients.
//!
//! 1. Read the first bytes. If they are not TLS, they are most likely plain HTTP: the caller
//!    responds.
//! 2. Read the whole hello. A hello for the protocol `acme-tls/1` gets the proof of its name.
//! 3. If the name has no certificate, wait for one on demand.
//! 4. Refuse a name without a certificate, if the listener's settings say so.
//! 5. Choose the configuration by the name, and complete the handshake.
//!
//! All steps share the timeout of a request's head. A connection that has sent no bytes when its
//! listener is removed is closed.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use howdah_http::drain::DrainRegistration;
use howdah_http::handshake::Handshake;
use rustls::ServerConfig;
use rustls::server::{Accepted, AcceptedAlert, Acceptor};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::server::StartHandshake;

use super::facts::facts;
use super::listener::TlsListener;
use super::stream::TlsConnection;
use crate::challenge_answers::ChallengeStore;
use crate::proof;

/// Result of a handshake.
pub enum HandshakeOutcome<S> {
    /// The encrypted connection, and the facts about its handshake.
    Encrypted(Box<TlsConnection<S>>, Handshake),
    /// The client does not speak TLS; the bytes are those read from the client.
    NotTls(S, Vec<u8>),
    /// The client got the proof of a name (TLS-ALPN-01); the connection is closed.
    ChallengeAnswered,
    /// The handshake failed. The client got an alert if possible.
    Failed(io::Error),
}

/// Type of a handshake record: the first byte of the record (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// A record with the fatal alert `unrecognized_name` (RFC 8446, 6.2).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Performs a handshake within `timeout`.
pub async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    listener: &Arc<TlsListener>,
    mut stream: S,
    drain: &DrainRegistration,
    timeout: Duration,
    challenges: &ChallengeStore,
) -> HandshakeOutcome<S> {
    let started = Instant::now();
    let deadline = started.checked_add(timeout).unwrap_or(started + Duration::from_secs(86400));
    let hello = timeout_at(deadline, read_hello(&mut stream, drain)).await;
    let accepted = match hello.unwrap_or_else(|_| Err(timed_out())) {
        Ok(Hello::Tls(accepted)) => accepted,
        Ok(Hello::Plain(bytes)) => return HandshakeOutcome::NotTls(stream, bytes),
        Err(error) => return HandshakeOutcome::Failed(error),
    };
    let name = accepted.client_hello().server_name().unwrap_or_default().to_ascii_lowercase();
    let protocols = accepted.client_hello().alpn().map(|offered| offered.collect::<Vec<_>>());
    if protocols.is_some_and(|offered| offered == [proof::PROTOCOL]) {
        return answer_challenge(*accepted, stream, challenges.tls_alpn_config(&name), deadline)
            .await;
    }
    if let Some(acme) = listener.on_demand_settings(&name) {
        let _ = timeout_at(deadline, challenges.request_certificate(acme, &name)).await;
    }
    if !listener.has_certificates() {
        // rustls sends the alert; a self-signed certificate would show a warning in browsers.
        let remaining = StartHandshake::from_parts(*accepted, stream);
        let remaining = remaining.into_stream(Arc::clone(listener.config(None)));
        let _ = timeout_at(deadline, remaining).await;
        return HandshakeOutcome::Failed(io::Error::other("there is no certificate yet"));
    }
    if listener.refuses(&name) {
        let _ = timeout_at(deadline, stream.write_all(&UNRECOGNIZED_NAME)).await;
        let _ = timeout_at(deadline, stream.shutdown()).await;
        return HandshakeOutcome::Failed(io::Error::other("no certificate has the requested name"));
    }
    let rule = listener.rule(&name);
    let remaining = StartHandshake::from_parts(*accepted, stream);
    let remaining = remaining.into_stream(Arc::clone(listener.config(rule)));
    match timeout_at(deadline, remaining).await.unwrap_or_else(|_| Err(timed_out())) {
        Ok(stream) => {
            let facts = facts(stream.get_ref().1, Arc::clone(listener), rule);
            HandshakeOutcome::Encrypted(Box::new(TlsConnection::new(stream)), facts)
        }
        Err(error) => HandshakeOutcome::Failed(error),
    }
}

/// Completes a handshake with the proof of a name (RFC 8737, 3), if there is one.
async fn answer_challenge<S: AsyncRead + AsyncWrite + Unpin>(
    accepted: Accepted,
    stream: S,
    proof: Option<Arc<ServerConfig>>,
    deadline: Instant,
) -> HandshakeOutcome<S> {
    let Some(proof) = proof else {
        return HandshakeOutcome::Failed(io::Error::other(
            "the client asked for a proof (acme-tls/1) that is not published",
        ));
    };
    let remaining = StartHandshake::from_parts(accepted, stream).into_stream(proof);
    match timeout_at(deadline, remaining).await.unwrap_or_else(|_| Err(timed_out())) {
        Ok(mut stream) => {
            let _ = timeout_at(deadline, stream.shutdown()).await;
            HandshakeOutcome::ChallengeAnswered
        }
        Err(error) => HandshakeOutcome::Failed(error),
    }
}

enum Hello {
    Tls(Box<Accepted>),
    Plain(Vec<u8>),
}

/// Reads the client's hello.
async fn read_hello<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    drain: &DrainRegistration,
) -> io::Result<Hello> {
    let mut acceptor = Acceptor::default();
    let mut buffer = Vec::with_capacity(4096);
    let mut first = true;
    loop {
        buffer.clear();
        let count = if first {
            read_first(stream, &mut buffer, drain).await?
        } else {
            stream.read_buf(&mut buffer).await?
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if std::mem::take(&mut first) && buffer.first() != Some(&HANDSHAKE_RECORD) {
            return Ok(Hello::Plain(buffer));
        }
        let mut rest = buffer.as_slice();
        while !rest.is_empty() {
            if acceptor.read_tls(&mut rest)? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match acceptor.accept() {
                // Bytes after a hello are in the acceptor only as far as it has read them.
                Ok(Some(accepted)) if rest.is_empty() => {
                    return Ok(Hello::Tls(Box::new(accepted)));
                }
                Ok(Some(_)) => return Err(io::ErrorKind::InvalidData.into()),
                Ok(None) => {}
                Err((error, alert)) => {
                    send_alert(stream, alert).await;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
    }
}

/// Reads the first bytes; returns 0 if there are none when the listener is removed.
async fn read_first<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    drain: &DrainRegistration,
) -> io::Result<usize> {
    let mut read = pin!(stream.read_buf(buffer));
    poll_fn(|cx| {
        if let Poll::Ready(result) = read.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        if drain.poll(cx) {
            return Poll::Ready(Ok(0));
        }
        Poll::Pending
    })
    .await
}

/// Sends the alert for a refused hello.
async fn send_alert<S: AsyncWrite + Unpin>(stream: &mut S, mut alert: AcceptedAlert) {
    let mut bytes = Vec::new();
    if alert.write_all(&mut bytes).is_ok() && stream.write_all(&bytes).await.is_ok() {
        let _ = poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await;
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")
}
