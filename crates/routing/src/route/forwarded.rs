//! `forwarded` and `client_ip` of a listener: client address and scheme from fields of trusted
//! proxies.
//!
//! The fields count only on a connection from a listed address. A list of addresses is read from
//! its right end up to the first address that is not a listed proxy: the client may have made up
//! everything left of it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use howdah_config::Forwarded;
use howdah_http::message::{ConnectionInfo, Request, ShownAddress};

/// Sets the client address and scheme of a request whose connection comes from a trusted proxy.
pub fn apply(proxies: &[Forwarded], request: &mut Request) {
    for proxy in proxies {
        if !proxy.source.matches(request.connection.peer) {
            continue;
        }
        let peer = proxy.client_ip.as_ref().and_then(|field| client(proxy, field, request));
        if peer.is_none() {
            request.handling.set_client_unknown();
        }
        let tls = proxy.protocol.as_ref().and_then(|field| scheme(field, request));
        if peer.is_some() || tls.is_some() {
            let connection = &request.connection;
            request.connection = Arc::new(ConnectionInfo {
                peer: peer.or(connection.peer),
                tls: tls.unwrap_or(connection.tls),
                trusted_proxy: connection
                    .trusted_proxy
                    .or(Some(ShownAddress(connection.peer.map(|peer| peer.ip())))),
                ..(**connection).clone()
            });
        }
    }
}

/// Returns the client's address: the last of the list or, with `recursive`, the last that is not a
/// trusted proxy. An invalid address ends the search.
fn client(proxy: &Forwarded, field: &str, request: &Request) -> Option<SocketAddr> {
    let mut client = None;
    let lists =
        request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(field.as_bytes()));
    let lists: Vec<_> = lists.map(|(_, list)| list).collect();
    for list in lists.into_iter().rev() {
        let addresses = list.rsplit(|byte| matches!(byte, b',' | b' ' | b'\t'));
        for text in addresses.filter(|text| !text.is_empty()) {
            let Some(address) = parse(text) else { return client };
            client = Some(address);
            if !proxy.recursive || !proxy.source.matches(client) {
                return client;
            }
        }
    }
    client
}

/// Parses an address with or without port.
fn parse(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let without_port = || {
        let in_brackets = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let ip: IpAddr = match in_brackets {
            Some(v6) => IpAddr::V6(v6.parse().ok()?),
            None => text.parse().ok()?,
        };
        Some(SocketAddr::new(ip, 0))
    };
    let address = text.parse().ok().or_else(without_port)?;
    (!address.ip().to_canonical().is_unspecified()).then_some(address)
}

/// Returns true if the client used TLS, by the first field that is not empty.
fn scheme(field: &str, request: &Request) -> Option<bool> {
    let mut values = request.fields.get_all(field).filter(|value| !value.is_empty());
    let value = values.next()?;
    if value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"on") {
        return Some(true);
    }
    value.eq_ignore_ascii_case(b"http").then_some(false)
}

#[cfg(test)]
mod tests {
    use howdah_config::{AddressPattern, AddressPatterns};

    use super::*;
    use howdah_http::fixture::request;

    fn proxy(source: &[&str], recursive: bool) -> Forwarded {
        let mut patterns = AddressPatterns::default();
        for pattern in source {
            patterns.push(AddressPattern::parse(pattern).unwrap());
        }
        Forwarded {
            source: patterns,
            client_ip: Some("X-Forwarded-For".to_owned()),
            protocol: Some("x-forwarded-proto".to_owned()),
            recursive,
        }
    }

    /// Returns the client's address and scheme; the fixture's connection comes from 127.0.0.1.
    fn seen(proxy: Forwarded, fields: &[(&str, &str)]) -> (String, &'static str) {
        let mut request = request("/", fields);
        apply(&[proxy], &mut request);
        let peer = request.connection.peer.map(|peer| peer.ip());
        (ShownAddress(peer).to_string(), request.connection.scheme())
    }

    fn address(proxy: Forwarded, lists: &[&str]) -> String {
        let fields: Vec<_> = lists.iter().map(|list| ("x-forwarded-for", *list)).collect();
        seen(proxy, &fields).0
    }

    #[test]
    fn only_listed_proxies_are_believed() {
        let both = [("X-Forwarded-For", "1.1.1.1"), ("X-Forwarded-Proto", "https")];
        for source in [&["123.123.123.123"][..], &["!127.0.0.1"], &["unix"], &[]] {
            assert_eq!(seen(proxy(source, false), &both), ("127.0.0.1".to_owned(), "http"));
        }
        for source in ["127.0.0.1", "127.0.0.0-127.0.0.1", "!10.0.0.0/8"] {
            let told = seen(proxy(&[source], false), &both);
            assert_eq!(told, ("1.1.1.1".to_owned(), "https"));
        }
    }

    #[test]
    fn the_last_address_of_the_last_list_counts() {
        let address = |lists: &[&str]| address(proxy(&["127.0.0.1"], false), lists);
        assert_eq!(address(&["8.8.8.8, 84.23.23.11"]), "84.23.23.11");
        assert_eq!(address(&["8.8.8.8, 84.23.23.11, 127.0.0.1"]), "127.0.0.1");
        assert_eq!(address(&["8.8.8.8", "127.0.0.1, 10.0.1.1"]), "10.0.1.1");
        assert_eq!(address(&["1.1.1.1,"]), "1.1.1.1");
        for ip in ["2001:db8:3c4d:15::1a2f:1a2b", "2001::3c4d:15:1a2f:1a2b", "::11.22.33.44"] {
            assert_eq!(address(&[ip]), ip);
        }
        assert_eq!(address(&["[::2]:80"]), "::2");
        assert_eq!(address(&["1.1.1.1:80"]), "1.1.1.1");
    }

    #[test]
    fn what_is_no_address_changes_nothing() {
        for list in
            ["", "blah", "1.1.1.1, x", "0.0.0.0", "::", "::ffff:0.0.0.0", "1.1.1.1:x", "unix:"]
        {
            assert_eq!(address(proxy(&["127.0.0.1"], false), &[list]), "127.0.0.1", "{list}");
        }
    }

    #[test]
    fn with_several_proxies_the_last_that_is_none_counts() {
        let address =
            |lists: &[&str]| address(proxy(&["127.0.0.1", "10.50.0.17", "10.5.2.1"], true), lists);
        assert_eq!(address(&["1.1.1.1"]), "1.1.1.1");
        assert_eq!(address(&["8.8.8.8, 1.1.1.1, 10.5.2.1"]), "1.1.1.1");
        assert_eq!(address(&["10.50.0.17, 10.5.2.1, 10.5.2.1"]), "10.50.0.17");
        assert_eq!(address(&["8.8.8.8", "1.1.1.1, 127.0.0.1"]), "1.1.1.1");
        assert_eq!(address(&["10.5.2.1", "10.50.0.17, 1.1.1.1", "10.5.2.1"]), "1.1.1.1");
        assert_eq!(address(&["8.8.8.8, 2001:db8::1a2b, 127.0.0.1"]), "2001:db8::1a2b");
        assert_eq!(address(&["1.1.1.1, blah, 10.5.2.1"]), "10.5.2.1");
    }

    #[test]
    fn the_first_scheme_that_is_one_counts() {
        let scheme = |fields: &[(&str, &str)]| seen(proxy(&["127.0.0.1"], false), fields).1;
        for (value, expected) in [
            ("https", "https"),
            ("oN", "https"),
            ("HTTP", "http"),
            ("http, https", "http"),
            ("wss", "http"),
        ] {
            assert_eq!(scheme(&[("X-Forwarded-Proto", value)]), expected, "{value}");
        }
        let fields = [("X-Forwarded-Proto", ""), ("X-Forwarded-Proto", "https")];
        assert_eq!(scheme(&fields), "https");
    }
}
