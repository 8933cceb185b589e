//! A server that handles each connection with a function of the test, byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::free_listener;
use super::time::patience;

/// A server; its thread ends with the test.
pub struct Raw {
    /// Address on which it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

/// A connection to the server.
pub struct Connection {
    /// The socket.
    pub stream: TcpStream,
    /// Number of earlier connections.
    pub number: usize,
    received: Vec<u8>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Raw {
    /// Calls `serve` for each connection, on a new thread; then closes the connection.
    pub fn new(serve: impl Fn(&mut Connection) + Send + Sync + 'static) -> Raw {
        let listener = free_listener();
        let address = listener.local_addr().unwrap();
        let (asked, connections) = (Arc::default(), Arc::<AtomicUsize>::default());
        let (kept, counted, serve) =
            (Arc::clone(&asked), Arc::clone(&connections), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = counted.fetch_add(1, Relaxed);
                stream.set_read_timeout(Some(patience())).unwrap();
                let (asked, serve) = (Arc::clone(&kept), Arc::clone(&serve));
                let mut connection = Connection { stream, number, received: Vec::new(), asked };
                std::thread::spawn(move || serve(&mut connection));
            }
        });
        Raw { address, asked, connections }
    }

    /// Starts a server that sends this response to each complete request.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Raw {
        let answer = answer.into();
        Raw::new(
            move |connection| while connection.request().is_some() && connection.send(&answer) {},
        )
    }

    /// Returns the URL for a `proxy`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the heads of the requests received.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

impl Connection {
    /// Reads a request; `None` if there are no more.
    pub fn request(&mut self) -> Option<String> {
        let head = self.head()?;
        self.body(&head)?;
        Some(head)
    }

    /// Reads the body that follows a head.
    pub fn body(&mut self, head: &str) -> Option<()> {
        let length = head.split("Content-Length: ").nth(1);
        let length: usize = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
        while self.received.len() < length {
            self.receive()?;
        }
        self.received.drain(..length);
        Some(())
    }

    /// Reads the head of a request, without its body.
    pub fn head(&mut self) -> Option<String> {
        let end = loop {
            let found = self.received.windows(4).position(|four| four == b"\r\n\r\n");
            match found {
                Some(at) => break at + 4,
                None => self.receive()?,
            }
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        self.asked.lock().unwrap().push(head.clone());
        Some(head)
    }

    /// Sends bytes. Returns true if they could be sent.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Waits until the peer has closed the connection, and discards the bytes that it sends.
    pub fn wait_for_end(&mut self) {
        while self.receive().is_some() {
            self.received.clear();
        }
    }

    fn receive(&mut self) -> Option<()> {
        let mut piece = [0; 16 * 1024];
        let read = self.stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        self.received.extend_from_slice(&piece[..read]);
        Some(())
    }
}
