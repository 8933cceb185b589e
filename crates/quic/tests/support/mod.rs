//! A server that echoes streams, and clients on quinn.
#![allow(dead_code)] // each test program uses a part

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use howdah_quic::{
    Choice, ChooseTls, Endpoint, Inbox, Keys, Options, Owner, Recv, Refusal, Send, Settings,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ClientHello;
use tokio::task::spawn_local;

/// The protocol of the tests.
pub const PROTOCOL: &[u8] = b"echo";

/// A certificate of `localhost`, with the TLS configuration that has it.
#[derive(Clone)]
pub struct Echo {
    config: Arc<rustls::ServerConfig>,
    certificate: CertificateDer<'static>,
}

impl Echo {
    pub fn new() -> Echo {
        Echo::with_names(0)
    }

    /// Makes a certificate that also has this many other names.
    pub fn with_names(others: usize) -> Echo {
        let names = (0..others).map(|number| format!("name-{number}.localhost"));
        let names: Vec<_> = ["localhost".to_owned()].into_iter().chain(names).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Echo { config: Arc::new(config), certificate }
    }

    /// Returns settings for an endpoint of one thread.
    pub fn settings(&self, options: Options) -> Settings {
        Settings {
            keys: Keys::new(&[7; 32]),
            owner: Owner { process: 1, thread: 0 },
            tls: Arc::new(Chooser(Arc::clone(&self.config))),
            route: Rc::new(|_, datagram| Some(datagram)),
            arrivals: Inbox::new().1,
            options: Rc::new(move || Some(options.clone())),
        }
    }

    /// Starts an endpoint that echoes, on an address of its own.
    pub fn serve(&self, options: Options) -> (Rc<Endpoint>, SocketAddr) {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let endpoint = Rc::new(Endpoint::new(socket.into(), self.settings(options)).unwrap());
        endpoint.start_reading().unwrap();
        spawn_local(echo_all(Rc::clone(&endpoint)));
        (endpoint, address)
    }

    /// Returns a client's configuration, which trusts the server.
    pub fn client(&self) -> quinn::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let config = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
        quinn::ClientConfig::new(Arc::new(config))
    }

    /// Connects a client.
    pub async fn connect(&self, address: SocketAddr) -> (quinn::Endpoint, quinn::Connection) {
        let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        let connecting = endpoint.connect_with(self.client(), address, "localhost").unwrap();
        let connection = connecting.await.unwrap();
        (endpoint, connection)
    }
}

struct Chooser(Arc<rustls::ServerConfig>);

impl ChooseTls for Chooser {
    fn choose(&self, hello: &ClientHello<'_>) -> Result<Choice, Refusal> {
        match hello.server_name() {
            Some("localhost") => {
                Ok(Choice { config: Arc::clone(&self.0), context: Arc::new("chosen") })
            }
            _ => Err(Refusal { alert: 112 }),
        }
    }
}

/// Echoes the streams of all clients.
pub async fn echo_all(endpoint: Rc<Endpoint>) {
    while let Some(connection) = endpoint.accept().await {
        spawn_local(async move {
            while let Ok((send, recv)) = connection.accept_bi().await {
                spawn_local(echo(send, recv));
            }
        });
    }
}

pub async fn echo(mut send: Send, mut recv: Recv) {
    while let Ok(Some(piece)) = read(&mut recv).await {
        if !write(&mut send, piece).await {
            return;
        }
    }
    send.finish();
}

pub async fn read(recv: &mut Recv) -> Result<Option<Bytes>, howdah_quic::ReadError> {
    std::future::poll_fn(|cx| recv.poll_read(usize::MAX, cx)).await
}

/// Writes all bytes. Returns false if the stream takes no more.
pub async fn write(send: &mut Send, mut bytes: Bytes) -> bool {
    while !bytes.is_empty() {
        if std::future::poll_fn(|cx| send.poll_write(&mut bytes, cx)).await.is_err() {
            return false;
        }
    }
    true
}

/// Runs a test on a thread as those of the router.
pub fn run(test: impl Future<Output = ()> + 'static) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(test);
}

/// Sends bytes on a stream of its own, and returns what comes back.
pub async fn exchange(connection: &quinn::Connection, bytes: Vec<u8>) -> Vec<u8> {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    let sent = bytes.clone();
    let sending = async move {
        send.write_all(&sent).await.unwrap();
        send.finish().unwrap();
        send
    };
    let (_send, received) = tokio::join!(sending, recv.read_to_end(bytes.len() + 1));
    received.unwrap()
}
