//! A client of HTTP/2 that sends exactly the given frames, on a cleartext connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::time::patience;

/// Types of frames (RFC 9113, 6).
pub mod kind {
    #![allow(missing_docs)]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    /// RFC 9218, 7.1.
    pub const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of DATA and HEADERS.
pub const END_STREAM: u8 = 1;
/// Flag of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 4;

/// A received frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Frame type.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// Stream number.
    pub stream: u32,
    /// Payload.
    pub payload: Vec<u8>,
}

/// A connection.
pub struct Http2 {
    stream: TcpStream,
}

/// Everything received for a stream.
#[derive(Debug, Default)]
pub struct Answer {
    /// Header blocks; all but the last are those of interim responses.
    pub heads: Vec<Vec<u8>>,
    /// The body.
    pub body: Vec<u8>,
    /// Error code of the RST_STREAM or GOAWAY that ended the stream.
    pub reset: Option<u32>,
    /// True if the stream has ended without an error.
    pub complete: bool,
}

impl Answer {
    /// Returns true if the status is 200, which is one byte in HPACK.
    pub fn is_ok(&self) -> bool {
        self.complete && self.heads.last().is_some_and(|head| first_field(head) == 0x88)
    }
}

/// Returns the first byte of the first field, after updates of the table's size.
fn first_field(block: &[u8]) -> u8 {
    let mut bytes = block.iter();
    loop {
        match bytes.next() {
            Some(byte) if byte & 0xe0 == 0x20 => {
                if byte & 0x1f == 0x1f {
                    while bytes.next().is_some_and(|byte| byte & 0x80 != 0) {}
                }
            }
            other => return other.copied().unwrap_or(0),
        }
    }
}

/// Encodes the header fields of a request in HPACK, without compression.
pub fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let all = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")];
    block(&[&all, fields].concat())
}

/// Encodes header fields in HPACK, without compression.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0); // literal, not indexed
        for text in [name, value] {
            put_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Writes the length of a string in HPACK.
pub fn put_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return block.push(length as u8);
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 0x80);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// Returns the bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

impl Http2 {
    /// Connects, with settings: pairs of number and value.
    pub fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts connections");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_write_timeout(Some(patience())).unwrap();
        let mut payload = Vec::new();
        for (number, value) in settings {
            payload.extend_from_slice(&number.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        let mut client = Http2 { stream };
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.send(frame(kind::SETTINGS, 0, 0, &payload));
        client
    }

    /// Returns the socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes frames");
    }

    /// Sends bytes to a server that may have closed the connection. Returns true if they could be
    /// sent.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a GET request on a stream.
    pub fn get(&mut self, stream: u32, path: &str) {
        let head = request("GET", path, &[]);
        self.send(frame(kind::HEADERS, END_STREAM | END_HEADERS, stream, &head));
    }

    /// Returns the next frame; `None` at the end of the connection.
    pub fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, s1, s2, s3, s4] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        Some(Frame { kind, flags, stream: u32::from_be_bytes([s1, s2, s3, s4]), payload })
    }

    /// Reads until a stream ends; extends the flow-control windows.
    pub fn answer(&mut self, stream: u32) -> Answer {
        let mut answer = Answer::default();
        while let Some(frame) = self.frame() {
            let code = |at: usize| {
                frame.payload.get(at..at + 4).map(|b| u32::from_be_bytes(b.try_into().unwrap()))
            };
            match frame.kind {
                kind::GOAWAY => {
                    answer.reset = code(4).filter(|code| *code != 0);
                    if answer.reset.is_some() {
                        return answer;
                    }
                }
                _ if frame.stream != stream => continue,
                kind::HEADERS => answer.heads.push(frame.payload.clone()),
                kind::DATA => {
                    answer.body.extend_from_slice(&frame.payload);
                    let room = (frame.payload.len() as u32).to_be_bytes();
                    if !frame.payload.is_empty() {
                        for stream in [0, stream] {
                            let update = self::frame(kind::WINDOW_UPDATE, 0, stream, &room);
                            let _ = self.stream.write_all(&update);
                        }
                    }
                }
                kind::RST_STREAM => {
                    answer.reset = code(0);
                    return answer;
                }
                _ => continue,
            }
            if matches!(frame.kind, kind::HEADERS | kind::DATA) && frame.flags & END_STREAM != 0 {
                answer.complete = true;
                return answer;
            }
        }
        answer
    }

    /// Returns the error code of the GOAWAY before the end of the connection; `None` if it ends
    /// without one.
    pub fn end(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.frame() {
            if frame.kind == kind::GOAWAY {
                code = frame.payload.get(4..8).map(|b| u32::from_be_bytes(b.try_into().unwrap()));
            }
        }
        code
    }
}
