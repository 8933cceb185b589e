//! A client that sends exactly the given bytes.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use super::time::{PATIENCE, Stopwatch, patience};

/// A connection.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
    ended: bool,
}

/// A response, interim ones included.
#[derive(Clone)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Names and values, as sent.
    pub fields: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// The connection ended within the body.
    pub cut: bool,
}

impl Response {
    /// Returns the value of a field; `None` if it is missing or there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = values.next()?;
        values.next().is_none().then_some(&value.1)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.status, self.fields)?;
        let (shown, more) = self.body.split_at(self.body.len().min(500));
        let more = if more.is_empty() { "" } else { "..." };
        write!(f, " {:?}{more}", String::from_utf8_lossy(shown))?;
        f.write_str(if self.cut { " (cut)" } else { "" })
    }
}

impl Client {
    /// Connects to an address.
    pub fn connect(address: SocketAddr) -> Self {
        Client::new(TcpStream::connect(address).expect("the server accepts connections"))
    }

    /// Connects from an address of the loopback network, as another machine would.
    pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        let socket =
            net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.unwrap();
        net::bind(&socket, &SocketAddr::from((source, 0))).unwrap();
        net::connect(&socket, &address).expect("the server accepts connections");
        Client::new(socket.into())
    }

    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_write_timeout(Some(patience())).unwrap();
        Client { stream, received: Vec::new(), ended: false }
    }

    /// Returns the socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns true if bytes of a response can be read, or the end of the connection.
    pub fn has_data(&self) -> bool {
        let mut socket = [PollFd::new(&self.stream, PollFlags::IN)];
        let is_ready = poll(&mut socket, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        is_ready || !self.received.is_empty()
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).expect("the server takes the request");
        self
    }

    /// Sends bytes to a server that may have closed the connection already.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends a GET request and returns the response; the connection stays open.
    pub fn get(&mut self, target: &str) -> Response {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        self.response()
    }

    /// Shuts down the sending direction.
    pub fn finish_sending(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns the next response, interim or final, to a request other than HEAD.
    pub fn response(&mut self) -> Response {
        self.try_response(false).expect("the server answers before it closes the connection")
    }

    /// Returns the response to a HEAD request.
    pub fn head_response(&mut self) -> Response {
        self.try_response(true).expect("the server answers before it closes the connection")
    }

    /// Returns the next response; `None` if the server closes the connection before it.
    pub fn next_response(&mut self) -> Option<Response> {
        self.try_response(false)
    }

    fn try_response(&mut self, head_only: bool) -> Option<Response> {
        let end = loop {
            if let Some(at) = find(&self.received, b"\r\n\r\n") {
                break at + 4;
            }
            if !self.receive() {
                assert!(
                    self.received.is_empty(),
                    "the connection ended within a head: {:?}",
                    String::from_utf8_lossy(&self.received)
                );
                return None;
            }
        };
        let head = String::from_utf8(self.take(end)).expect("the head is text");
        let mut response = parse_head(&head);
        if head_only || matches!(response.status, 100..=199 | 204 | 304) {
            return Some(response);
        }
        let chunked =
            response.field("Transfer-Encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
        let length = response.field("Content-Length").map(|v| v.parse().expect("a length"));
        match (chunked, length) {
            (true, None) => self.chunks(&mut response),
            (false, Some(length)) => {
                while self.received.len() < length && self.receive() {}
                response.cut = self.received.len() < length;
                response.body = self.take(length);
            }
            (false, None) => {
                while self.receive() {}
                response.body = self.take(usize::MAX);
            }
            (true, Some(_)) => panic!("a response is framed in two ways: {response:?}"),
        }
        Some(response)
    }

    fn chunks(&mut self, response: &mut Response) {
        loop {
            let Some(line) = self.line() else {
                response.cut = true;
                return;
            };
            let size = usize::from_str_radix(line.trim_end(), 16)
                .unwrap_or_else(|_| panic!("{line:?} is no chunk size"));
            while self.received.len() < size + 2 && self.receive() {}
            if self.received.len() < size + 2 {
                response.body.extend(self.take(size));
                response.cut = true;
                return;
            }
            response.body.extend(self.take(size));
            assert_eq!(self.take(2), b"\r\n", "a chunk ends with its line");
            if size == 0 {
                return;
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = find(&self.received, b"\r\n") {
                return Some(String::from_utf8(self.take(at + 2)).expect("a chunk size is text"));
            }
            if !self.receive() {
                return None;
            }
        }
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let rest = self.received.split_off(len.min(self.received.len()));
        std::mem::replace(&mut self.received, rest)
    }

    /// Returns the bytes that were received and not taken as a response.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Receives bytes until they contain `needle`, for responses that do not end yet.
    pub fn wait_for(&mut self, needle: &str) {
        while find(&self.received, needle.as_bytes()).is_none() {
            assert!(
                self.receive(),
                "the connection ended before {needle:?}: {:?}",
                String::from_utf8_lossy(&self.received)
            );
        }
    }

    /// Returns all bytes until the server closes the connection.
    pub fn everything(&mut self) -> Vec<u8> {
        while self.receive() {}
        self.take(usize::MAX)
    }

    /// Returns true if the server closes the connection without sending a byte.
    pub fn is_closed(&mut self) -> bool {
        !self.receive() && self.received.is_empty()
    }

    /// Reads once. Returns false at the end of the connection.
    fn receive(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let mut buffer = [0; 64 * 1024];
        let (stopwatch, begun) = (Stopwatch::start(), Instant::now());
        let result = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if is_timeout(&error) && stopwatch.elapsed() < PATIENCE => {}
                result => break result,
            }
        };
        match result {
            Ok(0) => self.ended = true,
            Ok(n) => self.received.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.ended = true,
            Err(error) => panic!(
                "nothing comes from the server ({error}, {:?}) after {} bytes: {:?}",
                begun.elapsed(),
                self.received.len(),
                String::from_utf8_lossy(&self.received[..self.received.len().min(1000)])
            ),
        }
        !self.ended
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn parse_head(head: &str) -> Response {
    let mut lines = head.trim_end().split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .unwrap_or_else(|| panic!("{status_line:?} is no status line"));
    let fields = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?}"));
            (name.to_owned(), value.trim().to_owned())
        })
        .collect();
    Response { status, fields, body: Vec::new(), cut: false }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
