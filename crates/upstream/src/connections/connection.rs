//! A connection to a server, with TLS or without. Before anything else the server may be told whose
//! it is (the PROXY protocol).

use std::pin::Pin;
use std::task::{Context, Waker};

use howdah_config::Address;
use howdah_http::message::ConnectionInfo;
use howdah_wire::proxy_protocol::{Header, Version};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::connections::either::Either;
use crate::connections::stream::Stream;
use crate::proxy::Failure;
use crate::servers::upstream::{Server, Upstream};

/// See the module: as it is, or over TLS.
pub type Connection = Either<Stream, Box<TlsStream<Stream>>>;

/// What may be spoken of on the same connection: a server's address, and the number of what we
/// know it by, 0 without TLS. A connection to one that was not verified is nothing for who
/// demands that.
pub type Place = (Address, u64);

impl Connection {
    /// Connects to a server for a client, if it is for one. The caller limits the time.
    pub async fn open(
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
            (None, _) => return Ok(Either::A(stream)),
            (Some(_), Some(tls)) => tls,
            (Some(_), None) => return Err(Failure::Tls("TLS is not ready".to_owned())),
        };
        let secure = tls.connect(stream, &server.name).await.map_err(Failure::Tls)?;
        Ok(Either::B(Box::new(secure)))
    }

    /// Whether an idle connection can be used: still open, and nothing came that nobody asked for.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Either::A(stream) => stream.is_quiet(),
            Either::B(stream) => {
                let mut byte = [0];
                let mut buffer = ReadBuf::new(&mut byte);
                let mut context = Context::from_waker(Waker::noop());
                Pin::new(stream).poll_read(&mut context, &mut buffer).is_pending()
            }
        }
    }
}
