//! `Alt-Svc`: tells clients that use TLS over TCP of HTTP/3 (RFC 7838).

use howdah_http::message::{Request, Response, Version};
use howdah_routing::snapshot::Listener;

/// Adds the field if the listener has a value for it and the response has none.
pub fn apply(listener: Option<&Listener>, request: &Request, response: &mut Response) {
    let alternative = listener.and_then(|listener| listener.alternative.as_ref());
    if let Some(alternative) = alternative
        && is_over_tcp(request)
        && response.fields.get("alt-svc").is_none()
    {
        response.fields.push("Alt-Svc", &**alternative as &str);
    }
}

/// Returns true for requests over TLS with this server, by HTTP/1 or HTTP/2.
fn is_over_tcp(request: &Request) -> bool {
    request.connection.handshake.is_some() && request.version != Version::Http3
}
