//! `forwarded` and `client_ip` of a listener: client address, scheme, host and port from fields of
//! trusted proxies.
//!
//! The fields count only on a connection from a listed address. A list of addresses is read from
//! its right end up to the first address that is not a listed proxy: the client may have made up
//! everything left of it. Of other lists, the last value counts for the same reason.
//!
//! A field with the name `Forwarded` is that of RFC 7239: its parameters have the values.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use howdah_config::Forwarded;
use howdah_http::authority;
use howdah_http::message::{ConnectionInfo, Request, ShownAddress};

/// Sets the client address, the scheme, the host and the port of a request whose connection comes
/// from a trusted proxy.
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
        let host = proxy.host.as_ref().and_then(|field| host(field, request));
        // Another host must not be reached with the client certificate of this one.
        let host = host.filter(|(host, _)| is_admitted(host, request));
        let port = proxy.port.as_ref().and_then(|field| port(field, request));
        let tls_or_own = tls.unwrap_or(request.connection.tls);
        let port = port.or_else(|| {
            let (_, named) = host.as_ref()?;
            Some(named.unwrap_or(if tls_or_own { 443 } else { 80 }))
        });
        if let Some((host, _)) = host {
            request.host = host.into();
        }
        if peer.is_some() || tls.is_some() || port.is_some() {
            let connection = &request.connection;
            request.connection = Arc::new(ConnectionInfo {
                peer: peer.or(connection.peer),
                tls: tls_or_own,
                port: port.or(connection.port),
                trusted_proxy: connection
                    .trusted_proxy
                    .or(Some(ShownAddress(connection.peer.map(|peer| peer.ip())))),
                ..(**connection).clone()
            });
        }
    }
}

/// Returns true if a request for this host may come on its connection.
fn is_admitted(host: &[u8], request: &Request) -> bool {
    let Some(handshake) = &request.connection.handshake else { return true };
    std::str::from_utf8(host).is_ok_and(|host| handshake.admits(host))
}

/// Returns the values of a field, the first one first. `parameter` is that of RFC 7239, of which an
/// element without it has an empty value.
fn values(field: &str, parameter: &[u8], request: &Request) -> Vec<Vec<u8>> {
    let is_standard = field.eq_ignore_ascii_case("forwarded");
    let mut values = Vec::new();
    for list in request.fields.get_all(field) {
        if is_standard {
            split(list, b',').for_each(|element| values.push(value_of(element, parameter)));
        } else {
            values.extend(list.split(|byte| *byte == b',').map(|one| one.trim_ascii().to_vec()));
        }
    }
    values
}

/// Returns the value of a parameter of an element of `Forwarded`; empty if it has none.
fn value_of(element: &[u8], parameter: &[u8]) -> Vec<u8> {
    let mut pairs = split(element, b';').filter_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        Some((pair.get(..equals)?.trim_ascii(), pair.get(equals + 1..)?.trim_ascii()))
    });
    let found = pairs.rfind(|(name, _)| name.eq_ignore_ascii_case(parameter));
    let value = found.map(|(_, value)| value).unwrap_or_default();
    let Some(quoted) = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) else {
        return value.to_vec();
    };
    let (mut text, mut bytes) = (Vec::new(), quoted.iter());
    while let Some(byte) = bytes.next() {
        text.extend(if *byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    text
}

/// Splits a text at the separators that are in no quoted string.
fn split(text: &[u8], separator: u8) -> impl DoubleEndedIterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            byte if *byte == separator && !is_quoted => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts.into_iter()
}

/// Returns the host, in lower case, and the port in the last value of a field.
fn host(field: &str, request: &Request) -> Option<(Vec<u8>, Option<u16>)> {
    let last = values(field, b"host", request).pop()?;
    let range = authority::host(&last, true).filter(|range| !range.is_empty())?;
    let name = last.get(range)?.to_ascii_lowercase();
    let end = memchr::memrchr(b']', &last).unwrap_or(0);
    let rest = last.get(end..).unwrap_or_default();
    let colon = memchr::memchr(b':', rest);
    let named = colon.and_then(|colon| number(rest.get(colon + 1..)?));
    Some((name, named))
}

/// Returns the port in the last value of a field. `Forwarded` has one only beside the host.
fn port(field: &str, request: &Request) -> Option<u16> {
    if field.eq_ignore_ascii_case("forwarded") {
        return host(field, request)?.1;
    }
    number(&values(field, b"", request).pop()?)
}

fn number(text: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|port| *port > 0 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the client's address: the last of the list or, with `recursive`, the last that is not a
/// trusted proxy. An invalid address ends the search.
fn client(proxy: &Forwarded, field: &str, request: &Request) -> Option<SocketAddr> {
    let mut client = None;
    let is_standard = field.eq_ignore_ascii_case("forwarded");
    for list in values(field, b"for", request).into_iter().rev() {
        let addresses = list.rsplit(|byte| matches!(byte, b' ' | b'\t'));
        for text in addresses.filter(|text| is_standard || !text.is_empty()) {
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

/// Returns true if the client used TLS, by the first field that is not empty. Of `Forwarded`, the
/// last element counts.
fn scheme(field: &str, request: &Request) -> Option<bool> {
    let value = if field.eq_ignore_ascii_case("forwarded") {
        values(field, b"proto", request).pop()?
    } else {
        request.fields.get_all(field).find(|value| !value.is_empty())?.to_vec()
    };
    if value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"on") {
        return Some(true);
    }
    value.eq_ignore_ascii_case(b"http").then_some(false)
}

#[cfg(test)]
mod tests;
