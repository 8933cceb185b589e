use howdah_config::{AddressPattern, AddressPatterns};
use howdah_http::fixture::request;
use howdah_http::message::Fields;
use proptest::prelude::*;

use super::*;

fn proxy(source: &[&str], recursive: bool) -> Forwarded {
    let mut patterns = AddressPatterns::default();
    for pattern in source {
        patterns.push(AddressPattern::parse(pattern).unwrap());
    }
    Forwarded {
        source: patterns,
        client_ip: Some("X-Forwarded-For".to_owned()),
        protocol: Some("x-forwarded-proto".to_owned()),
        host: Some("X-Forwarded-Host".to_owned()),
        port: Some("X-Forwarded-Port".to_owned()),
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
    for list in ["", "blah", "1.1.1.1, x", "0.0.0.0", "::", "::ffff:0.0.0.0", "1.1.1.1:x", "unix:"]
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

/// Returns host and port; the fixture's connection goes to port 80.
fn server(proxy: &Forwarded, fields: &[(&str, &str)]) -> (String, Option<u16>) {
    let mut request = request("/", fields);
    apply(std::slice::from_ref(proxy), &mut request);
    (String::from_utf8_lossy(&request.host).into_owned(), request.connection.port)
}

#[test]
fn host_and_port_are_those_of_a_trusted_proxy() {
    let (trusted, other) = (proxy(&["127.0.0.1"], false), proxy(&["10.0.0.1"], false));
    let fields = [("X-Forwarded-Host", "Shop.Example:8443"), ("X-Forwarded-Port", "444")];
    let own = server(&other, &fields);
    assert_eq!(own, server(&trusted, &[]));
    assert_eq!(server(&trusted, &fields), ("shop.example".to_owned(), Some(444)));
    for (value, host, port) in [
        ("shop.example:8443", "shop.example", 8443),
        ("shop.example", "shop.example", 80),
        ("made-up.example, shop.example", "shop.example", 80),
        ("[2001:DB8::1]:81", "[2001:db8::1]", 81),
        ("[2001:db8::1]", "[2001:db8::1]", 80),
    ] {
        let found = server(&trusted, &[("X-Forwarded-Host", value)]);
        assert_eq!(found, (host.to_owned(), Some(port)), "{value}");
    }
    let tls = [("X-Forwarded-Host", "a"), ("X-Forwarded-Proto", "https")];
    assert_eq!(server(&trusted, &tls), ("a".to_owned(), Some(443)));
    for wrong in ["", "a b", "a/b", "user@a", "a..b", "a:x", "a%00", "a, "] {
        assert_eq!(server(&trusted, &[("X-Forwarded-Host", wrong)]), own, "{wrong}");
    }
    for wrong in ["", "0", "65536", "+80", "x", "80, "] {
        assert_eq!(server(&trusted, &[("X-Forwarded-Port", wrong)]), own, "{wrong}");
    }
}

#[test]
fn the_standard_field_has_all_in_its_last_element() {
    let field = || Some("Forwarded".to_owned());
    let proxy = |recursive| Forwarded {
        client_ip: field(),
        protocol: field(),
        host: field(),
        port: field(),
        ..proxy(&["127.0.0.1", "10.0.0.0/8"], recursive)
    };
    let of = |recursive, value: &str| {
        let mut request = request("/", &[("Forwarded", value)]);
        apply(&[proxy(recursive)], &mut request);
        let peer = ShownAddress(request.connection.peer.map(|peer| peer.ip())).to_string();
        let host = String::from_utf8_lossy(&request.host).into_owned();
        (peer, request.connection.scheme(), host, request.connection.port)
    };
    let own = of(false, "x");
    let found = of(
        false,
        "for=6.6.6.6;host=evil, For=\"[2001:db8::1]:4711\" ; PROTO=https;host=\"A.example:444\"",
    );
    let expected = ("2001:db8::1".to_owned(), "https", "a.example".to_owned(), Some(444));
    assert_eq!(found, expected);
    assert_eq!(of(true, "for=6.6.6.6, for=1.1.1.1, for=10.0.0.9").0, "1.1.1.1");
    // What is not known ends the search: all before it may be made up.
    for unknown in
        ["for=6.6.6.6, for=unknown", "for=6.6.6.6, for=_hidden", "for=6.6.6.6, by=1.1.1.1"]
    {
        assert_eq!(of(true, unknown).0, own.0, "{unknown}");
    }
    assert_eq!(of(false, "for=\"a, for=6.6.6.6").0, own.0, "in a string without an end");
    assert_eq!(of(false, "host=\"a\\b\"").2, "ab");
}

/// Parts of the field `Forwarded`.
const PARTS: [&str; 18] = [
    "host", "for", "proto", ";", ",", "=", "\"", "\\", "a", ".", " ", ":", "8", "[", "]", "%", "/",
    "\u{e4}",
];

proptest! {
    /// Whatever a trusted proxy sends, the host is one that a request may have.
    #[test]
    fn any_field_gives_a_valid_host_or_none(
        host in proptest::collection::vec(any::<u8>(), 0..40),
        parts in proptest::collection::vec(proptest::sample::select(&PARTS), 0..24),
    ) {
        let field = || Some("Forwarded".to_owned());
        let standard = Forwarded {
            client_ip: field(),
            protocol: field(),
            host: field(),
            port: field(),
            ..proxy(&["127.0.0.1"], true)
        };
        for (proxy, name, value) in [
            (proxy(&["127.0.0.1"], true), "X-Forwarded-Host", host),
            (standard, "Forwarded", parts.concat().into_bytes()),
        ] {
            let mut request = request("/", &[]);
            request.fields = Fields::from_pairs([(name.as_bytes(), &*value)]);
            let own = request.host.clone();
            apply(&[proxy], &mut request);
            let range = authority::host(&request.host, true);
            prop_assert!(request.host == own || range == Some(0..request.host.len()));
        }
    }
}
