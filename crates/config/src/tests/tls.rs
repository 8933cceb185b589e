//! `tls` of listeners.

use super::*;

fn listener(tls: Value) -> Value {
    json!({"listeners": {"*:443": {"pass": "routes", "tls": tls}}, "routes": []})
}

fn tls(value: Value) -> Tls {
    read(listener(value)).listeners.remove(0).tls.unwrap()
}

fn refused(value: Value) -> String {
    refusal(listener(value))
}

const KEY: &str = "U1oDTh11mMxODuw12gS0EXX1E/PkZG13cJNQ6m5+6BGlfPTjNlIEw7PSVU3X1gTE";

#[test]
fn certificates_are_names_or_files() {
    let stored = |name: &str| Certificate::Stored(name.to_owned());
    assert_eq!(tls(json!({"certificate": "a"})).certificates, [stored("a")]);
    assert_eq!(tls(json!({"certificate": ["a", "b"]})).certificates, [stored("a"), stored("b")]);
    let files = json!({"chain": "/c.pem", "key": "/k.pem"});
    let expected = Certificate::Files { chain: "/c.pem".into(), key: "/k.pem".into(), ocsp: None };
    assert_eq!(tls(json!({"certificate": files})).certificates, [expected]);
    for (value, message) in [
        (json!({}), "\"certificate\" is missing"),
        (json!({"certificate": []}), "at least one"),
        (json!({"certificate": ""}), "must not be empty"),
        (
            json!({"certificate": "/etc/a.pem"}),
            "; write {\"chain\": \"/etc/a.pem\", \"key\": \"/key.pem\"}",
        ),
        (json!({"certificate": ["a", []]}), "certificate/1: element 1 must be the name of"),
        (json!({"certificate": {"chain": "/c"}}), "\"key\" is missing"),
        (json!({"certificate": "a", "cipher": "x"}), "unknown key \"cipher\""),
    ] {
        let line = refused(value);
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn nothing_is_remembered_of_clients_unless_asked_for() {
    let session = tls(json!({"certificate": "a"})).session;
    let expected =
        TlsSession { cache_size: 0, timeout: Duration::from_secs(300), tickets: Tickets::Off };
    assert_eq!(session, expected);
    let session = json!({"cache_size": 9, "timeout": 1, "tickets": true});
    let session = tls(json!({"certificate": "a", "session": session})).session;
    assert_eq!((session.cache_size, session.tickets), (9, Tickets::OwnKeys));
}

#[test]
fn ticket_keys_are_checked_and_never_repeated_in_a_message() {
    let session = |tickets: Value| json!({"certificate": "a", "session": {"tickets": tickets}});
    assert!(
        matches!(tls(session(json!(KEY))).session.tickets, Tickets::Keys(keys) if keys.len() == 1)
    );
    assert_eq!(tls(session(json!([]))).session.tickets, Tickets::Off);
    for tickets in [
        json!({}),
        json!(1),
        json!("!?&^".repeat(16)),
        json!(KEY[..KEY.len() - 1]),
        json!(format!("{KEY}blah")),
        json!([KEY, true]),
        json!([KEY, []]),
    ] {
        let line = refused(session(tickets));
        assert!(line.contains("key"), "{line}");
        assert!(!line.contains(&KEY[..20]), "{line}");
    }
    assert!(!format!("{:?}", tls(session(json!(KEY)))).contains("83"), "its first byte");
}

fn commands(value: Value) -> TlsParameters {
    tls(json!({"certificate": "a", "conf_commands": value})).parameters
}

#[test]
fn commands_of_openssl_are_carried_out_where_there_is_something_to_carry_out() {
    assert_eq!(commands(json!({})), TlsParameters::default());
    let only13 =
        commands(json!({"MinProtocol": "TLSv1.3", "ciphersuites": "TLS_AES_128_GCM_SHA256"}));
    assert!(!only13.tls12 && only13.tls13);
    assert_eq!(only13.suites13, [CipherSuite::Tls13Aes128Gcm]);
    let only12 = commands(json!({"protocol": "-ALL,TLSv1.2", "groups": "X25519:P-256"}));
    assert!(only12.tls12 && !only12.tls13);
    assert_eq!(only12.groups, [KeyExchange::X25519, KeyExchange::Secp256r1]);
    // As in OpenSSL, enabling a version does not affect the others.
    assert!(commands(json!({"Protocol": "TLSv1.2,-SSLv3"})).tls13);
    let options = commands(json!({"Options": "ServerPreference,-SessionTicket,-Compression"}));
    assert!(options.server_preference && !options.tickets);
    let session = json!({"tickets": true});
    let off = json!({"certificate": "a", "session": session,
        "conf_commands": {"options": "-SessionTicket"}});
    assert_eq!(tls(off).session.tickets, Tickets::Off);
}

#[test]
fn commands_that_would_have_no_effect_are_refused_with_the_reason() {
    for (value, message) in [
        (json!([]), "must be an object"),
        (json!({"": ""}), "is no command of OpenSSL"),
        (json!({"blah": ""}), "is no command of OpenSSL"),
        (json!({"protocol": {}}), "must be a string"),
        (json!({"protocol": "blah"}), "must name TLSv1.2 or TLSv1.3"),
        (json!({"protocol": "TLSv1.2", "blah": ""}), "is no command of OpenSSL"),
        (json!({"protocol": "-ALL"}), "leave no version"),
        (json!({"MinProtocol": "TLSv1"}), "nothing older"),
        (json!({"CipherString": "RC4"}), "chooses no cipher suite"),
        (json!({"CipherString": "A;B"}), "it has \"A;B\""),
        (json!({"Ciphersuites": "TLS_AES_128_CCM_SHA256"}), "no suite of TLS 1.3 here"),
        (json!({"Groups": "P-521"}), "X25519"),
        (json!({"DHParameters": "/dh.pem"}), "nothing for"),
        (json!({"VerifyMode": "Require"}), "use \"client_certificates\""),
        (json!({"Options": "AllowNoDHEKEX"}), "SessionTicket and ServerPreference"),
    ] {
        let line = refused(json!({"certificate": "a", "conf_commands": value}));
        assert!(line.contains(message) && line.contains("conf_commands"), "{line}");
    }
}

#[test]
fn rules_about_clients_have_authorities_and_names() {
    let rules = |value: Value| json!({"certificate": "a", "client_certificates": value});
    let rule = tls(rules(json!({"authorities": "/ca.pem"}))).client_certificates.remove(0);
    assert!(!rule.optional && rule.names.is_empty());
    let two = json!([
        {"authorities": "/a.pem", "names": ["Admin.example.org", "*.intern"]},
        {"authorities": "/b.pem", "optional": true},
    ]);
    let two = tls(rules(two)).client_certificates;
    assert_eq!(two[0].names, ["admin.example.org", "*.intern"]);
    for (value, message) in [
        (json!({}), "\"authorities\" is missing"),
        (json!({"authorities": "/a", "names": ["a b"]}), "must be a host name"),
        (json!({"authorities": "/a", "names": ["*"]}), "must be a host name"),
        (json!({"authorities": "/a", "names": ["a.*.b"]}), "must be a host name"),
    ] {
        let line = refused(rules(value));
        assert!(line.contains(message), "{line}");
    }
}

fn acme(value: Value) -> Acme {
    tls(json!({"acme": value})).acme.remove(0)
}

#[test]
fn certificates_of_the_servers_own_need_no_more_than_a_name() {
    let only = acme(json!({"domains": "Example.org"}));
    assert_eq!(only.domains, ["example.org"]);
    assert_eq!(only.certificate().as_deref(), Some("acme:example.org"));
    assert_eq!(only.challenges, [AcmeChallenge::TlsAlpn, AcmeChallenge::Http]);
    assert_eq!(only.servers[0].directory, Acme::DEFAULT_SERVER);
    let both = tls(json!({"certificate": "a", "acme": {"domains": ["a.org", "b.org"]}}));
    let managed = Certificate::Managed("acme:a.org".to_owned());
    assert_eq!(both.certificates, [Certificate::Stored("a".to_owned()), managed]);
    let wildcard = acme(json!({"domains": "*.a.org", "dns": {"program": "/p"}}));
    assert_eq!(wildcard.challenges, [AcmeChallenge::Dns]);
    let on_demand = json!({"on_demand": {"ask": "http://127.0.0.1:1/ask"}});
    assert_eq!(tls(json!({"acme": on_demand})).certificates, []);
}

#[test]
fn accounts_that_an_authority_knows_are_bound_by_a_key_that_no_message_repeats() {
    let server = |key: &str| {
        let account = json!({"id": "kid", "key": key});
        json!({"domains": "a.org", "servers": [
            "https://one.example/directory",
            {"directory": "https://two.example/", "ca": "/ca.pem", "external_account": account},
        ]})
    };
    let read = acme(server("-_-_"));
    let account = read.servers[1].external_account.as_ref().unwrap();
    assert_eq!((account.id.as_str(), account.key.len()), ("kid", 3));
    assert!(!format!("{read:?}").contains("-_-_"));
    let line = refused(json!({"acme": server("§secret§")}));
    assert!(
        line.contains("acme/servers/1/external_account/key") && !line.contains("secret"),
        "{line}"
    );
}

#[test]
fn what_no_authority_can_give_is_refused() {
    for (value, message) in [
        (json!({}), "one of \"domains\" or \"on_demand\" is missing"),
        (json!({"domains": []}), "is missing"),
        (json!({"domains": "127.0.0.1"}), "must be a name in DNS"),
        (json!({"domains": "a..b"}), "must be a name in DNS"),
        (json!({"domains": "../../etc"}), "must be a host name"),
        (json!({"domains": format!("{}.org", "a".repeat(64))}), "must be a name in DNS"),
        (json!({"domains": "*.a.org"}), "only if DNS proves it"),
        (json!({"domains": "a.org", "challenges": "dns"}), "has no \"dns\""),
        (json!({"domains": "a.org", "challenges": []}), "at least one way"),
        (json!({"domains": "a.org", "challenges": "ftp"}), "no way to prove a name"),
        (json!({"domains": "a.org", "servers": "http://a/"}), "must be a URL"),
        (json!({"domains": "a.org", "servers": 1}), "the URL of a directory"),
        (json!({"domains": "a.org", "email": "nobody"}), "must be an address"),
        (json!({"domains": "a.org", "key": "dsa"}), "is no kind of key"),
        (json!({"domains": "a.org", "dns": {"program": "hook"}}), "must begin with a slash"),
        (json!({"on_demand": {"ask": "ftp://a"}}), "must be a URL"),
    ] {
        let line = refused(json!({"acme": value}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn listeners_agree_about_a_certificate_that_they_share() {
    let document = |second: Value| {
        let listener = |acme: Value| json!({"pass": "routes", "tls": {"acme": acme}});
        let first = listener(json!({"domains": ["a.org", "b.org"]}));
        json!({"listeners": {"127.0.0.1:443": first, "[::1]:443": listener(second)}, "routes": []})
    };
    assert_eq!(read(document(json!({"domains": ["a.org", "b.org"]}))).listeners.len(), 2);
    assert_eq!(read(document(json!({"domains": ["b.org"]}))).listeners.len(), 2);
    let line = refusal(document(json!({"domains": ["a.org"]})));
    assert!(line.contains("other settings for the certificate \"a.org\""), "{line}");
}
