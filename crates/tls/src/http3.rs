//! TLS of HTTP/3: the steps of a handshake that QUIC leaves to the listener.

use std::sync::Arc;

use rustls::ServerConfig;

use super::listener::TlsListener;

/// The protocol in a hello (RFC 9114, 3.1).
const PROTOCOL: &[u8] = b"h3";

/// The alert `unrecognized_name` (RFC 8446, 6.2).
const UNRECOGNIZED_NAME: u8 = 112;

/// The configuration for a client, and why.
pub struct Choice {
    /// The configuration of rustls.
    pub config: Arc<ServerConfig>,
    /// Index of the client certificate rule for the client's name.
    pub rule: Option<usize>,
}

impl TlsListener {
    /// Chooses the configuration for a client of HTTP/3 by the name in its hello; empty without one.
    /// Error: the alert for a client that is refused.
    ///
    /// A certificate on demand is not waited for: the client connects over TCP then, whose handshake
    /// waits.
    pub fn choose_http3(&self, name: &str) -> Result<Choice, u8> {
        let name = name.to_ascii_lowercase();
        if self.on_demand_settings(&name).is_some() || self.refuses(&name) {
            return Err(UNRECOGNIZED_NAME);
        }
        let rule = self.rule(&name);
        let config = self.http3.get(rule.map_or(0, |rule| rule + 1));
        Ok(Choice { config: Arc::clone(config.ok_or(UNRECOGNIZED_NAME)?), rule })
    }
}

/// Returns the configurations for HTTP/3 beside those for TCP, with which they share certificates,
/// sessions and tickets.
pub(super) fn configurations<'c>(
    tcp: impl Iterator<Item = &'c Arc<ServerConfig>>,
) -> Vec<Arc<ServerConfig>> {
    let http3 = |tcp: &'c Arc<ServerConfig>| {
        let mut config = ServerConfig::clone(tcp);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Arc::new(config)
    };
    tcp.map(http3).collect()
}
