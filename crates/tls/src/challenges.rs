//! Where authorities look for proofs, and where connections ask for certificates on demand.
//!
//! HTTP-01: a request below `/.well-known/acme-challenge/` is answered here, before any route, as
//! soon as an account of the server's own is at work; no script, password or fallback has a say in
//! it. TLS-ALPN-01: a handshake in the protocol `acme-tls/1` gets a certificate that proves the
//! name, and the connection ends.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use howdah_config::{Acme, Config};
use howdah_http::body::Body;
use howdah_http::message::{Request, Response};
use howdah_http::respond;
use rustls::ServerConfig;
use tokio::sync::mpsc::{Sender, error::TrySendError};
use tokio::sync::oneshot;

use super::proof;

/// See the module. All router threads share it.
#[derive(Debug)]
pub struct ChallengeStore {
    proofs: RwLock<Proofs>,
    wanted: Sender<Wanted>,
}

#[derive(Debug, Default)]
struct Proofs {
    /// By token.
    texts: HashMap<String, Arc<str>>,
    /// By name.
    handshakes: HashMap<String, Arc<ServerConfig>>,
}

/// A name that a client asks for and that there is no certificate for.
#[derive(Debug)]
pub struct Wanted {
    /// Host name, in lower case.
    pub name: String,
    /// The listener's settings about it.
    pub acme: Acme,
    /// Told when there is a certificate, dropped if there will be none.
    pub done: oneshot::Sender<()>,
}

/// A proof that can be seen for as long as this lives.
#[derive(Debug)]
pub struct Shown {
    door: Arc<ChallengeStore>,
    what: What,
}

#[derive(Debug)]
enum What {
    Text(String),
    Handshake(String),
}

/// Names that wait for the keeper at once. More are turned away.
pub const MOST_WAITING: usize = 64;

impl ChallengeStore {
    /// The door, and where names are wanted from.
    pub fn new() -> (Arc<ChallengeStore>, tokio::sync::mpsc::Receiver<Wanted>) {
        let (wanted, receiver) = tokio::sync::mpsc::channel(MOST_WAITING);
        (Arc::new(ChallengeStore { proofs: RwLock::default(), wanted }), receiver)
    }

    /// Shows the proof of a token. `None` if the token is none: it comes from a stranger, and
    /// becomes part of a path.
    pub fn show_text(self: &Arc<Self>, token: &str, text: &str) -> Option<Shown> {
        if !is_token(token) {
            return None;
        }
        let mut proofs = self.proofs.write().unwrap_or_else(PoisonError::into_inner);
        proofs.texts.insert(token.to_owned(), text.into());
        Some(Shown { door: Arc::clone(self), what: What::Text(token.to_owned()) })
    }

    /// Shows the proof of a name in handshakes.
    pub fn show_handshake(self: &Arc<Self>, name: &str, digest: &[u8]) -> Result<Shown, String> {
        let config = proof::config(name, digest)?;
        let mut proofs = self.proofs.write().unwrap_or_else(PoisonError::into_inner);
        proofs.handshakes.insert(name.to_owned(), config);
        Ok(Shown { door: Arc::clone(self), what: What::Handshake(name.to_owned()) })
    }

    /// Answers a request for a proof. `None` for any other request.
    pub fn answer(&self, config: &Config, request: &Request) -> Option<Response> {
        let token = request.path.strip_prefix(PATH)?;
        let mut listeners = config.listeners.iter().filter_map(|listener| listener.tls.as_ref());
        if listeners.all(|tls| tls.acme.is_empty()) {
            return None; // another client of authorities may put files there
        }
        if !matches!(&*request.method, b"GET" | b"HEAD") {
            return Some(respond::error_allowing(405, Some("GET, HEAD")));
        }
        let token = std::str::from_utf8(token).ok().filter(|token| is_token(token));
        let proofs = self.proofs.read().unwrap_or_else(PoisonError::into_inner);
        let text = token.and_then(|token| proofs.texts.get(token));
        Some(match text {
            Some(text) => Response::new(200, Body::Bytes(text.as_bytes().to_vec().into()))
                .with("Content-Type", "application/octet-stream")
                .with("Cache-Control", "no-store"),
            None => respond::error(404),
        })
    }

    /// What answers a handshake that asks for the proof of a name.
    pub fn proof(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let proofs = self.proofs.read().unwrap_or_else(PoisonError::into_inner);
        proofs.handshakes.get(name).cloned()
    }

    /// Waits for a certificate on demand, or for the certainty that there will be none.
    pub async fn want(&self, acme: &Acme, name: &str) {
        let (done, wait) = oneshot::channel();
        let wanted = Wanted { name: name.to_owned(), acme: acme.clone(), done };
        match self.wanted.try_send(wanted) {
            Ok(()) => drop(wait.await),
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {}
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut proofs = self.door.proofs.write().unwrap_or_else(PoisonError::into_inner);
        match &self.what {
            What::Text(token) => drop(proofs.texts.remove(token)),
            What::Handshake(name) => drop(proofs.handshakes.remove(name)),
        }
    }
}

/// RFC 8555, 8.3: characters of base64url and no others.
fn is_token(token: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=256).contains(&token.len()) && token.bytes().all(fits)
}

const PATH: &[u8] = b"/.well-known/acme-challenge/";

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

    fn status(door: &ChallengeStore, config: &Config, method: &str, path: &str) -> Option<u16> {
        door.answer(config, &request(method, path)).map(|response| response.status)
    }

    #[test]
    fn hardening_47_a_proof_is_shown_for_as_long_as_it_is_needed_and_nothing_else_is() {
        let (door, _wanted) = ChallengeStore::new();
        let ours = config(r#"{"acme": {"domains": "a.org"}}"#);
        let shown = door.show_text("to-ken_1", "to-ken_1.thumb").unwrap();
        let path = "/.well-known/acme-challenge/to-ken_1";
        let response = door.answer(&ours, &request("GET", path)).unwrap();
        assert!(matches!(&response.body, Body::Bytes(body) if &body[..] == b"to-ken_1.thumb"));
        assert_eq!(status(&door, &ours, "HEAD", path), Some(200));
        assert_eq!(status(&door, &ours, "POST", path), Some(405));
        for other in ["", "other", "to-ken_1/", "to-ken_1/x", "to-ken_1.php", "index.php", "é"] {
            let path = format!("/.well-known/acme-challenge/{other}");
            assert_eq!(status(&door, &ours, "GET", &path), Some(404), "{other}");
        }
        assert_eq!(status(&door, &ours, "GET", "/.well-known/acme-challenge"), None);
        assert_eq!(status(&door, &ours, "GET", "/index.php"), None);
        drop(shown);
        assert_eq!(status(&door, &ours, "GET", path), Some(404));
    }

    #[test]
    fn other_clients_of_authorities_keep_the_path_where_the_server_is_none() {
        let (door, _wanted) = ChallengeStore::new();
        let path = "/.well-known/acme-challenge/x";
        assert_eq!(status(&door, &config(r#"{"certificate": "a"}"#), "GET", path), None);
    }

    #[test]
    fn hardening_47_a_token_that_is_a_path_is_not_shown() {
        let (door, _wanted) = ChallengeStore::new();
        for token in ["", "../x", "a/b", "a.b", "a b", "a\0", "é", &"x".repeat(257)] {
            assert!(door.show_text(token, "x").is_none(), "{token:?}");
        }
    }
}
