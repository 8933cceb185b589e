//! A connection to the server, over which messages go one after the other: HTTP/1.1, or gRPC over
//! HTTP/2 with prior knowledge, as OTLP has it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use howdah_dns as names;
use howdah_text::base64;
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, TE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, spawn_local};

use crate::otlp::{self, RpcStatus};
use crate::target::Target;

/// Maximum time to find the server, connect and shake hands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response's body.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Maximum size of a response's fields.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Minimum pause that a server can ask for: 0 would be attempts without end.
const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum pause that a server can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

const AGENT: &str = concat!("Howdah/", env!("CARGO_PKG_VERSION"));

/// Length of the head of a message of gRPC: a flag and the length.
const GRPC_HEAD_BYTES: usize = 5;

/// Reason why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no answer: the connection is not there, or has failed.
    NoAnswer(String),
    /// Another attempt may succeed, after this pause if the server asks for one.
    Temporary(String, Option<Duration>),
    /// The server refuses the message.
    Permanent(String),
}

impl Failure {
    fn no_answer(problem: impl ToString) -> Failure {
        Failure::NoAnswer(problem.to_string())
    }

    /// Returns the problem.
    pub(crate) fn problem(&self) -> &str {
        match self {
            Failure::NoAnswer(problem)
            | Failure::Temporary(problem, _)
            | Failure::Permanent(problem) => problem,
        }
    }
}

/// Number of spans or data points that the server has refused in a message that it has taken, with
/// the reason.
pub(crate) type Refused = Option<(i64, String)>;

/// A connection. It is closed when it is dropped.
pub(crate) struct Connection {
    sender: Sender,
    driver: AbortHandle,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Grpc(h2::client::SendRequest<Bytes>),
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects to a server.
    pub(crate) async fn open(target: &Target) -> Result<Connection, Failure> {
        let opening = async {
            let tls = target.tls.as_ref().map_err(Failure::no_answer)?;
            let stream = connect(target).await?;
            let _ = stream.set_nodelay(true);
            let stream: Box<dyn Stream> = match tls {
                Some(client) => {
                    let connected = client.connect(stream, &target.server.host).await;
                    Box::new(connected.map_err(Failure::no_answer)?)
                }
                None => Box::new(stream),
            };
            if target.route.is_grpc {
                Connection::grpc(stream).await
            } else {
                Connection::http1(stream).await
            }
        };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, opening).await;
        opened.unwrap_or_else(|_| {
            let seconds = CONNECT_TIMEOUT.as_secs();
            Err(Failure::no_answer(format_args!("no connection within {seconds} s")))
        })
    }

    async fn http1(stream: Box<dyn Stream>) -> Result<Connection, Failure> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES);
        let (sender, connection) =
            builder.handshake(TokioIo::new(stream)).await.map_err(Failure::no_answer)?;
        // The sender learns of its end, too.
        let driver = spawn_local(async move { drop(connection.await) }).abort_handle();
        Ok(Connection { sender: Sender::Http1(sender), driver })
    }

    async fn grpc(stream: Box<dyn Stream>) -> Result<Connection, Failure> {
        let (sender, connection) = h2::client::Builder::new()
            .enable_push(false)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .handshake(stream)
            .await
            .map_err(Failure::no_answer)?;
        let driver = spawn_local(async move { drop(connection.await) }).abort_handle();
        Ok(Connection { sender: Sender::Grpc(sender), driver })
    }

    /// Sends a message.
    pub(crate) async fn export(
        &mut self,
        target: &Target,
        message: Bytes,
    ) -> Result<Refused, Failure> {
        match &mut self.sender {
            Sender::Http1(sender) => post(sender, target, message).await,
            Sender::Grpc(sender) => call(sender, target, message).await,
        }
    }
}

/// Connects to one of the server's addresses.
async fn connect(target: &Target) -> Result<TcpStream, Failure> {
    let resolver = target.route.resolver.iter();
    let resolver: Vec<SocketAddr> = resolver.filter_map(|one| one.parse().ok()).collect();
    let addresses =
        names::addresses(&target.server.host, &resolver).await.map_err(Failure::no_answer)?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(address, target.server.port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(match last.kind() {
        io::ErrorKind::ConnectionRefused => Failure::no_answer("the connection is refused"),
        _ => Failure::no_answer(last),
    })
}

/// Adds the fields of the document.
fn add_fields(fields: &mut HeaderMap, target: &Target) {
    for (name, value) in &target.route.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            fields.insert(name, value);
        }
    }
}

/// Sends a message over HTTP/1.1.
async fn post(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    target: &Target,
    message: Bytes,
) -> Result<Refused, Failure> {
    sender.ready().await.map_err(Failure::no_answer)?;
    let unwritable = |error: http::Error| Failure::Permanent(error.to_string());
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(&target.server.path)
        .header(HOST, target.authority())
        .header(USER_AGENT, AGENT)
        .header(CONTENT_TYPE, "application/x-protobuf")
        .header(CONTENT_LENGTH, message.len())
        .header(ACCEPT_ENCODING, "identity")
        .body(Full::new(message))
        .map_err(unwritable)?;
    add_fields(request.headers_mut(), target);
    let response = sender.send_request(request).await.map_err(Failure::no_answer)?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| Failure::Temporary(error.to_string(), None))?.to_bytes();
    if head.status.is_success() {
        return Ok(otlp::refused(&body));
    }
    let mut problem = format!("status {}", head.status.as_u16());
    let message = RpcStatus::decode(&body[..]).map(|status| status.message).unwrap_or_default();
    if !message.is_empty() {
        problem = format!("{problem}: {}", otlp::shown(&message));
    }
    // The list of the specification.
    Err(match head.status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Failure::Temporary(problem, retry_after(&head.headers)),
        _ => Failure::Permanent(problem),
    })
}

/// Reads `Retry-After` in seconds. A date counts as none.
fn retry_after(fields: &HeaderMap) -> Option<Duration> {
    let seconds = fields.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER))
}

/// Sends a message as a call of gRPC.
async fn call(
    sender: &mut h2::client::SendRequest<Bytes>,
    target: &Target,
    message: Bytes,
) -> Result<Refused, Failure> {
    poll_fn(|context| sender.poll_ready(context)).await.map_err(Failure::no_answer)?;
    let uri = Uri::builder()
        .scheme(if target.server.is_tls { "https" } else { "http" })
        .authority(target.authority())
        .path_and_query(target.signal.method())
        .build();
    let unwritable = |error: http::Error| Failure::Permanent(error.to_string());
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(uri.map_err(unwritable)?)
        .header(TE, "trailers")
        .header(CONTENT_TYPE, "application/grpc")
        .header(USER_AGENT, AGENT)
        .body(())
        .map_err(unwritable)?;
    add_fields(request.headers_mut(), target);
    let (response, mut sending) =
        sender.send_request(request, false).map_err(Failure::no_answer)?;
    let mut body = BytesMut::with_capacity(GRPC_HEAD_BYTES + message.len());
    body.extend_from_slice(&[0]);
    body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    body.extend_from_slice(&message);
    // It goes out as the windows of the server permit.
    sending.send_data(body.freeze(), true).map_err(Failure::no_answer)?;
    let (head, mut body) = response.await.map_err(Failure::no_answer)?.into_parts();
    if head.status != StatusCode::OK {
        let problem = format!("status {}", head.status.as_u16());
        // As of gRPC's mapping of statuses of proxies.
        return Err(match head.status.as_u16() {
            429 | 502..=504 => Failure::Temporary(problem, None),
            _ => Failure::Permanent(problem),
        });
    }
    let mut answer = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(Failure::no_answer)?;
        let _ = body.flow_control().release_capacity(data.len());
        answer.extend_from_slice(&data);
        if answer.len() > MAX_BODY_BYTES {
            return Err(Failure::Temporary("the response is too long".to_owned(), None));
        }
    }
    let trailer = if body.is_end_stream() {
        None
    } else {
        body.trailers().await.map_err(Failure::no_answer)?
    };
    // A response without messages may have all in its head.
    grpc_result(trailer.as_ref().unwrap_or(&head.headers), &answer)
}

/// Codes of gRPC that permit another attempt: `CANCELLED`, `DEADLINE_EXCEEDED`, `ABORTED`,
/// `OUT_OF_RANGE`, `UNAVAILABLE` and `DATA_LOSS`.
const RETRYABLE: [u32; 6] = [1, 4, 10, 11, 14, 15];

/// Permits another attempt only with a pause (`RESOURCE_EXHAUSTED`).
const RETRYABLE_WITH_PAUSE: u32 = 8;

/// Returns the result of a call.
fn grpc_result(fields: &HeaderMap, answer: &[u8]) -> Result<Refused, Failure> {
    let text = |name: &str| fields.get(name).and_then(|value| value.to_str().ok());
    let Some(code) = text("grpc-status").and_then(|code| code.parse::<u32>().ok()) else {
        return Err(Failure::Temporary("the response has no grpc-status".to_owned(), None));
    };
    if code == 0 {
        let message = answer.get(GRPC_HEAD_BYTES..).unwrap_or_default();
        return Ok(otlp::refused(message));
    }
    let details = text("grpc-status-details-bin")
        .and_then(|text| base64::decode(text.as_bytes()))
        .and_then(|bytes| RpcStatus::decode(&bytes[..]).ok());
    let pause = details.as_ref().and_then(RpcStatus::retry_delay);
    let pause = pause.map(|pause| pause.clamp(MIN_RETRY_AFTER, MAX_RETRY_AFTER));
    let message = otlp::shown(text("grpc-message").unwrap_or_default());
    let problem = match message.as_str() {
        "" => format!("grpc-status {code}"),
        message => format!("grpc-status {code}: {message}"),
    };
    let is_retryable =
        RETRYABLE.contains(&code) || (code == RETRYABLE_WITH_PAUSE && pause.is_some());
    Err(if is_retryable { Failure::Temporary(problem, pause) } else { Failure::Permanent(problem) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn codes_of_grpc_are_those_of_the_specification() {
        assert_eq!(grpc_result(&fields(&[("grpc-status", "0")]), &[0; 5]), Ok(None));
        let failure = |pairs: &[_]| grpc_result(&fields(pairs), &[]).unwrap_err();
        let unavailable = failure(&[("grpc-status", "14"), ("grpc-message", "busy")]);
        assert_eq!(unavailable, Failure::Temporary("grpc-status 14: busy".to_owned(), None));
        for permanent in ["2", "3", "5", "7", "8", "12", "13", "16"] {
            let pairs = [("grpc-status", permanent)];
            let failure = grpc_result(&fields(&pairs), &[]).unwrap_err();
            assert!(matches!(failure, Failure::Permanent(_)), "{permanent}");
        }
        // google.rpc.Status with RetryInfo of 2 seconds.
        let details = "GjAKKHR5cGUuZ29vZ2xlYXBpcy5jb20vZ29vZ2xlLnJwYy5SZXRyeUluZm8SBAoCCAI";
        let exhausted = failure(&[("grpc-status", "8"), ("grpc-status-details-bin", details)]);
        let pause = Some(Duration::from_secs(2));
        assert_eq!(exhausted, Failure::Temporary("grpc-status 8".to_owned(), pause));
        assert!(matches!(failure(&[]), Failure::Temporary(..)));
        assert!(matches!(failure(&[("grpc-status", "x")]), Failure::Temporary(..)));
    }

    #[test]
    fn a_pause_is_asked_for_in_seconds() {
        let pause = |value| retry_after(&fields(&[("retry-after", value)]));
        assert_eq!(pause("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause("99999"), Some(MAX_RETRY_AFTER));
        assert_eq!(pause("0"), Some(MIN_RETRY_AFTER));
        for none in ["-1", "soon", "99999999999999999999", ""] {
            assert_eq!(pause(none), None, "{none}");
        }
    }
}
