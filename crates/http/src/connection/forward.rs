//! Bytes in both directions between a client and a server.
//!
//! All directions of a thread read into one buffer. Only what a receiver does not take at once is
//! kept, so a silent session has no buffer, and one whose receiver is slow has at most one read.
//!
//! When one end shuts down its sending direction, the other one is told and may go on: protocols use
//! the end of input as a mark. Who calls says how long that, and silence, may last.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::timer::Timer;

/// Maximum number of bytes of a read.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Result of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded {
    /// Bytes from the client that the server has taken.
    pub from_client: u64,
    /// Bytes from the server that the client has taken.
    pub to_client: u64,
    /// Reason of the end.
    pub end: End,
}

/// Reason for which a session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Both ends have finished.
    Finished,
    /// The client's connection broke.
    Client,
    /// The server's connection broke.
    Server,
    /// Its time is over.
    TimedOut,
}

/// A limit of the speed of one direction.
pub trait Meter {
    /// Returns the number of bytes to pass at once, at least 1.
    fn piece(&self) -> usize;

    /// Counts bytes that have passed. Returns the time until further ones may.
    fn count(&self, bytes: usize) -> Duration;
}

/// Limits of the speed of a session; `None` for a direction without one.
#[derive(Default)]
pub struct Pace {
    /// Bytes from the client.
    pub from_client: Option<Box<dyn Meter>>,
    /// Bytes to the client.
    pub to_client: Option<Box<dyn Meter>>,
}

/// What a session does, for its deadline.
#[derive(Debug, Clone, Copy)]
pub struct Activity {
    /// Since when no byte has passed, and no end has finished. A direction that waits for its speed
    /// limit is not idle.
    pub idle_since: Instant,
    /// One end has finished, or does not take the bytes that wait for it.
    pub is_half_closed: bool,
}

/// A direction of a session.
#[derive(Default)]
struct Direction {
    /// Bytes that the receiver has not taken yet, from `sent` on.
    waiting: Vec<u8>,
    sent: usize,
    moved: u64,
    state: State,
    meter: Option<Box<dyn Meter>>,
    /// The time until the next read that the meter permits.
    pause: Option<Pin<Box<Sleep>>>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The receiver may still hold bytes that were written to it.
    NeedsFlush,
    /// The sender has finished; the receiver is to be told.
    Ending,
    Ended,
}

/// The end of a direction whose connection broke.
enum Broken {
    Sender,
    Receiver,
}

/// Passes bytes between a client and a server until the session ends, at the latest at `deadline`,
/// which is asked for at each turn. `input` are bytes of the client that have been read already.
pub async fn forward<C, S>(
    client: &mut C,
    server: &mut S,
    input: Vec<u8>,
    pace: Pace,
    mut deadline: impl FnMut(Activity, &mut Context<'_>) -> Instant,
) -> Forwarded
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut up = Direction { waiting: input, meter: pace.from_client, ..Direction::default() };
    let mut down = Direction { meter: pace.to_client, ..Direction::default() };
    let (mut timer, mut idle_since) = (Timer::default(), Instant::now());
    let mut was_half_closed = false;
    let end = poll_fn(|cx| {
        let before = (up.moved, down.moved, up.state, down.state);
        let up_end = up.poll(client, server, cx);
        // A server that takes no more may have sent its last answer.
        if let Poll::Ready(Err(Broken::Receiver)) = up_end {
            up.abandon();
        }
        let down_end = down.poll(server, client, cx);
        match (up_end, down_end) {
            (Poll::Ready(Err(Broken::Sender)), _) | (_, Poll::Ready(Err(Broken::Receiver))) => {
                return Poll::Ready(End::Client);
            }
            (_, Poll::Ready(Err(Broken::Sender))) => return Poll::Ready(End::Server),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(End::Finished),
            (Poll::Ready(Err(Broken::Receiver)), Poll::Ready(Ok(()))) => {
                return Poll::Ready(End::Server);
            }
            _ => {}
        }
        let is_half_closed = up.is_half_closed() || down.is_half_closed();
        let after = (up.moved, down.moved, up.state, down.state);
        // An end after a long silence leaves the other one its whole time.
        let is_paused = up.pause.is_some() || down.pause.is_some();
        if before != after || is_half_closed != was_half_closed || is_paused {
            idle_since = Instant::now();
        }
        was_half_closed = is_half_closed;
        let deadline = deadline(Activity { idle_since, is_half_closed }, cx);
        timer.poll(cx, deadline).map(|()| End::TimedOut)
    })
    .await;
    Forwarded { from_client: up.moved, to_client: down.moved, end }
}

impl Direction {
    /// Returns true if the direction has ended, or the receiver does not take the bytes that wait.
    fn is_half_closed(&self) -> bool {
        self.state == State::Ended || !self.waiting.is_empty()
    }

    /// Ends a direction whose receiver takes no more.
    fn abandon(&mut self) {
        (self.waiting, self.sent, self.state) = (Vec::new(), 0, State::Ended);
    }

    /// Passes bytes until neither end makes progress. Ready at the end of the direction.
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
            while let Some(rest) = self.waiting.get(self.sent..).filter(|rest| !rest.is_empty()) {
                match ready!(Pin::new(&mut *to).poll_write(cx, rest)) {
                    Ok(0) | Err(_) => return Poll::Ready(Err(Broken::Receiver)),
                    Ok(count) => {
                        self.sent += count;
                        self.moved += count as u64;
                        self.state = State::NeedsFlush;
                    }
                }
            }
            if !self.waiting.is_empty() {
                (self.waiting, self.sent) = (Vec::new(), 0);
            }
            match self.state {
                State::Ended => return Poll::Ready(Ok(())),
                State::Ending => {
                    // An error means that the receiver has gone; its own direction tells.
                    let _: io::Result<()> = ready!(Pin::new(&mut *to).poll_shutdown(cx));
                    self.state = State::Ended;
                    return Poll::Ready(Ok(()));
                }
                State::Open | State::NeedsFlush => {}
            }
            let passed = match self.poll_pause(cx) {
                Poll::Ready(()) => self.poll_pass(from, to, cx),
                Poll::Pending => Poll::Pending,
            };
            match passed {
                Poll::Ready(Ok(0)) => self.state = State::Ending,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(broken)) => return Poll::Ready(Err(broken)),
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

    /// Waits until the meter permits the next read.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// Reads once, and writes what was read; what is not taken waits. Returns the number of bytes
    /// read, 0 at the end.
    fn poll_pass<F, T>(
        &mut self,
        from: &mut F,
        to: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Broken>>
    where
        F: AsyncRead + Unpin,
        T: AsyncWrite + Unpin,
    {
        let mut memory = BUFFER.take();
        if memory.is_empty() {
            memory = vec![0; READ_BYTES];
        }
        let room =
            self.meter.as_ref().map_or(READ_BYTES, |meter| meter.piece().clamp(1, READ_BYTES));
        let mut buffer = ReadBuf::new(memory.get_mut(..room).unwrap_or_default());
        let read = Pin::new(from).poll_read(cx, &mut buffer);
        let bytes = buffer.filled();
        let passed = match read {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) => Poll::Ready(Err(Broken::Sender)),
            Poll::Ready(Ok(())) if bytes.is_empty() => Poll::Ready(Ok(0)),
            Poll::Ready(Ok(())) => match Pin::new(to).poll_write(cx, bytes) {
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Broken::Receiver)),
                written => {
                    let count = match written {
                        Poll::Ready(Ok(count)) => count,
                        _ => 0,
                    };
                    self.moved += count as u64;
                    self.waiting.extend_from_slice(bytes.get(count..).unwrap_or_default());
                    self.state = State::NeedsFlush;
                    let pause = self.meter.as_ref().map(|meter| meter.count(bytes.len()));
                    self.pause =
                        pause.filter(|time| !time.is_zero()).map(|time| Box::pin(sleep(time)));
                    Poll::Ready(Ok(bytes.len()))
                }
            },
        };
        BUFFER.set(memory);
        passed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::{JoinHandle, LocalSet, spawn_local};

    use super::*;
    use crate::timer::after;

    const LONG: Duration = Duration::from_secs(300);
    const SHORT: Duration = Duration::from_millis(50);

    /// Creates a client and a server with a session between them.
    fn session(
        input: &[u8],
        idle: Duration,
    ) -> (DuplexStream, DuplexStream, JoinHandle<Forwarded>) {
        paced_session(input, idle, Pace::default())
    }

    fn paced_session(
        input: &[u8],
        idle: Duration,
        pace: Pace,
    ) -> (DuplexStream, DuplexStream, JoinHandle<Forwarded>) {
        let (client, mut near) = duplex(1000);
        let (server, mut far) = duplex(1000);
        let input = input.to_vec();
        let task = spawn_local(async move {
            let deadline =
                |activity: Activity, _: &mut Context<'_>| after(activity.idle_since, idle);
            forward(&mut near, &mut far, input, pace, deadline).await
        });
        (client, server, task)
    }

    fn with<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async { test().await });
    }

    #[test]
    fn bytes_pass_both_ways_after_those_that_were_read_ahead() {
        with(|| async {
            let (mut client, mut server, task) = session(b"hello ", LONG);
            client.write_all(b"world").await.unwrap();
            let mut came = [0; 11];
            server.read_exact(&mut came).await.unwrap();
            assert_eq!(&came, b"hello world");
            let bytes: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
            let sent = bytes.clone();
            let sending = spawn_local(async move {
                server.write_all(&sent).await.unwrap();
                server
            });
            let mut answer = vec![0; bytes.len()];
            client.read_exact(&mut answer).await.unwrap();
            assert!(answer == bytes);
            drop((client, sending.await.unwrap()));
            let expected = Forwarded { from_client: 11, to_client: 100_000, end: End::Finished };
            assert_eq!(task.await.unwrap(), expected);
        });
    }

    #[test]
    fn a_client_that_has_finished_gets_the_whole_answer() {
        with(|| async {
            let (mut client, mut server, task) = session(b"", LONG);
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut question = Vec::new();
            server.read_to_end(&mut question).await.unwrap();
            assert_eq!(question, b"question", "the server learns of the end");
            let sending = spawn_local(async move { server.write_all(&[b'x'; 5000]).await });
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            sending.await.unwrap().unwrap();
            assert_eq!((answer.len(), task.await.unwrap().end), (5000, End::Finished));
        });
    }

    #[test]
    fn a_server_that_takes_no_more_may_still_have_answered() {
        with(|| async {
            let (mut client, mut server, task) = session(b"", LONG);
            server.write_all(b"no").await.unwrap();
            drop(server);
            let _ = client.write_all(&[0; 500]).await;
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"no");
            drop(client);
            assert!(matches!(task.await.unwrap().end, End::Server | End::Finished));
        });
    }

    #[test]
    fn silence_ends_a_session_and_a_receiver_that_takes_nothing_is_silent() {
        with(|| async {
            let (_client, _server, task) = session(b"", SHORT);
            assert_eq!(task.await.unwrap().end, End::TimedOut);
            let (mut client, _server, task) = session(b"", SHORT);
            let flood = spawn_local(async move {
                let mut taken = 0;
                while let Ok(count) = client.write(&[0; 1000]).await {
                    taken += count;
                }
                taken
            });
            assert_eq!(task.await.unwrap().end, End::TimedOut);
            assert!(flood.await.unwrap() < 200_000, "somebody keeps all of it");
        });
    }

    /// A pause after each ten bytes.
    struct Slow(Duration);

    impl Meter for Slow {
        fn piece(&self) -> usize {
            10
        }

        fn count(&self, bytes: usize) -> Duration {
            assert!(bytes <= 10, "{bytes}");
            self.0
        }
    }

    #[test]
    fn a_direction_is_no_faster_than_its_meter_and_is_not_idle_while_it_waits() {
        with(|| async {
            let pause = 3 * SHORT;
            let pace = Pace { from_client: None, to_client: Some(Box::new(Slow(pause))) };
            let (mut client, mut server, task) = paced_session(b"", 2 * SHORT, pace);
            let began = Instant::now();
            server.write_all(&[b'x'; 30]).await.unwrap();
            client.write_all(&[b'y'; 500]).await.unwrap();
            let (mut answer, mut question) = ([0; 30], [0; 500]);
            server.read_exact(&mut question).await.unwrap();
            client.read_exact(&mut answer).await.unwrap();
            assert!(began.elapsed() >= 2 * pause, "two pauses lie between three pieces");
            drop((client, server));
            let Forwarded { from_client, to_client, .. } = task.await.unwrap();
            assert_eq!((from_client, to_client), (500, 30));
        });
    }
}
