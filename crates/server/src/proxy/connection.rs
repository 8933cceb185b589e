//! A connection to a server, with TLS or without. Before anything else the server may be told whose
//! it is (the PROXY protocol).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use howdah_config::Address;
use howdah_wire::proxy_protocol::{Header, Version};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::Failure;
use super::transport::Stream;
use super::upstream::{Server, Upstream};
use crate::message::ConnectionInfo;

/// See the module.
#[derive(Debug)]
pub enum Connection {
    /// As it is.
    Plain(Stream),
    /// Over TLS.
    Secure(Box<TlsStream<Stream>>),
}

/// What may be spoken of on the same connection: a server's address, and the number of what we
/// know it by, 0 without TLS. A connection to one that was not verified is nothing for who
/// demands that.
pub type Place = (Address, u64);

impl Connection {
    /// Connects to a server for a client, if it is for one. The caller limits the time.
    pub(crate) async fn open(
        upstream: &Upstream,
        server: &Server,
        client: Option<&ConnectionInfo>,
    ) -> Result<Connection, Failure> {
        let mut stream = Stream::connect(&server.address).await.map_err(Failure::Connect)?;
        if let Some(version) = upstream.config.proxy_protocol {
            let addresses = client.and_then(|client| client.peer.zip(client.local));
            let header = Header { addresses, tls: false };
            let version = if version == 1 { Version::V1 } else { Version::V2 };
            let mut said = Vec::with_capacity(128);
            header.write(version, &mut said);
            stream.write_all(&said).await.map_err(Failure::Send)?;
        }
        let tls = match (&upstream.config.tls, &upstream.tls) {
            (None, _) => return Ok(Connection::Plain(stream)),
            (Some(_), Some(tls)) => tls,
            (Some(_), None) => return Err(Failure::Tls("TLS is not ready".to_owned())),
        };
        let secure = tls.connect(stream, &server.name).await.map_err(Failure::Tls)?;
        Ok(Connection::Secure(Box::new(secure)))
    }

    /// Whether an idle connection can be used: still open, and nothing came that nobody asked for.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Connection::Plain(stream) => stream.is_quiet(),
            Connection::Secure(stream) => {
                let mut byte = [0];
                let mut buffer = ReadBuf::new(&mut byte);
                let mut context = Context::from_waker(Waker::noop());
                Pin::new(stream).poll_read(&mut context, &mut buffer).is_pending()
            }
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Connection::Secure(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Connection::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Connection::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Connection::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Connection::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
