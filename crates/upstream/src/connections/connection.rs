//! Connections to servers, plain or with TLS. A PROXY protocol header may precede both.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Waker};

use howdah_config::Address;
use howdah_dns::either::Either;
use howdah_dns::stream::Stream;
use howdah_http::message::ConnectionInfo;
use howdah_tls::{ClientProtocol, TlsClient};
use howdah_wire::proxy_protocol::{Header, Version};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::failure::Failure;

/// A plain connection (`A`), or one with TLS (`B`).
pub type Connection = Either<Stream, Box<TlsStream<Stream>>>;

/// Parameters of a new connection.
#[derive(Debug)]
pub struct ConnectOptions<'a> {
    /// Address of the server.
    pub address: &'a Address,
    /// Version of the PROXY protocol header that is sent first, 1 or 2; `None` for no header.
    pub proxy_protocol: Option<u8>,
    /// TLS settings, and the name that the server's certificate must have; `None` for plain HTTP.
    pub tls: Option<(&'a TlsClient, &'a str)>,
    /// Protocol of the connection.
    pub protocol: ClientProtocol,
    /// Client that the PROXY protocol header describes; `None` for a health check.
    pub client: Option<&'a ConnectionInfo>,
}

/// Connects to a server. The caller limits the time.
pub async fn open(options: &ConnectOptions<'_>) -> Result<Connection, Failure> {
    let mut stream = Stream::connect(options.address).await.map_err(Failure::Connect)?;
    if let Some(version) = options.proxy_protocol {
        let addresses = options.client.and_then(|client| client.peer.zip(client.local));
        let header = Header { addresses, tls: false };
        let version = if version == 1 { Version::V1 } else { Version::V2 };
        let mut bytes = Vec::with_capacity(128);
        header.write(version, &mut bytes);
        stream.write_all(&bytes).await.map_err(Failure::Send)?;
    }
    match options.tls {
        None => Ok(Either::A(stream)),
        Some((tls, name)) => {
            let secure = tls.connect(stream, name, options.protocol).await.map_err(Failure::Tls)?;
            Ok(Either::B(Box::new(secure)))
        }
    }
}

/// Returns this end's address and the server's; `None` over a unix socket.
pub fn ends(connection: &Connection) -> Option<(SocketAddr, SocketAddr)> {
    let stream = match connection {
        Either::A(stream) => stream,
        Either::B(stream) => stream.get_ref().0,
    };
    match stream {
        Either::A(tcp) => tcp.local_addr().ok().zip(tcp.peer_addr().ok()),
        Either::B(_) => None,
    }
}

/// Returns true if an idle connection can be used: it is open, and no unrequested byte has
/// arrived.
pub fn is_quiet(connection: &mut Connection) -> bool {
    match connection {
        Either::A(stream) => stream.is_quiet(),
        Either::B(stream) => {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            let mut context = Context::from_waker(Waker::noop());
            Pin::new(stream).poll_read(&mut context, &mut buffer).is_pending()
        }
    }
}
