//! One request to the control API, over a unix socket or TCP.
//!
//! HTTP/1.0, so that the response ends when the server closes the connection.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use howdah_config::json;
use howdah_control::{Token, needs_token, socket, token_file};
use howdah_sys::process_tree;
use howdah_text::percent;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;

/// A client of one server.
#[derive(Clone)]
pub(super) struct Client {
    address: String,
    endpoint: Endpoint,
    token: Option<Token>,
    timeout: Duration,
    /// Says that the server has not answered yet.
    says_progress: bool,
}

#[derive(Clone)]
enum Endpoint {
    Unix(SocketAddr),
    Tcp(String),
}

impl Endpoint {
    fn parse(address: &str) -> Result<Endpoint, Failure> {
        let invalid = |why: &str| Failure::Failed(format!("--control {address}: {why}"));
        match address.strip_prefix("unix:") {
            Some(name) => {
                let address = match name.strip_prefix('@') {
                    Some(name) => SocketAddr::from_abstract_name(name),
                    None => SocketAddr::from_pathname(name),
                };
                Ok(Endpoint::Unix(address.map_err(|error| invalid(&error.to_string()))?))
            }
            None if address.starts_with('/') => Err(invalid(&format!("write \"unix:{address}\""))),
            None => match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                    Ok(Endpoint::Tcp(address.to_owned()))
                }
                _ => Err(invalid("write unix:PATH or HOST:PORT")),
            },
        }
    }
}

/// Names of the option and of the environment variable that name the token file.
const OPTION: &str = "--control-token-file";
const VARIABLE: &str = "HOWDAH_CONTROL_TOKEN_FILE";

impl Client {
    /// Reads the address of a control API and its token: from `token_file`, otherwise from the
    /// default file of the address.
    pub(super) fn new(address: &str, token_file: Option<&Path>) -> Result<Client, Failure> {
        let endpoint = Endpoint::parse(address)?;
        let token = match token_file {
            Some(path) => Some((OPTION, path.to_owned())),
            None if socket::is_default(address) => {
                let file = socket::token_file().filter(|file| file.exists());
                file.map(|file| ("the token of the control socket,", file))
            }
            None if !needs_token(address) => None,
            None => {
                let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
                named.map(|path| (VARIABLE, path.into()))
            }
        };
        let token = token.map(|(name, path)| token_file::read(name, &path));
        let token = token.transpose().map_err(Failure::Failed)?;
        let (address, timeout) = (address.to_owned(), RESPONSE_TIMEOUT);
        Ok(Client { address, endpoint, token, timeout, says_progress: true })
    }

    /// Limits the time that the server may take for a response, instead of five minutes.
    pub(super) fn with_timeout(self, timeout: Duration) -> Client {
        Client { timeout, ..self }
    }

    /// Makes a request that takes long by its nature: nothing is said meanwhile.
    pub(super) fn without_progress(self) -> Client {
        Client { says_progress: false, ..self }
    }

    /// Returns the token of the control API, if requests carry one.
    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// Returns the address of the control API.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Connects, to check whether a server listens. Returns its process id, if the address is that
    /// of a unix socket.
    pub(super) fn probe(&self) -> io::Result<Option<u32>> {
        match &self.endpoint {
            Endpoint::Unix(address) => Ok(listener(&connect_unix(address)?)),
            Endpoint::Tcp(address) => connect_tcp(address).map(|_| None),
        }
    }

    /// Returns the running configuration with the parts that sites were compiled to.
    pub(crate) fn compiled(&self) -> Result<Value, Failure> {
        self.request("GET", "/control/compiled", b"")
    }

    /// Requests an answer of the server.
    pub(super) fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, Failure> {
        self.read(self.request("GET", target, b"")?)
    }

    /// Reads an answer.
    pub(super) fn read<T: DeserializeOwned>(&self, answer: Value) -> Result<T, Failure> {
        serde_json::from_value(answer).map_err(|error| {
            Failure::Failed(format!("{}: the answer cannot be read: {error}", self.address))
        })
    }

    /// Sends a request and returns the value in the response, if the request succeeded.
    pub(super) fn request(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<Value, Failure> {
        let host = match &self.endpoint {
            Endpoint::Unix(_) => "localhost",
            Endpoint::Tcp(address) => address,
        };
        let length = body.len();
        let authorization = match &self.token {
            Some(token) => format!("Authorization: Bearer {}\r\n", token.expose()),
            None => String::new(),
        };
        let head = format!(
            "{method} {target} HTTP/1.0\r\nHost: {host}\r\n{authorization}\
             Content-Length: {length}\r\n\r\n"
        );
        let answer = self.exchange(&[head.as_bytes(), body].concat())?;
        let (status, body) = parse(&answer).ok_or_else(|| {
            let advice = "it does not answer like the control API of Howdah";
            Failure::Failed(format!("{}: {advice}", self.address))
        })?;
        match status {
            200 => Ok(body),
            401 => Err(Failure::Failed(self.unauthorized())),
            _ => Err(Failure::Failed(refusal(status, target, &body))),
        }
    }

    /// Returns a line about a response that requires a token.
    fn unauthorized(&self) -> String {
        let advice = match self.token {
            None => format!(
                "the server requires a token: name its file with {OPTION} FILE, or with the \
                 environment variable {VARIABLE}"
            ),
            Some(_) => {
                "the server refuses this token: name the file that the server was started with \
                        (it has read the file at its start)"
                    .to_owned()
            }
        };
        format!("{}: {advice}", self.address)
    }

    fn exchange(&self, request: &[u8]) -> Result<Vec<u8>, Failure> {
        let unreachable = |error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    "no server answers there; start it with --control ADDRESS, and name the same \
                     here"
                }
                io::ErrorKind::PermissionDenied => {
                    "permission denied; the control API belongs to the user who started the server"
                }
                _ => return Failure::Unreachable(format!("{}: {error}", self.address)),
            };
            Failure::Unreachable(format!("{}: {advice}", self.address))
        };
        let (slice, begun) = (self.timeout.min(PROGRESS_INTERVAL), Instant::now());
        match &self.endpoint {
            Endpoint::Unix(address) => {
                let stream = connect_unix(address).map_err(unreachable)?;
                stream.set_read_timeout(Some(slice)).map_err(unreachable)?;
                stream.set_write_timeout(Some(slice)).map_err(unreachable)?;
                let server = listener(&stream);
                exchange(stream, request, || self.wait(begun.elapsed(), server))
            }
            Endpoint::Tcp(address) => {
                let stream = connect_tcp(address).map_err(unreachable)?;
                stream.set_read_timeout(Some(slice)).map_err(unreachable)?;
                stream.set_write_timeout(Some(slice)).map_err(unreachable)?;
                exchange(stream, request, || self.wait(begun.elapsed(), None))
            }
        }
        .map_err(|error| Failure::Failed(format!("{}: {error}", self.address)))
    }

    /// Tells that the server has not answered yet. Error: a signal has stopped the server, or the
    /// timeout is over.
    fn wait(&self, time: Duration, server: Option<u32>) -> io::Result<()> {
        let stopped = server.filter(|pid| process_tree::state_of(*pid) == Some(b'T'));
        if let Some(pid) = stopped {
            return Err(io::Error::other(format!(
                "the server, process {pid}, is stopped by a signal; `kill -CONT {pid}` lets it go \
                 on"
            )));
        }
        // The wait may have ended a little early.
        if time + Duration::from_millis(100) >= self.timeout {
            return Err(io::Error::other(format!(
                "the server did not answer within {} s; a router or a control process that hangs \
                 is replaced, usually within 20 s, and the log says so",
                self.timeout.as_secs_f64()
            )));
        }
        if !self.says_progress {
            return Ok(());
        }
        let (seconds, limit) = (time.as_secs(), self.timeout.as_secs());
        eprintln!(
            "howdah: the server has not answered for {seconds} s; this command waits up to \
             {limit} s (`howdah status` shows applications that start slowly)"
        );
        Ok(())
    }
}

/// Returns the process that listens at a socket.
fn listener(stream: &UnixStream) -> Option<u32> {
    let peer = sockopt::socket_peercred(stream).ok()?;
    Some(peer.pid.as_raw_nonzero().get().unsigned_abs())
}

/// Connects, and waits only for [`CONNECT_TIMEOUT`] if the server accepts no connection.
fn connect_unix(address: &SocketAddr) -> io::Result<UnixStream> {
    let address = match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => SocketAddrUnix::new(path)?,
        (None, name) => SocketAddrUnix::new_abstract_name(name.unwrap_or_default())?,
    };
    let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(CONNECT_TIMEOUT))?;
    rustix::net::connect(&socket, &address).map_err(|error| match error {
        rustix::io::Errno::AGAIN => io::Error::other("the server accepts no connection: it hangs"),
        error => error.into(),
    })?;
    Ok(UnixStream::from(socket))
}

fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let mut failure = io::Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Sends a request and returns the response. Calls `wait` after each pause in which no bytes have
/// arrived.
fn exchange(
    mut stream: impl Read + Write,
    request: &[u8],
    mut wait: impl FnMut() -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let is_late = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    };
    let mut unsent = request;
    // A server that refuses a request early does not read all of it; its response has the reason.
    let sent = loop {
        match stream.write(unsent) {
            Ok(0) => break Ok(()),
            Ok(length) => unsent = unsent.get(length..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_late(&error) => wait()?,
            Err(error) => break Err(error),
        }
    };
    let mut answer = Vec::new();
    let received = loop {
        let left = MAX_RESPONSE.saturating_sub(answer.len() as u64);
        match (&mut stream).take(left).read_to_end(&mut answer) {
            Err(error) if is_late(&error) => wait()?,
            received => break received,
        }
    };
    if !answer.is_empty() {
        return Ok(answer);
    }
    sent.and(received.map(drop)).and_then(|()| {
        Err(io::Error::other(
            "the control process ended before it answered, so this may or may not have been \
             carried out; the log says more. Try again",
        ))
    })
}

/// Returns status and body of a response; `None` if it is malformed or incomplete.
fn parse(answer: &[u8]) -> Option<(u16, Value)> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let (head, body) = answer.split_at_checked(end + 4)?;
    let head = std::str::from_utf8(head).ok()?;
    let (first, fields) = head.split_once("\r\n")?;
    let status = first.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let length = fields.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim())
    });
    match length {
        Some(length) if length.parse() != Ok(body.len()) => None,
        _ => Some((status, json::parse(body).ok()?)),
    }
}

/// Returns a line about an error response to a request for `target`.
fn refusal(status: u16, target: &str, body: &Value) -> String {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let position = |name: &str| body.get("location")?.get(name)?.as_u64();
    let mut line = match text("error") {
        Some(error) => error.trim_end_matches('.').to_owned(),
        None => format!("the server answers with status {status}"),
    };
    match text("detail") {
        // Unit's title of all that is not there says less than the detail.
        Some(detail) if status == 404 => line = detail.to_owned(),
        Some(detail) => line = format!("{line}: {detail}"),
        None if status == 404 => line = format!("there is nothing at {target}"),
        None => {}
    }
    if let (Some(row), Some(column)) = (position("line"), position("column")) {
        line = format!("{line} (line {row}, column {column})");
    }
    line
}

/// Percent-encodes all but unreserved characters (RFC 3986, 2.3).
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    percent::encode_text(text.as_bytes(), percent::is_unreserved, &mut encoded);
    encoded
}

/// Maximum time for a response: a change waits for earlier changes and for its applications.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum time until the server accepts a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which a command says that it waits.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum size of a response in bytes: a document printed with indentation is smaller.
const MAX_RESPONSE: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_that_is_cut_short_is_none() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n30\r\n";
        assert_eq!(parse(whole), Some((200, json!(30))));
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None);
        }
        for other in
            ["", "SSH-2.0-OpenSSH_9\r\n\r\n", "HTTP/1.1 OK\r\n\r\n1", "HTTP/1.1 200 OK\r\n\r\n"]
        {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_refusal_is_one_line_with_the_place() {
        let body =
            json!({"error": "Invalid JSON.", "detail": "no", "location": {"line": 2, "column": 3}});
        assert_eq!(refusal(400, "/config", &body), "Invalid JSON: no (line 2, column 3)");
        let missing = json!({"error": "Value doesn't exist."});
        assert_eq!(refusal(404, "/config/a", &missing), "there is nothing at /config/a");
        assert_eq!(refusal(502, "/", &json!([])), "the server answers with status 502");
    }

    #[test]
    fn addresses_are_unix_sockets_or_hosts_with_a_port() {
        for good in ["unix:/run/x.sock", "unix:@x", "127.0.0.1:80", "[::1]:80", "localhost:8000"] {
            assert!(Endpoint::parse(good).is_ok(), "{good}");
        }
        for bad in ["/run/x.sock", "localhost", "127.0.0.1:", ":80", "127.0.0.1:70000", ""] {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
    }
}
