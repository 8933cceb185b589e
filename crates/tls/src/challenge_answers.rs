//! Published answers to ACME challenges, and the queue of names that need a certificate on demand.
//!
//! HTTP-01 (RFC 8555, 8.3): a request below `/.well-known/acme-challenge/` is answered here, before
//! any route, if the token is one of the server or the host one whose certificate it obtains so; no
//! script, password or fallback applies.
//! TLS-ALPN-01 (RFC 8737): a handshake with the protocol `acme-tls/1` gets a certificate that
//! proves the name, and the connection is closed.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use howdah_config::{Acme, AcmeChallenge, Config};
use howdah_http::body::Body;
use howdah_http::error_status::RequestError;
use howdah_http::message::{Request, Response};
use howdah_http::respond::refuse;
use rustls::ServerConfig;
use tokio::sync::mpsc::{self, Sender, error::TrySendError};
use tokio::sync::oneshot;

use super::proof;

/// Answers to challenges. All router threads and the control thread share one store.
#[derive(Debug)]
pub struct ChallengeStore {
    proofs: RwLock<Proofs>,
    on_demand: Sender<OnDemandRequest>,
}

#[derive(Debug, Default)]
struct Proofs {
    /// Key authorizations for HTTP-01, by token.
    http: HashMap<String, Arc<str>>,
    /// Configurations for TLS-ALPN-01, by host name: the last one is shown. Two orders, such as
    /// those of two certificates, may prove the same name.
    tls_alpn: HashMap<String, Vec<Arc<ServerConfig>>>,
}

/// Request of a connection for a certificate on demand.
#[derive(Debug)]
pub struct OnDemandRequest {
    /// Host name, in lower case.
    pub name: String,
    /// The listener's ACME settings.
    pub acme: Acme,
    /// Completed when the listeners have a certificate; dropped if there will be none.
    pub done: oneshot::Sender<()>,
}

/// A published answer to a challenge. Dropping it removes the answer.
#[derive(Debug)]
pub struct PublishedProof {
    store: Arc<ChallengeStore>,
    key: ProofKey,
}

#[derive(Debug)]
enum ProofKey {
    Token(String),
    HostName(String, Arc<ServerConfig>),
}

/// Maximum number of on-demand requests in the channel. Further connections get no certificate.
pub const MAX_PENDING_REQUESTS: usize = 64;

impl ChallengeStore {
    /// Creates a store, and the receiver of its on-demand requests.
    pub fn new() -> (Arc<ChallengeStore>, mpsc::Receiver<OnDemandRequest>) {
        let (on_demand, receiver) = mpsc::channel(MAX_PENDING_REQUESTS);
        (Arc::new(ChallengeStore { proofs: RwLock::default(), on_demand }), receiver)
    }

    /// Publishes a key authorization for HTTP-01. `None` if the token has characters that RFC 8555
    /// does not allow: the authority chooses the token, and it is part of a path.
    pub fn publish_http(
        self: &Arc<Self>,
        token: &str,
        key_authorization: &str,
    ) -> Option<PublishedProof> {
        if !is_token(token) {
            return None;
        }
        let mut proofs = self.proofs.write().unwrap_or_else(PoisonError::into_inner);
        proofs.http.insert(token.to_owned(), key_authorization.into());
        Some(PublishedProof { store: Arc::clone(self), key: ProofKey::Token(token.to_owned()) })
    }

    /// Publishes the digest of a key authorization for TLS-ALPN-01. Error: the reason why the
    /// proof's certificate could not be created.
    pub fn publish_tls_alpn(
        self: &Arc<Self>,
        name: &str,
        digest: &[u8],
    ) -> Result<PublishedProof, String> {
        let config = proof::server_config(name, digest)?;
        let mut proofs = self.proofs.write().unwrap_or_else(PoisonError::into_inner);
        proofs.tls_alpn.entry(name.to_owned()).or_default().push(Arc::clone(&config));
        let key = ProofKey::HostName(name.to_owned(), config);
        Ok(PublishedProof { store: Arc::clone(self), key })
    }

    /// Answers an HTTP-01 request. `None` for any other request, and for that of another ACME
    /// client, whose files may be in the directory of the site.
    pub fn answer(&self, config: &Config, request: &Request) -> Option<Response> {
        let token = request.path.strip_prefix(HTTP_PATH_PREFIX)?;
        let token = std::str::from_utf8(token).ok().filter(|token| is_token(token));
        let proofs = self.proofs.read().unwrap_or_else(PoisonError::into_inner);
        let text = token.and_then(|token| proofs.http.get(token));
        if text.is_none() && !proves_by_http(config, &request.host) {
            return None;
        }
        if !matches!(&*request.method, b"GET" | b"HEAD") {
            return Some(refuse(RequestError::MethodNotAllowed));
        }
        Some(match text {
            Some(text) => Response::new(200, Body::Bytes(text.as_bytes().to_vec().into()))
                .with("Content-Type", "application/octet-stream")
                .with("Cache-Control", "no-store"),
            None => refuse(RequestError::NotFound),
        })
    }

    /// Returns the configuration for a TLS-ALPN-01 handshake with this name.
    pub fn tls_alpn_config(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let proofs = self.proofs.read().unwrap_or_else(PoisonError::into_inner);
        proofs.tls_alpn.get(name)?.last().cloned()
    }

    /// Requests a certificate on demand, and waits until the listener has it or the request is
    /// refused.
    pub async fn request_certificate(&self, acme: &Acme, name: &str) {
        let (done, wait) = oneshot::channel();
        let request = OnDemandRequest { name: name.to_owned(), acme: acme.clone(), done };
        match self.on_demand.try_send(request) {
            Ok(()) => drop(wait.await),
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {}
        }
    }
}

impl Drop for PublishedProof {
    fn drop(&mut self) {
        let mut proofs = self.store.proofs.write().unwrap_or_else(PoisonError::into_inner);
        match &self.key {
            ProofKey::Token(token) => drop(proofs.http.remove(token)),
            ProofKey::HostName(name, own) => {
                let Some(all) = proofs.tls_alpn.get_mut(name) else { return };
                all.retain(|other| !Arc::ptr_eq(other, own));
                if all.is_empty() {
                    proofs.tls_alpn.remove(name);
                }
            }
        }
    }
}

/// Returns true if the server itself may prove to an authority by HTTP that a host is its own.
fn proves_by_http(config: &Config, host: &[u8]) -> bool {
    let listeners = config.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let mut all = listeners.flat_map(|tls| &tls.acme);
    let is_host = |domain: &String| domain.as_bytes().eq_ignore_ascii_case(host);
    all.any(|acme| {
        acme.challenges.contains(&AcmeChallenge::Http) && acme.domains.iter().any(is_host)
    })
}

/// Returns true for tokens of 1 to 256 base64url characters (RFC 8555, 8.3).
fn is_token(token: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=256).contains(&token.len()) && token.bytes().all(fits)
}

const HTTP_PATH_PREFIX: &[u8] = b"/.well-known/acme-challenge/";

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::fixture;

    fn config(tls: &str) -> Config {
        let text = format!(
            r#"{{"listeners": {{"*:443": {{"pass": "routes", "tls": {tls}}}}}, "routes": []}}"#
        );
        howdah_config::parse(text.as_bytes()).unwrap()
    }

    fn request(method: &str, path: &str) -> Request {
        let path = path.as_bytes().to_vec().into();
        Request { method: method.as_bytes().to_vec().into(), path, ..fixture::request("/", &[]) }
    }

    fn status(store: &ChallengeStore, config: &Config, method: &str, path: &str) -> Option<u16> {
        store.answer(config, &request(method, path)).map(|response| response.status)
    }

    #[test]
    fn a_proof_is_shown_for_as_long_as_it_is_needed_and_nothing_else_is() {
        let (store, _requests) = ChallengeStore::new();
        let ours = config(r#"{"acme": {"domains": "example.org"}}"#);
        let proof = store.publish_http("to-ken_1", "to-ken_1.thumb").unwrap();
        let path = "/.well-known/acme-challenge/to-ken_1";
        let response = store.answer(&ours, &request("GET", path)).unwrap();
        assert!(matches!(&response.body, Body::Bytes(body) if &body[..] == b"to-ken_1.thumb"));
        assert_eq!(status(&store, &ours, "HEAD", path), Some(200));
        assert_eq!(status(&store, &ours, "POST", path), Some(405));
        for other in ["", "other", "to-ken_1/", "to-ken_1/x", "to-ken_1.php", "index.php", "é"] {
            let path = format!("/.well-known/acme-challenge/{other}");
            assert_eq!(status(&store, &ours, "GET", &path), Some(404), "{other}");
        }
        assert_eq!(status(&store, &ours, "GET", "/.well-known/acme-challenge"), None);
        assert_eq!(status(&store, &ours, "GET", "/index.php"), None);
        drop(proof);
        assert_eq!(status(&store, &ours, "GET", path), Some(404));
    }

    #[test]
    fn the_end_of_an_order_leaves_the_proof_of_another_for_the_same_name() {
        let (store, _requests) = ChallengeStore::new();
        let publish = |digest: u8| store.publish_tls_alpn("a.example", &[digest; 32]).unwrap();
        let shown = || store.tls_alpn_config("a.example");
        let first = publish(1);
        let of_first = shown().unwrap();
        let second = publish(2);
        let of_second = shown().unwrap();
        assert!(!Arc::ptr_eq(&of_first, &of_second));
        drop(first);
        assert!(shown().is_some_and(|shown| Arc::ptr_eq(&shown, &of_second)));
        let third = publish(3);
        drop(third);
        assert!(shown().is_some_and(|shown| Arc::ptr_eq(&shown, &of_second)));
        drop(second);
        assert!(shown().is_none());
    }

    #[test]
    fn other_clients_of_authorities_keep_the_path_where_the_server_is_none() {
        let (store, _requests) = ChallengeStore::new();
        let path = "/.well-known/acme-challenge/x";
        for tls in [
            r#"{"certificate": "a"}"#,
            r#"{"acme": {"domains": "other.org"}}"#,
            r#"{"acme": {"domains": "example.org", "challenges": "tls-alpn"}}"#,
        ] {
            let config = config(tls);
            for method in ["GET", "POST"] {
                assert_eq!(status(&store, &config, method, path), None, "{tls}");
            }
            let _proof = store.publish_http("x", "x.thumb").unwrap();
            assert_eq!(status(&store, &config, "GET", path), Some(200), "{tls}");
        }
        assert_eq!(
            status(&store, &config(r#"{"acme": {"domains": "Example.ORG"}}"#), "GET", path),
            Some(404)
        );
    }

    #[test]
    fn a_token_that_is_a_path_is_not_shown() {
        let (store, _requests) = ChallengeStore::new();
        for token in ["", "../x", "a/b", "a.b", "a b", "a\0", "é", &"x".repeat(257)] {
            assert!(store.publish_http(token, "x").is_none(), "{token:?}");
        }
    }
}
