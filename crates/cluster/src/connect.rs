//! Connections to Valkey: with a bound for the bytes that they receive, and with errors that show
//! no secret.
//!
//! The engine's parser keeps a reply in memory until it is complete. A connection therefore
//! receives no more than its commands allow; a server that sends more is cut off.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use howdah_config::{self as config, Address};
use howdah_dns::clients::ClientNames;
use howdah_dns::stream::Stream;
use howdah_dns::turns::Asker;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Maximum time to connect and log in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes that a server may send while a client logs in.
const SETUP_BYTES: u64 = 16 << 10;

/// Maximum number of bytes that a server may send for commands in progress.
const MAX_ALLOWANCE_BYTES: u64 = 4 << 20;

/// Connects to the server of a configuration.
#[derive(Debug)]
pub struct Connector {
    settings: config::Cluster,
    /// DNS servers; those of the machine if empty.
    resolver: Vec<SocketAddr>,
    names: ClientNames,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// Sends commands.
    pub commands: MultiplexedConnection,
    /// Bytes that may still be received.
    pub allowance: Allowance,
    driver: JoinHandle<()>,
}

/// Number of bytes that a connection may still receive.
#[derive(Debug, Clone)]
pub struct Allowance(Arc<AtomicU64>);

/// A stream that receives no more than it is allowed to.
struct Bounded {
    stream: Stream,
    allowance: Allowance,
}

impl Connector {
    /// Creates the connector of a configuration.
    pub fn new(settings: config::Cluster, resolver: Vec<SocketAddr>) -> Connector {
        Connector { settings, resolver, names: ClientNames::default() }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &config::Cluster {
        &self.settings
    }

    /// Connects and logs in. Error: the reason, for the log.
    pub async fn connect(&self) -> Result<Connection, String> {
        match timeout(CONNECT_TIMEOUT, self.connect_and_log_in()).await {
            Ok(connected) => connected,
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    async fn connect_and_log_in(&self) -> Result<Connection, String> {
        let stream = self.stream().await.map_err(|error| error.to_string())?;
        let allowance = Allowance(Arc::new(AtomicU64::new(SETUP_BYTES)));
        let bounded = Bounded { stream, allowance: allowance.clone() };
        let config = &self.settings;
        let mut login = RedisConnectionInfo::default()
            .set_db(i64::from(config.database))
            .set_skip_set_lib_name();
        if let Some(password) = &config.password {
            login = login.set_password(password.as_str());
        }
        if let Some(username) = &config.username {
            login = login.set_username(username);
        }
        // Every caller has its own time limit.
        let options = AsyncConnectionConfig::new().set_response_timeout(None);
        let (commands, driver) = MultiplexedConnection::new_with_config(&login, bounded, options)
            .await
            .map_err(|error| describe(&error))?;
        Ok(Connection { commands, allowance, driver: tokio::spawn(driver) })
    }

    async fn stream(&self) -> io::Result<Stream> {
        let Address::Name(name, port) = &self.settings.server else {
            return Stream::connect(&self.settings.server).await;
        };
        let mut last = io::Error::other("its name has no address");
        for address in &*self.names.addresses(Asker::Server, name, &self.resolver).await {
            match Stream::connect(&Address::Inet(SocketAddr::new(*address, *port))).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Connection {
    /// Waits until the connection ends.
    pub async fn ended(&mut self) {
        let _ = (&mut self.driver).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Allowance {
    /// Allows the server this many bytes more, for the reply to a command that is about to be sent.
    pub fn add(&self, bytes: u64) {
        // Answers are mostly shorter: the unused allowances must not add up.
        let add = |left: u64| Some(left.saturating_add(bytes).min(MAX_ALLOWANCE_BYTES));
        let _ = self.0.fetch_update(Relaxed, Relaxed, add);
    }

    /// Allows the server this many bytes from now on.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }

    fn take(&self, bytes: u64) -> io::Result<()> {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| io::Error::other("it sends more than it was asked for"))
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(Ok(())) = read {
            let received = buffer.filled().len().saturating_sub(before);
            self.allowance.take(received as u64)?;
        }
        read
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Returns an error without the server's own words: Valkey repeats the arguments of a command that
/// it does not know, and a password is one.
pub fn describe(error: &RedisError) -> String {
    if error.is_io_error() {
        return if error.is_connection_dropped() {
            "it has closed the connection".to_owned()
        } else {
            "the connection has failed".to_owned()
        };
    }
    match (error.kind(), error.code()) {
        (ErrorKind::AuthenticationFailed, _) => "it refuses the user or password".to_owned(),
        (ErrorKind::Parse, _) => "it sends bytes that are no answer".to_owned(),
        (_, Some(code)) if is_word(code) => format!("it answers with {code}"),
        _ => "it answers with an error".to_owned(),
    }
}

/// Returns true for the first word of an error, such as `WRONGTYPE`.
fn is_word(code: &str) -> bool {
    code.len() <= 20 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}
