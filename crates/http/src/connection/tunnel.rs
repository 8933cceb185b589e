//! Tunnels: bytes in both directions after an upstream server has agreed to leave HTTP (RFC 9110,
//! 7.8), above all for WebSockets.
//!
//! A tunnel does not interpret the bytes. It buffers only bytes that one end has sent and the other
//! has not taken yet; while both are silent it has no buffer.
//!
//! When one end shuts down its sending direction, the other gets a shutdown and may continue for a
//! while. The tunnel closes when both have shut down, when the connection of either breaks, after
//! an idle timeout, and some time after the drain signal: more of it if another server accepts the
//! new connections, see [`Drain::hand_over`](super::drain::Drain::hand_over).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::drain::DrainRegistration;
use super::input::Input;
use super::timer::{Timer, after};

/// Timeouts of a tunnel beside its own idle timeout.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// Idle timeout while one end has shut down, or does not take the buffered bytes.
    half_closed: Duration,
    /// Maximum duration after the drain signal.
    draining: Duration,
}

const TIMEOUTS: Timeouts = Timeouts { half_closed: Duration::from_secs(60), draining: DRAINING };

/// Maximum duration of a tunnel after the end of the server has begun.
pub const DRAINING: Duration = Duration::from_secs(10);

/// Connection to an upstream server.
pub trait UpstreamIo: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> UpstreamIo for T {}

/// The upstream end of a tunnel, before it is joined with the client.
pub struct Tunnel {
    /// Connection to the upstream server, ready for the protocol of the tunnel.
    pub upstream: Box<dyn UpstreamIo>,
    /// Idle timeout.
    pub idle_timeout: Duration,
}

/// Result of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelResult {
    /// Bytes from the client.
    pub from_client: u64,
    /// Bytes that the client has taken.
    pub to_client: u64,
    /// Reason for which the tunnel was closed.
    pub reason: CloseReason,
}

/// Reason for which a tunnel was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both ends have shut down.
    BothClosed,
    /// The client's connection broke.
    Client,
    /// The upstream connection broke.
    Server,
    /// Idle timeout, or the server is shutting down.
    IdleOrShutdown,
}

/// A direction of a tunnel.
#[derive(Default)]
struct Direction {
    /// Bytes received and not sent yet.
    input: Input,
    /// Number of bytes sent.
    moved: u64,
    state: State,
}

#[derive(Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The stream may still hold bytes that were written to it.
    NeedsFlush,
    /// The sender has shut down; that of the receiver is pending.
    Ending,
    Ended,
}

/// The end of a direction whose connection broke.
enum Broken {
    Sender,
    Receiver,
}

impl Tunnel {
    /// Forwards bytes between a client and the upstream server until the tunnel closes. `input` are
    /// bytes of the client that have already arrived.
    pub async fn run<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        client: &mut C,
        input: Input,
        drain: &DrainRegistration,
    ) -> TunnelResult {
        self.run_with(client, input, drain, TIMEOUTS).await
    }

    async fn run_with<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        client: &mut C,
        input: Input,
        drain: &DrainRegistration,
        timeouts: Timeouts,
    ) -> TunnelResult {
        let Tunnel { mut upstream, idle_timeout } = self;
        let mut up = Direction { input, ..Direction::default() };
        let mut down = Direction::default();
        let (mut timer, mut idle_since) = (Timer::default(), Instant::now());
        let (mut drain_end, mut was_half_closed) = (None, false);
        let reason = poll_fn(|cx| {
            let before = (up.moved, down.moved);
            let up_end = up.poll(client, &mut upstream, cx);
            let down_end = down.poll(&mut upstream, client, cx);
            if let Some(reason) = close_reason(&up_end, &down_end) {
                return Poll::Ready(reason);
            }
            let is_half_closed = up.is_half_closed() || down.is_half_closed();
            // A shutdown after a long silence leaves the other end its whole timeout.
            if before != (up.moved, down.moved) || is_half_closed != was_half_closed {
                idle_since = Instant::now();
            }
            was_half_closed = is_half_closed;
            let timeout =
                if is_half_closed { timeouts.half_closed.min(idle_timeout) } else { idle_timeout };
            let mut deadline = after(idle_since, timeout);
            if drain.poll(cx) {
                let end = drain_end.get_or_insert_with(|| match drain.handed_over() {
                    Some(handed) => handed.tunnels_until.unwrap_or(deadline),
                    None => Instant::now() + timeouts.draining,
                });
                deadline = deadline.min(*end);
            }
            timer.poll(cx, deadline).map(|()| CloseReason::IdleOrShutdown)
        })
        .await;
        TunnelResult { from_client: up.moved, to_client: down.moved, reason }
    }
}

/// Returns the reason to close a tunnel whose directions have these results.
fn close_reason(
    up: &Poll<Result<(), Broken>>,
    down: &Poll<Result<(), Broken>>,
) -> Option<CloseReason> {
    match (up, down) {
        (Poll::Ready(Err(Broken::Sender)), _) | (_, Poll::Ready(Err(Broken::Receiver))) => {
            Some(CloseReason::Client)
        }
        (Poll::Ready(Err(Broken::Receiver)), _) | (_, Poll::Ready(Err(Broken::Sender))) => {
            Some(CloseReason::Server)
        }
        (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Some(CloseReason::BothClosed),
        _ => None,
    }
}

impl Direction {
    /// Returns true if the direction has ended, or the receiver does not take the buffered bytes.
    fn is_half_closed(&self) -> bool {
        self.state == State::Ended || !self.input.is_empty()
    }

    /// Forwards bytes until neither end makes progress. Ready at the end of the direction.
    fn poll<F, T>(
        &mut self,
        from: &mut F,
        to: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>>
    where
        F: AsyncRead + Unpin,
        T: AsyncWrite + Unpin,
    {
        loop {
            while !self.input.is_empty() {
                let written = ready!(Pin::new(&mut *to).poll_write(cx, self.input.as_bytes()));
                match written {
                    Ok(0) | Err(_) => return Poll::Ready(Err(Broken::Receiver)),
                    Ok(count) => {
                        self.input.skip(count);
                        self.moved += count as u64;
                        self.state = State::NeedsFlush;
                    }
                }
            }
            match self.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Ending => {
                    // An error means that the receiver has disconnected.
                    let _: io::Result<()> = ready!(Pin::new(&mut *to).poll_shutdown(cx));
                    self.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
                State::Open | State::NeedsFlush => {}
            }
            match self.input.poll_read_ahead(from, cx) {
                Poll::Ready(Ok(0)) => self.state = State::Ending,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::Sender)),
                Poll::Pending => {
                    if self.state == State::NeedsFlush {
                        ready!(Pin::new(&mut *to).poll_flush(cx)).map_err(|_| Broken::Receiver)?;
                        self.state = State::Open;
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").field("idle_timeout", &self.idle_timeout).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::{JoinHandle, LocalSet, spawn_local};
    use tokio::time::timeout;

    use super::*;
    use crate::drain::Drain;

    const LONG: Duration = Duration::from_secs(300);
    const SHORT: Duration = Duration::from_millis(50);
    const AT_ONCE: Timeouts = Timeouts { half_closed: SHORT, draining: SHORT };

    /// Creates a client and a server with a tunnel between them.
    fn tunnel(
        drain: &Drain,
        idle_timeout: Duration,
        bounds: Timeouts,
    ) -> (DuplexStream, DuplexStream, JoinHandle<TunnelResult>) {
        let (client, mut near) = duplex(1000);
        let (server, upstream) = duplex(1000);
        let draining = drain.register();
        let tunnel = Tunnel { upstream: Box::new(upstream), idle_timeout };
        let carried = spawn_local(async move {
            tunnel.run_with(&mut near, Input::default(), &draining, bounds).await
        });
        (client, server, carried)
    }

    async fn end(carried: JoinHandle<TunnelResult>) -> TunnelResult {
        timeout(Duration::from_secs(60), carried).await.expect("the tunnel ends").unwrap()
    }

    fn with<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async { test().await });
    }

    #[test]
    fn bytes_go_both_ways_until_both_sides_have_finished() {
        with(|| async {
            let (mut client, mut server, carried) = tunnel(&Drain::new(), LONG, TIMEOUTS);
            client.write_all(b"ping").await.unwrap();
            let mut four = [0; 4];
            server.read_exact(&mut four).await.unwrap();
            assert_eq!(&four, b"ping");
            client.shutdown().await.unwrap();
            let mut rest = Vec::new();
            server.read_to_end(&mut rest).await.unwrap();
            assert!(rest.is_empty(), "the server learns that the client has finished");
            // The other direction continues.
            let sending = spawn_local(async move { server.write_all(&[b'x'; 5000]).await });
            client.read_to_end(&mut rest).await.unwrap();
            sending.await.unwrap().unwrap();
            assert_eq!(rest.len(), 5000);
            let expected =
                TunnelResult { from_client: 4, to_client: 5000, reason: CloseReason::BothClosed };
            assert_eq!(end(carried).await, expected);
        });
    }

    #[test]
    fn one_that_takes_nothing_stops_the_other() {
        with(|| async {
            let (mut client, _server, _carried) = tunnel(&Drain::new(), LONG, TIMEOUTS);
            let mut written = 0;
            while let Ok(taken) = timeout(SHORT, client.write(&[0; 1000])).await {
                written += taken.unwrap();
                assert!(written < 200_000, "somebody keeps all of it");
            }
        });
    }

    #[test]
    fn silence_ends_a_tunnel() {
        with(|| async {
            let (_client, _server, carried) = tunnel(&Drain::new(), SHORT, TIMEOUTS);
            assert_eq!(end(carried).await.reason, CloseReason::IdleOrShutdown);
        });
    }

    #[test]
    fn one_side_alone_and_one_that_takes_nothing_have_less_time() {
        with(|| async {
            let (mut client, _server, carried) = tunnel(&Drain::new(), LONG, AT_ONCE);
            client.shutdown().await.unwrap();
            assert_eq!(end(carried).await.reason, CloseReason::IdleOrShutdown);
            let (mut client, _server, carried) = tunnel(&Drain::new(), LONG, AT_ONCE);
            let flood =
                spawn_local(async move { while client.write_all(&[0; 1000]).await.is_ok() {} });
            assert_eq!(end(carried).await.reason, CloseReason::IdleOrShutdown);
            flood.await.unwrap();
        });
    }

    #[test]
    fn a_side_that_finishes_after_a_long_silence_leaves_the_other_its_time() {
        with(|| async {
            let half_closed = Duration::from_secs(3);
            let bounds = Timeouts { half_closed, ..TIMEOUTS };
            let (mut client, mut server, carried) = tunnel(&Drain::new(), LONG, bounds);
            tokio::time::sleep(half_closed + SHORT).await;
            client.shutdown().await.unwrap();
            assert!(server.read_u8().await.is_err(), "it learns so");
            server.write_all(b"bye").await.unwrap();
            drop(server);
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            assert_eq!(
                (rest.as_slice(), end(carried).await.reason),
                (&b"bye"[..], CloseReason::BothClosed)
            );
        });
    }

    #[test]
    fn a_word_in_time_keeps_a_tunnel() {
        with(|| async {
            let idle_timeout = Duration::from_secs(1);
            loop {
                let (mut client, mut server, carried) =
                    tunnel(&Drain::new(), idle_timeout, TIMEOUTS);
                let started_at = Instant::now();
                let (mut last, mut longest) = (started_at, Duration::ZERO);
                while started_at.elapsed() < idle_timeout * 2 && !carried.is_finished() {
                    let _ = client.write_all(b".").await;
                    let _ = server.read_u8().await;
                    tokio::time::sleep(SHORT).await;
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                if !carried.is_finished() {
                    return;
                }
                // On a machine that is too busy to send in time, the test is inconclusive.
                assert!(longest > idle_timeout / 2, "it ended after a pause of {longest:?}");
            }
        });
    }

    #[test]
    fn a_server_that_is_to_end_does_not_wait_for_tunnels_for_long() {
        with(|| async {
            let drain = Drain::new();
            let (_client, _server, carried) = tunnel(&drain, LONG, AT_ONCE);
            drain.start();
            assert_eq!(end(carried).await.reason, CloseReason::IdleOrShutdown);
        });
    }
}
