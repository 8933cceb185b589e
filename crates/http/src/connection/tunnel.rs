//! Tunnels: bytes in both directions after an upstream server has agreed to leave HTTP (RFC 9110,
//! 7.8), above all for WebSockets.
//!
//! When one end shuts down its sending direction, the other gets a shutdown and may continue for a
//! while ([`forward`](super::forward)). The tunnel closes when both have shut down, when the
//! connection of either breaks, after an idle timeout, and some time after the drain signal: more
//! of it if another server accepts the new connections, see
//! [`Drain::hand_over`](super::drain::Drain::hand_over).

use std::fmt;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::drain::DrainRegistration;
use super::forward::{Forwarded, Pace, forward};
use super::input::Input;
use super::timer::after;

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

impl Tunnel {
    /// Forwards bytes between a client and the upstream server until the tunnel closes. `input` are
    /// bytes of the client that have already arrived.
    pub async fn run<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        client: &mut C,
        input: Input,
        drain: &DrainRegistration,
    ) -> Forwarded {
        self.run_with(client, input, drain, TIMEOUTS).await
    }

    async fn run_with<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        client: &mut C,
        input: Input,
        drain: &DrainRegistration,
        timeouts: Timeouts,
    ) -> Forwarded {
        let Tunnel { mut upstream, idle_timeout } = self;
        let mut drain_end = None;
        let input = input.as_bytes().to_vec();
        forward(client, &mut upstream, input, Pace::default(), |activity, cx| {
            let timeout = if activity.is_half_closed {
                timeouts.half_closed.min(idle_timeout)
            } else {
                idle_timeout
            };
            let deadline = after(activity.idle_since, timeout);
            if !drain.poll(cx) {
                return deadline;
            }
            let end = drain_end.get_or_insert_with(|| match drain.handed_over() {
                Some(handed) => handed.tunnels_until.unwrap_or(deadline),
                None => Instant::now() + timeouts.draining,
            });
            deadline.min(*end)
        })
        .await
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
    use crate::forward::End;

    const LONG: Duration = Duration::from_secs(300);
    const SHORT: Duration = Duration::from_millis(50);
    const AT_ONCE: Timeouts = Timeouts { half_closed: SHORT, draining: SHORT };

    /// Creates a client and a server with a tunnel between them.
    fn tunnel(
        drain: &Drain,
        idle_timeout: Duration,
        bounds: Timeouts,
    ) -> (DuplexStream, DuplexStream, JoinHandle<Forwarded>) {
        let (client, mut near) = duplex(1000);
        let (server, upstream) = duplex(1000);
        let draining = drain.register();
        let tunnel = Tunnel { upstream: Box::new(upstream), idle_timeout };
        let carried = spawn_local(async move {
            tunnel.run_with(&mut near, Input::default(), &draining, bounds).await
        });
        (client, server, carried)
    }

    async fn end(carried: JoinHandle<Forwarded>) -> Forwarded {
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
            let expected = Forwarded { from_client: 4, to_client: 5000, end: End::Finished };
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
            assert_eq!(end(carried).await.end, End::TimedOut);
        });
    }

    #[test]
    fn one_side_alone_and_one_that_takes_nothing_have_less_time() {
        with(|| async {
            let (mut client, _server, carried) = tunnel(&Drain::new(), LONG, AT_ONCE);
            client.shutdown().await.unwrap();
            assert_eq!(end(carried).await.end, End::TimedOut);
            let (mut client, _server, carried) = tunnel(&Drain::new(), LONG, AT_ONCE);
            let flood =
                spawn_local(async move { while client.write_all(&[0; 1000]).await.is_ok() {} });
            assert_eq!(end(carried).await.end, End::TimedOut);
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
            assert_eq!((rest.as_slice(), end(carried).await.end), (&b"bye"[..], End::Finished));
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
            assert_eq!(end(carried).await.end, End::TimedOut);
        });
    }
}
