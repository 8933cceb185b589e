//! A client of HTTP/3 that sends exactly the given bytes on its streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::time::patience;

/// Types of frames (RFC 9114, 7.2).
pub mod kind {
    #![allow(missing_docs)]
    pub const DATA: u64 = 0x0;
    pub const HEADERS: u64 = 0x1;
    pub const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub const GOAWAY: u64 = 0x7;
    pub const MAX_PUSH_ID: u64 = 0xd;
    pub const PRIORITY_UPDATE: u64 = 0xf0700;
}

/// Error codes (RFC 9114, 8.1; RFC 9204, 6).
pub mod code {
    #![allow(missing_docs)]
    pub const NO_ERROR: u64 = 0x100;
    pub const STREAM_CREATION_ERROR: u64 = 0x103;
    pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    pub const FRAME_UNEXPECTED: u64 = 0x105;
    pub const FRAME_ERROR: u64 = 0x106;
    pub const EXCESSIVE_LOAD: u64 = 0x107;
    pub const ID_ERROR: u64 = 0x108;
    pub const SETTINGS_ERROR: u64 = 0x109;
    pub const MISSING_SETTINGS: u64 = 0x10a;
    pub const REQUEST_REJECTED: u64 = 0x10b;
    pub const REQUEST_INCOMPLETE: u64 = 0x10d;
    pub const MESSAGE_ERROR: u64 = 0x10e;
    pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
    pub const QPACK_ENCODER_STREAM_ERROR: u64 = 0x201;
    pub const QPACK_DECODER_STREAM_ERROR: u64 = 0x202;
}

/// A connection. Its runtime has a thread of its own, so that it answers while a test waits.
pub struct Http3 {
    runtime: Handle,
    endpoint: Endpoint,
    connection: Connection,
    /// The control stream.
    control: Option<SendStream>,
    /// The runtime ends with it.
    _end: oneshot::Sender<()>,
}

/// A stream of a request.
pub struct Stream {
    send: SendStream,
    recv: RecvStream,
}

/// Everything received on a stream.
#[derive(Debug, Default)]
pub struct Answer {
    /// Payloads of HEADERS: interim responses, the head, the trailer.
    pub heads: Vec<Vec<u8>>,
    /// The body.
    pub body: Vec<u8>,
    /// Error code of the reset of the stream, or of the end of the connection.
    pub reset: Option<u64>,
    /// True if the stream has ended without an error.
    pub complete: bool,
}

impl Answer {
    /// Returns true if the stream is complete and the status is the one of this entry of the static
    /// table (25 for 200, 67 for 400).
    pub fn has_status(&self, entry: u8) -> bool {
        let field = if entry < 63 { vec![0xc0 | entry] } else { vec![0xff, entry - 63] };
        self.complete && self.heads.iter().any(|head| head[2..].starts_with(&field))
    }

    /// Returns true if the status is 200.
    pub fn is_ok(&self) -> bool {
        self.has_status(25)
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Http3 {
    /// Connects, and sends SETTINGS on a control stream.
    pub fn connect(address: SocketAddr, client: &Arc<rustls::ClientConfig>, name: &str) -> Self {
        let mut http3 = Http3::connect_silently(address, client, name);
        // Dropped, it would be finished.
        http3.control = Some(http3.uni(&[&[0][..], &frame(kind::SETTINGS, &[])].concat()));
        http3
    }

    /// Connects, and sends nothing.
    pub fn connect_silently(
        address: SocketAddr,
        client: &Arc<rustls::ClientConfig>,
        name: &str,
    ) -> Self {
        Http3::try_connect(address, client, name).expect("the server accepts connections")
    }

    /// Connects, and sends nothing.
    ///
    /// # Errors
    /// The handshake fails.
    pub fn try_connect(
        address: SocketAddr,
        client: &Arc<rustls::ClientConfig>,
        name: &str,
    ) -> Result<Self, ConnectionError> {
        let mut config = (**client).clone();
        config.alpn_protocols = vec![b"h3".to_vec()];
        let config = QuicClientConfig::try_from(config).expect("TLS 1.3");
        let driver = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let runtime = driver.handle().clone();
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let _ = driver.block_on(ended);
        });
        let (endpoint, connection) = runtime.block_on(async {
            let local = SocketAddr::new(address.ip(), 0);
            let endpoint = Endpoint::client(local).expect("a socket");
            let config = ClientConfig::new(Arc::new(config));
            let connecting = endpoint.connect_with(config, address, name).expect("an address");
            let connection = connecting.await?;
            Ok::<_, ConnectionError>((endpoint, connection))
        })?;
        Ok(Http3 { runtime, endpoint, connection, control: None, _end: end })
    }

    /// Moves the client to another port.
    pub fn change_port(&self) {
        let _entered = self.runtime.enter();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        self.endpoint.rebind(socket).expect("a socket of the same family");
    }

    /// Opens a unidirectional stream with these bytes.
    pub fn uni(&self, bytes: &[u8]) -> SendStream {
        self.runtime.block_on(async {
            let mut stream = self.connection.open_uni().await.expect("the server permits streams");
            let _ = stream.write_all(bytes).await;
            stream
        })
    }

    /// Opens a stream with these bytes, which may be the start of a request.
    pub fn open(&self, bytes: &[u8]) -> Stream {
        self.runtime.block_on(async {
            let opened = self.connection.open_bi().await;
            let (mut send, recv) = opened.expect("the server permits streams");
            let _ = send.write_all(bytes).await;
            Stream { send, recv }
        })
    }

    /// Opens a stream with these bytes and its end.
    pub fn request(&self, bytes: &[u8]) -> Stream {
        self.try_request(bytes).expect("the server permits streams")
    }

    /// Opens a stream with these bytes and its end; `None` if the connection has ended.
    pub fn try_request(&self, bytes: &[u8]) -> Option<Stream> {
        self.runtime.block_on(async {
            let (mut send, recv) = self.connection.open_bi().await.ok()?;
            let _ = send.write_all(bytes).await;
            let _ = send.finish();
            Some(Stream { send, recv })
        })
    }

    /// Sends further bytes. Returns false if the server does not want them.
    pub fn send(&self, stream: &mut Stream, bytes: &[u8]) -> bool {
        self.runtime.block_on(stream.send.write_all(bytes)).is_ok()
    }

    /// Waits until the server refuses to read a stream. Returns the code; `None` if it has read all.
    pub fn stopped(&self, stream: &mut Stream) -> Option<u64> {
        let stopped = async { tokio::time::timeout(patience(), stream.send.stopped()).await };
        let stopped = self.runtime.block_on(stopped).expect("the server stops the stream");
        stopped.ok().flatten().map(u64::from)
    }

    /// Reads a stream to its end.
    pub fn answer(&self, stream: &mut Stream) -> Answer {
        let answer = async { tokio::time::timeout(patience(), read(stream)).await };
        self.runtime.block_on(answer).expect("the server ends the stream")
    }

    /// Sends a GET request, and reads the response.
    pub fn get(&self, path: &str) -> Answer {
        self.answer(&mut self.request(&request("GET", path, &[])))
    }

    /// Waits until the server has closed the connection. Returns the code that the application has
    /// given; `None` if it was closed otherwise.
    pub fn closed(&self) -> Option<u64> {
        let closed = async { tokio::time::timeout(patience(), self.connection.closed()).await };
        let closed = self.runtime.block_on(closed).expect("the server closes the connection");
        code_of(&closed)
    }

    /// Returns the code of the end of the connection, if it ends within this time.
    pub fn closed_within(&self, time: Duration) -> Option<u64> {
        let closed = async { tokio::time::timeout(time, self.connection.closed()).await };
        self.runtime.block_on(closed).ok().as_ref().and_then(code_of)
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Stream {
    /// Ends the client's direction.
    pub fn finish(&mut self) {
        let _ = self.send.finish();
    }

    /// Cancels the request.
    pub fn cancel(mut self) {
        let cancelled = quinn::VarInt::from_u32(0x10c);
        let _ = self.send.reset(cancelled);
        let _ = self.recv.stop(cancelled);
    }
}

fn code_of(error: &ConnectionError) -> Option<u64> {
    match error {
        ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
        _ => None,
    }
}

async fn read(stream: &mut Stream) -> Answer {
    let (mut answer, mut bytes) = (Answer::default(), Vec::new());
    loop {
        match stream.recv.read_chunk(64 << 10, true).await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
            Ok(None) => {
                answer.complete = true;
                break;
            }
            Err(ReadError::Reset(code)) => {
                answer.reset = Some(code.into_inner());
                break;
            }
            Err(ReadError::ConnectionLost(error)) => {
                answer.reset = code_of(&error);
                break;
            }
            Err(_) => break,
        }
    }
    let mut rest = &bytes[..];
    while let Some((kind, payload)) = take_frame(&mut rest) {
        match kind {
            kind::HEADERS => answer.heads.push(payload.to_vec()),
            kind::DATA => answer.body.extend_from_slice(payload),
            _ => {}
        }
    }
    answer.complete &= rest.is_empty();
    answer
}

fn take_frame<'a>(bytes: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let mut rest = *bytes;
    let kind = take_number(&mut rest)?;
    let length = usize::try_from(take_number(&mut rest)?).ok()?;
    let (payload, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((kind, payload))
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let length = 1usize << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let number = number.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Some(number & (u64::MAX >> (66 - 8 * length)))
}

/// Writes an integer of variable length (RFC 9000, 16), below 2^30.
pub fn put_number(bytes: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x3f => bytes.push(number as u8),
        0x40..=0x3fff => bytes.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        _ => bytes.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes()),
    }
}

/// Returns the bytes of a frame.
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_number(&mut bytes, kind);
    put_number(&mut bytes, payload.len() as u64);
    [&bytes, payload].concat()
}

/// Encodes fields in QPACK, as literals.
pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    for (name, value) in fields {
        put_text(&mut bytes, 0x20, 7, name);
        put_text(&mut bytes, 0, 127, value);
    }
    bytes
}

fn put_text(bytes: &mut Vec<u8>, mark: u8, max: usize, text: &str) {
    if text.len() < max {
        bytes.push(mark | text.len() as u8);
    } else {
        bytes.push(mark | max as u8);
        let mut rest = text.len() - max;
        while rest >= 128 {
            bytes.push((rest % 128) as u8 | 0x80);
            rest /= 128;
        }
        bytes.push(rest as u8);
    }
    bytes.extend_from_slice(text.as_bytes());
}

/// Returns the HEADERS frame of a request for the host `localhost`.
pub fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let all =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    frame(kind::HEADERS, &section(&[&all, fields].concat()))
}
