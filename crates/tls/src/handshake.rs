//! A client's hello, the choice of what counts for it, and the rest of the handshake.
//!
//! 1. Read what comes first. If that is no TLS, it is most likely plain HTTP: the caller answers.
//! 2. With the hello complete, choose the configuration by the name in it. Authorities that want a
//!    name proved get the proof and nothing else.
//! 3. Complete the handshake.
//!
//! All of it must happen within the time that the head of a request may take. A connection that
//! has sent nothing when its listener goes is closed.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use howdah_http::drain::Draining;
use howdah_http::handshake::Handshake;
use rustls::ServerConfig;
use rustls::server::{Accepted, AcceptedAlert, Acceptor};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::server::StartHandshake;

use super::TlsListener;
use super::facts::facts;
use super::stream::Secured;
use crate::challenges::ChallengeStore;
use crate::proof;

/// What came of a handshake.
pub enum Shaken<S> {
    /// A connection, and what the handshake has shown.
    Done(Box<Secured<S>>, Handshake),
    /// The client does not speak TLS; this is what it has sent.
    Plain(S, Vec<u8>),
    /// An authority has seen the proof of a name; that was all.
    Proved,
    /// Nothing that can be gone on with. The client was told, if it was still there.
    Failed(io::Error),
}

/// The first byte of a handshake record (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;

/// Shakes hands. `time` is what all of it may take.
pub async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    listener: &Arc<TlsListener>,
    mut stream: S,
    drain: &Draining,
    time: Duration,
    challenges: &ChallengeStore,
) -> Shaken<S> {
    let begun = Instant::now();
    let deadline = begun.checked_add(time).unwrap_or(begun + Duration::from_secs(86400));
    let hello = timeout_at(deadline, hello(&mut stream, drain)).await;
    let accepted = match hello.unwrap_or_else(|_| Err(late())) {
        Ok(Hello::Tls(accepted)) => accepted,
        Ok(Hello::Plain(bytes)) => return Shaken::Plain(stream, bytes),
        Err(error) => return Shaken::Failed(error),
    };
    let name = accepted.client_hello().server_name().unwrap_or_default().to_ascii_lowercase();
    let protocols = accepted.client_hello().alpn().map(|offered| offered.collect::<Vec<_>>());
    if protocols.is_some_and(|offered| offered == [proof::PROTOCOL]) {
        return prove(*accepted, stream, challenges.tls_alpn_config(&name), deadline).await;
    }
    if let Some(acme) = listener.wants(&name) {
        let _ = timeout_at(deadline, challenges.request_certificate(acme, &name)).await;
    }
    if !listener.has_certificates() {
        let untold = io::Error::other("there is no certificate yet");
        // As other servers do, and not with a certificate that nobody vouches for.
        let shaking = StartHandshake::from_parts(*accepted, stream);
        let shaking = shaking.into_stream(Arc::clone(listener.config(None)));
        let _ = timeout_at(deadline, shaking).await;
        return Shaken::Failed(untold);
    }
    let rule = listener.rule(&name);
    let rest = StartHandshake::from_parts(*accepted, stream);
    let rest = rest.into_stream(Arc::clone(listener.config(rule)));
    match timeout_at(deadline, rest).await.unwrap_or_else(|_| Err(late())) {
        Ok(stream) => {
            let facts = facts(stream.get_ref().1, Arc::clone(listener), rule);
            Shaken::Done(Box::new(Secured::new(stream)), facts)
        }
        Err(error) => Shaken::Failed(error),
    }
}

/// Shows an authority the proof of a name (RFC 8737, 3), if there is one.
async fn prove<S: AsyncRead + AsyncWrite + Unpin>(
    accepted: Accepted,
    stream: S,
    proof: Option<Arc<ServerConfig>>,
    deadline: Instant,
) -> Shaken<S> {
    let Some(proof) = proof else {
        return Shaken::Failed(io::Error::other("a proof is asked for that is not there"));
    };
    let shaking = StartHandshake::from_parts(accepted, stream).into_stream(proof);
    match timeout_at(deadline, shaking).await.unwrap_or_else(|_| Err(late())) {
        Ok(mut stream) => {
            let _ = timeout_at(deadline, stream.shutdown()).await;
            Shaken::Proved
        }
        Err(error) => Shaken::Failed(error),
    }
}

enum Hello {
    Tls(Box<Accepted>),
    Plain(Vec<u8>),
}

async fn hello<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    drain: &Draining,
) -> io::Result<Hello> {
    let mut acceptor = Acceptor::default();
    let mut buffer = Vec::with_capacity(4096);
    let mut first = true;
    loop {
        buffer.clear();
        let count = match first {
            true => first_read(stream, &mut buffer, drain).await?,
            false => stream.read_buf(&mut buffer).await?,
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if std::mem::take(&mut first) && buffer.first() != Some(&HANDSHAKE) {
            return Ok(Hello::Plain(buffer));
        }
        let mut rest = buffer.as_slice();
        while !rest.is_empty() {
            if acceptor.read_tls(&mut rest)? == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match acceptor.accept() {
                // What came behind a hello waits in the acceptor only as far as it has read it.
                Ok(Some(accepted)) if rest.is_empty() => {
                    return Ok(Hello::Tls(Box::new(accepted)));
                }
                Ok(Some(_)) => return Err(io::ErrorKind::InvalidData.into()),
                Ok(None) => {}
                Err((error, alert)) => {
                    tell(stream, alert).await;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
    }
}

/// Reads the first bytes, unless they have not come and the listener goes. The kernel has waited for
/// them long enough.
async fn first_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    drain: &Draining,
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

/// Tells the client what was wrong with its hello, if it takes that at once.
async fn tell<S: AsyncWrite + Unpin>(stream: &mut S, mut alert: AcceptedAlert) {
    let mut bytes = Vec::new();
    if alert.write_all(&mut bytes).is_ok() && stream.write_all(&bytes).await.is_ok() {
        let _ = poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await;
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long")
}
