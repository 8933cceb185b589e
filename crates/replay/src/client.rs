//! The client: one connection for each request, nothing but GET and HEAD.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use howdah_config::UpstreamTls;
use howdah_tls::{CertificateFiles, ClientProtocol, TlsClient};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::Request;

/// Timeout of a request, with its connection and response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a body that is compared, in bytes; of a longer one, its beginning is.
const MAX_BODY_BYTES: usize = 8 << 20;

/// A server that is asked.
pub struct Server {
    address: SocketAddr,
    /// For HTTPS. No certificate is verified: the servers are this machine's own.
    tls: Option<TlsClient>,
}

/// The response to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 0 if the connection was closed without a response.
    pub(crate) status: u16,
    /// The fields in lower case, in their order.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Server {
    /// A server at an address, with or without TLS.
    pub fn new(address: SocketAddr, is_tls: bool) -> Result<Self, String> {
        let settings = UpstreamTls { verify: false, ..UpstreamTls::default() };
        let tls = is_tls.then(|| TlsClient::new(&settings, &CertificateFiles::default()));
        Ok(Self { address, tls: tls.transpose()? })
    }

    /// Asks for a response. An error is a server that cannot be reached.
    pub(crate) async fn ask(&self, request: &Request, host: &str) -> Result<Answer, String> {
        let exchange = async {
            let stream = TcpStream::connect(self.address).await.map_err(|e| e.to_string())?;
            match &self.tls {
                None => Ok(exchange(stream, request, host).await),
                Some(tls) => {
                    let name = name_of(host);
                    match tls.connect(stream, name, ClientProtocol::Http1).await {
                        Ok(stream) => Ok(exchange(stream, request, host).await),
                        // A server may refuse names that it does not have.
                        Err(_) => Ok(Answer::default()),
                    }
                }
            }
        };
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(answer) => answer.map_err(|problem: String| format!("{}: {problem}", self.address)),
            Err(_) => Err(format!("{}: no response within {} s", self.address, TIMEOUT.as_secs())),
        }
    }
}

/// Returns a host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Sends a request; a connection that ends without a response is the empty answer.
async fn exchange<S>(stream: S, request: &Request, host: &str) -> Answer
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let message = http::Request::builder()
        .method(request.method())
        .uri(&request.target)
        .header("host", host)
        .header("user-agent", "howdah-import")
        .header("accept", "*/*")
        .body(Empty::<Bytes>::new());
    let (Ok(message), Ok((mut sender, connection))) =
        (message, http1::handshake(TokioIo::new(stream)).await)
    else {
        return Answer::default();
    };
    let read = async {
        let response = sender.send_request(message).await.ok()?;
        let fields = response.headers().iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let (status, fields) = (response.status().as_u16(), fields.collect());
        let mut incoming = response.into_body();
        let mut body = BytesMut::new();
        while let Some(Ok(frame)) = incoming.frame().await {
            if let Some(data) = frame.data_ref() {
                body.extend_from_slice(&data[..data.len().min(MAX_BODY_BYTES - body.len())]);
            }
            if body.len() >= MAX_BODY_BYTES {
                break;
            }
        }
        Some(Answer { status, fields, body: body.freeze() })
    };
    // The connection makes progress only while it is polled, and ends with an error after a body
    // that was not read to its end.
    let mut connection = std::pin::pin!(connection);
    let mut read = std::pin::pin!(read);
    let mut is_open = true;
    loop {
        tokio::select! {
            answer = &mut read => return answer.unwrap_or_default(),
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}
