//! A server that does with each of its connections what a test says, byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::client::PATIENCE;
use super::free_address;

/// A server; its thread ends with the test.
pub struct Raw {
    /// Where it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

/// A connection to the server.
pub struct Connection {
    /// The socket.
    pub stream: TcpStream,
    /// How many there were before it.
    pub number: usize,
    received: Vec<u8>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Raw {
    /// Serves each connection, on a thread of its own, with this; then it is closed.
    pub fn new(serve: impl Fn(&mut Connection) + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind(free_address()).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, connections) = (Arc::default(), Arc::<AtomicUsize>::default());
        let (kept, counted, serve) =
            (Arc::clone(&asked), Arc::clone(&connections), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = counted.fetch_add(1, Relaxed);
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let (asked, serve) = (Arc::clone(&kept), Arc::clone(&serve));
                let mut connection = Connection { stream, number, received: Vec::new(), asked };
                std::thread::spawn(move || serve(&mut connection));
            }
        });
        Raw { address, asked, connections }
    }

    /// A server that gives each request this answer, once the whole request has come.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Raw {
        let answer = answer.into();
        Raw::new(
            move |connection| while connection.request().is_some() && connection.send(&answer) {},
        )
    }

    /// What a `proxy` is written as.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Heads of the requests that came.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

impl Connection {
    /// Takes a request; `None` if there is no more.
    pub fn request(&mut self) -> Option<String> {
        let head = self.head()?;
        self.body(&head)?;
        Some(head)
    }

    /// Takes the body that follows a head.
    pub fn body(&mut self, head: &str) -> Option<()> {
        let length = head.split("Content-Length: ").nth(1);
        let length: usize = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
        while self.received.len() < length {
            self.receive()?;
        }
        self.received.drain(..length);
        Some(())
    }

    /// Takes the head of a request, and nothing of its body.
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

    /// Sends bytes. Whether they were taken.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Waits until the other side has closed the connection, and drops what still comes.
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
