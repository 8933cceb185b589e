//! Bytes in both directions, once a server has agreed to leave HTTP (RFC 9110, 7.8): WebSockets
//! above all.
//!
//! What was said before belongs to HTTP; here nothing is understood, and nothing is kept but what
//! one side has sent and the other has not taken yet. While both are silent there is no buffer.
//!
//! When one side has said all it has to say, the other learns so and may go on for a while. A
//! tunnel ends when both have, when either breaks, when it was silent for too long or one side
//! takes nothing, and some time after the server was told to end.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use crate::drain::Draining;
use crate::input::Input;
use crate::timer::{Timer, after};

/// How long a tunnel may go on without a byte that is about to end.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// While one side has finished, or takes nothing of what waits for it.
    uneasy: Duration,
    /// When its connection is to end.
    farewell: Duration,
}

const BOUNDS: Bounds =
    Bounds { uneasy: Duration::from_secs(60), farewell: Duration::from_secs(10) };

/// The far side.
pub trait Far: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Far for T {}

/// A tunnel that is not yet joined with a client.
pub struct Tunnel {
    /// The server, ready to be spoken to.
    pub far: Box<dyn Far>,
    /// How long both may be silent.
    pub patience: Duration,
}

/// What a tunnel has carried, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Bytes from the client.
    pub from_client: u64,
    /// Bytes that the client has taken.
    pub to_client: u64,
    /// Why it ended.
    pub end: End,
}

/// Why a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both sides have finished.
    Finished,
    /// The client's connection broke.
    Client,
    /// The server's connection broke.
    Server,
    /// Nothing came for too long, or the connection was to end.
    Over,
}

/// One direction.
#[derive(Default)]
struct Way {
    /// What has come and is not yet taken.
    input: Input,
    /// Bytes that were taken.
    moved: u64,
    state: State,
}

#[derive(Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// Something was written that the transport may still hold.
    Unflushed,
    /// Nothing more will come; the other side does not know yet.
    Ending,
    Ended,
}

/// Whose connection broke.
enum Broken {
    From,
    To,
}

impl Tunnel {
    /// Joins a client, of which `early` has come already, with the server, until the end.
    pub async fn run<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        client: &mut C,
        early: Input,
        drain: &Draining,
    ) -> Carried {
        self.run_within(client, early, drain, BOUNDS).await
    }

    async fn run_within<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        client: &mut C,
        early: Input,
        drain: &Draining,
        bounds: Bounds,
    ) -> Carried {
        let Tunnel { mut far, patience } = self;
        let mut up = Way { input: early, ..Way::default() };
        let mut down = Way::default();
        let (mut timer, mut silent_since) = (Timer::default(), Instant::now());
        let (mut farewell, mut is_uneasy) = (None, false);
        let end = poll_fn(|cx| {
            let before = (up.moved, down.moved);
            let was_uneasy = is_uneasy;
            let there = up.poll(client, &mut far, cx);
            let back = down.poll(&mut far, client, cx);
            let ends = match (there, back) {
                (Poll::Ready(Err(Broken::From)), _) | (_, Poll::Ready(Err(Broken::To))) => {
                    Some(End::Client)
                }
                (Poll::Ready(Err(Broken::To)), _) | (_, Poll::Ready(Err(Broken::From))) => {
                    Some(End::Server)
                }
                (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Some(End::Finished),
                _ => None,
            };
            if let Some(end) = ends {
                return Poll::Ready(end);
            }
            is_uneasy = up.is_uneasy() || down.is_uneasy();
            // Whoever finishes after a long silence leaves the other its time all the same.
            if before != (up.moved, down.moved) || is_uneasy != was_uneasy {
                silent_since = Instant::now();
            }
            let patience = if is_uneasy { bounds.uneasy.min(patience) } else { patience };
            let mut deadline = after(silent_since, patience);
            if drain.poll(cx) {
                let farewell = farewell.get_or_insert_with(|| Instant::now() + bounds.farewell);
                deadline = deadline.min(*farewell);
            }
            timer.poll(cx, deadline).map(|()| End::Over)
        })
        .await;
        Carried { from_client: up.moved, to_client: down.moved, end }
    }
}

impl Way {
    /// Whether it has ended, or waits for who should take what it has.
    fn is_uneasy(&self) -> bool {
        self.state == State::Ended || !self.input.is_empty()
    }

    /// Moves what there is to move. Ready at the end.
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
                    Ok(0) | Err(_) => return Poll::Ready(Err(Broken::To)),
                    Ok(count) => {
                        self.input.skip(count);
                        self.moved += count as u64;
                        self.state = State::Unflushed;
                    }
                }
            }
            match self.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Ending => {
                    // One that has left need not be told.
                    let _: io::Result<()> = ready!(Pin::new(&mut *to).poll_shutdown(cx));
                    self.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
                State::Open | State::Unflushed => {}
            }
            match self.input.poll_read(from, cx) {
                Poll::Ready(Ok(0)) => self.state = State::Ending,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::From)),
                Poll::Pending => {
                    if self.state == State::Unflushed {
                        ready!(Pin::new(&mut *to).poll_flush(cx)).map_err(|_| Broken::To)?;
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
        f.debug_struct("Tunnel").field("patience", &self.patience).finish_non_exhaustive()
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
    const AT_ONCE: Bounds = Bounds { uneasy: SHORT, farewell: SHORT };

    /// A client and a server with a tunnel between them.
    fn tunnel(
        drain: &Drain,
        patience: Duration,
        bounds: Bounds,
    ) -> (DuplexStream, DuplexStream, JoinHandle<Carried>) {
        let (client, mut near) = duplex(1000);
        let (server, far) = duplex(1000);
        let draining = drain.connection();
        let tunnel = Tunnel { far: Box::new(far), patience };
        let carried = spawn_local(async move {
            tunnel.run_within(&mut near, Input::default(), &draining, bounds).await
        });
        (client, server, carried)
    }

    async fn end(carried: JoinHandle<Carried>) -> Carried {
        timeout(Duration::from_secs(60), carried).await.expect("the tunnel ends").unwrap()
    }

    fn with<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async { test().await });
    }

    #[test]
    fn bytes_go_both_ways_until_both_sides_have_finished() {
        with(|| async {
            let (mut client, mut server, carried) = tunnel(&Drain::new(), LONG, BOUNDS);
            client.write_all(b"ping").await.unwrap();
            let mut four = [0; 4];
            server.read_exact(&mut four).await.unwrap();
            assert_eq!(&four, b"ping");
            client.shutdown().await.unwrap();
            let mut rest = Vec::new();
            server.read_to_end(&mut rest).await.unwrap();
            assert!(rest.is_empty(), "the server learns that the client has finished");
            // The other direction goes on.
            let sending = spawn_local(async move { server.write_all(&[b'x'; 5000]).await });
            client.read_to_end(&mut rest).await.unwrap();
            sending.await.unwrap().unwrap();
            assert_eq!(rest.len(), 5000);
            let expected = Carried { from_client: 4, to_client: 5000, end: End::Finished };
            assert_eq!(end(carried).await, expected);
        });
    }

    #[test]
    fn one_that_takes_nothing_stops_the_other() {
        with(|| async {
            let (mut client, _server, _carried) = tunnel(&Drain::new(), LONG, BOUNDS);
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
            let (_client, _server, carried) = tunnel(&Drain::new(), SHORT, BOUNDS);
            assert_eq!(end(carried).await.end, End::Over);
        });
    }

    #[test]
    fn one_side_alone_and_one_that_takes_nothing_have_less_time() {
        with(|| async {
            let (mut client, _server, carried) = tunnel(&Drain::new(), LONG, AT_ONCE);
            client.shutdown().await.unwrap();
            assert_eq!(end(carried).await.end, End::Over);
            let (mut client, _server, carried) = tunnel(&Drain::new(), LONG, AT_ONCE);
            let flood =
                spawn_local(async move { while client.write_all(&[0; 1000]).await.is_ok() {} });
            assert_eq!(end(carried).await.end, End::Over);
            flood.await.unwrap();
        });
    }

    #[test]
    fn a_side_that_finishes_after_a_long_silence_leaves_the_other_its_time() {
        with(|| async {
            let uneasy = Duration::from_secs(3);
            let bounds = Bounds { uneasy, ..BOUNDS };
            let (mut client, mut server, carried) = tunnel(&Drain::new(), LONG, bounds);
            tokio::time::sleep(uneasy + SHORT).await;
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
            let patience = Duration::from_secs(1);
            loop {
                let (mut client, mut server, carried) = tunnel(&Drain::new(), patience, BOUNDS);
                let begun = Instant::now();
                let (mut last, mut longest) = (begun, Duration::ZERO);
                while begun.elapsed() < patience * 2 && !carried.is_finished() {
                    let _ = client.write_all(b".").await;
                    let _ = server.read_u8().await;
                    tokio::time::sleep(SHORT).await;
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                if !carried.is_finished() {
                    return;
                }
                // A machine that is too busy to speak in time shows nothing.
                assert!(longest > patience / 2, "it ended after a pause of {longest:?}");
            }
        });
    }

    #[test]
    fn a_server_that_is_to_end_does_not_wait_for_tunnels_for_long() {
        with(|| async {
            let drain = Drain::new();
            let (_client, _server, carried) = tunnel(&drain, LONG, AT_ONCE);
            drain.start();
            assert_eq!(end(carried).await.end, End::Over);
        });
    }
}
