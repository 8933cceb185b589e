//! TLS within QUIC (RFC 9001): the client's hello chooses the configuration of rustls.
//!
//! rustls has no acceptor for QUIC, and quinn-proto starts a session before it has read the hello. So
//! this session collects the hello, lets [`ChooseTls`] decide, and begins then. The rest is rustls'.

use std::any::Any;
use std::io::{self, Cursor};
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::crypto::aws_lc_rs::{self, cipher_suite::TLS13_AES_128_GCM_SHA256};
use rustls::pki_types::CertificateDer;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Version};
use rustls::server::{Acceptor, ClientHello, ResolvesServerCertUsingSni, ServerConfig};
use rustls::{HandshakeKind, SupportedCipherSuite, version};

/// QUIC's version 1.
pub(crate) const VERSION: u32 = 1;

/// Maximum length of a hello, as that of a record of TLS (RFC 8446, 5.1).
const MAX_HELLO: usize = 1 << 14;

/// Length of a handshake message up to its contents: type and length (RFC 8446, 4).
const MESSAGE_HEADER: usize = 4;

const CLIENT_HELLO: u8 = 1;

/// Alerts (RFC 8446, 6).
const UNEXPECTED_MESSAGE: u8 = 10;
const NO_APPLICATION_PROTOCOL: u8 = 120;

/// Chooses the TLS configuration of each connection.
pub trait ChooseTls: std::marker::Send + Sync {
    /// Returns the configuration for a client. It has protocols of ALPN, and TLS 1.3.
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Refusal>;
}

/// The configuration for a client.
pub struct Choice {
    /// The configuration.
    pub config: Arc<ServerConfig>,
    /// What the chooser wants to know about the choice later: [`Handshake::context`].
    pub context: Arc<dyn Any + std::marker::Send + Sync>,
}

/// The client cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The alert that it gets (RFC 8446, 6).
    pub alert: u8,
}

/// Facts about a complete handshake.
#[derive(Clone)]
pub struct Handshake {
    /// The name that the client has asked for; empty without one.
    pub server_name: String,
    /// The suite.
    pub suite: Option<SupportedCipherSuite>,
    /// An earlier session was resumed.
    pub is_resumed: bool,
    /// The certificate of the client.
    pub client: Option<CertificateDer<'static>>,
    /// [`Choice::context`].
    pub context: Arc<dyn Any + std::marker::Send + Sync>,
}

/// TLS of an endpoint, as the library wants it.
pub(crate) struct Tls {
    chooser: Arc<dyn ChooseTls>,
    /// For what does not depend on the configuration: keys of Initial packets, tags of Retry packets.
    library: Arc<QuicServerConfig>,
    /// Without a certificate: refuses a hello that cannot be read, with the right alert.
    refusing: Arc<ServerConfig>,
}

impl Tls {
    /// Creates the TLS of an endpoint. Error: the library of cryptography lacks what QUIC requires.
    pub(crate) fn new(chooser: Arc<dyn ChooseTls>) -> io::Result<Tls> {
        let refusing = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&version::TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        let refusing = Arc::new(refusing);
        let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
        let suite = suite.ok_or_else(|| io::Error::other("there is no suite for QUIC"))?;
        let library = QuicServerConfig::with_initial(Arc::clone(&refusing), suite);
        let library = Arc::new(library.map_err(io::Error::other)?);
        Ok(Tls { chooser, library, refusing })
    }
}

impl crypto::ServerConfig for Tls {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        crypto::ServerConfig::initial_keys(&*self.library, version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.library.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        Box::new(Session { tls: self, next: None, state: State::Hello(Vec::new(), bytes) })
    }
}

/// The TLS session of a connection.
struct Session {
    tls: Arc<Tls>,
    /// Secrets of the keys that follow those in use.
    next: Option<Secrets>,
    state: State,
}

enum State {
    /// The hello as far as it has come, and the transport parameters of this end.
    Hello(Vec<u8>, Vec<u8>),
    Chosen(Box<ServerConnection>, Arc<dyn Any + std::marker::Send + Sync>),
}

impl Session {
    fn connection(&self) -> Option<&ServerConnection> {
        match &self.state {
            State::Hello(..) => None,
            State::Chosen(connection, _) => Some(connection),
        }
    }

    /// Chooses the configuration once the hello is complete.
    fn read_hello(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let State::Hello(hello, parameters) = &mut self.state else { return Ok(()) };
        hello.extend_from_slice(bytes);
        if hello.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(alert(UNEXPECTED_MESSAGE, "no hello of a client"));
        }
        let Some(&[_, high, middle, low]) = hello.first_chunk::<MESSAGE_HEADER>() else {
            return Ok(());
        };
        let length = MESSAGE_HEADER + u32::from_be_bytes([0, high, middle, low]) as usize;
        if length > MAX_HELLO {
            return Err(TransportError {
                code: TransportErrorCode::CRYPTO_BUFFER_EXCEEDED,
                frame: None,
                reason: "the hello is too long".to_owned(),
            });
        }
        let Some(message) = hello.get(..length) else { return Ok(()) };
        let Choice { config, context } = choose(&self.tls, message)?;
        let (hello, parameters) = (std::mem::take(hello), std::mem::take(parameters));
        let connection = ServerConnection::new(config, Version::V1, parameters);
        let connection = connection.map_err(|error| TransportError {
            code: TransportErrorCode::INTERNAL_ERROR,
            frame: None,
            reason: error.to_string(),
        })?;
        self.state = State::Chosen(Box::new(connection), context);
        self.read(&hello)
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let State::Chosen(connection, _) = &mut self.state else { return self.read_hello(bytes) };
        connection.read_hs(bytes).map_err(|error| match connection.alert() {
            Some(code) => alert(code.into(), &error.to_string()),
            None => TransportError {
                code: TransportErrorCode::PROTOCOL_VIOLATION,
                frame: None,
                reason: format!("TLS: {error}"),
            },
        })
    }
}

/// Lets the chooser choose by a whole hello.
fn choose(tls: &Tls, message: &[u8]) -> Result<Choice, TransportError> {
    let unreadable = || Choice { config: Arc::clone(&tls.refusing), context: Arc::new(()) };
    let mut record = vec![22, 3, 1];
    record.extend_from_slice(&u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes());
    record.extend_from_slice(message);
    let mut acceptor = Acceptor::default();
    if acceptor.read_tls(&mut record.as_slice()).is_err() {
        return Ok(unreadable());
    }
    match acceptor.accept() {
        Ok(Some(accepted)) => {
            let hello = accepted.client_hello();
            // RFC 9001, 8.1; rustls would go on.
            if hello.alpn().is_none() {
                return Err(alert(NO_APPLICATION_PROTOCOL, "the client names no protocol"));
            }
            let chosen = tls.chooser.choose(&hello);
            chosen.map_err(|refusal| alert(refusal.alert, "the name is not served"))
        }
        Ok(None) | Err(_) => Ok(unreadable()),
    }
}

fn alert(code: u8, reason: &str) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(code),
        frame: None,
        reason: reason.to_owned(),
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, id: &ConnectionId, _side: Side) -> Keys {
        let keys = crypto::ServerConfig::initial_keys(&*self.tls, VERSION, id);
        keys.unwrap_or_else(|_| unreachable!("the endpoint has version 1 only"))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let State::Chosen(connection, context) = &self.state else { return None };
        Some(Box::new(Handshake {
            server_name: connection.server_name().unwrap_or_default().to_owned(),
            suite: connection.negotiated_cipher_suite(),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            client: connection.peer_certificates().and_then(<[_]>::first).cloned(),
            context: Arc::clone(context),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.connection().is_none_or(|connection| connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.read(bytes).map(|()| false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let bytes = self.connection().and_then(|one| one.quic_transport_parameters());
        let Some(bytes) = bytes else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(bytes))?))
    }

    fn write_handshake(&mut self, bytes: &mut Vec<u8>) -> Option<Keys> {
        let State::Chosen(connection, _) = &mut self.state else { return None };
        let keys = match connection.write_hs(bytes)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        };
        let (local, remote) = (keys.local, keys.remote);
        Some(Keys {
            header: KeyPair { local: Box::new(local.header), remote: Box::new(remote.header) },
            packet: KeyPair { local: Box::new(local.packet), remote: Box::new(remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false // only clients get one
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError) // nobody asks for it
    }
}
