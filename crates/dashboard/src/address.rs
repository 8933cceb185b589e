//! Hosts and origins of the page.
//!
//! Any web page can make a browser send requests to this machine and, with DNS rebinding, read the
//! responses. The host of a request must therefore be a name of the loopback interface, or that of
//! the page behind a proxy; what changes something must come from this origin.

use std::net::{IpAddr, SocketAddr};

use howdah_control::is_this_machine;
use howdah_http::message::Request;

/// Address of the page in browsers, such as `https://status.example.org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    is_https: bool,
    /// Host, and port unless it is the usual one; lower case.
    authority: String,
}

impl PageAddress {
    /// Reads an address. Error: the reason why it is none.
    pub fn parse(text: &str) -> Result<PageAddress, String> {
        let (is_https, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("write it as https://status.example.org".to_owned()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest).to_ascii_lowercase();
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(is_sound) {
            return Err("write the scheme and the host only, as https://status.example.org".into());
        }
        let usual = if is_https { ":443" } else { ":80" };
        let authority = authority.strip_suffix(usual).unwrap_or(&authority).to_owned();
        Ok(PageAddress { is_https, authority })
    }

    /// Returns the address as text, without a slash at its end.
    pub fn text(&self) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// Returns true if cookies are for HTTPS only.
    fn is_https(&self) -> bool {
        self.is_https
    }
}

/// Where the page is.
#[derive(Debug)]
pub(crate) enum Place {
    /// At a port of this machine, and at another address if a proxy is in front of it.
    Local {
        /// The address that it listens on.
        listen: SocketAddr,
        /// The address in browsers.
        page: Option<PageAddress>,
    },
    /// Behind listeners of the server. Their routes decide which hosts lead here.
    Listener,
}

/// The client of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visitor {
    /// Its address; `None` if it is unknown.
    pub(crate) address: Option<IpAddr>,
    /// The connection is encrypted.
    pub(crate) is_https: bool,
}

impl Place {
    /// Returns true if a request with this value of `Host` is for the page.
    pub(crate) fn is_own_host(&self, host: &[u8]) -> bool {
        match self {
            Place::Local { page, .. } => {
                let is_page =
                    |page: &PageAddress| host.eq_ignore_ascii_case(page.authority.as_bytes());
                is_this_machine(host) || page.as_ref().is_some_and(is_page)
            }
            Place::Listener => !host.is_empty(),
        }
    }

    /// Returns true if a request for this host with this value of `Origin` comes from the page.
    pub(crate) fn is_own_origin(&self, visitor: Visitor, host: &[u8], origin: &[u8]) -> bool {
        let is_at = |scheme: &[u8]| {
            origin.strip_prefix(scheme).is_some_and(|origin| origin.eq_ignore_ascii_case(host))
        };
        match self {
            Place::Local { page, .. } => {
                let is_page =
                    |page: &PageAddress| origin.eq_ignore_ascii_case(page.text().as_bytes());
                is_this_machine(host) && is_at(b"http://") || page.as_ref().is_some_and(is_page)
            }
            // A proxy that the listener does not know may have TLS in front of it.
            Place::Listener => is_at(b"https://") || !visitor.is_https && is_at(b"http://"),
        }
    }

    /// Returns the client of a request. Behind a listener, the router says who it is, and has
    /// replaced what the client has said.
    pub(crate) fn visitor(&self, request: &Request) -> Visitor {
        match self {
            Place::Local { page, .. } => {
                let host = request.fields.get("host").unwrap_or_default();
                let is_https = page.as_ref().is_some_and(PageAddress::is_https);
                Visitor {
                    address: request.connection.peer.map(|peer| peer.ip()),
                    is_https: is_https && !is_this_machine(host),
                }
            }
            Place::Listener => {
                let address = request.fields.get("x-real-ip").unwrap_or_default();
                let address = std::str::from_utf8(address).unwrap_or_default();
                Visitor {
                    address: address.parse().ok(),
                    is_https: request.fields.get("x-forwarded-proto") == Some(b"https"),
                }
            }
        }
    }

    /// Returns true if nobody between the client and the page can read what it sends. At a port of
    /// this machine, that is up to who has put a proxy in front of it.
    pub(crate) fn is_private(&self, visitor: Visitor) -> bool {
        let is_local = visitor.address.is_some_and(|address| address.to_canonical().is_loopback());
        matches!(self, Place::Local { .. }) || visitor.is_https || is_local
    }
}

/// Returns the name of the cookie for requests with this value of `Host`. It ends with the port:
/// cookies know no ports, and two pages at one host, such as two servers through ssh, would
/// otherwise log each other out.
pub(crate) fn cookie_name(host: &[u8]) -> String {
    let name = "howdah_dashboard";
    let port = host.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    match std::str::from_utf8(port) {
        Ok(port) if port.len() < host.len() && port.parse::<u16>().is_ok() => {
            format!("{name}_{port}")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_on_two_ports_have_two_cookies() {
        for (host, name) in [
            ("localhost:9146", "howdah_dashboard_9146"),
            ("[::1]:9147", "howdah_dashboard_9147"),
            ("s.example", "howdah_dashboard"),
            ("127.0.0.1", "howdah_dashboard"),
            ("[::1]", "howdah_dashboard"),
            ("", "howdah_dashboard"),
        ] {
            assert_eq!(cookie_name(host.as_bytes()), name, "{host}");
        }
    }

    #[test]
    fn an_address_is_a_scheme_and_a_host() {
        for (text, expected) in [
            ("https://Status.example.org", Some("https://status.example.org")),
            ("https://a.example:443/", Some("https://a.example")),
            ("http://a.example:8080", Some("http://a.example:8080")),
            ("https://[2001:db8::1]:8443", Some("https://[2001:db8::1]:8443")),
            ("a.example", None),
            ("ftp://a.example", None),
            ("https://", None),
            ("https://a.example/page", None),
            ("https://me@a.example", None),
        ] {
            let address = PageAddress::parse(text).map(|address| address.text());
            assert_eq!(address.ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn hosts_and_origins_of_others_are_refused() {
        let page = PageAddress::parse("https://s.example").unwrap();
        for (host, origin, local, behind) in [
            ("127.0.0.1:9146", "http://127.0.0.1:9146", true, true),
            ("localhost:9", "http://localhost:9", true, true),
            ("s.example", "https://s.example", false, true),
            ("localhost:9", "http://localhost:10", false, false),
            ("localhost:9", "http://127.0.0.1:9", false, false),
            ("localhost:9", "null", false, false),
            ("s.example", "http://s.example", false, false),
            ("evil.example", "http://evil.example", false, false),
        ] {
            let is_own = |page: Option<PageAddress>| {
                let place = Place::Local { listen: ([127, 0, 0, 1], 0).into(), page };
                place.is_own_host(host.as_bytes())
                    && place.is_own_origin(PLAIN, host.as_bytes(), origin.as_bytes())
            };
            let both = (is_own(None), is_own(Some(page.clone())));
            assert_eq!(both, (local, behind), "{host} {origin}");
        }
    }

    const PLAIN: Visitor = Visitor { address: None, is_https: false };

    #[test]
    fn behind_a_listener_the_origin_is_that_of_the_request() {
        let encrypted = Visitor { is_https: true, ..PLAIN };
        for (host, origin, plain, tls) in [
            ("s.example", "https://s.example", true, true),
            ("S.example:8443", "https://s.example:8443", true, true),
            ("s.example", "http://s.example", true, false),
            ("s.example", "https://t.example", false, false),
            ("s.example", "https://s.example:8443", false, false),
            ("s.example", "null", false, false),
            ("", "https://", false, false),
        ] {
            let is_own = |visitor| {
                Place::Listener.is_own_host(host.as_bytes())
                    && Place::Listener.is_own_origin(visitor, host.as_bytes(), origin.as_bytes())
            };
            assert_eq!((is_own(PLAIN), is_own(encrypted)), (plain, tls), "{host} {origin}");
        }
    }

    #[test]
    fn the_router_says_who_the_client_is_and_a_token_is_sent_encrypted() {
        for (fields, address, is_https, is_private) in [
            (
                &[("X-Real-IP", "192.0.2.1"), ("X-Forwarded-Proto", "https")],
                "192.0.2.1",
                true,
                true,
            ),
            (
                &[("X-Real-IP", "192.0.2.1"), ("X-Forwarded-Proto", "http")],
                "192.0.2.1",
                false,
                false,
            ),
            (
                &[("X-Real-IP", "127.0.0.1"), ("X-Forwarded-Proto", "http")],
                "127.0.0.1",
                false,
                true,
            ),
            (&[("X-Real-IP", "::1"), ("X-Forwarded-Proto", "x")], "::1", false, true),
            (&[("X-Real-IP", "unix:"), ("X-Forwarded-Proto", "http")], "", false, false),
        ] {
            let visitor = Place::Listener.visitor(&howdah_http::fixture::request("/", fields));
            assert_eq!(visitor, Visitor { address: address.parse().ok(), is_https });
            assert_eq!(Place::Listener.is_private(visitor), is_private, "{fields:?}");
        }
    }
}
