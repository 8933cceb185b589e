//! `proxy` of an action: the URL of another HTTP server.

use crate::address::Address;
use crate::error::Error;
use crate::node::{Node, Shown};
use crate::upstream_tls::UpstreamTls;

/// Another HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its address.
    pub address: Address,
    /// TLS settings; `None` for plain HTTP.
    pub tls: Option<UpstreamTls>,
    /// Idle connections that each thread keeps.
    pub keepalive: usize,
}

impl Proxy {
    /// Reads `http://ADDRESS` or `https://ADDRESS`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Proxy, Error> {
        let text = node.string()?;
        let secure = text.strip_prefix("https://");
        let Some(address) = secure.or_else(|| text.strip_prefix("http://")) else {
            let message =
                format!("must start with \"http://\" or \"https://\", but is \"{}\"", Shown(text));
            let hint = if text.starts_with("grpc") {
                "write \"pass\": \"upstreams/NAME\", and \
                \"http2\": true in that upstream"
            } else {
                "write \"http://127.0.0.1:8080\" or \
                    \"http://unix:/path\""
            };
            return Err(node.invalid(message).with_hint(hint));
        };
        let scheme = if secure.is_some() { "https" } else { "http" };
        let address = Address::parse_server(address).map_err(|error| {
            match server_advice(scheme, address) {
                Some((problem, hint)) => node.invalid(problem).with_hint(hint),
                None => node.invalid(error),
            }
        })?;
        if secure.is_some() && matches!(address, Address::Unix(_) | Address::Abstract(_)) {
            let error = node.invalid("names a unix socket, which no certificate is for");
            return Err(error.with_hint("pass to an upstream whose \"tls\" has a \"server_name\""));
        }
        let tls = secure.map(|_| UpstreamTls::default());
        Ok(Proxy { address, tls, keepalive: node.scope.defaults.keepalive })
    }
}

/// Returns the problem of a URL that is more than an address, and the remedy.
fn server_advice(scheme: &str, text: &str) -> Option<(&'static str, String)> {
    let usual_port = if scheme == "https" { 443 } else { 80 };
    if text.starts_with("unix:") {
        return None;
    }
    let (server, path) = match text.find(['/', '?', '#']) {
        Some(at) => text.split_at_checked(at)?,
        None => (text, ""),
    };
    let with_port = format!("{server}:{usual_port}");
    let server = match Address::parse_server(server) {
        Ok(_) => server,
        Err(_) => Address::parse_server(&with_port).map(|_| with_port.as_str()).ok()?,
    };
    let url = Shown(server);
    match path {
        "" => Some(("has no port", format!("write \"{scheme}://{url}\""))),
        "/" => Some(("must not have a path", format!("write \"{scheme}://{url}\""))),
        _ => {
            let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
            let path = Shown(path);
            Some((
                "must not have a path, as the server gets the path of the request",
                format!(
                    "write \"{scheme}://{url}\", and \"rewrite\": \"{path}$uri\" beside it to have \
                     \"{path}\" before each path"
                ),
            ))
        }
    }
}
