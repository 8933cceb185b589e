//! A page of `--url`: its status, from the server that its URL leads to.

use std::net::ToSocketAddrs;
use std::path::Path;

use howdah_config::UpstreamTls;
use howdah_sys::regular_file;
use howdah_tls::{CertificateFiles, ClientProtocol, Source, TlsClient};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::visitor::{self, MAX_ANSWER, TIMEOUT, Url};

/// Maximum length of the file of authorities, in bytes.
const MAX_AUTHORITIES: u64 = 16 << 20;

/// Asks for a page, and returns its status. `authorities` is the file with the authorities that
/// certificates may be from (`None`: the system's). Error: there is no whole answer.
pub(super) fn status(url: &Url, authorities: Option<&Path>) -> Result<u16, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let answer = async {
        let late = |_| format!("no whole answer within {} s", TIMEOUT.as_secs());
        tokio::time::timeout(TIMEOUT, ask(url, authorities)).await.map_err(late)?
    };
    runtime.block_on(answer)
}

async fn ask(url: &Url, authorities: Option<&Path>) -> Result<u16, String> {
    let text = |error: std::io::Error| error.to_string();
    // Of an IPv6 address, without the brackets.
    let name = url.name();
    let mut problem = "the name has no address".to_owned();
    for address in (name, url.port).to_socket_addrs().map_err(text)? {
        let stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) => {
                problem = format!("{address}: {error}");
                continue;
            }
        };
        if !url.is_https {
            return exchange(stream, url).await;
        }
        let client = tls_client(authorities)?;
        let stream = client.connect(stream, name, ClientProtocol::Http1).await?;
        return exchange(stream, url).await;
    }
    Err(problem)
}

/// Returns a client that trusts the authorities of a file, or those of the system.
fn tls_client(authorities: Option<&Path>) -> Result<TlsClient, String> {
    let authorities = authorities.map(Path::to_owned);
    let settings = UpstreamTls { authorities, ..UpstreamTls::default() };
    let mut files = CertificateFiles::default();
    for source in howdah_tls::client_sources(&settings) {
        let Source::File(path) = &source else { continue };
        match regular_file::read(path, MAX_AUTHORITIES) {
            Ok(text) => files.add(source, text),
            Err(error) => files.fail(source.clone(), format!("{}: {error}", path.display())),
        }
    }
    TlsClient::new(&settings, &files)
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    url: &Url,
) -> Result<u16, String> {
    let text = |error: std::io::Error| error.to_string();
    let request = visitor::request(&url.host, &url.target, "");
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut answer = Vec::new();
    match stream.take(MAX_ANSWER as u64).read_to_end(&mut answer).await {
        // A server may end a TLS connection without saying so.
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(text(error)),
        _ => {}
    }
    let page = visitor::parse(&answer).ok_or("the answer is malformed")?;
    Ok(page.status)
}
