//! A connection in memory for tests and fuzz targets: its client sends exactly the given bytes.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;

use super::transport::{Closed, ReadError, ReceiveStream, SendStream, Transport, WriteError};

/// A connection, as its client sees it. Clones are the same connection.
#[derive(Clone)]
pub struct Wire(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    streams: BTreeMap<u64, Stream>,
    /// Ids of streams that the server has not accepted.
    accept: VecDeque<u64>,
    accept_uni: VecDeque<u64>,
    opened: u64,
    opened_uni: u64,
    opened_by_server: u64,
    closed: Option<(u64, String)>,
    is_gone: bool,
    remote: Option<SocketAddr>,
    rtt: Duration,
    /// The client acknowledges nothing.
    is_silent: bool,
    /// Bytes of each stream that the server may send.
    window: usize,
    wakers: Vec<Waker>,
}

#[derive(Default)]
struct Stream {
    /// From the client.
    incoming: VecDeque<Bytes>,
    is_finished: bool,
    is_reset: bool,
    /// Code of the server's STOP_SENDING.
    stop_code: Option<u64>,
    is_stopped: bool,
    /// From the server.
    received: Vec<u8>,
    ended: Option<End>,
}

/// End of a stream by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The stream was finished.
    Finished,
    /// The stream was reset with a code.
    Reset(u64),
}

impl State {
    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Registers a task. All tasks are woken by each event: there are few.
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn is_over(&self) -> bool {
        self.is_gone || self.closed.is_some()
    }
}

impl Default for Wire {
    fn default() -> Self {
        let remote = Some(([192, 0, 2, 1], 4433).into());
        Wire(Rc::new(RefCell::new(State { remote, window: usize::MAX, ..State::default() })))
    }
}

impl Wire {
    fn change<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.0.borrow_mut();
        let result = act(&mut state);
        state.wake();
        result
    }

    fn stream<T>(&self, id: u64, act: impl FnOnce(&mut Stream) -> T) -> T {
        self.change(|state| act(state.streams.entry(id).or_default()))
    }

    /// Opens a stream for a request; returns its id.
    pub fn open(&self) -> u64 {
        self.change(|state| {
            let id = 4 * state.opened;
            state.opened += 1;
            state.streams.insert(id, Stream::default());
            state.accept.push_back(id);
            id
        })
    }

    /// Opens a unidirectional stream; returns its id.
    pub fn open_uni(&self) -> u64 {
        self.change(|state| {
            let id = 4 * state.opened_uni + 2;
            state.opened_uni += 1;
            state.streams.insert(id, Stream::default());
            state.accept_uni.push_back(id);
            id
        })
    }

    /// Sends bytes.
    pub fn send(&self, id: u64, bytes: impl AsRef<[u8]>) {
        let bytes = Bytes::copy_from_slice(bytes.as_ref());
        if !bytes.is_empty() {
            self.stream(id, |stream| stream.incoming.push_back(bytes));
        }
    }

    /// Ends the client's direction of a stream.
    pub fn finish(&self, id: u64) {
        self.stream(id, |stream| stream.is_finished = true);
    }

    /// Resets the client's direction of a stream.
    pub fn reset(&self, id: u64) {
        self.stream(id, |stream| stream.is_reset = true);
    }

    /// Refuses the server's direction of a stream.
    pub fn stop(&self, id: u64) {
        self.stream(id, |stream| stream.is_stopped = true);
    }

    /// Ends the connection without a word.
    pub fn leave(&self) {
        self.change(|state| state.is_gone = true);
    }

    /// Changes the client's address.
    pub fn move_to(&self, remote: SocketAddr) {
        self.change(|state| state.remote = Some(remote));
    }

    /// Lets the client acknowledge what it gets, or not.
    pub fn set_silent(&self, is_silent: bool) {
        self.change(|state| state.is_silent = is_silent);
    }

    /// Sets the round-trip time.
    pub fn set_rtt(&self, rtt: Duration) {
        self.change(|state| state.rtt = rtt);
    }

    /// Sets the number of bytes of each stream that the server may send in total.
    pub fn set_window(&self, bytes: usize) {
        self.change(|state| state.window = bytes);
    }

    /// Returns the bytes that the server has sent on a stream.
    pub fn received(&self, id: u64) -> Vec<u8> {
        let state = self.0.borrow();
        state.streams.get(&id).map(|stream| stream.received.clone()).unwrap_or_default()
    }

    /// Returns how the server has ended a stream.
    pub fn ended(&self, id: u64) -> Option<End> {
        self.0.borrow().streams.get(&id)?.ended
    }

    /// Returns the code with which the server has refused to read a stream.
    pub fn stop_code(&self, id: u64) -> Option<u64> {
        self.0.borrow().streams.get(&id)?.stop_code
    }

    /// Returns the code and the reason with which the server has closed the connection.
    pub fn closed(&self) -> Option<(u64, String)> {
        self.0.borrow().closed.clone()
    }
}

impl Transport for Wire {
    type Sender = Half;
    type Receiver = Half;

    fn remote(&self) -> SocketAddr {
        self.0.borrow().remote.unwrap_or_else(|| ([192, 0, 2, 1], 4433).into())
    }

    fn rtt(&self) -> Duration {
        self.0.borrow().rtt
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<(Half, Half), Closed>> {
        let mut state = self.0.borrow_mut();
        match state.accept.pop_front() {
            _ if state.is_over() => Poll::Ready(Err(Closed)),
            Some(id) => {
                let half = || Half { wire: self.clone(), id };
                Poll::Ready(Ok((half(), half())))
            }
            None => state.wait(cx),
        }
    }

    fn poll_accept_uni(&self, cx: &mut Context<'_>) -> Poll<Result<Half, Closed>> {
        let mut state = self.0.borrow_mut();
        match state.accept_uni.pop_front() {
            _ if state.is_over() => Poll::Ready(Err(Closed)),
            Some(id) => Poll::Ready(Ok(Half { wire: self.clone(), id })),
            None => state.wait(cx),
        }
    }

    fn poll_open_uni(&self, _: &mut Context<'_>) -> Poll<Result<Half, Closed>> {
        let mut state = self.0.borrow_mut();
        let id = 4 * state.opened_by_server + 3;
        state.opened_by_server += 1;
        state.streams.insert(id, Stream::default());
        Poll::Ready(Ok(Half { wire: self.clone(), id }))
    }

    fn poll_acknowledged(&self, _: &mut Context<'_>) -> Poll<()> {
        if self.0.borrow().is_silent { Poll::Pending } else { Poll::Ready(()) }
    }

    fn close(&self, code: u64, reason: &str) {
        self.change(|state| {
            state.closed.get_or_insert((code, reason.to_owned()));
        });
    }
}

/// One direction of a stream.
pub struct Half {
    wire: Wire,
    id: u64,
}

impl Half {
    fn poll<T>(
        &self,
        cx: &Context<'_>,
        act: impl FnOnce(&mut Stream, usize, bool) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.wire.0.borrow_mut();
        let (window, is_over) = (state.window, state.is_over());
        let stream = state.streams.entry(self.id).or_default();
        match act(stream, window, is_over) {
            Some(result) => {
                state.wake();
                Poll::Ready(result)
            }
            None => state.wait(cx),
        }
    }
}

impl ReceiveStream for Half {
    fn id(&self) -> u64 {
        self.id
    }

    fn poll_read(
        &mut self,
        max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        self.poll(cx, |stream, _, is_over| {
            assert!(stream.stop_code.is_none(), "a stream is read after STOP_SENDING");
            if is_over {
                return Some(Err(ReadError::Closed));
            }
            if stream.is_reset {
                return Some(Err(ReadError::Reset));
            }
            let Some(bytes) = stream.incoming.front_mut() else {
                return stream.is_finished.then_some(Ok(None));
            };
            let piece = bytes.split_to(max.min(bytes.len()));
            if bytes.is_empty() {
                stream.incoming.pop_front();
            }
            Some(Ok(Some(piece)))
        })
    }

    fn stop(&mut self, code: u64) {
        self.wire.stream(self.id, |stream| {
            stream.stop_code.get_or_insert(code);
        });
    }
}

impl SendStream for Half {
    fn id(&self) -> u64 {
        self.id
    }

    fn poll_write(
        &mut self,
        bytes: &mut Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), WriteError>> {
        self.poll(cx, |stream, window, is_over| {
            assert!(stream.ended.is_none(), "a stream is written to after its end");
            if is_over {
                return Some(Err(WriteError::Closed));
            }
            if stream.is_stopped {
                return Some(Err(WriteError::Stopped));
            }
            let room = window.saturating_sub(stream.received.len()).min(bytes.len());
            if room == 0 {
                return None;
            }
            stream.received.extend_from_slice(&bytes.split_to(room));
            Some(Ok(()))
        })
    }

    fn finish(&mut self) {
        self.wire.stream(self.id, |stream| {
            stream.ended.get_or_insert(End::Finished);
        });
    }

    fn reset(&mut self, code: u64) {
        self.wire.stream(self.id, |stream| {
            stream.ended.get_or_insert(End::Reset(code));
        });
    }

    fn set_priority(&mut self, _: i32) {}

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |stream, _, is_over| (stream.is_stopped || is_over).then_some(()))
    }
}
