use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Option<SocketAddr> {
    match text {
        "unix" => None,
        text => Some(text.parse().expect(text)),
    }
}

#[track_caller]
fn check(pattern: &str, accepted: &[&str], refused: &[&str]) {
    let pattern = AddressPattern::parse(pattern).expect(pattern);
    for address in accepted {
        assert!(pattern.matches(at(address)), "must accept {address}");
    }
    for address in refused {
        assert!(!pattern.matches(at(address)), "must refuse {address}");
    }
}

#[test]
fn an_address_alone_has_any_port() {
    check("10.0.0.1", &["10.0.0.1:1", "10.0.0.1:65535"], &["10.0.0.2:1", "[::1]:1", "unix"]);
    check("::1", &["[::1]:1"], &["[::2]:1", "0.0.0.1:1", "unix"]);
    check("::", &["[::]:1"], &["[::1]:1"]);
}

#[test]
fn ports_are_one_or_a_range() {
    check("10.0.0.1:80", &["10.0.0.1:80"], &["10.0.0.1:81", "10.0.0.2:80"]);
    check("[2003::]:8080-8090", &["[2003::]:8080", "[2003::]:8090"], &["[2003::]:8091"]);
    check("*:80", &["10.0.0.1:80", "[::1]:80"], &["10.0.0.1:81", "unix"]);
    check("*:0-65535", &["10.0.0.1:0", "[::1]:80"], &["unix"]);
}

#[test]
fn ranges_include_both_ends() {
    let inside = ["10.0.0.1:1", "10.0.1.0:1", "10.0.1.9:1"];
    check("10.0.0.1-10.0.1.9", &inside, &["10.0.0.0:1", "10.0.1.10:1"]);
    check("[fff0::-fff0::10]:80", &["[fff0::]:80", "[fff0::10]:80"], &["[fff0::11]:80"]);
}

#[test]
fn networks_have_a_prefix() {
    check("10.1.2.3/8", &["10.0.0.0:1", "10.255.255.255:1"], &["9.255.255.255:1", "11.0.0.0:1"]);
    check("10.0.0.0/32", &["10.0.0.0:1"], &["10.0.0.1:1"]);
    check("127.0.0.0/31", &["127.0.0.1:1"], &["127.0.0.2:1"]);
    check("0.0.0.0/0", &["1.2.3.4:1"], &["[::1]:1", "unix"]);
    check("::0/127", &["[::1]:1"], &["[::2]:1"]);
    check("::/0", &["[ff::]:1"], &["1.2.3.4:1", "unix"]);
    check("[0ff::/64]:8000", &["[ff::1]:8000"], &["[ff::1]:80", "[ff:0:0:1::]:8000"]);
}

#[test]
fn an_exclamation_mark_turns_the_answer_round() {
    check("!0.0.0.0/0", &["unix", "[::1]:1"], &["1.2.3.4:1"]);
    check("!unix", &["1.2.3.4:1"], &["unix"]);
}

#[test]
fn an_ipv4_address_on_an_ipv6_socket_is_found_in_either_form() {
    check("10.0.0.0/8", &["[::ffff:10.0.0.1]:1"], &["[::ffff:11.0.0.1]:1"]);
    check("!10.0.0.0/8", &[], &["[::ffff:10.0.0.1]:1"]);
    check("::/0", &["[::ffff:10.0.0.1]:1"], &[]);
}

#[test]
fn lists_accept_what_one_finds_and_none_excludes() {
    let list = |texts: &[&str]| {
        let mut list = AddressPatterns::default();
        texts.iter().for_each(|text| list.push(AddressPattern::parse(text).expect("valid")));
        list
    };
    let here = at("127.0.0.1:8080");
    assert!(!list(&[]).matches(here));
    assert!(list(&["!*:8081", "!*:8082"]).matches(here));
    assert!(!list(&["*:8080", "!*:8080"]).matches(here));
    assert!(!list(&["!*:8081", "!*:8082", "*:8083"]).matches(here));
    assert!(list(&["*:8083", "127.0.0.1"]).matches(here));
}

#[test]
fn other_forms_are_refused_with_the_reason() {
    use AddressPatternError::{Form, Order, Port, Prefix};
    for (text, reason) in [
        ("", Form),
        ("!", Form),
        ("a", Form),
        ("127", Form),
        ("256.0.0.1", Form),
        ("127.0.0.", Form),
        (" 127.0.0.1", Form),
        ("127.0.0.1:", Port),
        ("127.0.0.1/", Prefix),
        ("11.0.0.0/33", Prefix),
        ("11.0.0.0/+8", Prefix),
        ("11.0.0.0/65536", Prefix),
        ("11.0.0.0-10.0.0.0", Order),
        ("11.0.0.0:3000-2000", Order),
        ("[2001::]:3000-2000", Order),
        ("2001::-2000::", Order),
        ("2001::/129", Prefix),
        ("2001::/256", Prefix),
        ("::FFFFF", Form),
        ("[::1]:", Port),
        ("[::1]", Port),
        ("[:::]:8080", Form),
        ("*", Form),
        ("*:", Port),
        ("*:1-a", Port),
        ("*:65536", Port),
        ("10.0.0.0-::1", Form),
        ("unix:", Form),
        ("1.2.3.4-", Form),
        ("-", Form),
        ("/", Form),
    ] {
        assert_eq!(AddressPattern::parse(text), Err(reason), "{text}");
    }
}

proptest! {
    #[test]
    fn a_network_holds_what_shares_its_prefix(base: u32, other: u32, prefix in 0..=32_u32) {
        let pattern = AddressPattern::parse(&format!("{}/{prefix}", Ipv4Addr::from(base)))
            .expect("valid");
        let same = prefix == 0 || base >> (32 - prefix) == other >> (32 - prefix);
        let address = SocketAddr::from((Ipv4Addr::from(other), 1));
        prop_assert_eq!(pattern.matches(Some(address)), same);
    }

    #[test]
    fn no_text_makes_it_panic(text in ".*", near in "!?[\\[\\]0-9a-f:./*-]{0,20}") {
        let _ = AddressPattern::parse(&text);
        let _ = AddressPattern::parse(&near);
    }
}
