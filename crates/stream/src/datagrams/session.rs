//! A session: the datagrams of a client to a server, and the answers.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};

use howdah_config::UdpSessions;
use howdah_http::drain::DrainRegistration;
use howdah_http::timer::{Timer, after};
use howdah_http::tunnel::DRAINING;
use rustix::io::Errno;
use rustix::net::SendFlags;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::socket::{ClientSocket, MAX_DATAGRAM_BYTES};
use super::table::Client;
use howdah_http::forward::{End, Forwarded};

/// Maximum number of datagrams that wait for the choice of a server; further ones are lost.
const MAX_WAITING: usize = 8;

/// Maximum number of answers that are passed on in one turn of the thread.
const MAX_ANSWERS: usize = 32;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A session of a client.
#[derive(Debug)]
pub struct Session {
    settings: UdpSessions,
    /// The header of the PROXY protocol in front of each datagram; empty without one.
    header: Vec<u8>,
    /// Connected to the server; unset until one is chosen.
    server: OnceCell<UdpSocket>,
    waiting: RefCell<Vec<Vec<u8>>>,
    requests: Cell<u64>,
    responses: Cell<u64>,
    from_client: Cell<u64>,
    to_client: Cell<u64>,
    active_at: Cell<Instant>,
    end: Cell<Option<End>>,
    waker: RefCell<Option<Waker>>,
}

impl Session {
    /// Begins a session. `header` precedes each datagram to the server.
    pub fn new(settings: UdpSessions, header: Vec<u8>) -> Session {
        Session {
            settings,
            header,
            server: OnceCell::new(),
            waiting: RefCell::default(),
            requests: Cell::new(0),
            responses: Cell::new(0),
            from_client: Cell::new(0),
            to_client: Cell::new(0),
            active_at: Cell::new(Instant::now()),
            end: Cell::new(None),
            waker: RefCell::default(),
        }
    }

    /// Passes a datagram of the client to the server, or keeps it until there is one.
    pub fn deliver(&self, datagram: &[u8]) {
        self.requests.set(self.requests.get() + 1);
        self.active_at.set(Instant::now());
        let whole;
        let bytes = if self.header.is_empty() {
            datagram
        } else {
            whole = [&self.header, datagram].concat();
            &whole
        };
        match self.server.get() {
            Some(server) => {
                self.send(server, bytes, datagram.len());
                self.finish_if_answered();
            }
            None => {
                let mut waiting = self.waiting.borrow_mut();
                if waiting.len() < MAX_WAITING {
                    waiting.push(bytes.to_vec());
                    self.from_client.set(self.from_client.get() + datagram.len() as u64);
                }
            }
        }
    }

    /// Returns true if the next datagram of the client begins another session.
    pub fn is_full(&self) -> bool {
        self.settings.requests.is_some_and(|max| self.requests.get() >= max.into())
    }

    /// Returns true if the server has answered.
    pub fn is_answered(&self) -> bool {
        self.responses.get() > 0
    }

    /// Returns true if answers are missing.
    pub fn is_unanswered(&self) -> bool {
        self.settings.responses.is_some() && !self.has_all_answers()
    }

    /// Ends the session.
    pub fn end(&self, end: End) {
        self.end.set(Some(end));
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until the session is ended, before it has a server.
    pub async fn ended(&self) -> End {
        poll_fn(|cx| {
            if let Some(end) = self.end.get() {
                return Poll::Ready(end);
            }
            self.waker.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Returns true if the session has been ended.
    pub fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }

    /// Passes datagrams both ways with the server of this socket until the session ends. Calls
    /// `on_answer` at the first answer.
    pub async fn run(
        &self,
        server: UdpSocket,
        clients: &ClientSocket,
        client: &Client,
        drain: &DrainRegistration,
        on_answer: impl Fn(),
    ) -> End {
        let server = self.server.get_or_init(|| server);
        for datagram in self.waiting.take() {
            self.send(server, &datagram, 0);
        }
        self.finish_if_answered();
        let (mut timer, mut drained_at) = (Timer::default(), None);
        poll_fn(|cx| {
            if let Some(end) = self.end.get() {
                return Poll::Ready(end);
            }
            for _ in 0..MAX_ANSWERS {
                match self.poll_answer(server, clients, client, cx) {
                    Poll::Ready(Ok(())) if self.responses.get() == 1 => on_answer(),
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(End::Server),
                    Poll::Pending => break,
                }
                if let Some(end) = self.end.get() {
                    return Poll::Ready(end);
                }
            }
            self.waker.replace(Some(cx.waker().clone()));
            let mut deadline = after(self.active_at.get(), self.settings.timeout);
            // Another server gets what the client sends from now on.
            let is_left =
                drain.poll(cx) && drain.handed_over().is_some_and(|handed| !handed.is_accepting);
            if is_left {
                let at: Instant = *drained_at.get_or_insert_with(Instant::now);
                deadline = deadline.min(after(at, DRAINING));
            }
            timer.poll(cx, deadline).map(|()| End::TimedOut)
        })
        .await
    }

    /// Returns the numbers of bytes that have passed.
    pub fn forwarded(&self, end: End) -> Forwarded {
        Forwarded { from_client: self.from_client.get(), to_client: self.to_client.get(), end }
    }

    fn poll_answer(
        &self,
        server: &UdpSocket,
        clients: &ClientSocket,
        client: &Client,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut memory = BUFFER.take();
        if memory.is_empty() {
            memory = vec![0; MAX_DATAGRAM_BYTES];
        }
        let mut buffer = ReadBuf::new(&mut memory);
        let received = server.poll_recv(cx, &mut buffer);
        if let Poll::Ready(Ok(())) = received {
            let answer = buffer.filled();
            // An answer that cannot be sent is lost, as it may be on the way.
            if clients.send(client, answer).is_ok() {
                self.to_client.set(self.to_client.get() + answer.len() as u64);
            }
            self.responses.set(self.responses.get() + 1);
            self.active_at.set(Instant::now());
            self.finish_if_answered();
        }
        BUFFER.set(memory);
        received
    }

    /// Sends a datagram, of which `counted` bytes are the client's. One for which the kernel has no
    /// room is lost, as it may be on the way.
    fn send(&self, server: &UdpSocket, datagram: &[u8], counted: usize) {
        self.from_client.set(self.from_client.get() + counted as u64);
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // The error of an earlier datagram: there is no server.
        if rustix::net::send(server, datagram, flags) == Err(Errno::CONNREFUSED) {
            self.end(End::Server);
        }
    }

    fn has_all_answers(&self) -> bool {
        let wanted = self.settings.responses.map(u64::from);
        wanted.is_some_and(|each| self.responses.get() >= each.saturating_mul(self.requests.get()))
    }

    /// Ends the session if no further answer and no further datagram belongs to it.
    fn finish_if_answered(&self) {
        let takes_more = self.settings.requests.is_some() && !self.is_full();
        if !takes_more && self.requests.get() > 0 && self.has_all_answers() && !self.has_ended() {
            self.end(End::Finished);
        }
    }
}

/// Opens a socket for the datagrams of one session to a server.
pub async fn connect(server: SocketAddr) -> io::Result<UdpSocket> {
    let any = match server {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    Ok(socket)
}
