//! Certificates for tests, and a client that speaks TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use super::client::Response;
use super::time::patience;

/// A certificate authority for tests.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Creates an authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Returns its certificate, PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for names; the first is the common name too. Returns it and its key,
    /// PEM.
    pub fn issue(&self, names: &[&str]) -> (String, String) {
        let mut params =
            CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
                .unwrap();
        params.distinguished_name.push(DnType::CommonName, names[0]);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// Issues a certificate like [`Authority::issue`] that is valid from and until a time.
    pub fn issue_for(
        &self,
        names: &[&str],
        since: SystemTime,
        until: SystemTime,
    ) -> (String, String) {
        let time = |time: SystemTime| {
            rcgen::date_time_ymd(1970, 1, 1) + time.duration_since(SystemTime::UNIX_EPOCH).unwrap()
        };
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = (time(since), time(until));
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// Returns the settings of a server with a certificate for these names.
    pub fn server(&self, names: &[&str]) -> Arc<ServerConfig> {
        let (chain, key) = self.issue(names);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap);
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        Arc::new(builder.with_no_client_auth().with_single_cert(chain.collect(), key).unwrap())
    }

    /// Returns the settings of a client that trusts the authority and offers these protocols.
    pub fn client(&self, own: Option<&(String, String)>, protocols: &[&str]) -> Arc<ClientConfig> {
        let builder = builder(self.0.der().clone());
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap);
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain.collect(), key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// Returns the settings of a client that trusts the authority with this certificate, PEM.
pub fn trusting(authority: &str) -> Arc<ClientConfig> {
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).unwrap();
    Arc::new(builder(authority).with_no_client_auth())
}

fn builder(
    authority: CertificateDer<'static>,
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots)
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

/// Sends a request over TLS and reads the response to the end of the connection.
pub fn send(
    address: SocketAddr,
    client: &Arc<ClientConfig>,
    name: &str,
    request: &str,
) -> std::io::Result<Response> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(patience()))?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(answer.len());
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    Ok(Response {
        status: head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0),
        fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        body: answer.get(end + 4..).unwrap_or_default().to_vec(),
        cut: false,
    })
}

/// Returns the negotiated protocol (ALPN).
pub fn protocol(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> Option<String> {
    let connection = shaken(address, client, name);
    connection.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
}

/// Returns the certificate that the server presents for a name.
pub fn certificate(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> Vec<u8> {
    let connection = shaken(address, client, name);
    connection.peer_certificates().unwrap()[0].to_vec()
}

fn shaken(address: SocketAddr, client: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).unwrap();
    }
    connection
}

/// Sends a GET request for a target of a host.
pub fn get(
    address: SocketAddr,
    client: &Arc<ClientConfig>,
    name: &str,
    target: &str,
) -> std::io::Result<Response> {
    // HTTP/1.0, so that the response is not chunked.
    let request = format!("GET {target} HTTP/1.0\r\nHost: {name}\r\n\r\n");
    send(address, client, name, &request)
}
