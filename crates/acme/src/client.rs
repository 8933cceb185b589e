//! HTTP client for authorities and for `on_demand.ask`. Each request uses its own connection; its
//! duration and the size of the response are limited.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use howdah_dns as names;
use howdah_text::date;
use howdah_tls::authorities;
use http::header::{HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Timeout of a request: name lookup, connection, handshake and response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response's body: far more than the longest certificate chain.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Maximum size of a response's head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A client with its trusted authorities.
#[derive(Debug, Clone)]
pub(super) struct Client {
    tls: Arc<ClientConfig>,
    /// `Retry-After` of the last response, if that was an error.
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl Client {
    /// Creates a client that trusts the certificates in `ca` (PEM), or with `None` the system's
    /// authorities.
    pub fn new(ca: Option<&[u8]>) -> Result<Client, String> {
        let roots = match ca {
            Some(text) => authorities::certificates(text)
                .and_then(authorities::users)
                .map_err(|problem| format!("ca: {problem}"))?,
            None => system_roots()?,
        };
        Client::trusting(roots)
    }

    /// Creates a client for plain HTTP, which trusts no certificate.
    pub fn plain() -> Result<Client, String> {
        Client::trusting(RootCertStore::empty())
    }

    fn trusting(roots: RootCertStore) -> Result<Client, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
        let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Client { tls: Arc::new(tls), retry_after: Arc::default() })
    }

    /// Takes the pause that the last response asked for; `None` from the second call on.
    pub fn take_retry_after(&self) -> Option<Duration> {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends a GET request and returns the status of the response.
    pub async fn status(&self, url: &str) -> Result<u16, String> {
        let request = Request::builder().uri(url).header(USER_AGENT, USER_AGENT_VALUE);
        let request = request.body(Full::default()).map_err(|error| error.to_string())?;
        let response = self.send(request, true).await?;
        Ok(response.status().as_u16())
    }

    /// Sends a request. `plain` allows `http:` URLs.
    async fn send<B>(
        &self,
        request: Request<B>,
        plain: bool,
    ) -> Result<Response<Full<Bytes>>, String>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let exchange = async {
            let uri = request.uri();
            let is_tls = match uri.scheme_str() {
                Some("https") => true,
                Some("http") if plain => false,
                _ => return Err("its URL does not begin with https://".to_owned()),
            };
            let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
            let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let addresses = names::addresses(&name, &[]).await?;
            let addresses: Vec<_> =
                addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
            let stream = TcpStream::connect(&addresses[..]).await.map_err(error_chain)?;
            if !is_tls {
                return exchange(stream, request).await;
            }
            let name = ServerName::try_from(name).map_err(error_chain)?;
            let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
            exchange(stream.map_err(error_chain)?, request).await
        };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange).await;
        let answer = answer
            .unwrap_or_else(|_| Err(format!("no response within {} s", REQUEST_TIMEOUT.as_secs())));
        answer.map_err(|problem| format!("{host}: {problem}"))
    }

    fn note_retry_after(&self, response: &Response<Full<Bytes>>) {
        if response.status().is_success() {
            return;
        }
        let value = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let pause = value.and_then(|value| parse_retry_after(value, SystemTime::now()));
        *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let answer = client.send(request, false).await;
            let response = answer.map_err(|problem| Error::Other(problem.into()))?;
            client.note_retry_after(&response);
            Ok(BytesResponse::from(response))
        })
    }
}

async fn exchange<S, B>(stream: S, request: Request<B>) -> Result<Response<Full<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    // Without the user information of the URL.
    let authority = authority.rsplit('@').next().unwrap_or_default();
    parts.headers.insert(HOST, HeaderValue::from_str(authority).map_err(error_chain)?);
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    parts.uri = target.parse::<Uri>().map_err(error_chain)?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(error_chain)?;
    let answering = async {
        let response = sender.send_request(Request::from_parts(parts, Box::pin(body))).await;
        let (parts, body) = response.map_err(error_chain)?.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES)
            .collect()
            .await
            .map_err(|error| error.to_string())?;
        Ok(Response::from_parts(parts, Full::new(body.to_bytes())))
    };
    // The connection is polled only until the response is complete, and then closed.
    tokio::pin!(connection);
    tokio::pin!(answering);
    tokio::select! {
        biased;
        answer = &mut answering => answer,
        ended = &mut connection => match ended {
            // The connection is closed; the response may be in its buffer.
            Ok(()) => answering.await,
            Err(error) => Err(error_chain(error)),
        },
    }
}

/// Formats an error with its causes.
fn error_chain(error: impl std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

/// Parses `Retry-After` (RFC 9110, 10.2.3): seconds or a date.
fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    match value.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => {
            let date = UNIX_EPOCH + Duration::from_secs(date::parse_http(value.as_bytes())?);
            date.duration_since(now).ok()
        }
    }
}

/// Returns the system's authorities.
fn system_roots() -> Result<RootCertStore, String> {
    let path = authorities::system_file();
    let text = std::fs::read(path)
        .map_err(|error| authorities::unreadable(&path.to_string_lossy(), &error.to_string()))?;
    authorities::system(&text).map_err(|problem| format!("{}: {problem}", path.display()))
}

const USER_AGENT_VALUE: &str = concat!("Howdah/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_as_a_date() {
        let now = SystemTime::UNIX_EPOCH;
        assert_eq!(parse_retry_after(" 120 ", now), Some(Duration::from_secs(120)));
        let date = "Thu, 01 Jan 1970 00:01:00 GMT";
        assert_eq!(parse_retry_after(date, now), Some(Duration::from_secs(60)));
        for nothing in ["", "-1", "soon", "99999999999999999999"] {
            assert_eq!(parse_retry_after(nothing, now), None, "{nothing}");
        }
    }

    /// Returns the status that a client reads from this response, and the request that it sent.
    async fn status_of(answer: Vec<u8>) -> (Result<u16, String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/ask?a=b", listener.local_addr().unwrap());
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = vec![0; 4096];
            let count = stream.read(&mut seen).await.unwrap();
            let _ = stream.write_all(&answer).await;
            String::from_utf8_lossy(&seen[..count]).into_owned()
        };
        let client = Client::plain().unwrap();
        tokio::join!(client.status(&url), serving)
    }

    #[tokio::test]
    async fn an_answer_without_end_is_given_up() {
        let (status, seen) = status_of(b"HTTP/1.1 204 x\r\n\r\n".to_vec()).await;
        assert_eq!(status, Ok(204));
        assert!(seen.starts_with("GET /ask?a=b HTTP/1.1\r\n"), "{seen}");
        let endless = [b"HTTP/1.0 200 x\r\n\r\n".to_vec(), vec![b'x'; MAX_BODY_BYTES + 1]].concat();
        assert!(status_of(endless).await.0.unwrap_err().contains("limit"));
        let head = [b"HTTP/1.0 200 x\r\nA: ".to_vec(), vec![b'x'; 1 << 20]].concat();
        assert!(status_of(head).await.0.is_err());
        assert!(status_of(b"nonsense".to_vec()).await.0.is_err());
        assert!(status_of(Vec::new()).await.0.is_err());
    }

    #[tokio::test]
    async fn authorities_are_spoken_to_over_tls_alone() {
        let request = Request::builder().uri("http://127.0.0.1:1/");
        let client = Client::plain().unwrap();
        let answer = client.send(request.body(Full::<Bytes>::default()).unwrap(), false).await;
        assert!(answer.unwrap_err().contains("https"));
    }
}
