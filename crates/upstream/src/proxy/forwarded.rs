//! Fields that describe the client to a server: `X-Forwarded-…`, `X-Real-IP`, and `Forwarded`
//! (RFC 7239).
//!
//! Fields of these names in the request are extended only if it came through a proxy that the
//! listener trusts; otherwise they are replaced.

use std::borrow::Cow;

use howdah_config::ForwardedFields;
use howdah_http::message::{Request, ShownAddress};

/// Returns the fields for a request.
pub fn fields(wanted: ForwardedFields, request: &Request) -> Vec<(String, Vec<u8>)> {
    let connection = &request.connection;
    let peer =
        connection.trusted_proxy.unwrap_or(ShownAddress(connection.peer.map(|peer| peer.ip())));
    let is_trusted = connection.trusted_proxy.is_some();
    let client = ShownAddress(connection.peer.map(|peer| peer.ip()));
    let host = host(request);
    let mut fields = Vec::new();
    let mut set = |name: &str, value: Vec<u8>| fields.push((name.to_owned(), value));
    let list = |name: &str, last: String| {
        let mut list = Vec::new();
        if is_trusted {
            for value in request.fields.get_all(name).filter(|value| !value.is_empty()) {
                list.extend_from_slice(value);
                list.extend_from_slice(b", ");
            }
        }
        list.extend_from_slice(last.as_bytes());
        list
    };
    if wanted.x {
        set("X-Forwarded-For", list("x-forwarded-for", peer.to_string()));
        set("X-Forwarded-Proto", connection.scheme().into());
        if let Some(host) = &host {
            set("X-Forwarded-Host", host.to_vec());
        }
        set("X-Real-IP", client.to_string().into_bytes());
    }
    if wanted.standard {
        let host = host.as_deref().map(String::from_utf8_lossy);
        let host = host.filter(|host| !host.contains(['"', '\\']));
        let host = host.map_or(String::new(), |host| format!(";host=\"{host}\""));
        let scheme = connection.scheme();
        set("Forwarded", list("forwarded", format!("for={};proto={scheme}{host}", node(peer))));
    }
    fields
}

/// Returns the host that the client asked for, with its port: the field `Host`, unless a trusted
/// proxy reports another one.
fn host(request: &Request) -> Option<Cow<'_, [u8]>> {
    let connection = &request.connection;
    let Some(port) = connection.port.filter(|_| !request.host.is_empty()) else {
        return request.fields.get("host").map(Cow::Borrowed);
    };
    let mut host = request.host.to_vec();
    if port != if connection.tls { 443 } else { 80 } {
        host.extend_from_slice(format!(":{port}").as_bytes());
    }
    Some(Cow::Owned(host))
}

/// Returns a node of RFC 7239, section 6: IPv6 in brackets and quotes, `unknown` without an
/// address.
fn node(address: ShownAddress) -> String {
    match address {
        ShownAddress(None) => "unknown".to_owned(),
        shown => match shown.to_string() {
            v6 if v6.contains(':') => format!("\"[{v6}]\""),
            v4 => v4,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use howdah_http::fixture::request;
    use howdah_http::message::ConnectionInfo;

    #[test]
    fn a_host_that_a_trusted_proxy_reports_is_passed_on_with_its_port() {
        for (port, tls, expected) in [
            (None, false, "own:81"),
            (Some(80), false, "shop.example"),
            (Some(443), true, "shop.example"),
            (Some(443), false, "shop.example:443"),
        ] {
            let mut request = request("/", &[("Host", "own:81")]);
            request.host = "shop.example".into();
            request.connection =
                Arc::new(ConnectionInfo { port, tls, ..ConnectionInfo::default() });
            assert_eq!(host(&request).as_deref(), Some(expected.as_bytes()), "{port:?}");
        }
    }

    fn told(fields: &[(&str, &str)], connection: ConnectionInfo) -> Vec<(String, String)> {
        let mut request = request("/", fields);
        request.connection = Arc::new(connection);
        let told = super::fields(ForwardedFields { x: true, standard: true }, &request);
        let text = |value: Vec<u8>| String::from_utf8(value).unwrap();
        told.into_iter().map(|(name, value)| (name, text(value))).collect()
    }

    fn is(told: &[(String, String)], expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(told, expected);
    }

    const FORGED: [(&str, &str); 3] =
        [("Host", "example.org"), ("X-Forwarded-For", "6.6.6.6"), ("Forwarded", "for=6.6.6.6")];

    #[test]
    fn what_a_client_says_about_itself_is_replaced() {
        let peer = Some(([10, 0, 0, 1], 5).into());
        let told = told(&FORGED, ConnectionInfo { peer, ..ConnectionInfo::default() });
        is(
            &told,
            &[
                ("X-Forwarded-For", "10.0.0.1"),
                ("X-Forwarded-Proto", "http"),
                ("X-Forwarded-Host", "example.org"),
                ("X-Real-IP", "10.0.0.1"),
                ("Forwarded", "for=10.0.0.1;proto=http;host=\"example.org\""),
            ],
        );
    }

    #[test]
    fn what_a_trusted_proxy_says_is_gone_on_with() {
        let trusted_proxy = Some(ShownAddress(Some([10, 0, 0, 9].into())));
        let peer = Some(([6, 6, 6, 6], 0).into());
        let connection =
            ConnectionInfo { peer, trusted_proxy, tls: true, ..ConnectionInfo::default() };
        is(
            &told(&FORGED, connection),
            &[
                ("X-Forwarded-For", "6.6.6.6, 10.0.0.9"),
                ("X-Forwarded-Proto", "https"),
                ("X-Forwarded-Host", "example.org"),
                ("X-Real-IP", "6.6.6.6"),
                ("Forwarded", "for=6.6.6.6, for=10.0.0.9;proto=https;host=\"example.org\""),
            ],
        );
    }

    #[test]
    fn addresses_of_ipv6_and_none_are_written_as_the_standard_says() {
        assert_eq!(node(ShownAddress(Some("::1".parse().unwrap()))), "\"[::1]\"");
        assert_eq!(node(ShownAddress(None)), "unknown");
    }
}
