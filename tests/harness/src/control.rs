//! A client of the control API: HTTP on a unix socket or over TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::time::patience;

/// An answer of the API.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// The body; a string if it is not JSON.
    pub body: Value,
}

impl Answer {
    /// Returns the body. Fails the test unless the request succeeded.
    pub fn succeeded(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body
    }

    /// Returns the value of a member that is a string.
    pub fn text(&self, member: &str) -> &str {
        self.body.get(member).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Sends a request to the unix socket.
pub fn ask(socket: &Path, method: &str, target: &str, body: &[u8]) -> std::io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience()))?;
    exchange(stream, &request(method, target, "Host: localhost\r\n", body))
}

/// Sends a request over TCP, with additional header fields.
pub fn ask_tcp(address: SocketAddr, method: &str, target: &str, fields: &str) -> Answer {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    exchange(stream, &request(method, target, fields, b"")).unwrap()
}

fn request(method: &str, target: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} {target} HTTP/1.1\r\n{fields}Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Sends bytes and reads the whole response. The server may respond before it has read all bytes.
pub fn exchange(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<Answer> {
    let sent = stream.write_all(request);
    let mut answer = Vec::new();
    let received = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let parts = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split_once("\r\n\r\n"));
    let Some((head, body)) = parts else {
        sent.and(received)?;
        return Err(std::io::Error::other(format!("no answer: {answer:?}")));
    };
    let status = head.get(..3).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
    Ok(Answer { status, body })
}
